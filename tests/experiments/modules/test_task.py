"""A Task said in Python: what it stands for, that everything else lies over it, and studies of it."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import pytest
import torch
from lightning.pytorch.demos.boring_classes import BoringDataModule, BoringModel

import trainlab as tl
from algos.finding import InputError
from experiments.config import resolve
from experiments.modules import reference, settings, trainer_words
from experiments.modules.task import Task
from experiments.overrides import parse
from experiments.study import StudyConfig, due, load_study, tuning_study
from trainlab.running import resolved
from trainlab.verbs import _together


def mine(**more: Any) -> Task:
    net, data = reference.load("my_module.py:Net"), reference.load("my_module.py:Data")
    return Task.from_lightning(net, data, metric="val/acc", data={"root": "x"}, **more)


def boring(**more: Any) -> Task:
    return Task.from_lightning(BoringModel, metric="validation_step:loss", **more)


def test_it_is_the_same_as_the_settings_on_the_command_line(place: Path) -> None:
    task = mine(target=0.9, model={"width": 16}, trainer={"max_steps": 50, "benchmark": True})
    said = ["task=my_module.py:Net", "data=my_module.py:Data", "data.root=x", "metric=val/acc", "target=0.9"]
    said += ["model.width=16", "budget.updates=50", "trainer.benchmark=true", "seed=3"]
    assert resolved(_together((), {"task": task, "seed": 3})) == resolved(parse(said))


def test_whatever_else_is_given_lies_over_it(place: Path) -> None:
    task = mine(model={"width": 16}, trainer={"max_steps": 50}, budget=None)
    (config,) = resolved(_together(("model.width=8", "budget.epochs=2", "optimizer=sgd"), {"task": task}))
    assert (config.model.hyper["width"], config.budget.epochs, config.optimizer.name) == (8, 2, "sgd")
    assert resolve({"task": task, "trainer": {"max_epochs": 4}}).budget.epochs == 4
    assert [each.seed for each in resolved(_together((), {"task": task, "seed": [1, 2]}))] == [1, 2]
    assert [each.task for each in resolved(_together((), {"task": [task, boring()]}))] == [str(task), str(boring())]


def test_callbacks_are_classes_functions_or_instances_and_new_for_each_run(place: Path) -> None:
    class Own(pl.Callback):
        seen = 0

    own, ema = Own(), reference.load("my_module.py:Ema")
    config = resolve({"task": mine(callbacks=[own, ema, pl.callbacks.EarlyStopping("val/acc")])})
    made = trainer_words.words(config)["callbacks"]
    assert [type(each) for each in made] == [Own, ema, pl.callbacks.EarlyStopping]
    made[0].seen = 9
    assert own.seen == 0
    assert trainer_words.words(config)["callbacks"][0].seen == 0
    alone = resolve({"task": mine(callbacks=own)})
    assert [type(each) for each in trainer_words.words(alone)["callbacks"]] == [Own]


def test_a_class_of_this_process_runs_here_and_nowhere_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Local(BoringModel):
        def __init__(self, width: int = 4):
            super().__init__()
            self.width = width

    monkeypatch.setenv("TRAINLAB_HOME", str(tmp_path))
    task = Task.from_lightning(Local, BoringDataModule, metric="validation_step:loss")
    assert settings.module(resolve({"task": task, "model.width": 7})).width == 7
    for verb in (lambda: tl.run(task=task, wait=False), lambda: tl.tune("model.width=2:9:int", task=task, wait=False)):
        with pytest.raises(InputError, match="Local is defined in this process, and wait=False trains in another"):
            verb()
    assert list(tmp_path.iterdir()) == []


def test_what_cannot_be_a_task_is_refused_at_once(place: Path) -> None:
    with pytest.raises(InputError, match=r"Net is an instance; give its class, task=FILE\.py:Net"):
        Task.from_lightning(reference.load("my_module.py:net"), metric="val/acc")
    with pytest.raises(InputError, match="not a LightningDataModule"):
        Task.from_lightning(BoringModel, BoringModel, metric="val/acc")
    with pytest.raises(InputError, match="there are arguments, and no DataModule"):
        boring(data={"batch_size": 3})
    with pytest.raises(InputError, match="callbacks stand in trainer too"):
        boring(trainer={"callbacks": ("a.py:B",)}, callbacks=[pl.Callback()])
    with pytest.raises(InputError, match="the name 'a/b' is not valid"):
        boring(name="a/b")


def test_tune_makes_a_study_that_can_be_stored_and_read_back(place: Path) -> None:
    command = _together(("model.lr=1e-4:1e-1:log", "seed=1,2"), {"task": mine(name="mine")})
    made = tuning_study(command, trials=5)
    assert (list(made.tasks), list(made.arms), made.seeds) == (["mine"], ["own"], (1, 2))
    assert made.space("mine", "own").to_json() == {"model.lr": "0.0001:0.1:log"}
    assert StudyConfig.of(made.to_json()).digest() == made.digest()
    with pytest.raises(InputError, match=r"nothing says what to search on Net; give a range, e\.g\. model\.lr="):
        tuning_study(_together((), {"task": mine()}), trials=5)


def test_studies_take_tasks_by_reference_by_name_and_as_they_are(place: Path) -> None:
    arms = {"own": {}, "adamw": {"optimizer": "adamw"}}
    by_list = StudyConfig(name="a", tasks=[mine(), boring(), "digits"], arms={"a": {"optimizer": "adamw"}}, seeds=(1,))
    assert [job.labels.trial for job in due(by_list, [])] == [f"a/{name}/a/final/0" for name in by_list.tasks]
    assert list(by_list.tasks) == ["Net", "BoringModel", "digits"]
    by_name = StudyConfig(name="a", tasks={"mine": mine()}, arms=arms, seeds=(1,))
    assert by_name.run_config("mine", "adamw", 1).task == "my_module.py:Net"
    assert by_name.definition()["tasks"]["mine"]["own"]["task"] == "my_module.py:Net"
    assert "task" not in by_list.definition()["tasks"]["digits"]["a"]


def test_a_study_file_names_modules_with_what_they_need(place: Path) -> None:
    arms = "arms: {own: {model.lr: 1e-4:1e-1:log}, muon: {optimizer: sgd}}\ntune: {trials: 3}\n"
    shared = "config: {data: {name: my_module.py:Data, root: x}, metric: val/acc}\n"
    (place / "list.yaml").write_text(f"name: s\ntasks: [my_module.py:Net]\n{shared}{arms}")
    (place / "key.yaml").write_text(f"name: s\ntasks:\n  my_module.py:Net: {{target: 0.5}}\n{shared}{arms}")
    own = "{task: my_module.py:Net, data: my_module.py:Data, data.root: x, metric: val/acc}"
    (place / "named.yaml").write_text(f"name: s\ntasks: {{mine: {own}}}\n{arms}")
    (place / "wrong.yaml").write_text(f"name: s\ntasks: {{mine: {own.replace('root', 'rot')}}}\n{arms}")
    assert list(load_study("list.yaml").tasks) == ["Net"]
    assert load_study("key.yaml").run_config("Net", "own", 1).target == 0.5
    named = load_study("named.yaml")
    assert list(named.tasks) == ["mine"]
    assert {job.labels.task for job in due(named, [])} == {"mine"}
    with pytest.raises(
        InputError, match=r"line 2, .*tasks.mine.data.rot\): unknown argument of Data 'rot'; did you mean 'root'"
    ):
        load_study("wrong.yaml")


@pytest.mark.parametrize(
    ("tasks", "arms", "said"),
    [
        (["a/my_module.py:Net", "my_module.py:Net"], {"a": {}}, "two tasks are called Net; name them"),
        ({"mine": {"task": "digits"}}, {"a": {}}, "task is not set here"),
        ({"mine": {"task": "my_module.py:Net"}}, {"a": {"metric": "val/acc"}}, "an arm has no metric of its own"),
        ({"mine": {"task": "my_module.py:Net"}}, {"a": {}}, "tasks.mine"),
    ],
)
def test_a_study_that_is_wrong_is_one_line(tasks: Any, arms: dict[str, Any], said: str, place: Path) -> None:
    with pytest.raises(InputError) as caught:
        StudyConfig.of({"name": "s", "tasks": tasks, "arms": arms})
    assert said in str(caught.value) or caught.value.finding.place in ("data", "metric")
    assert "\n" not in str(caught.value)


def test_a_partial_of_a_class_is_the_class_with_its_arguments(place: Path) -> None:
    net, data = reference.load("my_module.py:Net"), reference.load("my_module.py:Data")
    made = [
        Task.from_lightning(
            functools.partial(net, 16, lr=0.5), functools.partial(data, root="x"), metric="val/acc", model=model
        )
        for model in ({}, {"lr": 0.25})
    ]
    configs = [resolve({"task": task}) for task in made]
    assert [config.task for config in configs] == ["my_module.py:Net"] * 2
    assert [(each.model.hyper["width"], each.model.hyper["lr"]) for each in configs] == [(16, 0.5), (16, 0.25)]
    assert configs[0].data is not None
    assert (configs[0].data.name, configs[0].data.hyper["root"]) == ("my_module.py:Data", "x")
    (over,) = resolved(_together(("model.width=8",), {"task": made[0]}))
    assert over.model.hyper["width"] == 8


def test_a_partial_that_settings_cannot_hold_is_kept_as_it_is(place: Path) -> None:
    net = reference.load("my_module.py:Net")
    tasks = [
        Task.from_lightning(functools.partial(net, act=act), "my_module.py:Data", data={"root": "x"}, metric="val/acc")
        for act in (torch.tanh, torch.sigmoid)
    ]
    assert len({task.reference for task in tasks}) == 2
    assert [task.name for task in tasks] == ["Net", "Net"]
    made = [reference.load(task.reference).keywords["act"] for task in tasks]
    assert made == [torch.tanh, torch.sigmoid]
    assert resolve({"task": tasks[0], "model.width": 7}).model.hyper["width"] == 7


def test_tune_takes_what_belongs_to_the_task_and_lays_it_over_the_tasks_own(place: Path) -> None:
    said = ["task=my_module.py:Net", "data=my_module.py:Data", "data.root=x", "metric=val/acc", "target=0.9"]
    study = tuning_study(parse([*said, "trainer.benchmark=true", "model.lr=1e-4:1e-1:log"]), trials=2)
    assert set(study.arms["own"]) == {"model"}
    assert (study.run_config("Net", "own", 1).target, list(study.space("Net", "own").to_json())) == (0.9, ["model.lr"])
    over = ("model.lr=1e-4:1e-1:log", "data.root=y", "metric=val/f1", "budget.epochs=2")
    config = tuning_study(_together(over, {"task": mine(budget={"epochs": 9})}), trials=2).run_config("Net", "own", 1)
    assert config.data is not None
    assert (config.data.hyper["root"], config.metric, config.budget.epochs) == ("y", "val/f1", 2)
    searched = tuning_study(parse([*said, "data.batch_size=8,16"]), trials=2)
    assert list(searched.space("Net", "own").to_json()) == ["data.batch_size"]
    with pytest.raises(InputError, match="nothing says what to search on Net; give a range"):
        tuning_study(parse(said), trials=2)
    with pytest.raises(InputError, match="unknown argument of Net 'lrr'; did you mean 'lr'"):
        tuning_study(parse([*said, "model.lrr=1e-4:1e-1:log"]), trials=2)
