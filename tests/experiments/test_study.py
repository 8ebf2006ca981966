"""A study is refused whole before anything runs, its identity is its meaning, and reading it is light."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from algos.finding import InputError
from experiments.overrides import parse
from experiments.study import StudyConfig, difference, load_study, tuning_study
from experiments.tuning.ranges import Range

DEMO = Path(__file__).parents[2] / "experiments" / "studies" / "demo.yaml"
START = "name: s\ntasks: [digits]\n"


def study(**changes: Any) -> StudyConfig:
    data = {"name": "s", "tasks": ["digits"], "arms": ["adamw", "lion"], "tune": {"trials": 6}}
    return StudyConfig.of({**data, **changes})


def test_the_demo_is_a_study_of_three_optimizers_on_three_kinds_of_task() -> None:
    demo = load_study(DEMO)
    assert list(demo.tasks) == ["digits", "python_docs", "digits_graph"]
    assert len(demo.arms) == 3
    for task in demo.tasks:
        assert {demo.run_config(task, arm, 1).budget for arm in demo.arms} == {demo.run_config(task, "adamw", 1).budget}
        assert all(list(demo.space(task, arm).to_json()) == ["optimizer.lr"] for arm in demo.arms)


def test_reading_a_study_imports_nothing_heavy() -> None:
    program = (
        "import sys; from experiments.study import load_study, due; from experiments.plan import plan;"
        f"study = load_study({str(DEMO)!r}); jobs = due(study, []); assert jobs and study.digest();"
        "heavy = {'torch', 'lightning', 'mlflow', 'optuna', 'pandas', 'numpy', 'scipy'} & set(sys.modules);"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", program], check=True, cwd=DEMO.parents[2])


def test_layers_lie_in_order() -> None:
    made = study(
        budget={"updates": 10},
        config={"log_every": 2, "batch_size": 8},
        tasks={"digits": {"batch_size": 9, "evaluate_every": 4}, "digits_graph": {"budget": {"updates": 20}}},
        arms={"a": {"optimizer": "adamw", "evaluate_every": 5}, "b": {"optimizer": "lion"}},
    )
    config = made.run_config("digits", "a", 7, {"optimizer.lr": 0.5})
    assert (config.log_every, config.batch_size, config.evaluate_every, config.seed) == (2, 9, 5, 7)
    assert config.optimizer.hyper["lr"] == 0.5
    assert config.budget.amount == 10
    assert made.run_config("digits_graph", "b", 1).budget.amount == 20
    assert made.run_config("digits_graph", "b", 1).batch_size == 8


def test_what_is_tuned() -> None:
    declared = study().space("digits", "adamw").to_json()
    assert "optimizer.lr" in declared
    own = study(arms={"a": {"optimizer": {"name": "adamw", "lr": "1e-3:1e-2:log"}}, "b": {"optimizer": "lion"}})
    assert own.space("digits", "a").dimensions == {"optimizer.lr": Range(1e-3, 1e-2, log=True)}
    assert "optimizer.lr" in own.space("digits", "b").dimensions
    fixed = study(
        arms={"a": {"optimizer": {"name": "adamw", "lr": 0.01, "weight_decay": 0}}, "b": {"optimizer": "lion"}}
    )
    assert "optimizer.lr" not in fixed.space("digits", "a").to_json()
    shared = study(tune={"trials": 6, "space": {"batch_size": "8:64:int"}})
    assert {str(shared.space("digits", arm).to_json()) for arm in shared.arms} == {"{'batch_size': '8:64:int'}"}
    chosen = study(tune={"trials": 6, "space": ["optimizer.lr"]})
    assert list(chosen.space("digits", "adamw").to_json()) == ["optimizer.lr"]
    assert not study(tune=None).space("digits", "adamw")


@pytest.mark.parametrize("seeds", [3, [1, 2, 3]])
def test_tuning_seeds_are_never_final_ones(seeds: Any) -> None:
    made = study(seeds=seeds)
    assert made.seeds == (1, 2, 3)
    assert [made.tuning_seed(number) for number in range(2)] == [1000, 1001]
    assert study(seeds=[5, 1700]).tuning_seed(0) == 2000


def test_the_identity_is_the_meaning() -> None:
    same = study(
        question="Which of 1,2 and none?", tasks={"digits": {"log_every": 10}},
        arms={"lion": {"optimizer": {"name": "lion"}}, "adamw": {"optimizer": "adamw"}},
    )  # fmt: skip
    assert same.digest() == study().digest()
    assert StudyConfig.of(study().to_json()).digest() == study().digest()
    arm = {"schedule": {"name": "warmup_stable_decay", "shape": "linear,1-sqrt", "decay": "0.1:0.3"}}
    searched = study(arms={"a": arm})
    assert searched.space("digits", "a").to_json() == {"schedule.decay": "0.1:0.3", "schedule.shape": "linear,1-sqrt"}
    assert StudyConfig.of(searched.to_json()).digest() == searched.digest()
    changed = study(
        arms={"adamw": {"optimizer": "adamw", "optimizer.eps": 1e-3}, "lion": {"optimizer": "lion"}}, seeds=4
    )
    assert changed.digest() != study().digest()
    assert difference(study().definition(), changed.definition()) == [
        "seeds: [1, 2, 3] -> [1, 2, 3, 4]",
        "tasks.digits.adamw.optimizer.eps: 1e-08 -> 0.001",
    ]
    assert difference(study().definition(), study().definition()) == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (START, "study.yaml: arms: a study with no arms; give arms, e.g. arms: {adamw: {optimizer: adamw}}"),
        (START + "arms: {}\n", "line 3, column 1 (arms): a study with no arms"),
        (
            START + "arms: {a: {optimzer: muon}}",
            "line 3, column 12 (arms.a.optimzer): unknown key 'optimzer'; did you mean",
        ),
        (
            START + "arms:\n  a:\n    optimizer: moun\n",
            "line 5, column 5 (arms.a.optimizer): unknown optimizer 'moun'; did you",
        ),
        (
            START + "arms:\n  a:\n    optimizer.lr: -1\n",
            "line 5, column 5 (arms.a.optimizer.lr): -1 is not valid; give a number",
        ),
        (
            START + "arms: {a: {optimizer: {name: sgd, lr: -1:1}}}\ntune: {trials: 2}",
            "column 35 (arms.a.optimizer.lr): -1.0 is not",
        ),
        (
            START + "arms: {a: {optimizer: {lr: 1e-3:1e-2:lag}}}",
            "column 24 (arms.a.optimizer.lr): '1e-3:1e-2:lag' has an unknown",
        ),
        (
            START + "arms: {a: {optimizer.lr: 1:2}}",
            "(arms.a.optimizer.lr): optimizer.lr has a range, and the study tunes nothing",
        ),
        (
            START + "arms: {a: {seed: 1}}",
            "(arms.a.seed): an arm has no seed of its own, so that arms are comparable; set seeds",
        ),
        (START + "arms: {a: {budget: {updates: 1}}}", "(arms.a.budget): an arm has no budget of its own"),
        (START + "arms: {a: {}, b: {}}", "(arms.b): arms a and b are the same; change one, or drop it"),
        (START + "arms: {a/b: {}}", "(arms.a/b): the name 'a/b' is not valid; give letters, digits"),
        (START + "arms: {a: 3}", "(arms.a): 3 is not overrides"),
        (
            START + "arms: {a: {}}\ntune: {trails: 3}",
            "line 4, column 8 (tune.trails): unknown key 'trails'; did you mean 'trials'?",
        ),
        (START + "arms: {a: {}}\ntune: {}", "(tune.trials): 'trials' is missing; give a whole number of runs above 0"),
        (
            START + "arms: {a: {}}\ntune: {trials: 0}",
            "(tune.trials): 0 is not valid; give a whole number of runs above 0",
        ),
        (
            START + "arms: {a: {}}\ntune: {trials: 2, sampler: rnd}",
            "(tune.sampler): unknown sampler 'rnd'; did you mean 'random'?",
        ),
        (
            START + "arms: {a: {}}\ntune: {trials: 2, pruner: asha}",
            "(tune.pruner): unknown pruner 'asha'; valid: hyperband, median, none",
        ),
        (
            START + "arms: {a: {}}\ntune: {trials: 2, space: {optimizer.lr: 3}}",
            "(tune.space.optimizer.lr): 3 is not a range",
        ),
        (
            START + "arms: {a: {}}\ntune: {trials: 2, space: [optimizer.zz]}",
            "(tune.space.optimizer.zz): no entry here declares",
        ),
        (
            START + "arms: {a: {}}\nconfig: {optimizer.lr: 1:2}",
            "(config.optimizer.lr): 1.0:2.0 is a range; give it in an arm or in",
        ),
        (
            START + "arms: {a: {}}\nconfig: {seed: 3}",
            "(config.seed): seed is not set here; use tasks and seeds of the study",
        ),
        (START + "arms: {a: {}}\nconfig: {batch_size: x}", "line 4, column 10 (config.batch_size): 'x' is not valid"),
        (START + "arms: {a: {}}\nbudget: {updates: 0}", "line 4, column 10 (budget.updates): 0 is not valid"),
        (
            START + "arms: {a: {}}\nbudget: {updates: 1, epochs: 1}",
            "line 4, column 1 (budget): a budget has updates and epochs",
        ),
        (START + "arms: {a: {}}\nseeds: 0", "(seeds): 0 is not valid; give how many seeds, or a list of them"),
        (START + "arms: {a: {}}\nseeds: [1, 1]", "(seeds): [1, 1] are not seeds"),
        (START + "arms: {a: {}}\nseeds: many", "(seeds): 'many' is not valid; give how many seeds"),
        (START + "arms: {a: {}}\nseed: 1", "line 4, column 1 (seed): unknown key 'seed'; did you mean 'seeds'?"),
        (
            "name: s\ntasks: [digts]\narms: {a: {}}",
            "line 2, column 9 (tasks.digts): unknown task 'digts'; did you mean",
        ),
        (
            "name: s\ntasks: {digits: {batch_size: 0}}\narms: {a: {}}",
            "line 2, column 18 (tasks.digits.batch_size): 0 is not valid",
        ),
        ("name: s\ntasks: []\narms: {a: {}}", "(tasks): a study with no tasks"),
        (
            "name: s/t\ntasks: [digits]\narms: {a: {}}",
            "line 1, column 1 (name): 's/t' is not valid; give a name of letters",
        ),
        ("tasks: [digits]\narms: {a: {}}", "study.yaml: name: 'name' is missing; give a name"),
    ],
)
def test_a_bad_study_gets_one_line_with_its_place_and_the_fix(text: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "study.yaml").write_text(text)
    with pytest.raises(InputError) as caught:
        load_study(tmp_path / "study.yaml")
    shown = str(caught.value)
    assert said in shown
    assert shown.startswith(str(tmp_path / "study.yaml"))
    assert "\n" not in shown


def test_tune_makes_a_study_of_one_arm() -> None:
    command = ["task=digits", "optimizer=lion", "optimizer.lr=1e-4:1e-2:log", "budget.updates=50", "seed=1,2"]
    made = tuning_study(parse(command), trials=8)
    assert list(made.arms) == ["lion"]
    assert made.seeds == (1, 2)
    assert made.run_config("digits", "lion", 1).budget.amount == 50
    assert made.space("digits", "lion").dimensions == {"optimizer.lr": Range(1e-4, 1e-2, log=True)}
    assert made.name == tuning_study(parse(command), trials=8).name
    assert made.name != tuning_study(parse(command), trials=9).name
    with pytest.raises(InputError, match=r"give one, e\.g\. task=digits"):
        tuning_study(parse(["optimizer=lion"]), trials=8)
    with pytest.raises(InputError, match="write a study and sweep it"):
        tuning_study(parse(["task=digits", "optimizer=lion,adamw"]), trials=8)
