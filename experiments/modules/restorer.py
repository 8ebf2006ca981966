"""Restorer: the first callback of all of a run of a user's module, before theirs have done anything."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import lightning.pytorch as pl

from experiments.modules.recording import examples_in
from experiments.weights import signature_of

if TYPE_CHECKING:
    from experiments.modules.keeper import Keeper


class Restorer(pl.Callback):
    """Tells the keeper of the first batch after a resume, and what stands before a validation."""

    def __init__(self, keeper: Keeper):
        self._keeper = keeper

    def on_train_batch_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule, batch: Any, index: int) -> None:
        self._keeper.go_on(trainer)
        self._keeper.batch_examples = examples_in(batch) or 0

    def on_validation_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        if not trainer.sanity_checking:
            self._keeper.trained = signature_of(pl_module)  # before anyone puts an average in their place
