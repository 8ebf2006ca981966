"""Learning curves are drawn by the clocks that runs tell."""

from __future__ import annotations

from typing import Any

from reports.sections.drawn import Drawn
from reports.sections.learning import learning
from reports.table import read

NAME = "sgd-or-adam"


def drawn(memory: Any) -> list[Drawn]:
    return [piece for piece in learning(read(memory, NAME)) if isinstance(piece, Drawn)]


def untimed(memory: Any, records: Any) -> None:
    for each in records:
        memory.points.pop((each.run_id, "time/train_s"), None)


def test_no_curve_by_a_clock_that_no_run_tells(clean: Any) -> None:
    assert len(drawn(clean)) == 2
    untimed(clean, clean.records)
    (only,) = drawn(clean)
    assert only.picture.title == "digits by updates"
    assert "nan" not in only.picture.alt


def test_an_arm_without_that_clock_is_counted_and_not_drawn(clean: Any) -> None:
    untimed(clean, clean.of(arm="sgd"))
    _, seconds = drawn(clean)
    assert "sgd" not in seconds.picture.alt
    assert "nan" not in seconds.picture.alt
    said = "".join(part for part in seconds.picture.caption if isinstance(part, str))
    assert "in no mean: 6 of the runs that ended" in said


def test_one_run_that_diverged_is_one(clean: Any) -> None:
    clean.diverge(clean.of(arm="adam", phase="final")[0])
    said = "".join(part for part in drawn(clean)[0].picture.caption if isinstance(part, str))
    assert "a cross ends the 1 run that diverged" in said
