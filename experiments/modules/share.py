"""Share: how much of a Lightning Trainer's budget is used, in [0, 1], for components that change with it."""

from __future__ import annotations

import math
from collections.abc import Callable

import lightning.pytorch as pl
from lightning.pytorch.callbacks import Timer
from lightning.pytorch.utilities.exceptions import MisconfigurationException

from algos.contracts import Progress
from algos.finding import InputError


def share(trainer: pl.Trainer) -> Callable[[], float] | None:
    """What says it, from on_train_start on; None where the Trainer has no end.

    Updates done of `estimated_stepping_batches`; batches done of all epochs' where updates are not one a batch (manual
    optimization, an accumulation that changes); seconds of max_time. The largest of them: what ends training first.
    """
    found = [each for each in (_of_steps(trainer), _of_time(trainer)) if each is not None]
    if not found:
        return None
    return lambda: min(1.0, max(each() for each in found))


class Endless(Progress):
    """The progress of a Trainer that has no end: whoever asks for the fraction is told so."""

    def __init__(self, update: int):
        object.__setattr__(self, "update", update)

    def __getattr__(self, name: str) -> float:
        if name != "fraction":
            raise AttributeError(name)
        raise InputError(
            "a component goes by the share of the budget that is used, and this Trainer has no end",
            "give the Trainer max_steps, or max_epochs with a loader that has a length", place="wrappers",
        )  # fmt: skip


def _of_steps(trainer: pl.Trainer) -> Callable[[], float] | None:
    if trainer.lightning_module.automatic_optimization:
        try:
            updates = trainer.estimated_stepping_batches
        except MisconfigurationException:  # accumulation that changes from epoch to epoch
            updates = math.inf
        if 0 < updates < math.inf:
            return lambda: trainer.global_step / updates
    batches = trainer.num_training_batches * (trainer.max_epochs or 0)
    if 0 < batches < math.inf:
        return lambda: max(0, trainer.fit_loop.epoch_loop.total_batch_idx) / batches
    if trainer.max_steps > 0:
        return lambda: trainer.global_step / trainer.max_steps
    return None


def _of_time(trainer: pl.Trainer) -> Callable[[], float] | None:
    for timer in trainer.callbacks:  # type: ignore[attr-defined]
        if isinstance(timer, Timer) and timer.time_remaining() is not None:
            return lambda: timer.time_elapsed() / max(1e-9, timer.time_elapsed() + (timer.time_remaining() or 0.0))
    return None
