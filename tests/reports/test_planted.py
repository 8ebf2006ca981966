"""Planted studies whose right answer is known: each gets the caution it needs, and no claim that it does not carry."""

from __future__ import annotations

import dataclasses
import itertools
import json
import math
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from reports.document import Block, Findings, Paragraph, Parts, Term, Verdict
from reports.quantity import Quantity
from reports.report import Report, build
from reports.table import read

NAME = "sgd-or-adam"


def words(parts: Parts) -> str:
    return "".join(p if isinstance(p, str) else p.term if isinstance(p, Term) else p.text for p in parts)


def under(blocks: Sequence[Block], verdict: Verdict) -> str:
    """A verdict and the paragraphs under it, as text."""
    points = itertools.takewhile(lambda block: isinstance(block, Paragraph), blocks[blocks.index(verdict) + 1 :])
    return " ".join(words(block.parts) for block in (verdict, *points) if isinstance(block, (Verdict, Paragraph)))


def made_of(memory: Any) -> Report:
    return build(read(memory, NAME))


def verdicts(report: Report) -> list[tuple[str, str, str]]:
    blocks = report.document.blocks
    return [(b.subject, b.verdict, under(blocks, b)) for b in blocks if isinstance(b, Verdict)]


def rules(report: Report) -> set[str]:
    return {f.rule for block in report.document.blocks if isinstance(block, Findings) for f in block.findings}


def prose(report: Report) -> str:
    return " ".join(words(b.parts) for b in report.document.blocks if isinstance(b, Paragraph))


def with_curve(memory: Any, arm: str, shape: Any) -> None:
    """shape: (value at an evaluation, index) -> another value."""
    for record in memory.of(arm=arm, phase="final"):
        key = (record.run_id, "val/accuracy")
        values = tuple(shape(value, index) for index, value in enumerate(memory.points[key].values))
        memory.points[key] = dataclasses.replace(memory.points[key], values=values)


def test_two_of_five_that_diverge_are_not_won_back_by_three_survivors(made: Any) -> None:
    """statistics.json, survivorship: dropping failures the chance that b is better is 0.967, with worst ranks 0.58 for
    a."""
    memory = made({"a": {"level": 0.92}, "b": {"level": 0.94}}, seeds=5)
    values: dict[str, list[float | None]] = {"a": [0.92, 0.91, 0.93, 0.90, 0.92], "b": [0.94, 0.95, 0.93, None, None]}
    for record in memory.of(phase="final"):
        value = values[record.labels.arm][record.labels.seed - 1]
        if value is None:
            memory.diverge(record)
        else:
            memory.with_final(record, test__accuracy=value)
    report = made_of(memory)
    ((subject, verdict, text),) = verdicts(report)
    assert verdict == "cannot be told"
    assert not subject.startswith("b against") or "b is better" not in text
    assert "cannot reach significance with n = 5" in text
    chances = [q.value for q in report.document.quantities() if q.statistic == "ranks.probability_better"]
    assert all(min(abs(c - 0.58), abs(c - 0.42)) < 1e-9 for c in chances if c is not None)
    assert "diverged-runs" in rules(report)
    (rate,) = {q.text for q in report.document.quantities() if q.statistic == "proportion.wilson" and q.value == 40.0
               and q.arguments.get("phase") == "final"}  # fmt: skip
    assert rate == "40 [12, 77] %"


def test_a_late_bloomer_is_said_to_go_on(made: Any) -> None:
    """Behind for three quarters of the budget, ahead at its end and still rising there."""
    memory = made({"steady": {"level": 0.93}, "late": {"level": 0.931}}, noise=0.0005)
    with_curve(memory, "late", lambda value, index: value - 0.08 + 0.08 * index / 19)
    report = made_of(memory)
    assert "still-improving" in rules(report)


def test_an_optimum_outside_its_range_is_said_to_be_at_the_edge(made: Any) -> None:
    memory = made({"sgd": {"level": 0.93, "lr": 0.9}, "adam": {"level": 0.96}})
    report = made_of(memory)
    assert "optimum-at-edge" in rules(report)
    chosen = [q for q in report.document.quantities() if q.arguments.get("config") == "optimizer.lr"]
    assert [q.value for q in chosen] == [0.9, 0.01]


def test_sam_against_adamw_depends_on_the_clock(made: Any) -> None:
    """Two gradients an update: ahead at equal updates, half way at equal gradients."""
    memory = made({"adamw": {"level": 0.93}, "sam": {"level": 0.935, "gradients": 2, "speed": 0.02}}, noise=0.0005)
    with_curve(memory, "sam", lambda value, index: value * (0.4 if index < 16 else 1))
    report = made_of(memory)
    ((subject, verdict, text),) = verdicts(report)
    assert (subject, verdict) == ("digits", "depends on the clock")
    assert "Per update: sam is better than adamw" in text
    assert "Per gradient evaluation, compared at 400 gradient evaluations: adamw is better than sam" in text
    assert {"clocks-disagree", "unequal-use"} <= rules(report)
    assert "it depends on the clock" in prose(report)


def test_what_leads_by_updates_and_is_shown_worse_by_seconds_has_no_headline(made: Any) -> None:
    """Nothing is shown at the end; at equal seconds the dear arm is clearly behind."""
    memory = made({"cheap": {"level": 0.93}, "dear": {"level": 0.9301, "speed": 0.03}}, noise=0.004)
    for record in memory.of(arm="dear", phase="final"):
        twin = next(r for r in memory.of(arm="cheap", phase="final") if r.labels.seed == record.labels.seed)
        off = 0.002 if record.labels.seed % 2 else -0.001
        memory.with_final(record, test__accuracy=twin.final["test/accuracy"] + off)
    with_curve(memory, "dear", lambda value, index: value * (0.5 if index < 15 else 1))
    ((_, verdict, text),) = verdicts(made_of(memory))
    assert verdict == "depends on the clock"
    assert "no arm is shown to be best (dear leads, which may be chance). Against cheap no difference is shown" in text
    assert "cheap is better than dear" in text


def test_no_difference_says_how_many_seeds_it_would_take(made: Any) -> None:
    """d = 0.01 with a spread of 0.01 of the differences: 10 pairs have a power of 0.8 (power.py's worked case), so 6
    seeds need 4 more."""
    memory = made(seeds=6)
    off = [0.01 + 0.01 * z for z in scaled([-1.0, 1.0, -0.5, 0.5, -1.5, 1.5])]
    for record in memory.of(phase="final"):
        seed = record.labels.seed - 1
        memory.with_final(record, test__accuracy=0.9 + 0.003 * seed + (off[seed] if record.labels.arm == "adam" else 0))
    ((subject, verdict, text),) = verdicts(made_of(memory))
    assert (subject, verdict) == ("adam against sgd, on digits", "no difference shown")
    assert "were it truly that large, about 4 more seeds would show it with a chance of 80 %" in text


def scaled(z: list[float]) -> list[float]:
    """To a mean of 0 and a standard deviation of 1."""
    sd = math.sqrt(sum(x * x for x in z) / (len(z) - 1))
    return [x / sd for x in z]


def test_every_verdict_says_what_it_holds_for(clean: Any) -> None:
    (block,) = [block for block in made_of(clean).document.blocks if isinstance(block, Verdict)]
    assert words(block.parts).endswith("Tried: 400 updates, 6 seeds an arm.")


def test_the_summary_names_answer_and_worst_cautions_first(clean: Any) -> None:
    for record in clean.of(phase="final"):
        clean.with_final(record, objective=record.final["test/accuracy"])
    blocks = made_of(clean).document.blocks
    lead = blocks[1]
    assert isinstance(lead, Paragraph)
    assert words(lead.parts).startswith("On digits adam is better than sgd: test accuracy is higher by 0.0297 [")
    first = next(block for block in blocks if isinstance(block, Findings))
    assert first.findings[0].rule == "selected-on-test"
    assert len(first.findings) <= 3


def studies(made: Any, digits: Any) -> Iterator[Any]:
    """Of all kinds: clean, cut by clocks, with failures, of several tasks and of many arms."""
    yield made()
    yield made({"a": {"level": 0.93}, "b": {"level": 0.96, "gradients": 2, "speed": 0.02}, "c": {"level": 0.95}})
    wild = made({"a": {"level": 0.93}, "b": {"level": 0.96}, "c": {"level": 0.95}}, seeds=5)
    for record in wild.of(arm="b", phase="final")[:2]:
        wild.diverge(record)
    wild.change(wild.of(arm="c", phase="final")[:1], lambda r: dataclasses.replace(r, status="crashed", final={}))
    yield wild
    other = {**digits, "metric": "loss", "mode": "min", "worst": 9.0, "target": 1.0, "title": "Other"}
    yield made(
        {"a": {"level": 0.93}, "b": {"level": 0.96}, "c": {"level": 0.95}}, tasks={"digits": digits, "other": other}
    )
    yield made(seeds=2)


def test_one_statistic_of_one_set_of_arguments_is_one_number(made: Any, digits: Any) -> None:
    """What `verify` finds a number by."""
    for memory in studies(made, digits):
        seen: dict[str, Quantity] = {}
        for quantity in made_of(memory).document.quantities():
            key = f"{quantity.statistic} {json.dumps(quantity.arguments, sort_keys=True, default=str)}"
            other = seen.setdefault(key, quantity)
            assert (other.value, other.low, other.high, other.runs) == (
                quantity.value,
                quantity.low,
                quantity.high,
                quantity.runs,
            ), key


def test_every_number_rests_on_runs_and_says_of_what_it_is(made: Any, digits: Any) -> None:
    for memory in studies(made, digits):
        ids = {record.run_id for record in memory.records}
        for quantity in made_of(memory).document.quantities():
            assert quantity.runs, quantity
            assert set(quantity.runs) <= ids
            assert quantity.arguments, quantity
            json.dumps(quantity.arguments)


@pytest.mark.parametrize("seeds", [3, 4, 5])
def test_a_few_seeds_are_a_caution_of_the_summary_or_under_threats(made: Any, seeds: int) -> None:
    found = rules(made_of(made(seeds=seeds)))
    assert ("few-seeds" in found) == (seeds < 5)
