"""What a run is worth to the queue."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from experiments.designs.compare import score
from experiments.queue import Queue, objective
from experiments.ranges import Range
from experiments.store.schema import Labels, RunFile, RunRecord, Status
from experiments.worker import _distribution


def ended(status: Status, mode: str, worst: float | None, value: float = 0.5, number: int = 0) -> RunRecord:
    labels = Labels("Net", "s", "own", "tune", number)
    file = RunFile(f"r{number}", "", labels, {}, "", facts={"task": {"mode": mode, "worst": worst}})
    return RunRecord(file, status, final={"objective": value} if status == "completed" else {})


@pytest.mark.parametrize("mode", ["max", "min"])
def test_a_diverged_run_is_below_every_run_that_ended_where_the_task_names_no_worst(mode: str) -> None:
    diverged = ended("diverged", mode, None)
    awful = ended("completed", mode, None, -1e300 if mode == "max" else 1e300)
    below, above = score(diverged), score(awful)
    assert below is not None
    assert above is not None
    assert below < above
    assert above == -1e300  # nothing is clamped
    assert objective(diverged) == (-math.inf if mode == "max" else math.inf)
    assert objective(ended("diverged", mode, 7.0)) == 7.0


@pytest.mark.parametrize("sampler", ["tpe", "gp"])
def test_a_sampler_goes_on_after_an_infinitely_bad_run(sampler: str, tmp_path: Path) -> None:
    queue = Queue(tmp_path)
    study = queue.study(Labels("Net", "s", "own", "tune"), "max", sampler, seed=1)
    distributions = {"model.lr": _distribution(Range(1e-4, 1e-1, log=True))}
    for number in range(14):
        queue.take(study, number, None, distributions)
        run = ended("diverged" if number == 3 else "completed", "max", None, 0.01 * number, number)
        queue.tell(study, number, run)
    assert study.best_trial.number == 13
    assert study.trials[3].value == -math.inf
