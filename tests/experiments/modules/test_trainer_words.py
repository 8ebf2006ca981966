"""Lightning's words for a user's own module: all of them pass but the few that a run owns."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import pytest

from algos.finding import InputError
from experiments.config import RunConfig, resolve
from experiments.modules import trainer_words
from experiments.modules.trainer_words import MAPPED, OWNED

BORING = {"task": "lightning.pytorch.demos.boring_classes:BoringModel", "metric": "validation_step:x_loss"}


def configured(**words: Any) -> RunConfig:
    return resolve({**BORING, "trainer": words})


def refusal(*layers: dict[str, Any]) -> str:
    with pytest.raises(InputError) as caught:
        resolve(BORING, *layers)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_every_word_of_the_installed_trainer_passes_as_it_is_but_those_a_run_owns() -> None:
    known = inspect.signature(pl.Trainer.__init__).parameters
    assert set(OWNED) | set(MAPPED) <= set(known)
    for word in set(known) - {"self", *OWNED, *MAPPED}:
        assert configured(**{word: "x"}).trainer == {word: "x"}


def test_budget_and_device_are_the_runs() -> None:
    config = configured(max_steps=30, accelerator="cpu", devices="1")
    assert (config.budget.updates, config.device, config.devices, dict(config.trainer)) == (30, "cpu", 1, {})
    assert configured(max_epochs=3, max_steps=-1, devices="auto").budget.epochs == 3
    assert configured(accelerator="gpu").device == "cuda"
    assert configured().budget.epochs == 10  # Lightning's own 1,000 would surprise


def test_what_would_end_a_run_by_another_rule_is_refused_unless_it_is_off() -> None:
    for word, cure in OWNED.items():
        assert f"trainer.{word}: a run does not take Lightning's word; {cure}" in refusal({"trainer": {word: 3}})
    assert dict(configured(fast_dev_run=False, min_epochs=None).trainer) == {}


@pytest.mark.parametrize(
    ("layer", "said"),
    [
        ({"trainer": {"benchmrk": True}}, "did you mean 'benchmark'?"),
        ({"trainer": {"max_steps": 3, "max_epochs": 3}}, "two budgets"),
        ({"trainer": {"max_steps": 3}, "budget.updates": 3}, "two budgets"),
        ({"trainer": {"precision": "bf16-mixed"}, "precision": "bf16"}, "two precisions"),
        ({"trainer": {"val_check_interval": 5}, "evaluate_every": 5}, "twice when to evaluate"),
        ({"trainer": {"max_epochs": -1}}, "a run has a budget"),
        ({"trainer": {"callbacks": "nope.py:Ema"}}, "trainer.callbacks: nope.py is no file"),
        (
            {"trainer": {"callbacks": "lightning.pytorch.callbacks:EarlyStopping"}},
            "EarlyStopping needs monitor; give a function",
        ),
    ],
)
def test_what_is_wrong_is_one_line(layer: dict[str, Any], said: str) -> None:
    assert said in refusal(layer)


def test_lightnings_own_precision_stays_its_own_word() -> None:
    config = configured(precision="bf16-mixed")
    assert (config.precision.name, config.trainer["precision"]) == ("own", "bf16-mixed")


def test_a_reference_stays_text_and_becomes_a_new_object_for_each_run(place: Path) -> None:
    config = configured(callbacks=("my_module.py:Ema", "my_module.py:callbacks"), default_root_dir="a.b:c", num_nodes=1)
    assert config.trainer["callbacks"] == ("my_module.py:Ema", "my_module.py:callbacks")
    one, other = trainer_words.words(config), trainer_words.words(config)
    assert [type(each).__name__ for each in one["callbacks"]] == ["Ema", "Ema", "Ema"]
    assert not set(map(id, one["callbacks"])) & set(map(id, other["callbacks"]))
    assert one["default_root_dir"] == "a.b:c"
    pl.Trainer(logger=False, enable_checkpointing=False, enable_progress_bar=False, callbacks=one["callbacks"])


def test_an_object_is_kept_by_value() -> None:
    config = configured(callbacks=(pl.callbacks.EarlyStopping("val/acc"),))
    (text,) = config.trainer["callbacks"]
    assert text.startswith("by-value:EarlyStopping-")
    assert trainer_words.words(config)["callbacks"][0].monitor == "val/acc"
