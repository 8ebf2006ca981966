"""Epochs: how many a Trainer has done, in parts."""

from __future__ import annotations

import math
from typing import Any

import lightning.pytorch as pl


def epochs(trainer: pl.Trainer) -> float:
    """Epochs done, in parts where an epoch's length is known. An epoch's batches may change in number."""
    loop, length = trainer.fit_loop, trainer.num_training_batches
    progress: Any = loop.epoch_progress.current
    batches: Any = loop.epoch_loop.batch_progress.current
    whole = min(progress.processed, max(0, progress.ready - 1))  # epochs before the one that goes on, or was the last
    if not progress.ready:
        return 0.0
    if loop.epoch_loop.batch_progress.is_last_batch:
        return whole + 1.0
    known = math.isfinite(length) and length > 0
    return whole + (min(1.0, batches.processed / length) if known else 0.0)
