"""The Lightning side of the loop: a module whose steps are stretches, and its Trainer.

Lightning's loader yields one token a stretch. `training_step` runs our loop to the next evaluation or stop, so that
Lightning's cost is paid a stretch and not an update; `validation_step` evaluates, and logs so that Lightning's
callbacks see the metrics.
"""

from __future__ import annotations

import functools
import importlib.metadata
import threading
from collections.abc import Iterator, Mapping
from typing import Any

import lightning.pytorch as pl
import torch
from lightning.pytorch.trainer.connectors import callback_connector
from lightning.pytorch.utilities.exceptions import SIGTERMException

from experiments.loop import Loop
from experiments.quiet import quiet

#: Lightning's own words for the Trainer, as our loop needs them; a user's `trainer.*` come on top.
_OURS: dict[str, Any] = {
    "precision": "32-true",  # the oracle owns autocast; Lightning's would cover the optimizer too
    "max_epochs": 1,
    "val_check_interval": 1,
    "check_val_every_n_epoch": None,
    "num_sanity_val_steps": 0,
    "inference_mode": False,  # evaluation swaps weights in place
    "use_distributed_sampler": False,
    "logger": False,
    "enable_checkpointing": False,
    "enable_progress_bar": False,
    "enable_model_summary": False,
}


class Tokens:
    """Lightning's loader: one token a stretch, until the run is over."""

    def __init__(self, loop: Loop):
        self._loop = loop

    def __iter__(self) -> Iterator[int]:
        while not self._loop.over:
            yield self._loop.update


class Stretches(pl.LightningModule):
    """The run as Lightning sees it."""

    automatic_optimization = False

    def __init__(self, loop: Loop):
        super().__init__()
        self.loop = loop
        self.model = loop.parts.oracle.model

    def on_train_start(self) -> None:
        if self.loop.evaluation_due:
            self.loop.evaluate()

    def training_step(self, token: int) -> None:
        if self.loop.over:
            return
        self.loop.stretch()
        counter = self.trainer.fit_loop.epoch_loop.manual_optimization.optim_step_progress.total
        counter.ready = counter.completed = self.loop.update

    def validation_step(self, token: int) -> None:
        if self.trainer.sanity_checking or not self.loop.evaluation_due:
            return
        metrics = self.loop.evaluate()
        if getattr(self.trainer, "callbacks", None):  # nobody else sees them
            self.log_dict(metrics, batch_size=1)

    def train_dataloader(self) -> Tokens:
        return Tokens(self.loop)

    def val_dataloader(self) -> list[int]:
        return [0]

    def configure_optimizers(self) -> torch.optim.Optimizer | None:
        return getattr(self.loop.parts.algorithm, "optimizer", None)


def fit(loop: Loop, words: Mapping[str, Any]) -> None:
    """Run the loop to its end or stop under a Lightning Trainer. words: the user's `trainer.*`."""
    from experiments import devices

    if loop.over:
        return
    device = loop.parts.device
    ours = {**_OURS, "accelerator": devices.accelerator(device), "devices": devices.indices(device)}
    with quiet():
        trainer = _trainer({**ours, **words})
        try:
            trainer.fit(Stretches(loop))
        except SIGTERMException:
            # Lightning tells of SIGTERM by raising, wherever it is; our own handler has asked the loop to stop.
            if not loop.over:
                loop.interrupt()


@functools.cache
def _callbacks_installed() -> bool:
    """Whether an installed package brings callbacks for every Trainer."""
    return bool(importlib.metadata.entry_points(group="lightning.pytorch.callbacks_factory"))


_TURN = threading.Lock()
_LOADER = "_load_external_callbacks"


def _trainer(words: Mapping[str, Any]) -> pl.Trainer:
    """For each Trainer, Lightning asks every installed package whether it brings callbacks, which takes longer than all
    the rest of a short run's set-up. The answer is the same all along, so it is asked once a process."""
    load = getattr(callback_connector, _LOADER, None)
    if load is None or _callbacks_installed():
        return pl.Trainer(**words)
    with _TURN:
        setattr(callback_connector, _LOADER, lambda group: [])
        try:
            return pl.Trainer(**words)
        finally:
            setattr(callback_connector, _LOADER, load)
