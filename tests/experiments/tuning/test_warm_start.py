"""Another study's trials as history: which of them, as what, and that they are nobody's trials here."""

from __future__ import annotations

from typing import Any

import optuna
import pytest

from algos.finding import InputError
from experiments.store.schema import Labels, RunFile, RunRecord, Status
from experiments.study import StudyConfig
from experiments.tuning import samplers, suggesting
from experiments.tuning.warm_start import MARK, history, usable, warm_trials

ARM = {"optimizer": "adamw", "optimizer.lr": "1e-4:1e-1:log", "optimizer.betas": "0.9/0.95,0.9/0.999"}


def study(arms: Any = None, **tune: Any) -> StudyConfig:
    said = {"trials": 4, "sampler": "tpe", "warm_start": "before", **tune}
    return StudyConfig.of({"name": "now", "tasks": ["digits"], "arms": arms or {"a": ARM}, "tune": said})


def run(
    number: int, rate: float, value: float, *, arm: str = "a", status: Status = "completed", betas: Any = (0.9, 0.95),
    phase: Any = "tune", name: str = "before",
) -> RunRecord:  # fmt: skip
    labels = Labels("digits", name, arm, phase, number, 1000 + number)
    config = study().run_config("digits", "a", 1, {"optimizer.lr": rate, "optimizer.betas": betas}).to_json()
    facts = {"task": {"metric": "accuracy", "mode": "max", "worst": 0.0}}
    file = RunFile(f"{name}-{arm}{number}", "", labels, config, "", facts=facts)
    return RunRecord(file, status, final={"objective": value} if status == "completed" else {})


RECORDS = [
    run(1, 1e-2, 0.9),
    run(0, 1e-3, 0.8),
    run(2, 0.5, 0.3),  # its rate lies outside
    run(3, 1e-1, 0.0, status="diverged"),
    run(4, 1e-2, 0.7, status="crashed"),
    run(5, 1e-2, 0.7, status="pruned"),
    run(6, 1e-2, 0.7, betas=(0.8, 0.9)),  # no option here
    run(7, 1e-2, 0.9, phase="final"),
    run(0, 1e-2, 0.9, name="another"),
]


def test_finished_trials_that_lie_in_the_space_in_order() -> None:
    found = usable(RECORDS, study(), "digits", "a")
    assert [(each.params["optimizer.lr"], each.values, each.run_id) for each in found] == [
        (1e-3, (0.8,), "before-a0"),
        (1e-2, (0.9,), "before-a1"),
        (1e-1, (0.0,), "before-a3"),
    ]
    assert found[0].params["optimizer.betas"] == (0.9, 0.95)


def test_its_only_arm_will_do_whatever_it_is_called() -> None:
    assert len(usable([run(0, 1e-3, 0.8, arm="x")], study(), "digits", "a")) == 1
    both = [run(0, 1e-3, 0.8, arm="x"), run(0, 1e-3, 0.8, arm="y")]
    with pytest.raises(InputError, match=r"no trial of before can warm a on digits: it has trials of x, y"):
        usable(both, study(), "digits", "a")


def test_a_sampler_knows_them_and_they_are_marked() -> None:
    made = study()
    trials = warm_trials(RECORDS, made, "digits", "a")
    told = optuna.create_study(direction="maximize")
    for trial in trials:
        told.add_trial(trial)
    assert [trial.user_attrs[MARK] for trial in history(told)] == ["before-a0", "before-a1", "before-a3"]
    assert told.best_trial.params == {"optimizer.lr": 1e-2, "optimizer.betas": "0.9/0.95"}
    assert told.ask().number == len(trials)


def test_cmaes_learns_from_them_too() -> None:
    """It looks at no others' trials in its own history, so they are given to it: its first draws stand about the best
    of them, not about the middle."""
    arm = {"optimizer.lr": "1e-4:1e-1:log", "optimizer.weight_decay": "0.0:1.0", "optimizer": ["adamw", "lion"]}
    made = study({"a": arm}, sampler="cmaes")
    assert made.tune
    space = made.space("digits", "a")
    told = optuna.create_study(direction="maximize")
    for number in range(40):
        decay = 0.02 * (number % 5)
        params = {
            "optimizer": "lion",
            "optimizer.lr": 10 ** (-4 + 3 * number / 40),
            "optimizer.weight_decay": decay,
        }
        told.add_trial(
            optuna.trial.create_trial(
                value=-decay,
                params=params,
                distributions=suggesting.distributions(space, params),
                user_attrs={MARK: "x"},
            )
        )
    drawn = []
    for number in range(6):
        told.sampler = samplers.sampler(made.tune, suggesting.seed_of(1, "n", number), warm=history(told))
        trial = told.ask()
        drawn.append(suggesting.suggested(trial, space)["optimizer.weight_decay"])
        told.tell(trial, -drawn[-1])
    assert max(drawn[1:]) < 0.25


def test_a_study_that_is_not_there_or_cannot_help_is_refused() -> None:
    with pytest.raises(InputError, match=r"tune\.warm_start: unknown study 'befor'; did you mean 'before'\?"):
        usable(RECORDS, study(warm_start="befor"), "digits", "a")
    outside = [run(0, 0.5, 0.9)]
    with pytest.raises(InputError, match="no trial of before can warm a on digits: none has settings in its space"):
        usable(outside, study(), "digits", "a")
    with pytest.raises(InputError, match=r"tune\.warm_start: a study cannot warm itself"):
        study(warm_start="now")


def test_cmaes_needs_ten_and_no_conditions() -> None:
    with pytest.raises(InputError, match=r"best tenth of another study's trials, and before has 3 for a on digits"):
        usable(RECORDS, study(sampler="cmaes"), "digits", "a")
    many = [run(number, 1e-3, 0.8) for number in range(10)]
    assert len(usable(many, study(sampler="cmaes"), "digits", "a")) == 10
    arm = {**ARM, "optimizer": ["adamw", "nadamw"], "when": {"optimizer=nadamw": {"optimizer.eps": "1e-9:1e-7:log"}}}
    with pytest.raises(InputError, match=r"tune\.warm_start: cmaes can be warmed only where every range is always"):
        study({"a": arm}, sampler="cmaes")


def test_without_one_there_is_no_history() -> None:
    assert warm_trials(RECORDS, study(warm_start=""), "digits", "a") == []
