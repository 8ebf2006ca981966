"""Parallel coordinates: every trial a line across the hyperparameters it had, to the objective that it came to."""

from __future__ import annotations

import itertools
import math
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from reports.figures.legend import empty
from reports.figures.style import GREY, Mark, current, label, labels
from reports.statistics.curves import Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True)
class Trials:
    """One arm's trials. values: (trials, hyperparameters), nan where a trial had none. objective: (trials,), nan where
    it gave none. winner: which was chosen."""

    name: str
    look: Mark
    values: Array
    objective: Array
    winner: int | None = None


def parallel(
    axis: Axes, arms: Sequence[Trials], *, hypers: Sequence[str], log: Sequence[bool], objective: str, better: str
) -> None:
    """Draw `arms` on `axis`. log: which hyperparameters stand on a log scale. better: "up" or "down". A line is dotted
    where it passes a hyperparameter that its trial had not. Trials without an objective end in a cross at its worse
    end, the chosen ones are thick."""
    shown = labels([each.name for each in arms])
    columns = [np.concatenate([arm.values[:, place] for arm in arms] or [np.empty(0)]) for place in range(len(hypers))]
    columns.append(np.concatenate([arm.objective for arm in arms] or [np.empty(0)]))
    scales = [_Scale.of(column, use) for column, use in zip(columns, [*log, False])]
    if not len(columns[-1]):
        empty(axis, "no trials")
    worst = 0.0 if better == "up" else 1.0
    for arm in arms:
        axis.plot([], [], color=arm.look.color, linestyle=arm.look.dash, label=shown[arm.name])
        for number, (values, score) in enumerate(zip(arm.values, arm.objective)):
            ys = [scale.place(v) for scale, v in zip(scales, [*values, score])]
            won = number == arm.winner
            lost = not math.isfinite(ys[-1])
            ys[-1] = worst if lost else ys[-1]
            for first, last in _pieces(ys):
                axis.plot(
                    [first, last],
                    [ys[first], ys[last]],
                    color=arm.look.color,
                    linestyle=arm.look.dash if last == first + 1 else ":",
                    linewidth=current().line * 1.4 if won else current().thin + 0.1,
                    alpha=1.0 if won else 0.45,
                    clip_on=False,
                    zorder=3 if won else 2,
                )
            if lost:
                axis.plot([len(ys) - 1], [worst], "x", color=arm.look.color, clip_on=False)
    _frame(axis, [*hypers, objective], scales)


def _pieces(ys: Sequence[float]) -> list[tuple[int, int]]:
    """From each place that has a value to the next that has one."""
    known = [place for place, y in enumerate(ys) if math.isfinite(y)]
    return list(itertools.pairwise(known))


def _frame(axis: Axes, names: Sequence[str], scales: Sequence[_Scale]) -> None:
    last = len(names) - 1
    for place, scale in enumerate(scales):
        axis.axvline(place, color=GREY, linewidth=current().thin, zorder=1)
        for at, value in ((0.0, scale.low), (1.0, scale.high)) if math.isfinite(scale.low) else ():
            axis.annotate(
                f"{value:.4g}",
                (place, at),
                xytext=(0, -2 if at == 0 else 2),
                textcoords="offset points",
                ha="left" if place == 0 else "right" if place == last else "center",
                va="top" if at == 0 else "bottom",
                fontsize=current().small,
            )
    axis.set_xticks(range(len(names)), [_short(name, len(names)) for name in names])
    for place, tick in enumerate(axis.get_xticklabels()):
        tick.set_horizontalalignment("left" if place == 0 else "right" if place == last else "center")
    axis.set_xlim(-0.02, last + 0.02)
    axis.set_ylim(0, 1)
    axis.set_yticks([])
    axis.grid(visible=False)
    axis.tick_params(axis="x", length=0, pad=current().small * 1.4)
    for side in ("left", "bottom"):
        axis.spines[side].set_visible(False)


def _short(name: str, count: int) -> str:
    """The end of a config key, which says most, in at most two lines."""
    room = max(8, 42 // count)
    head, dot, tail = label(name).rpartition(".")
    lines = [head + dot, tail] if head else textwrap.wrap(tail, room)[:2]
    return "\n".join(line if len(line) <= room else f"{line[: room - 1]}…" for line in lines)


@dataclass(frozen=True)
class _Scale:
    low: float
    high: float
    log: bool

    @classmethod
    def of(cls, values: Array, log: bool) -> _Scale:
        known = values[np.isfinite(values)]
        log = log and bool(len(known)) and bool(known.min() > 0)
        low, high = (float(known.min()), float(known.max())) if len(known) else (math.nan, math.nan)
        return cls(low, high, log)

    def place(self, value: float) -> float:
        if not math.isfinite(value):
            return math.nan
        low, high, at = (math.log(v) if self.log else v for v in (self.low, self.high, value))
        return (at - low) / (high - low) if high > low else 0.5
