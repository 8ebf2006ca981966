"""What a run is worth, by one metric and by several, and which runs no other beats."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from algos.finding import InputError
from experiments.designs.compare import front, score
from experiments.store.home import Home
from experiments.store.schema import Labels, RunFile, RunRecord
from experiments.study import StudyConfig, due
from experiments.tuning.objectives import beaten, directions, objectives, value

SEVERAL = {"val/accuracy": "max", "time/train_s": "min"}


def study(**tune: Any) -> StudyConfig:
    arms = {"a": {"optimizer.lr": "1e-4:1e-1:log"}}
    said = {"trials": 6, "objectives": SEVERAL, **tune}
    return StudyConfig.of({"name": "s", "tasks": ["digits"], "arms": arms, "tune": said, "seeds": 2})


def run(number: int, accuracy: float, seconds: float, **changes: Any) -> RunRecord:
    labels = Labels("digits", "s", "a", "tune", number, 1000 + number)
    config = study().run_config("digits", "a", labels.seed, {"optimizer.lr": 1e-3 * (number + 1)}).to_json()
    facts = {"task": {"metric": "accuracy", "mode": "max", "worst": 0.0}}
    file = RunFile(f"r{number}", "", labels, config, "", facts=facts)
    record = RunRecord(
        file, "completed", last={"val/accuracy": accuracy - 0.1, "time/train_s": seconds}, final={"objective": accuracy}
    )
    return replace(record, **changes)


RUNS = [
    run(0, 0.90, 10.0),
    run(1, 0.95, 30.0),
    run(2, 0.90, 20.0),  # beaten by 0
    run(3, 0.95, 25.0),  # beats 1
    run(4, 0.99, 99.0, status="pruned"),
    run(5, 0.80, 5.0),
]


def test_directions_and_values() -> None:
    made = study()
    assert directions(made, "digits", "a") == ["maximize", "minimize"]
    assert directions(study(objectives=None), "digits", "a") == ["maximize"]
    assert objectives(RUNS[1], made) == [0.95, 30.0]  # the selected weights' accuracy, not the last one
    assert objectives(RUNS[1], study(objectives={"time/train_s": "min"})) == [30.0]
    assert objectives(RUNS[1], study(objectives=None)) == [0.95]


def test_a_diverged_run_is_worth_the_worst_of_each() -> None:
    diverged = replace(RUNS[0], status="diverged", final={})
    assert objectives(diverged, study()) == [0.0, math.inf]
    blank = replace(diverged, file=replace(diverged.file, facts={"task": {"metric": "accuracy", "mode": "max"}}))
    assert objectives(blank, study()) == [-math.inf, math.inf]


def test_a_run_that_has_no_value_of_a_metric_is_worth_the_worst_of_it_and_no_more_is_lost() -> None:
    losses = study(objectives={"val/accuracy": "max", "val/loss": "min"})
    assert objectives(RUNS[0], losses) == [0.90, math.inf]
    assert value(RUNS[0], "val/f1", "max") == -math.inf
    blind = replace(RUNS[0], last={**RUNS[0].last, "val/loss": math.nan})
    assert objectives(blind, losses) == [0.90, math.inf]
    for final in ({}, {"objective": math.nan}):
        assert objectives(replace(RUNS[0], final=final), losses) == [0.0, math.inf], "the task names its worst"
    seen = [run(0, 0.9, 1.0), replace(run(1, 0.9, 1.0), last={"val/loss": 2.0})]
    assert [each.run_id for each in front(losses, seen, "digits", "a")] == ["r1"]


def test_an_older_value_of_a_metric_that_is_not_finite_any_more_counts_for_nothing(tmp_path: Path) -> None:
    folder = Home(tmp_path).create(RUNS[0].file)
    attempt = folder.begin()
    attempt.points(4, {"val/loss": 0.01, "time/train_s": 1.0})
    attempt.points(8, {"val/loss": math.nan, "time/train_s": 2.0})
    attempt.final({"objective": 0.5})
    attempt.end("completed")
    assert objectives(folder.record(), study(objectives={"val/loss": "min", "time/train_s": "min"})) == [math.inf, 2.0]


def test_the_front_is_what_no_other_beats() -> None:
    assert [record.run_id for record in front(study(), RUNS, "digits", "a")] == ["r0", "r3", "r5"]
    assert [record.run_id for record in front(study(), RUNS, "digits", "b")] == []
    single = study(objectives=None)
    assert [record.run_id for record in front(single, RUNS, "digits", "a")] == ["r1", "r3"]
    assert not beaten([1.0, 1.0], [1.0, 1.0], ["max", "min"])
    assert beaten([1.0, 2.0], [1.0, 1.0], ["max", "min"])
    assert not beaten([1.0, 2.0], [2.0, 3.0], ["max", "min"])


def test_finals_run_the_best_by_the_first_objective_among_those() -> None:
    """1 and 3 are equally accurate, and 3 is faster."""
    jobs = due(study(), RUNS)
    assert [(job.labels.phase, job.winner) for job in jobs] == [("final", "r3")] * 2
    faster = study(objectives={"time/train_s": "min", "val/accuracy": "max"})
    assert {job.winner for job in due(faster, RUNS)} == {"r5"}
    assert score(RUNS[4], study()) is None


def test_the_worst_of_the_first_is_below_all_that_ended() -> None:
    diverged = score(replace(RUNS[0], status="diverged"), study(objectives={"time/train_s": "min"}))
    slow = score(run(0, 0.9, 1e300), study(objectives={"time/train_s": "min"}))
    assert diverged is not None
    assert slow is not None
    assert diverged < slow


@pytest.mark.parametrize(
    ("said", "line"),
    [
        (
            {"val/acuracy": "max"},
            "tune.objectives.val/acuracy: unknown metric 'val/acuracy'; did you mean 'val/accuracy'",
        ),
        (
            {"val/accuracy": "min"},
            "tune.objectives.val/accuracy: val/accuracy of digits is better the higher; give val",
        ),
        ({"objective": "min"}, "tune.objectives.objective: objective of digits is better the higher"),
    ],
)
def test_what_is_not_measured_or_turned_round_is_refused(said: dict[str, str], line: str) -> None:
    with pytest.raises(InputError) as caught:
        study(objectives=said)
    assert str(caught.value).startswith(line)
