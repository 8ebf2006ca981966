"""A module of the user's own: its defaults, every refusal, and one config however it is said."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from algos.finding import InputError
from experiments.config import RunConfig, digest, resolve
from experiments.modules import settings
from experiments.overrides import parse
from experiments.tuning.drawing import declared_search, space_of, widened
from experiments.tuning.ranges import Range
from trainlab.running import spelled

MINE = {"task": "my_module.py:Net", "data": "my_module.py:Data", "data.root": "x", "metric": "val/acc"}
BORING = {"task": "lightning.pytorch.demos.boring_classes:BoringModel", "metric": "validation_step:loss"}


def refusal(*layers: dict[str, Any]) -> str:
    with pytest.raises(InputError) as caught:
        resolve(*layers)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_the_config_of_a_module_is_whole(place: Path) -> None:
    config = resolve({**MINE, "model.width": 8, "data.batch_size": 4})
    assert config.to_json() | {"trainer": {}} == {
        "schema": 1, "task": "my_module.py:Net",
        "model": {"name": "Net", "width": 8, "lr": 0.01, "betas": [0.9, 0.95], "sizes": [8, 4]},
        **{key: {"name": "own"} for key in settings.OWN}, "budget": {"epochs": 10.0},
        "batch_size": None, "evaluate_every": None, "select": "last", "wrappers": [],
        "compression": [], "accumulate": 1, "log_every": 10, "checkpoint_every": None, "seed": 1, "init": "",
        "device": "auto", "devices": 1, "form": "auto", "stop": "budget", "divergence_bound": 1e6, "trainer": {},
        "data": {"name": "my_module.py:Data", "batch_size": 4, "root": "x"}, "metric": "val/acc", "mode": "max",
    }  # fmt: skip
    assert [key for key, _, _ in config.entries()] == []


@pytest.mark.parametrize(
    "more",
    [
        {}, {"optimizer": "muon", "schedule": "warmup_cosine", "wrappers": "ema"}, {"evaluate_every": 7},
        {"model": {"sizes": [1], "betas": (0.5, 0.25)}, "mode": "min", "worst": -1.0},
        {"model.sizes": (), "target": 0.5}, {"budget.updates": 3, "precision": "bf16"},
        {"trainer": {"benchmark": True, "callbacks": ("my_module.py:Ema",)}},
    ],
)  # fmt: skip
def test_arguments_and_json_give_the_same_config_again(more: dict[str, Any], place: Path) -> None:
    config = resolve(MINE, more)
    assert resolve(*parse(spelled(config)).expand()) == config
    assert resolve(config.to_json()) == config
    assert RunConfig.from_json(config.to_json()) == config
    assert (
        len({digest(each) for each in (config, resolve(config.to_json()), RunConfig.from_json(config.to_json()))}) == 1
    )


def test_a_stored_config_reads_back_where_the_file_is_gone(place: Path) -> None:
    stored = resolve(MINE).to_json() | {"task": "gone.py:Net"}
    assert RunConfig.from_json(stored).task == "gone.py:Net"


def test_the_config_s_objects_are_new_each_time(place: Path) -> None:
    config = resolve({**MINE, "model.width": 8, "data.batch_size": 4})
    one, other = settings.module(config), settings.module(config)
    assert one is not other
    assert one.layer.out_features == 8  # type: ignore[union-attr, operator]
    data = settings.datamodule(config)
    assert data is not None
    assert data.batch_size == 4  # type: ignore[attr-defined]
    assert settings.datamodule(resolve(BORING)) is None


def test_a_factory_is_called_with_the_arguments_and_must_return_a_module(place: Path) -> None:
    more = {key: value for key, value in MINE.items() if key != "task"}
    made = resolve({**more, "task": "my_module.py:make", "model.width": 5})
    assert settings.module(made).layer.out_features == 5  # type: ignore[union-attr, operator]
    with pytest.raises(InputError, match=r"my_module\.py:wrong returned a int, not a LightningModule"):
        settings.module(resolve({**more, "task": "my_module.py:wrong"}))


def test_an_optimizer_of_the_catalogue_brings_the_schedule_it_is_meant_for(place: Path) -> None:
    assert resolve(MINE, {"optimizer": "adamw"}).schedule.name == "constant"
    assert resolve(MINE, {"optimizer": "adamw", "schedule": "warmup_cosine"}).schedule.name == "warmup_cosine"
    assert resolve(MINE, {"schedule": "warmup_cosine"}).optimizer.name == "own"
    assert [key for key, _, _ in resolve(MINE, {"optimizer": "adamw"}).entries()] == ["optimizer", "schedule"]
    assert "its own optimizer, which is replaced" in refusal(MINE, {"optimizer": "adamw", "schedule": "own"})


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (
            {"metric": ""},
            "metric: no metric; give metric=NAME, what the module logs in validation, e.g. metric=val/acc",
        ),
        ({"metric": "training_step:loss"}, "is no name of a metric"),
        ({"metric": "val/reward"}, "give mode=max or mode=min"),
        ({"mode": "up"}, "mode: 'up' is not valid; give max or min"),
        ({"batch_size": 3}, "give the DataModule's own argument, e.g. data.batch_size=64"),
        ({"accumulate": 2}, "give trainer.accumulate_grad_batches=N"),
        ({"evaluate_every": 0}, "evaluate_every: 0 is not valid; give a whole number of updates above 0"),
        (
            {"optimizer.lr": 0.1},
            "the module's own optimizer has no setting 'lr' here; set the module's own argument, e.g. model.lr",
        ),
        ({"precision.dtype": "x"}, "the module's own precision has no setting"),
        ({"model.widht": 3}, "did you mean 'width'?"),
        ({"model": "mlp"}, "the model is Net itself, not 'mlp'"),
        ({"model.lr": Range(1e-4, 1e-1, log=True)}, "model.lr: 0.0001:0.1:log is a range; give one value, or tune it"),
        ({"data": "Data"}, "'Data' is no class; give data=FILE.py:CLASS"),
        ({"data": None}, "data: Net has no train_dataloader, and no data is given"),
        ({"data": "my_module.py:Net"}, "my_module.py:Net is a class (LightningModule), not a LightningDataModule"),
        ({"task": "my_module.py:net"}, "my_module.py:net is an instance; give its class, task=FILE.py:Net"),
        ({"task": "my_module.py"}, "'my_module.py' names no class of a file; give one, e.g. task=my_module.py:Net"),
        ({"task": "my_module.py:Ema"}, "my_module.py:Ema is a class (Callback), not a LightningModule"),
        ({"stop": "target"}, "there is no target; give target=VALUE too"),
        ({"form": "loop"}, "it says how an optimizer of the catalogue computes"),
        ({"wrappers": "smaa"}, "unknown wrapper 'smaa'"),
    ],
)
def test_what_is_wrong_is_one_line_with_the_fix(more: dict[str, Any], said: str, place: Path) -> None:
    assert said in refusal(MINE, more)


def test_a_module_of_the_older_package_is_told_the_newer_name(place: Path) -> None:
    (place / "old.py").write_text("class Net:\n    __module__ = 'pytorch_lightning.core'\n")
    assert "import lightning.pytorch as pl" in refusal({**MINE, "task": "old.py:Net"})


@pytest.mark.parametrize("key", ["data", "metric", "mode", "target", "worst"])
def test_a_task_of_the_catalogue_states_its_own(key: str) -> None:
    value = {"data": "a.py:Data", "metric": "acc", "mode": "max", "target": 0.5, "worst": 0.0}[key]
    assert f"{key}: 'digits' is a task of the catalogue, which states its own; leave {key} out" in refusal(
        {"task": "digits", key: value}
    )
    assert key not in resolve({"task": "digits"}).to_json()


def test_own_is_unknown_to_the_catalogue() -> None:
    assert "unknown optimizer 'own'" in refusal({"task": "digits", "optimizer": "own"})
    assert "batch_size: None is not valid; give a whole number above 0" in refusal(
        {"task": "digits", "batch_size": None}
    )


def test_the_digests_of_the_catalogues_tasks_are_what_they_were() -> None:
    """Of version 0.1.0, before modules were tasks: stored runs are found by them."""
    known = {
        "82fbb439f0dec3f4": {"task": "digits"},
        "249232d88c28988c": {"task": "digits", "optimizer": "muon", "optimizer.lr": 0.02, "seed": 3},
        "aa592211465780eb": {"task": "cora", "wrappers": "cautious+sam", "trainer.max_steps": 50},
        "1bedc482d31c9622": {"task": "digits_graph", "budget.epochs": 2, "select": "best"},
    }
    assert {digest(resolve(layer))[:16]: layer for layer in known.values()} == known


@pytest.mark.parametrize(
    ("metric", "mode"),
    [
        ("val/acc", "max"), ("val_acc", "max"), ("valid_loss", "min"), ("MulticlassAccuracy", "max"),
        ("val/mAP", "max"),
        ("val/acc@5", "max"), ("val/top1/acc1", "max"), ("val/loss/dataloader_idx_0", ""), ("perplexity", "min"),
        ("val/r2", "max"), ("validation_step:loss", "min"), ("validation_step:x", ""), ("reward", ""), ("lossless", ""),
    ],
)  # fmt: skip
def test_the_direction_is_told_by_the_last_word(metric: str, mode: str) -> None:
    if mode:
        assert resolve({**BORING, "metric": metric}).mode == mode
    else:
        assert "give mode=max or mode=min" in refusal({**BORING, "metric": metric})
        assert resolve({**BORING, "metric": metric, "mode": "max"}).mode == "max"


def test_nothing_declares_where_to_search_and_widening_keeps_to_what_is_safe(place: Path) -> None:
    config = resolve(MINE)
    assert declared_search(config, "model.lr") is None
    assert declared_search(config, "optimizer.lr") is None
    ranges = {
        "model.lr": Range(1e-4, 1e-1, log=True), "model.width": Range(8, 64), "data.batch_size": Range(4, 64, log=True),
        "model.betas": Range(0.1, 0.9), "trainer.gradient_clip_val": Range(0.5, 4.0), "model.sizes": Range(-1, 1),
    }  # fmt: skip
    space = space_of(config, ranges)
    assert space.dimensions["model.width"] == Range(8, 64, whole=True)  # annotated int
    assert space.dimensions["data.batch_size"] == Range(4, 64, log=True, whole=True)
    lowest = {axis.place: axis.dimension.at(0.0) for axis in space.axes}
    inner = {axis.place: axis.dimension.at(0.5) for axis in space.axes}
    low = {axis.place: axis.dimension for axis in widened(space, lowest, [lowest, inner])[0].axes}
    assert low["model.lr"].low == pytest.approx(1e-5)  # type: ignore[union-attr]
    assert low["model.width"].low == 1  # type: ignore[union-attr]
    assert 0 < low["model.betas"].low < 0.1  # type: ignore[union-attr]
    assert 0 < low["trainer.gradient_clip_val"].low < 0.5  # type: ignore[union-attr]
    assert low["model.sizes"].low == -3  # type: ignore[union-attr]
    highest = {axis.place: axis.dimension.at(1.0) for axis in space.axes}
    high = {axis.place: axis.dimension for axis in widened(space, highest, [highest, inner])[0].axes}
    assert 0.9 < high["model.betas"].high < 1  # type: ignore[union-attr]
    assert high["model.lr"].high == pytest.approx(1.0)  # type: ignore[union-attr]
    with pytest.raises(InputError, match=r"model\.width takes a whole number"):
        space_of(config, {"model.width": Range(0.5, 2)})


def test_labels_hold_nothing_that_a_path_is_made_of() -> None:
    for task in ("a/b.py:Net", "p.q:_Net", "by-value:Net-01234567"):
        assert settings.label(task) == "Net"
