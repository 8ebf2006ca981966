"""A study may grow under its name, and nothing that has run becomes something else."""

from __future__ import annotations

from typing import Any

import pytest

from algos.finding import InputError
from experiments.store.schema import Labels, RunFile, RunRecord
from experiments.study import StudyConfig
from experiments.sweeps.amendment import amended

ARMS: dict[str, Any] = {"a": {"optimizer": "adamw"}, "b": {"optimizer": "lion"}}


def study(**changes: Any) -> StudyConfig:
    data = {"name": "s", "tasks": ["digits"], "arms": ARMS, "tune": {"trials": 6}, "seeds": 2}
    return StudyConfig.of({**data, **changes})


def final(arm: str = "a") -> RunRecord:
    return RunRecord(RunFile("r", "", Labels("digits", "s", arm, "final", 0, 1), {}, ""), "completed")


def test_nothing_changed() -> None:
    assert amended(study(), study(), [final()]) == []


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"seeds": 4}, ["seeds: 3, 4 added"]),
        ({"seeds": [1, 2, 9]}, ["seeds: 9 added"]),
        ({"arms": {**ARMS, "c": {"optimizer": "sgd"}}}, ["arms: c added"]),
        ({"tasks": ["digits", "digits_graph"]}, ["tasks: digits_graph added"]),
        ({"question": "Which?"}, ["question: none -> Which?"]),
        ({"population": "off"}, ["population: auto -> off"]),
    ],
)
def test_it_may_grow_whatever_has_run(changes: dict[str, Any], said: list[str]) -> None:
    assert amended(study(), study(**changes), [final()]) == said


@pytest.mark.parametrize("sampler", ["random", "tpe", "nsga2"])
def test_trials_may_be_raised_before_a_winner_has_run(sampler: str) -> None:
    old, new = (study(tune={"trials": trials, "sampler": sampler}) for trials in (6, 9))
    assert amended(old, new, []) == ["tune.trials: 6 -> 9"]
    with pytest.raises(
        InputError, match=r"trials 6 became 9, and a on digits has final runs; more trials could choose"
    ):
        amended(old, new, [final()])


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ({}, {"seeds": 1}, r"seeds \[1, 2\] became \[1\]; seeds may only be added"),
        ({}, {"seeds": [2, 1, 3]}, r"seeds may only be added, at the end"),
        ({}, {"seeds": [1, 2, 1500]}, "with the seed 1500, tuning runs would have other seeds.*add seeds below 1000"),
        ({}, {"arms": {"a": ARMS["a"]}}, "b on digits is gone"),
        (
            {},
            {"arms": {**ARMS, "a": {"optimizer": "adamw", "optimizer.eps": 1e-3}}},
            "eps: 1e-08 -> 0.001; an arm stays",
        ),
        ({}, {"arms": {**ARMS, "a": {"optimizer.lr": "1e-3:1e-2:log"}}}, "an arm stays what it was"),
        ({}, {"budget": {"updates": 7}}, "budget.* an arm stays what it was"),
        ({}, {"tune": {"trials": 5}}, "trials 6 became 5; trials may only be raised"),
        ({}, {"tune": {"trials": 6, "seed": 2}}, r"tune\.seed: 1 -> 2; how arms are tuned stays"),
        ({}, {"tune": {"trials": 6, "sampler": "tpe"}}, r"tune\.sampler: random -> tpe; how arms are tuned stays"),
        ({}, {"tune": {"trials": 6, "pruner": "median"}}, r"tune\.pruner: none -> median"),
        ({}, {"tune": None}, r"tune\.s"),
        (
            {"tune": {"trials": 6, "sampler": "grid"}},
            {"tune": {"trials": 9, "sampler": "grid"}},
            "the points of grid are laid out for a number",
        ),
    ],
)
def test_everything_else_needs_a_new_name(old: dict[str, Any], new: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said) as caught:
        amended(study(**old), study(**new), [])
    assert "give the changed study a new name, or change it back" in str(caught.value)
    assert "\n" not in str(caught.value)
