"""The summary: with many tasks, what chance alone would show stands beside what is shown."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from reports.document import Findings, Paragraph, Term
from reports.report import build
from reports.table import read
from reports.threats.checks import threats

NAME = "sgd-or-adam"


def said(memory: Any) -> str:
    blocks = build(read(memory, NAME)).document.blocks
    paragraphs = (block.parts for block in blocks if isinstance(block, Paragraph))
    return "\n".join(
        "".join(p if isinstance(p, str) else p.term if isinstance(p, Term) else p.text for p in parts)
        for parts in paragraphs
    )


@pytest.mark.parametrize(("count", "expected"), [(2, "0.1 of 2"), (6, "0.3 of 6")])
def test_what_chance_would_show_on_many_tasks(made: Any, digits: Any, count: int, expected: str) -> None:
    """At 5 % a task, 0.05 of each; b is better on one task, and equal on the rest."""
    arms = {"a": {"level": 0.9}, "b": {"level": 0.9}}
    memory = made(arms, tasks={f"t{index}": digits for index in range(count)}, seeds=6, trials=0)
    for record in memory.of(phase="final"):
        better = record.labels.arm == "b" and record.labels.task == "t0"
        value = (0.95 if better else 0.9) + 0.001 * (record.labels.seed * (3 if record.labels.arm == "b" else 2) % 7)
        memory.with_final(record, test__accuracy=value)
    text = said(memory)
    assert f"Some arm is shown to differ from another on 1 of {count} tasks" in text
    assert f"chance alone would show that on up to {expected} tasks on average (5 % on each)" in text


def test_nothing_is_said_of_chance_where_nothing_is_shown_or_of_one_task(made: Any, digits: Any, clean: Any) -> None:
    alike = made({"a": {"level": 0.9}, "b": {"level": 0.9}}, tasks={"s": digits, "t": digits}, seeds=3, trials=0)
    for record in alike.of(phase="final"):
        alike.with_final(record, test__accuracy=0.9 + 0.01 * (record.labels.seed * (record.labels.arm == "b") % 3))
    assert "chance alone" not in said(alike)
    assert "chance alone" not in said(clean)


def test_arms_with_too_few_seeds_are_told_apart_from_those_not_beaten(made: Any) -> None:
    memory = made({"a": {"level": 0.9}, "b": {"level": 0.95}, "c": {"level": 0.96}}, trials=0)
    memory.records = [r for r in memory.records if r.labels.arm != "c" or r.labels.seed < 3]
    text = said(memory)
    assert "On digits b is better than a: test accuracy is higher by" in text
    assert "Too few seeds to tell: c (2)." in text
    assert "not shown to be better than c" not in text


def test_what_is_left_when_all_tasks_are_one_family(made: Any, digits: Any) -> None:
    """Six tasks with p of about 0.03 each, and one far below 0.05 / 7."""
    memory = made(
        {"a": {"level": 0.9}, "b": {"level": 0.9}}, tasks={f"t{i}": digits for i in range(7)}, seeds=6, trials=0
    )
    off = [0.01 + 0.0084 * z for z in (-1.2, 1.2, -0.6, 0.6, -1.0, 1.0)]
    for record in memory.of(phase="final"):
        seed, clear = record.labels.seed - 1, record.labels.task == "t0"
        step = 0.0 if record.labels.arm == "a" else off[seed] + (0.1 if clear else 0.0)
        memory.with_final(record, test__accuracy=0.7 + 0.01 * seed + step)
    text = said(memory)
    assert "Some arm is shown to differ from another on 7 of 7 tasks." in text
    assert "Corrected over all tasks together, it is shown on 1." in text


def test_all_threats_are_counted_where_they_stand(made: Any) -> None:
    memory = made({"a": {"level": 0.9}, "b": {"level": 0.95}}, seeds=3, trials=0)
    memory.with_config(memory.of(arm="a"), batch_size=7)
    for each in memory.of(arm="b"):
        memory.with_file([each], provenance={**each.file.provenance, "commit": "d" * 40, "dirty": True})
    study = read(memory, NAME)
    blocks = build(study).document.blocks
    top, below = (block.findings for block in blocks if isinstance(block, Findings))
    assert len(top) < len(below)
    assert f"(all {len(below)} threats stand under Threats to validity)" in said(memory)


def test_the_summary_does_not_call_a_lead_a_finding(made: Any) -> None:
    """Nothing is shown at the end; per second cheap is better."""
    memory = made({"cheap": {"level": 0.93}, "dear": {"level": 0.9301, "speed": 0.03}}, noise=0.004)
    for record in memory.of(arm="dear", phase="final"):
        twin = next(r for r in memory.of(arm="cheap", phase="final") if r.labels.seed == record.labels.seed)
        off = 0.002 if record.labels.seed % 2 else -0.001
        memory.with_final(record, test__accuracy=twin.final["test/accuracy"] + off)
        key = (record.run_id, "val/accuracy")
        values = tuple(v * (0.5 if index < 15 else 1) for index, v in enumerate(memory.points[key].values))
        memory.points[key] = dataclasses.replace(memory.points[key], values=values)
    study = read(memory, NAME)
    told = "per update {0} gradient evaluation no difference is shown; per second of training cheap is better than dear"
    assert told.format("and per") in said(memory)
    (caution,) = [finding for finding in threats(study) if finding.rule == "clocks-disagree"]
    assert "leads" not in caution.said
    assert "per update no difference is shown" in caution.said
    assert "per second of training cheap is better than dear" in caution.said
