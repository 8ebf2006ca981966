"""Watched: the one number of a user's module that a run is selected and compared by, wherever the module tells it.

`val/acc` is what the module logs; `validation_step:loss` is what its validation_step returns, meant over the examples,
for modules that log nothing. The number is taken at the end of each validation, where that logs it; else at the end of
each epoch. Lightning keeps showing the last value of everything, so what was not logged anew is not taken again.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal

import lightning.pytorch as pl
from torch import Tensor

from algos.finding import InputError

Moment = Literal["validation", "epoch"]
STEP = "validation_step:"
_TEST = re.compile(r"^test[/_]")


def canonical_test(metric: str) -> str:
    """
    >>> canonical_test("test_acc"), canonical_test("test/loss"), canonical_test("acc")
    ('acc', 'loss', 'acc')
    """
    return _TEST.sub("", metric) or metric


class Watched:
    """The metric of a run. moment: when it is taken; "" until that is known."""

    def __init__(self, metric: str):
        self.metric = metric
        self.moment: Moment | Literal[""] = ""
        self._sums: dict[str, tuple[Tensor | float, float]] = {}
        # What Lightning showed when the validation began, and at the last epoch's end: a new value is another object.
        self._shown: dict[Moment, Any] = {"validation": None, "epoch": None}

    def validated(self, outputs: Any, examples: int, loader: int, loaders: int) -> None:
        """What validation_step returned for one batch of so many examples."""
        if self.moment and not self.metric.startswith(STEP):
            return  # until it has appeared, what there is instead is collected
        values = outputs if isinstance(outputs, Mapping) else {} if outputs is None else {"loss": outputs}
        for key, value in values.items():
            if isinstance(value, (int, float)) or (isinstance(value, Tensor) and value.numel() == 1):
                name = f"{STEP}{key}" if loaders < 2 else f"{STEP}{key}/dataloader_idx_{loader}"
                total, weight = self._sums.get(name, (0.0, 0.0))
                value = value.detach().double() if isinstance(value, Tensor) else float(value)
                self._sums[name] = (total + value * (examples or 1), weight + (examples or 1))

    def begin(self, trainer: pl.Trainer) -> None:
        """A validation begins."""
        self._sums.clear()
        self._shown["validation"] = trainer.callback_metrics.get(self.metric)

    def value(self, trainer: pl.Trainer, moment: Moment, loss: float | None) -> float | None:
        """The metric, if this is when it is taken and it is new. loss: train/loss, which the run records itself."""
        return self._found(trainer, moment, loss) if self.moment in ("", moment) else None

    def _found(self, trainer: pl.Trainer, moment: Moment, loss: float | None) -> float | None:
        if self.metric.startswith(STEP):
            total, weight = self._sums.get(self.metric, (0.0, 0.0)) if moment == "validation" else (0.0, 0.0)
            return float(total) / weight if weight else None
        logged = trainer.callback_metrics.get(self.metric)
        if logged is not None and logged is not self._shown[moment]:
            self._shown[moment] = logged
            return float(logged)
        return loss if self.metric == "train/loss" and logged is None and moment == "epoch" else None

    def absent(self, trainer: pl.Trainer) -> InputError:
        """The metric never appeared; which ones did."""
        logged = sorted({*map(str, trainer.callback_metrics), "train/loss"})
        apart = [name for name in (*logged, *sorted(self._sums)) if name.startswith(f"{self.metric}/dataloader_idx_")]
        if apart:
            return InputError(
                f"the metric '{self.metric}' is of {len(apart)} validation loaders",
                f"say of which: {' or '.join(f'metric={name}' for name in apart)}",
                rule="metric-absent", place="metric",
            )  # fmt: skip
        steps = [f"metric={name}" for name in sorted(self._sums)]
        cure = f"give metric=NAME of one of these{f', or {chr(44).join(steps)}' if steps else ''}"
        if not steps:
            cure += ", or metric=validation_step:KEY for what validation_step returns"
        return InputError(
            f"the metric '{self.metric}' never appeared; these did: {', '.join(logged)}", cure,
            rule="metric-absent", place="metric",
        )  # fmt: skip
