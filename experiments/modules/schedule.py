"""Schedules of the catalogue as torch's LRScheduler, stepped once an update.

    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3)
    schedule = scheduled(optimizer, "warmup_cosine", updates=2000)
    ...
    optimizer.step(); schedule.step()

and from `configure_optimizers` of a LightningModule:

    return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}

Under manual optimization Lightning steps no schedule: `self.lr_schedulers().step()` after every update.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch.optim.lr_scheduler import LRScheduler
from torch.utils.hooks import RemovableHandle

from algos import catalogue
from algos.contracts import Progress, Schedule
from algos.finding import InputError

_STATE = ("last_epoch", "_step_count", "_last_lr", "base_lrs")
#: What counts an optimizer's updates for the schedule that was last made on it.
_COUNTING: WeakKeyDictionary[torch.optim.Optimizer, RemovableHandle] = WeakKeyDictionary()


def scheduled(
    optimizer: torch.optim.Optimizer,
    name: str,
    *,
    updates: int | None = None,
    fraction: Callable[[], float] | None = None,
    **hyper: Any,
) -> Scheduled:
    """A schedule of the catalogue on an optimizer's rates.

    updates: how many updates the budget has. fraction: in its place, what says how much of the budget is used, in [0,
    1] (budgets in seconds). Raises InputError for wrong names, hyperparameters and budgets.
    """
    if (updates is None) == (fraction is None):
        said = "no budget" if updates is None else "a budget in updates and a fraction of another"
        raise InputError(f"the schedule is given {said}", "give updates=N or fraction=, one of them", place="schedule")
    if updates is not None and (not isinstance(updates, int) or isinstance(updates, bool) or updates < 1):
        raise InputError(f"updates={updates!r} is not valid", "give a whole number above 0", place="schedule")
    return Scheduled(optimizer, catalogue.load("schedules", name).build(**hyper), fraction or updates or 1)


class Scheduled(LRScheduler):
    """Each group's initial_lr times a factor. budget: updates, or what says how much of the budget is used.

    The state is the position and the rates it began with, as LambdaLR's, and not the budget: a run may be resumed with
    another budget, and keeps its checkpoint's rates. InputError is raised at the second update of an optimizer whose
    schedule nobody has stepped, and where it is stepped less often than the optimizer.
    """

    def __init__(self, optimizer: torch.optim.Optimizer, schedule: Schedule, budget: int | Callable[[], float]):
        self._schedule, self._budget = schedule, budget
        self._made = 0  # updates since the last step of this schedule
        if (earlier := _COUNTING.pop(optimizer, None)) is not None:
            earlier.remove()
        _COUNTING[optimizer] = optimizer.register_step_post_hook(self._count)
        super().__init__(optimizer)

    def get_lr(self) -> list[Any]:
        factor = self._schedule(Progress(self.last_epoch, self._fraction()))
        return [rate * factor for rate in self.base_lrs]

    def step(self, epoch: int | None = None) -> None:
        """After an update of the optimizer."""
        made, self._made = self._made, 0
        if made > 1:
            raise _unstepped(made)
        super().step(epoch)

    def state_dict(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in _STATE}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.__dict__.update({name: state_dict[name] for name in _STATE if name in state_dict})

    def _fraction(self) -> float:
        if callable(self._budget):
            return min(1.0, max(0.0, self._budget()))
        return min(1.0, self.last_epoch / self._budget)

    def _count(self, *_: Any) -> None:
        """After an update of the optimizer; not while torch's SequentialLR holds this back (before its position 0)."""
        if self.last_epoch < 0:
            return
        self._made += 1
        if self._made > 1 and self._step_count <= 1:  # torch's count: its first is made with it
            raise _unstepped(self._made)
        alone = callable(self._budget)  # a run's own: torch's SequentialLR may have left one with a number behind
        for group, rate in zip(self.optimizer.param_groups, self._last_lr, strict=False):
            if alone and group["lr"] != rate:
                raise InputError(
                    f"something else set the learning rate to {group['lr']:g}, where its schedule says {rate:g}",
                    "leave one of the two out", rule="two-schedules", place="schedule",
                )  # fmt: skip


def _unstepped(made: int) -> InputError:
    return InputError(
        f"the optimizer has made {made} updates since its schedule was stepped",
        'step it after every update: schedule.step(); from configure_optimizers return {"optimizer": optimizer, '
        '"lr_scheduler": {"scheduler": schedule, "interval": "step"}}; with automatic_optimization=False call '
        "self.lr_schedulers().step()", rule="unstepped-schedule", place="schedule",
    )  # fmt: skip
