"""Pareto fronts: objective against cost. Each seed a small point, each arm's median a large one; the line joins the
arms that no other beats on both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from reports.figures.legend import broken, empty
from reports.figures.style import GREY, Mark, current, labels
from reports.figures.ticks import linear_ticks, log_ticks, needs_log
from reports.statistics.curves import Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True)
class Cloud:
    """One arm. cost, value: of each seed that did not diverge, (seeds,). diverged: how many did. lost: the cost of
    those, where it is known."""

    name: str
    look: Mark
    cost: Array
    value: Array
    diverged: int = 0
    lost: Sequence[float] = ()

    def middle(self, sign: float) -> tuple[float, float]:
        """The medians, a diverged run the worst; nan where that is the median. sign: +1 where more is better."""
        if not len(self.cost) or self.diverged >= len(self.cost):
            return np.nan, np.nan
        values = np.concatenate([self.value, np.full(self.diverged, -sign * np.inf)])
        return float(np.median(self.cost)), float(np.median(values))


def front(cost: Sequence[float], value: Sequence[float], sign: float) -> list[int]:
    """Which points no other beats: none costs as little or less and is as good or better, with one of the two strictly.
    By cost. sign: +1 where more is better.

    >>> front([1, 2, 3, 4], [0.5, 0.7, 0.6, 0.9], 1.0)
    [0, 1, 3]
    """
    found: list[int] = []
    best = -np.inf
    for index in sorted(range(len(cost)), key=lambda i: (cost[i], -sign * value[i])):
        if np.isfinite(cost[index]) and np.isfinite(value[index]) and sign * value[index] > best:
            found.append(index)
            best = sign * value[index]
    return found


def pareto(axis: Axes, arms: Sequence[Cloud], *, x: str, y: str, mode: str, log: bool) -> None:
    """Draw `arms` on `axis`. mode: "max" or "min", which values are better; a lower cost is. What diverged stands as a
    cross at the worse end, at its cost."""
    shown = labels([each.name for each in arms])
    if log:
        axis.set_xscale("log")
    sign = 1.0 if mode == "max" else -1.0
    middles = [arm.middle(sign) for arm in arms]
    best = front([c for c, _ in middles], [v for _, v in middles], sign)
    size = current().marker
    if best:
        line = [middles[index] for index in best]
        thin = current().thin + 0.3
        axis.step([c for c, _ in line], [v for _, v in line], where="post", color=GREY, linewidth=thin, zorder=1)
    for index, (arm, (cost, value)) in enumerate(zip(arms, middles)):
        look, hollow = arm.look, index not in best
        axis.plot(
            arm.cost, arm.value, look.marker, color=look.color, markersize=size * 0.6, alpha=0.4, linestyle="none"
        )
        axis.plot(
            [cost],
            [value],
            look.marker,
            color=look.color,
            markersize=size * 1.8,
            markerfacecolor="white" if hollow else look.color,
            linestyle="none",
            label=shown[arm.name],
            zorder=3,
        )
        if len(arm.lost):
            axis.plot(
                arm.lost,
                [0.02 if sign > 0 else 0.98] * len(arm.lost),
                "x",
                color=look.color,
                markersize=size * 1.25,
                linestyle="none",
                clip_on=False,
                transform=axis.get_xaxis_transform(),
            )
    if not any(len(arm.cost) for arm in arms):
        empty(axis, "no run gave a value", along="xy" if not any(len(arm.lost) for arm in arms) else "y")
    tall = needs_log(value for arm in arms for value in arm.value)
    if tall:
        axis.set_yscale("log")
    axis.margins(0.08)
    linear_ticks(axis)
    axis.set_xlabel(broken(axis, x))
    axis.set_ylabel(broken(axis, y, along="y"))
    if log:
        log_ticks(axis)
    if tall:
        log_ticks(axis, "y")
