"""The protocol of the default design, played through with made-up runs whose objective is known."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from experiments.config import RunConfig
from experiments.designs.compare import score
from experiments.store.schema import Labels, RunFile, RunRecord, Status
from experiments.study import Job, StudyConfig, due

Objective = Callable[[RunConfig], float]


def study(**changes: Any) -> StudyConfig:
    data: dict[str, Any] = {
        "name": "s",
        "tasks": ["digits"],
        "arms": {
            "a": {"optimizer": {"name": "adamw", "lr": "1e-4:1e-1:log"}},
            "b": {"optimizer": {"name": "lion", "lr": "1e-4:1e-1:log"}},
        },
        "tune": {"trials": 9, "sampler": "qmc"},
        "seeds": 2,
    }
    return StudyConfig.of({**data, **changes})


def best_at(rate: float) -> Objective:
    return lambda config: 1 - 0.1 * math.log10(config.optimizer.hyper["lr"] / rate) ** 2


def ran(job: Job, objective: Objective, status: Status = "completed", mode: str = "max", number: int = 0) -> RunRecord:
    assert job.config
    file = RunFile(
        f"run{number}-{job.labels.trial}", "", job.labels, job.config.to_json(), "",
        facts={"task": {"mode": mode, "worst": 0.0 if mode == "max" else 9.0}}, created=number,
    )  # fmt: skip
    final = {"objective": objective(job.config)} if status == "completed" else {}
    return RunRecord(file, status, final=final)


def played(made: StudyConfig, objective: Objective) -> list[RunRecord]:
    runs: list[RunRecord] = []
    while jobs := due(made, runs):
        runs.append(ran(jobs[0], objective, number=len(runs)))
    return runs


def settings(runs: list[RunRecord], phase: str, arm: str = "a") -> list[float]:
    return [r.config["optimizer"]["lr"] for r in runs if (r.labels.phase, r.labels.arm) == (phase, arm)]


def test_every_arm_gets_the_same_number_of_runs_and_only_fresh_seeds_are_final() -> None:
    made = study(tasks=["digits", "digits_graph"])
    runs = played(made, best_at(3e-3))
    counts = Counter((r.labels.task, r.labels.arm, r.labels.phase) for r in runs)
    assert set(counts.values()) == {9, 2}
    assert len(counts) == 8
    tuned = {r.labels.seed for r in runs if r.labels.phase == "tune"}
    final = {
        arm: [r.labels.seed for r in runs if r.labels.phase == "final" and r.labels.arm == arm] for arm in made.arms
    }
    assert final == {"a": [1, 2, 1, 2], "b": [1, 2, 1, 2]}
    assert not tuned & {1, 2}
    for number in range(9):
        assert len({r.labels.seed for r in runs if (r.labels.phase, r.labels.number) == ("tune", number)}) == 1
    assert len({r.labels.trial for r in runs}) == len(runs)


def test_the_winner_is_the_best_trial_and_is_run_again_as_it_was() -> None:
    runs = played(study(), best_at(3e-3))
    tuned = settings(runs, "tune")
    best = min(tuned, key=lambda rate: abs(math.log10(rate / 3e-3)))
    assert settings(runs, "final") == [best, best]


def test_lower_is_better_where_the_task_says_so() -> None:
    made, runs = study(), list[RunRecord]()
    while jobs := due(made, runs):
        runs.append(ran(jobs[0], lambda config: -best_at(3e-3)(config), mode="min", number=len(runs)))
    best = min(settings(runs, "tune"), key=lambda rate: abs(math.log10(rate / 3e-3)))
    assert settings(runs, "final") == [best, best]


def test_an_optimum_inside_leaves_the_space_alone() -> None:
    runs = played(study(), best_at(3e-3))
    assert all(1e-4 <= rate <= 1e-1 for rate in settings(runs, "tune"))
    assert [job.reason for job in due(study(), [r for r in runs if r.labels.phase == "tune"])] == [""] * 4


def test_an_optimum_at_the_edge_is_followed_within_the_arms_own_trials() -> None:
    made = study()
    runs = played(made, best_at(0.4))
    tuned = settings(runs, "tune")
    assert len(tuned) == 9
    assert max(tuned[:6]) <= 0.1
    assert all(max(tuned[:6]) <= rate <= 1.0 for rate in tuned[6:])
    assert settings(runs, "final")[0] > 0.1
    finals = due(made, [r for r in runs if r.labels.phase == "tune"])
    assert "; the rest was drawn from 0.0" in finals[0].reason
    assert ":1.0:log" in finals[0].reason
    facts = finals[0].facts(made)
    assert facts["winner"] == finals[0].winner != ""
    assert facts["space"] == {"optimizer.lr": "0.0001:1.0:log"}


def test_an_optimum_that_is_still_at_the_edge_is_said() -> None:
    made = study(tune={"trials": 9, "sampler": "grid"})
    finals = due(made, [r for r in played(made, best_at(10.0)) if r.labels.phase == "tune"])
    assert "the best optimizer.lr, 0.1, stood at the high edge of 0.0001:0.1:log" in finals[0].reason


def test_the_rest_waits_for_the_exploration_and_finals_for_the_rest() -> None:
    made = study()
    first = due(made, [])
    assert [job.labels.number for job in first] == [n for n in range(6) for _ in "ab"]
    assert [job.labels.arm for job in first] == ["a", "b"] * 6
    running = [ran(job, best_at(3e-3), "running") for job in first]
    assert due(made, running) == []
    one_arm = [ran(job, best_at(3e-3)) for job in first if job.labels.arm == "a"]
    rest = [job for job in due(made, one_arm) if job.labels.arm == "a"]
    assert [job.labels.number for job in rest] == [6, 7, 8]


def test_any_order_of_workers_runs_the_same_set() -> None:
    made, shuffle = study(), random.Random(3)
    runs: list[RunRecord] = []
    while jobs := due(made, runs):
        runs.append(ran(shuffle.choice(jobs), best_at(0.4)))
    inorder = played(made, best_at(0.4))
    assert {r.labels: r.config for r in runs} == {r.labels: r.config for r in inorder}


@pytest.mark.parametrize("status", ["interrupted", "lost"])
def test_an_unfinished_run_goes_on_as_it_was(status: Status) -> None:
    made = study()
    first = due(made, [])
    held = ran(first[3], best_at(3e-3), status)
    again = [job for job in due(made, [held]) if job.labels == first[3].labels]
    assert [job.resume for job in again] == [held.run_id]
    assert again[0].config == first[3].config
    assert again[0].params == first[3].params


def test_finished_runs_are_never_repeated() -> None:
    made = study()
    runs = played(made, best_at(3e-3))
    for status in ("crashed", "pruned", "diverged", "completed"):
        assert due(made, [replace(run, status=status) for run in runs]) == []


def test_a_crashed_trial_cannot_win_and_a_diverged_one_is_worth_the_worst() -> None:
    made = study()
    tuned = [r for r in played(made, best_at(3e-3)) if r.labels.phase == "tune"]
    best = max((r for r in tuned if r.labels.arm == "a"), key=lambda r: r.final["objective"])
    for status in ("crashed", "diverged", "pruned"):
        broken = [replace(r, status=status, final={}) if r is best else r for r in tuned]
        winners = {job.winner for job in due(made, broken) if job.labels.arm == "a" and job.labels.phase == "final"}
        assert len(winners) <= 1
        assert best.run_id not in winners


def test_an_arm_whose_trials_all_diverge_is_still_shown() -> None:
    made = study()
    tuned = [r for r in played(made, best_at(3e-3)) if r.labels.phase == "tune"]
    gone = [replace(r, status="diverged", final={}) if r.labels.arm == "a" else r for r in tuned]
    assert Counter(job.labels.arm for job in due(made, gone)) == {"a": 2, "b": 2}
    crashed = [replace(r, status="crashed", final={}) if r.labels.arm == "a" else r for r in tuned]
    assert Counter(job.labels.arm for job in due(made, crashed)) == {"b": 2}


def test_an_arm_without_a_space_is_not_tuned() -> None:
    made = study(arms={"a": {"optimizer": "adamw"}, "b": {"optimizer": "lion"}}, tune=None)
    jobs = due(made, [])
    assert [(job.labels.phase, job.labels.seed) for job in jobs] == [
        ("final", 1),
        ("final", 1),
        ("final", 2),
        ("final", 2),
    ]
    assert jobs[0].reason == "not tuned"


def test_a_sampler_of_optuna_is_asked() -> None:
    made = study(tune={"trials": 3, "sampler": "tpe"})
    job = due(made, [])[0]
    assert job.ask
    assert job.space.to_json() == {"optimizer.lr": "0.0001:0.1:log"}
    asked = job.asked(made, {"optimizer.lr": 0.007})
    assert asked.config is not None
    assert asked.config.optimizer.hyper["lr"] == 0.007
    assert asked.config.seed == job.labels.seed == 1000


def test_runs_of_other_studies_are_not_its_own() -> None:
    made = study()
    other = [replace(r, file=replace(r.file, labels=replace(r.labels, study="t"))) for r in played(made, best_at(3e-3))]
    assert due(made, other) == due(made, [])
    assert Labels("digits", "s", "a", "tune", 0, 1000) == due(made, other)[0].labels


def test_a_run_recorded_from_another_loop_takes_nobody_s_place() -> None:
    """Its labels may be those of a final run that is due: that one is due all the same."""
    made = study(tune=None, arms={"a": {"optimizer": "adamw"}}, seeds=2)
    (job, _) = due(made, [])
    run = ran(job, best_at(3e-3))
    theirs = replace(run, file=replace(run.file, facts={**run.file.facts, "recorded": "plain"}))
    assert [each.labels.seed for each in due(made, [theirs])] == [1, 2]
    assert [each.labels.seed for each in due(made, [run])] == [2]


def test_without_a_worst_value_a_diverged_run_is_below_everything() -> None:
    job = due(study(), [])[0]
    run = ran(job, lambda config: -1e300)
    blank = replace(run, file=replace(run.file, facts={"task": {"mode": "max", "worst": None}}))
    diverged = score(replace(blank, status="diverged"))
    ended = score(blank)
    assert ended == -1e300
    assert diverged is not None
    assert diverged < ended
