"""Described: what a record says of a module that somebody else's Trainer fits: its config, code, size and labels."""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
from torch.nn.parameter import is_lazy

from algos.finding import InputError
from experiments.modules import reference
from experiments.opening import as_mapping, opened
from experiments.store.home import Home, RunFolder

#: What a config has of its own; a module's hyperparameters of these names are kept under `hparams`.
_OURS = ("schema", "recorded", "task", "seed")


@dataclass(frozen=True)
class Asked:
    """What the user told the logger; see `experiments.modules.logger.Logger`."""

    study: str
    task: str
    arm: str
    seed: int | None
    metric: str
    mode: str
    target: float | None
    name: str
    config: Any


def open_run(asked: Asked, trainer: pl.Trainer, home: Home) -> RunFolder:
    """The folder of the run that this fit is. The module need not be built yet."""
    module = trainer.lightning_module
    data = getattr(trainer, "datamodule", None)
    told = {
        "module": {**source(type(module)), "parameters": parameters(module)},
        "data": None if data is None else source(type(data)),
    }
    return opened(
        study=asked.study, task=asked.task, arm=asked.arm or (type(module).__name__ if asked.study else ""),
        seed=_seed(asked.seed), config=_config(asked.config, trainer), metric=asked.metric, mode=asked.mode,
        target=asked.target, kind="lightning", name=asked.name, facts={"task": told}, home=home,
        device=str(trainer.strategy.root_device),
    )  # fmt: skip


def source(kind: type) -> dict[str, Any]:
    """See `reference.source`. Of a script that is run, the file is the script."""
    script = getattr(sys.modules.get("__main__"), "__file__", None) if kind.__module__ == "__main__" else None
    try:
        if script is None:
            return reference.source(reference.name_of(kind))
        path = Path(script).resolve()
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
    except (InputError, OSError):  # a record is no reason to stop their fit
        return {"reference": "", "file": "", "class": kind.__qualname__, "sha256": "", "files": {}}
    shown = os.path.relpath(path)
    return {
        "reference": f"{shown}:{kind.__qualname__}", "file": str(path), "class": kind.__qualname__, "sha256": digest,
        "files": {path.name: digest},
    }  # fmt: skip


def parameters(module: pl.LightningModule) -> int:
    """How many parameters there are by now."""
    return sum(parameter.numel() for parameter in module.parameters() if not is_lazy(parameter))


def budget(trainer: pl.Trainer) -> dict[str, float]:
    """What is left of what the Trainer was given to spend: its steps and epochs go on over its fits."""
    found: dict[str, float] = {}
    if trainer.max_steps != -1:
        found["updates"] = trainer.max_steps - trainer.global_step
    elif trainer.max_epochs not in (None, -1):
        found["epochs"] = float((trainer.max_epochs or 0) - trainer.current_epoch)
    return found


def _config(theirs: Any, trainer: pl.Trainer) -> dict[str, Any]:
    hyper = _hyperparameters(trainer)
    apart = {key: hyper.pop(key) for key in _OURS if key in hyper}
    config: dict[str, Any] = {**hyper, **as_mapping(theirs)}
    if apart:
        config.setdefault("hparams", apart)
    if spent := budget(trainer):
        config.setdefault("budget", spent)
    config.setdefault("trainer", _trainer_words(trainer))
    return config


def _hyperparameters(trainer: pl.Trainer) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for owner in (trainer.lightning_module, getattr(trainer, "datamodule", None)):
        if owner is not None and owner._log_hyperparams:
            found |= dict(owner.hparams)
    found.pop("_class_path", None)
    return found


def _trainer_words(trainer: pl.Trainer) -> dict[str, Any]:
    return {
        "accumulate_grad_batches": trainer.accumulate_grad_batches,
        "gradient_clip_val": trainer.gradient_clip_val,
        "precision": str(trainer.precision),
        "devices": trainer.world_size,
    }


def _seed(given: int | None) -> int:
    """The one given, else the one that `seed_everything` was given, else 1."""
    return int(os.environ.get("PL_GLOBAL_SEED") or 1) if given is None else given


def later(folder: RunFolder, params: Mapping[str, Any]) -> dict[str, Any]:
    """Those hyperparameters that the run's config does not have."""
    config = folder.file.config
    known = {**config, **config.get("hparams", {})} if isinstance(config.get("hparams", {}), Mapping) else config
    return {key: value for key, value in params.items() if key not in known}
