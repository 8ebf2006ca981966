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
    if progress.ready <= progress.processed:
        return float(progress.processed)
    if loop.epoch_loop.batch_progress.is_last_batch:
        return progress.processed + 1.0
    part = batches.processed / length if math.isfinite(length) and length else 0.0
    return float(progress.processed + min(1.0, part))
