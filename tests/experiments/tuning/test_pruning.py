"""A judge tells the trial and asks Optuna's pruner: as Optuna's own trial would, on any storage, and over resumes."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import optuna
import pytest

from experiments.study import StudyConfig
from experiments.tuning.pruning import Judge, judge_of

CURVES = [[0.1 * step * speed for step in range(1, 8)] for speed in (1.0, 0.9, 0.5, 1.1, 0.3, 0.95, 0.2)]
MEDIAN = {"name": "median", "n_startup_trials": 2, "n_warmup_steps": 20}


def study(**tune: Any) -> StudyConfig:
    arms = {"a": {"optimizer.lr": "1e-4:1e-1:log"}}
    return StudyConfig.of({"name": "s", "tasks": ["digits"], "arms": arms, "tune": {"trials": 7, **tune}})


def storages(folder: Path) -> dict[str, Any]:
    from optuna.storages import InMemoryStorage, JournalStorage, RDBStorage
    from optuna.storages.journal import JournalFileBackend

    return {
        "memory": InMemoryStorage(),
        "journal": JournalStorage(JournalFileBackend(str(folder / "journal"))),
        "sqlite": RDBStorage(f"sqlite:///{folder / 'optuna.db'}"),
    }


def ours(told: optuna.Study, made: StudyConfig) -> list[int]:
    """How many validations each run had."""
    lengths = []
    for curve in CURVES:
        trial = told.ask()
        judge = judge_of(told, trial._trial_id, made)
        assert judge is not None
        at = next((step for step, value in enumerate(curve, 1) if judge(10 * step, value)), None)
        told.tell(
            trial, curve[-1] if at is None else None, state=None if at is None else optuna.trial.TrialState.PRUNED
        )
        lengths.append(at or len(curve))
    return lengths


def optunas(told: optuna.Study) -> list[int]:
    lengths = []

    def objective(trial: optuna.Trial) -> float:
        curve = CURVES[trial.number]
        for step, value in enumerate(curve, 1):
            trial.report(value, 10 * step)
            if trial.should_prune():
                lengths.append(step)
                raise optuna.TrialPruned
        lengths.append(len(curve))
        return curve[-1]

    told.optimize(objective, n_trials=len(CURVES))
    return lengths


@pytest.mark.parametrize(
    "said", [MEDIAN, "hyperband", "successive_halving", {"name": "percentile", "percentile": 25, "n_startup_trials": 2}]
)
def test_the_decisions_are_optunas_own_whatever_the_storage(said: Any, tmp_path: Path) -> None:
    from experiments.tuning import samplers

    made = study(pruner=said)
    assert made.tune
    native = optuna.create_study(study_name="s/digits/a", direction="maximize", pruner=samplers.pruner(made.tune))
    expected = optunas(native)
    for name, storage in storages(tmp_path).items():
        told = optuna.create_study(study_name="s/digits/a", storage=storage, direction="maximize")
        assert ours(told, made) == expected, name
        if said == MEDIAN:
            assert [trial.state.name for trial in told.trials].count("PRUNED") == 4
    if said == MEDIAN:  # judged from update 20 on, against the median there of all that ended: 0.19, then 0.20
        assert expected == [7, 7, 2, 7, 2, 2, 2]


def judged(told: optuna.Study, made: StudyConfig) -> tuple[optuna.Trial, Judge]:
    trial = told.ask()
    judge = judge_of(told, trial._trial_id, made)
    assert judge is not None
    return trial, judge


def test_a_run_that_went_on_from_an_older_checkpoint_is_not_judged_twice() -> None:
    made = study(pruner={"name": "threshold", "lower": 0.5})
    told = optuna.create_study(direction="maximize")
    trial, judge = judged(told, made)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # Optuna warns where a step is told twice
        assert not judge(10, 0.9)
        assert not judge(20, 0.9)
        again = judge_of(told, trial._trial_id, made)
        assert again is not None
        assert not again(10, 0.1)  # it went on from there before
        assert not again(20, 0.1)  # what was told stands
        assert again(30, 0.1)
    assert told.trials[0].intermediate_values == {10: 0.9, 20: 0.9, 30: 0.1}


def test_while_the_storage_is_away_nothing_is_pruned_and_nothing_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    made = study(pruner={"name": "threshold", "lower": 0.5})
    told = optuna.create_study(direction="maximize")
    _, judge = judged(told, made)

    def away(*_: Any, **__: Any) -> Any:
        raise optuna.exceptions.StorageInternalError("the server is away")

    assert not judge(10, 0.9)
    with monkeypatch.context() as patch:
        patch.setattr(told._storage, "get_trial", away)
        assert not judge(20, 0.1)
    assert judge(30, 0.2)
    assert told.trials[0].intermediate_values == {10: 0.9, 20: 0.1, 30: 0.2}


def test_a_trial_that_is_over_is_not_told_any_more() -> None:
    made = study(pruner={"name": "threshold", "lower": 0.5})
    told = optuna.create_study(direction="maximize")
    trial, judge = judged(told, made)
    told.tell(trial, 1.0)
    assert not judge(10, 0.1)


def test_nobody_judges_where_nothing_is_pruned() -> None:
    told = optuna.create_study(direction="maximize")
    assert judge_of(told, told.ask()._trial_id, study()) is None
