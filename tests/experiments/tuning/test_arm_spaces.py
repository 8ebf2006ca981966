"""What an arm searches, as it may be written; every option and end is one that a run takes; the rest is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from algos.finding import InputError
from experiments.overrides import given, parse
from experiments.study import StudyConfig, due, load_study, tuning_study
from experiments.tuning.arm_spaces import apart, condition
from experiments.tuning.ranges import Options, Range

ARM: dict[str, Any] = {
    "optimizer": ["adamw", "muon"],
    "optimizer.lr": "1e-4:1e-1:log",
    "wrappers": "none,sam",
    "when": {
        "optimizer=muon": {"optimizer.momentum": "0.8:0.99"},
        "wrappers=sam": {"wrappers.sam.rho": "0.01:0.2:log"},
    },
}


def study(arm: Any = ARM, **changes: Any) -> StudyConfig:
    data = {"name": "s", "tasks": ["digits"], "arms": {"a": arm}, "tune": {"trials": 12}, "seeds": 1}
    return StudyConfig.of({**data, **changes})


def test_runs_have_what_was_drawn_and_nothing_else() -> None:
    made = study()
    assert made.space("digits", "a").to_json() == {
        "optimizer.lr": "0.0001:0.1:log",
        "optimizer": "adamw,muon",
        "optimizer.momentum when optimizer=muon": "0.8:0.99",
        "wrappers": "none,sam",
        "wrappers.sam.rho when wrappers=sam": "0.01:0.2:log",
    }
    jobs = due(made, [])
    assert len(jobs) == 8
    for job in jobs:
        assert job.config
        assert job.config.optimizer.name == job.params["optimizer"]
        assert job.config.optimizer.hyper["lr"] == job.params["optimizer.lr"]
        assert ("optimizer.momentum" in job.params) == (job.config.optimizer.name == "muon")
        if job.config.optimizer.name == "muon":
            assert job.config.optimizer.hyper["momentum"] == job.params["optimizer.momentum"]
        assert [entry.name for entry in job.config.wrappers] == (["sam"] if job.params["wrappers"] else [])
        if job.config.wrappers:
            assert job.config.wrappers[0].hyper["rho"] == job.params["wrappers.sam.rho"]
    assert {job.config.optimizer.name for job in jobs if job.config} == {"adamw", "muon"}


def test_the_study_is_read_back_as_it_is() -> None:
    made = study()
    again = StudyConfig.of(made.to_json())
    assert again.digest() == made.digest()
    assert again.space("digits", "a") == made.space("digits", "a")
    other = study({**ARM, "when": {**ARM["when"], "optimizer=muon": {"optimizer.momentum": "0.8:0.98"}}})
    assert other.digest() != made.digest()


def test_options_are_whole_entries_lists_of_them_or_values() -> None:
    assert apart({"wrappers": ["cautious", "sam"]}).options == {}  # a list of entries is one value
    assert apart({"wrappers": [["sam"], ["cautious", "sam"], None]}).options == {
        "wrappers": Options(("sam", "cautious+sam", None))
    }
    made = study(
        {
            "optimizer": ["adamw", {"name": "muon", "momentum": 0.9}],
            "optimizer.weight_decay": 0.25,
            "optimizer.lr": 0.01,
            "when": {"optimizer=muon": {"optimizer.nesterov": "true,false", "optimizer.steps": "3:7"}},
        }
    )
    space = made.space("digits", "a")
    assert {axis.place: axis.dimension for axis in space.axes}["optimizer.steps"] == Range(3, 7, whole=True)
    for job in due(made, []):
        assert job.config
        hyper = job.config.optimizer.hyper
        assert (hyper["lr"], hyper["weight_decay"]) == (0.01, 0.25)  # what the arm fixes holds for every option
        assert job.config.optimizer.name == "adamw" or hyper["momentum"] == 0.9


def test_each_option_may_have_its_own_range_of_one_setting() -> None:
    when = {"optimizer=adamw": {"optimizer.lr": ""}, "optimizer=sgd": {"optimizer.lr": "0.01:1:log"}}
    made = study({"optimizer": ["adamw", "sgd"], "when": when})
    shown = made.space("digits", "a").to_json()
    assert shown["optimizer.lr when optimizer=sgd"] == "0.01:1.0:log"
    assert shown["optimizer.lr when optimizer=adamw"] == study(  # what the entry declares
        {"optimizer": "adamw"}, tune={"trials": 3, "space": ["optimizer.lr"]}
    ).space("digits", "a").to_json()["optimizer.lr"]  # fmt: skip
    for job in due(made, []):
        assert job.config
        assert job.config.optimizer.name == "adamw" or job.params["optimizer.lr"] >= 0.01


def test_a_range_for_all_options_is_bounded_by_all_of_them() -> None:
    """A setting that one of the entries does not have is refused before anything runs."""
    with pytest.raises(InputError, match=r"arms\.a\.optimizer\.momentum: unknown hyperparameter of adamw 'momentum'"):
        study({"optimizer": ["adamw", "sgd"], "optimizer.momentum": "0.5:0.9"})


def test_the_winner_is_run_again_as_it_was() -> None:
    from experiments.store.schema import RunFile, RunRecord

    made = study()
    runs: list[RunRecord] = []
    while jobs := due(made, runs):
        job = jobs[0]
        if job.labels.phase == "final":
            break
        assert job.config
        facts = {"task": {"mode": "max", "worst": 0.0, "metric": "accuracy"}, "study": job.facts(made)}
        worth = job.config.optimizer.hyper.get("momentum", 0.0) + 0.5 * len(job.config.wrappers)
        file = RunFile(f"r{len(runs)}", "", job.labels, job.config.to_json(), "", facts=facts)
        runs.append(RunRecord(file, "completed", final={"objective": worth}))
    best = max(runs, key=lambda run: run.final["objective"])
    assert job.winner == best.run_id
    assert job.config
    assert {**job.config.to_json(), "seed": 0} == {**best.config, "seed": 0}


def test_a_study_of_yaml_is_told_where_it_is_wrong(tmp_path: Path) -> None:
    (tmp_path / "study.yaml").write_text(
        "name: s\ntasks: [digits]\ntune: {trials: 4}\narms:\n  a:\n    optimizer: [adamw, muon]\n    when:\n"
        "      optimizer=muon: {optimizer.momentun: 0.8:0.99}\n"
    )
    with pytest.raises(InputError) as caught:
        load_study(tmp_path / "study.yaml")
    said = (
        "line 8, column 24 (arms.a.when.optimizer=muon.optimizer.momentun): unknown hyperparameter of muon 'momentun'"
    )
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("when", "said"),
    [
        ({"optimzer=muon": {"optimizer.momentum": "0.8:0.9"}}, "unknown setting with options 'optimzer'; did you mean"),
        (
            {"optimizer=moun": {"optimizer.momentum": "0.8:0.9"}},
            "unknown option of optimizer 'moun'; did you mean 'muon'",
        ),
        ({"optimizer": {"optimizer.momentum": "0.8:0.9"}}, "'optimizer' is no condition; give PLACE=VALUE, e.g."),
        ({"optimizer=adamw,muon": {"optimizer.eps": "0.8:0.9"}}, "always holds; search it without a condition"),
        (
            {"optimizer=muon": {"optimizer.momentum": 0.9}},
            "0.9 is not a range; give a range or options, or put a fixed",
        ),
        (
            {"optimizer=muon": {"optimizer.momentum": "0.8:2"}},
            "when.optimizer=muon.optimizer.momentum: 2.0 is not valid",
        ),
        ({"optimizer=muon": {}}, "arms.a.when.optimizer=muon: nothing is searched where it holds"),
        ({"optimizer=muon": {"optimizer.lr": "1e-3:1e-2"}}, "arms.a: optimizer.lr is searched twice where both hold"),
        ({"optimizer=muon": {"when": {"a=b": {}}}}, "a condition stands in another"),
        (3, "arms.a.when: 'when' holds no conditions with ranges"),
    ],
)
def test_conditions_that_cannot_be_are_refused(when: Any, said: str) -> None:
    with pytest.raises(InputError) as caught:
        study({**ARM, "when": when})
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("arm", "said"),
    [
        (
            {"optimizer": ["adamw"]},
            "arms.a.optimizer: optimizer has 1 option to choose from; give two or more, or set the",
        ),
        ({"optimizer": ["adamw", "adamw"]}, "arms.a.optimizer: optimizer has the option adamw twice"),
        ({"optimizer": ["adamw", "moun"]}, "arms.a.optimizer: unknown optimizer 'moun'; did you mean 'muon'"),
        ({"optimizer.lr": "0.1,0.10"}, "arms.a.optimizer.lr: optimizer.lr has the option 0.1 twice"),
        ({"optimizer.lr": Options((0.1,))}, "optimizer.lr has 1 option to choose from"),
        (
            {"optimizer.lr": "0.1:0.1"},
            "arms.a.optimizer.lr: the range '0.1:0.1' has equal ends; give the value itself: 0.1",
        ),
        (
            {"optimizer.lr": Range(0.1, 0.1)},
            "arms.a.optimizer.lr: optimizer.lr has a range with nothing in it, 0.1:0.1",
        ),
        (
            {"optimizer": {"name": "adamw", "lr": 0.1, "weight_decay": 0.1, "betas": [0.9, 0.99], "eps": 1e-8}},
            "tune: there is nothing to tune: no arm has a range",
        ),
    ],
)
def test_spaces_with_nothing_to_choose_are_refused(arm: Any, said: str) -> None:
    with pytest.raises(InputError) as caught:
        study(arm)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_condition_is_on_a_label_or_a_name() -> None:
    options = {"batch_size": Options((32, 64)), "wrappers": Options((None, ("cautious", "sam")))}
    assert condition("batch_size=32", options).labels == ("32",)
    assert condition("wrappers=none", options).labels == ("none",)


def test_tune_takes_how_it_tunes_from_overrides_too() -> None:
    command = ["task=digits", "optimizer=lion", "optimizer.lr=1e-4:1e-2:log"]
    made = tuning_study(parse([*command, "tune.sampler=tpe", "tune.sampler.n_startup_trials=5", "tune.trials=3"]), 8)
    assert made.tune
    assert made.tune.definition() == {
        "trials": 3, "sampler": {"name": "tpe", "n_startup_trials": 5}, "seed": 1, "pruner": "none",
    }  # fmt: skip
    both = {"task": "digits", "optimizer": {"name": "lion"}, "tune": {"objectives": {"val/accuracy": "max"}}}
    several = tuning_study(given(both), 8, "nsga2").tune
    assert several
    assert several.objectives == {"val/accuracy": "max"}
    with pytest.raises(InputError, match=r"tune\.pruner: unknown pruner 'asha'"):
        tuning_study(parse([*command, "tune.pruner=asha"]), 8)
    with pytest.raises(InputError, match=r"tune\.samplr: unknown key 'samplr'; did you mean 'sampler'"):
        tuning_study(parse([*command, "tune.samplr=tpe"]), 8)
    with pytest.raises(InputError, match=r"tune\.sampler: tune\.sampler has several values; give one"):
        tuning_study(parse([*command, "tune.sampler=tpe,gp"]), 8)


def test_how_runs_train_together_is_no_part_of_what_a_study_is() -> None:
    assert study(population=4).digest() == study(population="off").digest() == study().digest()
    assert "population" not in study().to_json()
    assert StudyConfig.of(study(population=4).to_json()).population == 4
    assert study(population="8").population == 8
    for wrong in (1, 0, "of", True, 2.5, None):
        with pytest.raises(InputError, match=r"population: .* is not valid; give off, auto or a whole number from 2"):
            study(population=wrong)
    job = due(study(population="off"), [])[0]
    assert job.facts(study(population="off"))["population"] == "off"
    assert job.facts(study())["tuner"]["sampler"] == {"name": "random"}
