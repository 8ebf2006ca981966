"""Failures: counted with their intervals, ranked worst, and bounded where nothing is known."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from reports.document import Paragraph, Parts, Table, Term
from reports.sections.failures import failures
from reports.table import read

NAME = "sgd-or-adam"


def words(parts: Parts) -> str:
    return "".join(p if isinstance(p, str) else p.term if isinstance(p, Term) else p.text for p in parts)


def tables(memory: Any) -> list[list[list[str]]]:
    found = [block for block in failures(read(memory, NAME)) if isinstance(block, Table)]
    return [[[words(cell) for cell in row] for row in table.rows] for table in found]


def test_a_study_without_failures_says_so(clean: Any) -> None:
    (said,) = [words(b.parts) for b in failures(read(clean, NAME)) if isinstance(b, Paragraph)]
    assert said.startswith("Every run that was started completed")
    assert tables(clean) == []


def test_both_phases_are_counted_and_reasons_told(clean: Any) -> None:
    """Wilson: 1 of 6 is 17 % [3, 56], 2 of 8 is 25 % [7, 59]."""
    clean.diverge(clean.of(arm="adam", phase="final")[0])
    for record in clean.of(arm="adam", phase="tune")[:2]:
        clean.diverge(record)
    crashed = clean.of(arm="adam", phase="final")[1]
    trace = "Traceback ...\nRuntimeError: out of <memory>"
    clean.change([crashed], lambda r: dataclasses.replace(r, status="crashed", final={}, traceback=trace))
    table, _ = tables(clean)
    (row,) = table
    assert row[1:3] == ["adam", "1 of 5, 20 [4, 62] %"]
    assert row[3:6] == ["2 of 8, 25 [7, 59] %", "1 of 6", "0"]
    assert "crashed: RuntimeError: out of <memory> (1)" in row[6]


def test_what_is_missing_is_bounded_between_the_best_and_the_worst(made: Any) -> None:
    """adam 0.9 thrice and one crashed, sgd 0.8 four times: at best (3 x 0.9 + 1) / 4 - 0.8, at worst with 0."""
    memory = made(seeds=4)
    for record in memory.of(phase="final"):
        memory.with_final(
            record, test__accuracy={"adam": 0.9, "sgd": 0.8}[record.labels.arm] + 0.001 * record.labels.seed
        )
    memory.change(
        memory.of(arm="adam", phase="final")[3:], lambda r: dataclasses.replace(r, status="crashed", final={})
    )
    _, bounds = tables(memory)
    known = (0.901 + 0.902 + 0.903) / 4 - 0.8025
    assert [row[0] for row in bounds] == ["adam \u2212 sgd"]
    assert float(bounds[0][2]) == round(known + 0.25, 4)
    assert float(bounds[0][3].replace("\u2212", "-")) == round(known, 4)


def notes(memory: Any) -> str:
    found = [block for block in failures(read(memory, NAME)) if isinstance(block, Table)]
    return words(found[-1].notes[0])


def signed(text: str) -> float:
    return float(text.replace("\u2212", "-").removesuffix(" nats"))


def loss(digits: Any, **facts: Any) -> Any:
    return {"lm": {**digits, "metric": "loss", "mode": "min", "worst": 10.0, "target": 0.5, **facts}}


def test_the_arm_that_diverged_is_worse_in_both_bounds(made: Any, digits: Any) -> None:
    """sgd 0.4 five times; adam 0.38 thrice and two diverged, worth 10 by the task: sgd is better by 3.828."""
    memory = made({"sgd": {"level": 0.40}, "adam": {"level": 0.38}}, tasks=loss(digits), seeds=5, trials=0)
    for record in memory.of(phase="final"):
        memory.with_final(record, test__loss={"sgd": 0.40, "adam": 0.38}[record.labels.arm])
    for record in memory.of(arm="adam")[:2]:
        memory.diverge(record)
    (row,) = tables(memory)[-1]
    assert row[0].startswith("sgd")
    assert signed(row[2]) == signed(row[3]) == pytest.approx((3 * 0.38 + 20) / 5 - 0.40, rel=1e-3)
    assert "worst value, 10" in notes(memory)


def test_without_a_worst_value_no_difference_is_made_up_for_what_diverged(made: Any, digits: Any) -> None:
    tasks = loss(digits, worst=None)
    memory = made({"sgd": {"level": 0.40}, "adam": {"level": 0.38}}, tasks=tasks, seeds=5, trials=0)
    for record in memory.of(arm="adam")[:2]:
        memory.diverge(record)
    (row,) = tables(memory)[-1]
    assert row[2:] == ["-", "-"]
    assert "no worst value" in notes(memory)


@pytest.mark.parametrize(
    ("scale", "facts", "between"),
    [(1, {}, "between 0 and 1"), (100, {"target": 90.0}, "between 0 and 100"), (300, {"target": None}, "values seen")],
)
def test_the_bounds_enclose_the_data_on_whatever_scale(
    made: Any, digits: Any, scale: float, facts: Any, between: str
) -> None:
    """adam 0.96 and one crashed, sgd 0.93, as fractions and in per cent; three times that is no share."""
    arms = {"sgd": {"level": 0.93 * scale}, "adam": {"level": 0.96 * scale}}
    memory = made(arms, tasks={"digits": {**digits, **facts}}, trials=0)
    for record in memory.of(phase="final"):
        memory.with_final(record, test__accuracy=scale * (0.96 if record.labels.arm == "adam" else 0.93))
    memory.change(memory.of(arm="adam")[:1], lambda r: dataclasses.replace(r, status="crashed", final={}))
    (row,) = tables(memory)[-1]
    best, worst = signed(row[2]), signed(row[3])
    assert worst <= scale * 0.03 * 5 / 6 <= scale * 0.03 <= best
    assert between in notes(memory)
    assert "diverged" not in notes(memory)


def test_losses_that_differ_are_one_reason(clean: Any) -> None:
    """Each number with its least and greatest; another text is another reason."""
    reasons = [
        "the training loss was 1.07e+09 at update 4 (bound 1e+06)",
        "the training loss was 4.9e+08 at update 3 (bound 1e+06)",
        "the training loss was 2e+10 at update 4 (bound 1e+06)",
        "the weights of layer-2 are not finite at update 7",
    ]
    for record, reason in zip(clean.of(arm="adam", phase="final"), reasons):
        clean.diverge(record)
        clean.change([record], lambda r, reason=reason: dataclasses.replace(r, reason=reason))
    assert tables(clean)[0][0][6] == (
        "diverged: the training loss was 4.9e+08 to 2e+10 at update 3 to 4 (bound 1e+06) (3); "
        "diverged: the weights of layer-2 are not finite at update 7 (1)"
    )
