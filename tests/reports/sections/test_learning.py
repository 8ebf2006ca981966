"""Learning curves are drawn by the clocks that runs tell."""

from __future__ import annotations

import dataclasses
from typing import Any

from reports.document import Parts, Table, Term
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


def tables(memory: Any) -> list[tuple[list[str], list[list[str]]]]:
    found = [piece for piece in learning(read(memory, NAME)) if isinstance(piece, Table)]
    return [([c.head for c in t.columns], [[words(cell) for cell in row] for row in t.rows]) for t in found]


def words(parts: Parts) -> str:
    return "".join(p if isinstance(p, str) else p.term if isinstance(p, Term) else p.text for p in parts)


def captions(memory: Any) -> list[str]:
    return [words(piece.caption) for piece in learning(read(memory, NAME)) if isinstance(piece, Table)]


def test_a_budget_that_nobody_states_is_not_called_one(made: Any) -> None:
    memory = made(seeds=3)
    assert captions(memory) == ["digits: validation accuracy at a quarter, a half and all of the budget."]
    memory.with_config(memory.records, budget={})
    assert captions(memory)[0].endswith("a quarter, a half and all of the updates that runs made.")


def line(memory: Any) -> None:
    """A validation that is 0.001 an update plus 0.01 a seed, at 20, 40, ..., 400 updates."""
    for record in memory.of(phase="final"):
        key = (record.run_id, "val/accuracy")
        told = memory.points[key]
        values = tuple(0.001 * update + 0.01 * record.labels.seed for update in told.updates)
        memory.points[key] = dataclasses.replace(told, values=values)


def test_a_quarter_a_half_and_all_of_the_budget(made: Any) -> None:
    """Seeds 1 to 3 add 0.02 on average: 0.12, 0.22, 0.42; a spread of 0.01 is 4.303 * 0.01 / sqrt(3) = 0.0248."""
    memory = made(seeds=3)
    line(memory)
    ((heads, rows),) = tables(memory)
    assert heads == ["Arm", "100 updates", "200 updates", "400 updates"]
    assert rows[0] == ["sgd", "0.120 [0.095, 0.145]", "0.220 [0.195, 0.245]", "0.420 [0.395, 0.445]"]


def test_between_evaluations_the_half_is_on_the_line(made: Any) -> None:
    memory = made(seeds=3)
    line(memory)
    for key, told in memory.points.items():
        cut = slice(2, None, 3)
        memory.points[key] = dataclasses.replace(
            told, updates=told.updates[cut], values=told.values[cut], at=told.at[cut]
        )
    ((heads, rows),) = tables(memory)  # at 60, 120, ..., 360
    assert heads == ["Arm", "90 updates", "180 updates", "360 updates"]
    assert rows[0][1:3] == ["0.110 [0.085, 0.135]", "0.200 [0.175, 0.225]"]


def test_what_had_diverged_by_then_leaves_no_mean(made: Any) -> None:
    memory = made(seeds=3)
    line(memory)
    record = memory.of(arm="sgd", phase="final")[0]
    memory.diverge(record)
    for metric in ("val/accuracy", "time/train_s", "count/gradients"):
        told = memory.points[record.run_id, metric]
        cut = {name: getattr(told, name)[:6] for name in ("updates", "values", "at")}
        memory.points[record.run_id, metric] = dataclasses.replace(told, **cut)
    ((_, (sgd, _)),) = tables(memory)
    assert sgd == ["sgd", "0.120 [0.095, 0.145]", *["no mean: 1 of 3 diverged"] * 2]


def test_one_evaluation_tells_nothing_of_half_the_budget(made: Any) -> None:
    memory = made(seeds=3)
    for key, told in memory.points.items():
        cut = {name: getattr(told, name)[-1:] for name in ("updates", "values", "at")}
        memory.points[key] = dataclasses.replace(told, **cut)
    assert tables(memory) == []


def test_imported_epochs_are_the_axis(made: Any) -> None:
    memory = made(seeds=3)
    for each in memory.records:
        facts = {**each.file.facts, "recorded": "imported", "source": {"kind": "csv", "steps": "epochs"}}
        memory.with_file([each], facts=facts)
    first = drawn(memory)[0].picture
    assert first.title == "digits by epochs"
    assert "after 400 epochs" in first.alt
    assert tables(memory)[0][0] == ["Arm", "100 epochs", "200 epochs", "400 epochs"]
