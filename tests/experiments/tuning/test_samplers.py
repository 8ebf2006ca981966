"""Optuna's samplers and pruners by name: which there are, that their arguments are checked, and that they are there."""

from __future__ import annotations

import inspect
import math
from typing import Any

import optuna
import pytest

from algos.finding import InputError
from experiments.study import StudyConfig
from experiments.tuning import samplers, suggesting
from experiments.tuning.pruning import judge_of
from experiments.tuning.tune import Tune
from experiments.validation import validated

ARM: dict[str, Any] = {
    "optimizer": ["adamw", "muon"],
    "optimizer.lr": "1e-4:1e-1:log",
    "batch_size": "16:64:int",
    "when": {"optimizer=muon": {"optimizer.momentum": "0.8:0.99"}},
}
FINITE: dict[str, Any] = {
    "optimizer": ["adamw", "muon"],
    "batch_size": "32,64",
    "when": {"optimizer=muon": {"optimizer.nesterov": "true,false"}},
}
ASKED = [name for name in samplers.SAMPLERS if name not in ("random", "qmc", "grid")]
PRUNERS: dict[str, Any] = {
    "none": "none",
    "median": {"name": "median", "n_startup_trials": 1},
    "percentile": {"name": "percentile", "percentile": 50.0, "n_startup_trials": 1},
    "successive_halving": "successive_halving",
    "hyperband": "hyperband",
    "threshold": {"name": "threshold", "lower": 0.5},
    "patient": {"name": "patient", "wrapped_pruner": "median", "patience": 1},
    "wilcoxon": "wilcoxon",
}


def tune(**said: Any) -> Tune:
    return validated(Tune, {"trials": 2, **said})


def study(arm: Any = ARM, **said: Any) -> StudyConfig:
    return StudyConfig.of({"name": "s", "tasks": ["digits"], "arms": {"a": arm}, "tune": {"trials": 2, **said}})


def asked(made: StudyConfig, count: int) -> list[dict[str, Any]]:
    """What the sampler says, trial by trial, each with a sampler made anew; a trial in the middle diverged."""
    space = made.space("digits", "a")
    told = optuna.create_study(directions=suggesting.directions(made, "digits", "a"))
    found = []
    for number in range(count):
        assert made.tune
        told.sampler = samplers.sampler(made.tune, suggesting.seed_of(made.tune.seed, "s/digits/a", number))
        trial = told.ask()
        params = suggesting.suggested(trial, space)
        assert suggesting.external(space, trial.params) == params
        assert [axis.place for axis in space.active(params)] == list(params)
        values = [0.1 * number, float(number % 3)][: len(told.directions)]
        told.tell(trial, values if number != 1 else [-math.inf, math.inf][: len(values)])
        found.append(params)
    return found


def test_every_sampler_and_pruner_of_optuna_has_a_name() -> None:
    """But for what is made of another one, and what keeps a value fixed: that is an arm's business."""
    apart = {"BaseSampler", "BaseGASampler", "PartialFixedSampler", "BasePruner"}
    for module, names in ((optuna.samplers, samplers.SAMPLERS), (optuna.pruners, samplers.PRUNERS)):
        classes = {name for name in module.__all__ if inspect.isclass(getattr(module, name))}
        assert set(names.values()) == classes - apart


@pytest.mark.parametrize("name", ASKED)
def test_a_sampler_is_asked_and_one_seed_gives_one_sweep(name: str) -> None:
    arm = FINITE if name == "bruteforce" else ARM
    one = asked(study(arm, sampler=name), 4)
    assert one == asked(study(arm, sampler=samplers.SAMPLERS[name]), 4)
    assert len({str(params) for params in one}) > 1
    if name != "bruteforce":
        assert one != asked(study(arm, sampler=name, seed=2), 4)


@pytest.mark.parametrize("name", ["tpe", "nsga2", "nsga3", "bruteforce"])
def test_several_objectives(name: str) -> None:
    several = {"val/accuracy": "max", "time/train_s": "min"}
    assert len(asked(study(FINITE, sampler=name, objectives=several), 4)) == 4


def test_brute_force_tries_every_point_before_any_twice() -> None:
    """adamw with 2 batch sizes, muon with 2 times 2: six points."""
    points = asked(study(FINITE, sampler="bruteforce"), 8)
    assert len({str(params) for params in points[:6]}) == 6


@pytest.mark.parametrize("name", samplers.PRUNERS)
def test_a_pruner_is_asked(name: str) -> None:
    """Three runs of ten validations, the third much worse: those that prune end it, and none ends the best."""
    made = study({"optimizer.lr": "1e-4:1e-1:log"}, pruner=PRUNERS[name])
    told = optuna.create_study(direction="maximize", study_name="s/digits/a")
    ended = []
    for level in (0.9, 0.95, 0.1):
        trial = told.ask()
        judge = judge_of(told, trial._trial_id, made)
        assert (judge is None) == (name == "none")
        over = any(judge(step, level + 0.001 * step) for step in range(1, 11)) if judge else False
        ended.append(over)
        told.tell(trial, level)
    assert not any(ended[:2])
    if name in ("median", "percentile", "threshold"):
        assert ended[2]


def test_arguments_reach_optuna() -> None:
    made: Any = samplers.sampler(tune(sampler={"name": "tpe", "n_startup_trials": 5, "multivariate": False}), 1)
    assert (made._n_startup_trials, made._multivariate) == (5, False)
    patient: Any = samplers.pruner(tune(pruner={"name": "patient", "wrapped_pruner": "median", "patience": 7}))
    assert patient._patience == 7
    assert isinstance(patient._wrapped_pruner, optuna.pruners.MedianPruner)
    crossed: Any = samplers.sampler(tune(sampler={"name": "nsga2", "crossover": {"name": "sbx", "eta": 3.0}}), 1)
    assert "SBX" in type(crossed._child_generation_strategy._crossover).__name__
    assert samplers.pruner(tune()) is None


def test_everything_is_told_whether_it_was_given_or_not() -> None:
    """So that a change of Optuna's defaults shows."""
    told = samplers.told(tune(sampler="tpe", pruner="median", seed=3))
    signature = inspect.signature(optuna.samplers.TPESampler.__init__).parameters
    assert set(told["sampler"]) == {"name", *signature} - {"self", "seed"}
    assert told["sampler"]["n_startup_trials"] == signature["n_startup_trials"].default
    assert told["pruner"] == {
        "name": "median", "n_startup_trials": 5, "n_warmup_steps": 0, "interval_steps": 1, "n_min_trials": 1,
    }  # fmt: skip
    assert (told["optuna"], told["seed"]) == (optuna.__version__, 3)
    nested = samplers.told(tune(pruner={"name": "patient", "wrapped_pruner": "median", "patience": 2}))
    assert nested["pruner"]["wrapped_pruner"]["n_startup_trials"] == 5
    assert samplers.told(tune()) == {"sampler": {"name": "random"}, "pruner": {"name": "none"}, "seed": 1}


@pytest.mark.parametrize(
    ("said", "line"),
    [
        ({"sampler": "tpee"}, "tune.sampler: unknown sampler 'tpee'; did you mean 'tpe'?"),
        ({"sampler": 3}, "tune.sampler: 3 is no sampler; give a name"),
        (
            {"sampler": {"name": "tpe", "n_startup": 5}},
            "tune.sampler.n_startup: unknown argument of tpe 'n_startup'; did you mean 'n_startup_trials'?",
        ),
        (
            {"sampler": {"name": "tpe", "n_startup_trials": "x"}},
            "tune.sampler.n_startup_trials: 'x' is not valid; give a whole number",
        ),
        ({"sampler": {"name": "tpe", "multivariate": 1}}, "tune.sampler.multivariate: 1 is not valid; give true or"),
        (
            {"sampler": {"name": "tpe", "seed": 1}},
            "tune.sampler.seed: a sampler has no seed of its own; give tune.seed",
        ),
        ({"sampler": {"name": "tpe", "gamma": 3}}, "tune.sampler.gamma: gamma of tpe takes what no file can hold"),
        ({"sampler": {"name": "qmc", "scramble": True}}, "tune.sampler.scramble: qmc is drawn here, without arguments"),
        ({"pruner": "asha"}, "tune.pruner: unknown pruner 'asha'; valid: hyperband, median, none"),
        (
            {"pruner": "percentile"},
            "tune.pruner: percentile needs percentile; give {name: percentile, percentile: ...}",
        ),
        (
            {"pruner": {"name": "percentile", "percentile": 250}},
            "tune.pruner: Optuna refuses percentile: Percentile must be between 0 and 100",
        ),
        (
            {"pruner": {"name": "patient", "wrapped_pruner": "medan", "patience": 1}},
            "tune.pruner.wrapped_pruner: unknown pruner 'medan'; did you mean 'median'?",
        ),
        (
            {"sampler": "nsga2", "pruner": "median"},
            "tune.pruner: nsga2 makes generations of whole runs, so it takes no",
        ),
        (
            {"sampler": "nsga3", "pruner": "median"},
            "tune.pruner: nsga3 makes generations of whole runs, so it takes no",
        ),
        (
            {"pruner": "median", "objectives": {"a": "max", "b": "min"}},
            "tune.pruner: Optuna prunes by one objective, and these are several",
        ),
        ({"sampler": "cmaes", "objectives": {"a": "max", "b": "min"}}, "tune.sampler: cmaes takes one objective"),
        ({"objectives": {}}, "tune.objectives: no objectives"),
        ({"objectives": {"a": "best"}}, "tune.objectives.a: 'best' is not valid; give max or min"),
        ({"objectives": {"test/a": "max"}}, "tune.objectives.test/a: what is tuned by the test split is no test"),
        ({"warm_start": "t"}, "tune.warm_start: the sampler random learns nothing"),
        ({"warm_start": "t", "sampler": "nsga2"}, "tune.warm_start: the sampler nsga2 learns from its own generations"),
        ({"trials": 0}, "trials: 0 is not valid; give a whole number of runs above 0"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(said: dict[str, Any], line: str) -> None:
    with pytest.raises(InputError) as caught:
        tune(**said)
    assert str(caught.value).startswith(line)
    assert "\n" not in str(caught.value)


def test_what_a_sampler_cannot_do_is_refused_or_said() -> None:
    with pytest.raises(InputError, match=r"arms\.a: bruteforce tries every value, and optimizer\.lr is a range"):
        study(ARM, sampler="bruteforce")
    with pytest.raises(InputError, match=r"arms\.a: cmaes needs a range that is always searched"):
        study(FINITE, sampler="cmaes")
    space = study(ARM).space("digits", "a")
    assert samplers.limits(tune(sampler="cmaes"), space) == [
        "cmaes has no model of options: optimizer is drawn at random",
        "cmaes has no model of conditions: optimizer.momentum is drawn at random",
    ]
    assert samplers.limits(tune(sampler="gp"), space)[0].startswith("gp has no model of conditions")
    assert samplers.limits(tune(sampler="tpe"), space) == []


def test_a_name_alone_stays_a_name_and_arguments_are_part_of_what_a_study_is() -> None:
    assert tune().definition() == {"trials": 2, "sampler": "random", "seed": 1, "pruner": "none"}
    assert tune(sampler="TPESampler").definition()["sampler"] == "tpe"
    assert tune(sampler={"name": "tpe"}).definition()["sampler"] == "tpe"
    assert tune(sampler='{"name": "tpe", "group": true}').definition()["sampler"] == {"name": "tpe", "group": True}
    one = study(sampler="tpe")
    assert StudyConfig.of(one.to_json()).digest() == one.digest()
    other = study(sampler={"name": "tpe", "n_startup_trials": 5}, pruner={"name": "threshold", "lower": 0.1})
    assert StudyConfig.of(other.to_json()).digest() == other.digest() != one.digest()
