"""Lightning's words are passed on, turned into ours, or refused with what to use instead."""

from __future__ import annotations

import ast
import importlib.util
from pathlib import Path
from typing import Any

import pytest

from algos.finding import InputError
from experiments.config import resolve
from experiments.trainer_words import MAPPED, OWNED, PASSED


def test_every_word_of_the_installed_trainer_has_one_fate() -> None:
    found = importlib.util.find_spec("lightning")
    assert found
    assert found.origin
    tree = ast.parse((Path(found.origin).parent / "pytorch" / "trainer" / "trainer.py").read_text())
    trainer = next(node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "Trainer")
    init = next(node for node in trainer.body if isinstance(node, ast.FunctionDef) and node.name == "__init__")
    words = {argument.arg for argument in init.args.kwonlyargs}
    assert "max_epochs" in words
    assert words <= PASSED | MAPPED | set(OWNED)
    assert not PASSED & MAPPED
    assert not (PASSED | MAPPED) & set(OWNED)


def test_accumulation_multiplies_the_batch_as_in_lightning() -> None:
    config = resolve({"task": "digits", "batch_size": 16, "trainer.accumulate_grad_batches": 4})
    assert (config.batch_size, config.accumulate, dict(config.trainer)) == (64, 4, {})


def test_clipping_becomes_the_outermost_wrapper() -> None:
    config = resolve({"task": "digits", "wrappers": "sam", "trainer.gradient_clip_val": 0.5})
    assert [entry.name for entry in config.wrappers] == ["sam", "clipping"]
    assert config.wrappers[1].hyper["norm"] == 0.5
    by_value = {"task": "digits", "trainer": {"gradient_clip_val": 0.5, "gradient_clip_algorithm": "value"}}
    assert (hyper := resolve(by_value).wrappers[0].hyper)["value"] == 0.5
    assert hyper["norm"] is None
    assert resolve({"task": "digits", "trainer.gradient_clip_val": 0}).wrappers == ()


@pytest.mark.parametrize(
    ("word", "value", "key", "ours"),
    [
        ("max_steps", 50, "budget", {"updates": 50}),
        ("max_epochs", 2, "budget", {"epochs": 2}),
        ("precision", "bf16-mixed", "precision", {"name": "bf16"}),
        ("precision", 32, "precision", {"name": "fp32"}),
        ("log_every_n_steps", 5, "log_every", 5),
        ("accelerator", "gpu", "device", "cuda"),
    ],
)
def test_a_word_means_ours(word: str, value: Any, key: str, ours: Any) -> None:
    assert resolve({"task": "digits", f"trainer.{word}": value}).to_json()[key] == ours


def test_a_word_that_changes_nothing_of_ours_passes() -> None:
    assert resolve({"task": "digits", "trainer.num_sanity_val_steps": 0}).trainer["num_sanity_val_steps"] == 0


@pytest.mark.parametrize(
    ("word", "value", "said"),
    [
        ("max_time", "00:01", "use budget.seconds=S"),
        ("logger", False, "MLFLOW_TRACKING_URI"),
        ("enable_checkpointing", False, "use checkpoint_every"),
        ("max_step", 5, "did you mean 'max_steps'?"),
        ("precision", "64", "give precision=NAME"),
        ("accumulate_grad_batches", 0, "give a whole number above 0"),
        ("accumulate_grad_batches", True, "give a whole number above 0"),
        ("gradient_clip_algorithm", "both", "give norm or value"),
    ],
)
def test_a_word_that_the_loop_owns_is_refused_with_what_to_use(word: str, value: Any, said: str) -> None:
    with pytest.raises(InputError, match=f"trainer.{word}") as caught:
        resolve({"task": "digits", f"trainer.{word}": value})
    assert said in str(caught.value)


def test_two_budgets_and_two_clippings_are_refused() -> None:
    with pytest.raises(InputError, match="two budgets"):
        resolve({"task": "digits", "trainer": {"max_steps": 3, "max_epochs": 1}})
    with pytest.raises(InputError, match="give one of the two"):
        resolve({"task": "digits", "wrappers": "clipping", "trainer.gradient_clip_val": 1.0})
