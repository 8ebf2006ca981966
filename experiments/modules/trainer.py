"""The Trainer of a run of a user's module: their words, our callbacks around theirs, the budget as its limits."""

from __future__ import annotations

import math
from typing import Any

import lightning.pytorch as pl
from lightning.fabric.utilities.exceptions import MisconfigurationException
from lightning.pytorch.callbacks import ProgressBar

from algos.finding import InputError
from experiments import devices
from experiments.config import RunConfig
from experiments.modules import trainer_words
from experiments.quiet import quiet
from experiments.store.home import RunFolder


def make_trainer(
    config: RunConfig, folder: RunFolder, logger: Any, ours: tuple[list[Any], list[Any]], plugins: list[Any]
) -> pl.Trainer:
    """The user's Trainer, with our callbacks around theirs, our logger first, and the budget as its limits."""
    words = trainer_words.words(config)
    theirs = _listed(words.pop("callbacks", None))
    loggers, their_plugins = words.pop("logger", None), _listed(words.pop("plugins", None))
    words.pop("enable_checkpointing", None)  # there is no ModelCheckpoint but what they give
    device = devices.resolve(config.device)
    bars = any(isinstance(callback, ProgressBar) for callback in theirs)
    defaults: dict[str, Any] = {
        "accelerator": devices.accelerator(device), "devices": devices.indices(device),
        "enable_progress_bar": bars, "enable_model_summary": False, "default_root_dir": str(folder.path),
    }  # fmt: skip
    if config.evaluate_every:
        defaults |= {"val_check_interval": config.evaluate_every, "check_val_every_n_epoch": None}
    for callback in theirs:
        if not isinstance(callback, pl.Callback):
            said = f"{callback!r} is no Lightning callback"
            raise InputError(said, "give classes, functions or instances of them", place="trainer.callbacks")
    first, last = ours
    try:
        with quiet():
            return pl.Trainer(
                **{**defaults, **words, **_limits(config)},
                logger=[logger, *([] if isinstance(loggers, bool) else _listed(loggers))],
                callbacks=[*first, *theirs, *last],
                plugins=[*their_plugins, *plugins] or None,
            )
    except (MisconfigurationException, ValueError, TypeError, ZeroDivisionError) as error:
        said = f"Lightning's Trainer refuses its words: {' '.join(str(error).split())[:300]}"
        raise InputError(said, "mend trainer.WORD=VALUE", rule="trainer-word", place="trainer") from error


def _limits(config: RunConfig) -> dict[str, Any]:
    """The budget in Lightning's words where it has them, so that the user's schedulers see it; the keeper ends the
    others."""
    unit, amount = config.budget.unit, config.budget.amount
    if unit == "updates":
        return {"max_steps": int(amount), "max_epochs": -1}
    return {"max_epochs": math.ceil(amount) if unit == "epochs" else -1}


def _listed(value: Any) -> list[Any]:
    if value is None:
        return []
    if not isinstance(value, (list, tuple)):
        return [value]
    return [inner for part in value for inner in _listed(part)]
