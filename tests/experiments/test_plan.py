"""The plan counts what a study takes, and its power is what simulated experiments show."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from experiments.plan import plan, smallest_difference
from experiments.store.schema import RunFile, RunRecord, Status
from experiments.study import StudyConfig, due


@pytest.mark.parametrize(("n", "effect"), [(3, 3.26), (5, 1.68), (10, 0.996), (20, 0.660)])
def test_the_smallest_difference_is_cohens(n: int, effect: float) -> None:
    """What G*Power gives for a paired t test, two-sided 5 %, power 80 %."""
    assert smallest_difference(n) == pytest.approx(effect, rel=3e-3)


def test_simulated_experiments_find_it_four_times_in_five() -> None:
    effect = smallest_difference(5)
    assert effect is not None
    pairs = np.random.default_rng(1).normal(effect, 1.0, size=(40_000, 5))
    found = stats.ttest_1samp(pairs, 0, axis=1).pvalue < 0.05
    assert float(np.mean(found)) == pytest.approx(0.8, abs=0.01)


def test_one_seed_shows_nothing() -> None:
    assert smallest_difference(1) is None


def made(**changes: object) -> StudyConfig:
    data = {"name": "s", "tasks": ["digits"], "arms": ["adamw", "lion"], "budget": {"updates": 10}, "seeds": 2}
    return StudyConfig.of({**data, "tune": {"trials": 3}, **changes})


def test_it_counts_runs_and_budget() -> None:
    planned = plan(made(tasks={"digits": {}, "digits_graph": {"budget": {"epochs": 2}}}), [])
    assert planned.total == {"tune": 12, "final": 8}
    assert planned.budget == {"updates": 2 * 5 * 10, "epochs": 2 * 5 * 2}
    assert planned.left == 20
    assert planned.due_now == 8
    assert planned.seconds_left is None
    assert "20 runs (12 tuning, 8 final), 100 updates and 20 epochs in all" in planned.lines()[0]


def test_it_counts_what_is_done_and_how_long_the_rest_takes() -> None:
    study = made()
    jobs = due(study, [])[:2]
    facts = {"task": {"mode": "max", "worst": 0.0}}
    statuses: tuple[Status, ...] = ("completed", "interrupted")
    runs = [
        RunRecord(
            RunFile(job.labels.trial, "", job.labels, job.config.to_json(), "", facts), status, started=0, ended=3000
        )
        for job, status in zip(jobs, statuses)
        if job.config
    ]
    runs = [replace(run, final={"objective": 0.5}) for run in runs]
    planned = plan(study, runs)
    assert planned.done == {"tune": 1, "final": 0}
    assert planned.left == 9
    assert planned.statuses == {"completed": 1, "interrupted": 1}
    assert planned.seconds_left == pytest.approx(9 * 3.0)


def test_an_arm_with_nothing_to_tune_is_noted() -> None:
    fixed = {"optimizer": {"name": "adamw", "lr": 0.01}}
    planned = plan(
        made(arms={"a": fixed, "b": {"optimizer": "lion"}}, tune={"trials": 3, "space": ["optimizer.lr"]}), []
    )
    assert planned.notes == ("digits/a has nothing to tune: no tuning runs, its settings as given",)
    assert planned.total == {"tune": 3, "final": 4}


def test_it_says_that_a_pruner_makes_budgets_unequal_and_what_a_sampler_cannot() -> None:
    arms = {"a": {"optimizer": ["adamw", "lion"], "optimizer.lr": "1e-4:1e-1:log"}}
    tune = {"trials": 3, "sampler": "cmaes", "pruner": "median"}
    notes = plan(made(arms=arms, tune=tune), []).notes
    assert any(note.startswith("the pruner median ends tuning runs early: their budgets are unequal") for note in notes)
    assert "digits/a: cmaes has no model of options: optimizer is drawn at random" in notes
    assert plan(made(), []).notes == ()


def test_it_says_that_trials_were_asked_for_under_other_defaults() -> None:
    study = made(arms=["adamw"], tune={"trials": 3, "sampler": "tpe", "space": ["optimizer.lr"]})
    job = due(study, [])[0].asked(study, {"optimizer.lr": 1e-3})
    facts = job.facts(study)
    facts["tuner"]["sampler"]["n_startup_trials"] = 7
    assert job.config
    file = RunFile("r", "", job.labels, job.config.to_json(), "", {"study": facts, "task": {"mode": "max"}})
    notes = plan(study, [RunRecord(file, "completed", final={"objective": 0.5})]).notes
    assert [note for note in notes if "n_startup_trials: 7 -> 10" in note]
    same = RunFile("r", "", job.labels, job.config.to_json(), "", {"study": job.facts(study), "task": {"mode": "max"}})
    assert plan(study, [RunRecord(same, "completed", final={"objective": 0.5})]).notes == ()
