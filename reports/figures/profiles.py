"""Performance profiles: the share of problems that an arm solves within each multiple of the fastest arm's time, or the
share of runs that score above each threshold.

Sources: Dolan & More 2002; Agarwal et al. 2021."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from reports.figures.legend import broken
from reports.figures.style import Mark, current, labels
from reports.figures.ticks import linear_ticks, log_ticks
from reports.statistics.curves import Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True)
class Steps:
    """One arm. share: from x on, in [0, 1]; low, high: its pointwise interval, or None. All (points,)."""

    name: str
    look: Mark
    x: Array
    share: Array
    low: Array | None = None
    high: Array | None = None


def profiles(axis: Axes, arms: Sequence[Steps], *, x: str, y: str, log: bool) -> None:
    """Draw `arms` on `axis` as steps."""
    shown = labels([each.name for each in arms])
    if log:
        axis.set_xscale("log")
    for arm in arms:
        many = len(arms) > 4 or not current().ink
        axis.step(
            arm.x,
            arm.share,
            where="post",
            color=arm.look.color,
            linestyle=arm.look.dash,
            marker=arm.look.marker if many else None,
            markevery=max(1, len(arm.x) // 5),
            label=shown[arm.name],
        )
        if arm.low is not None and arm.high is not None and np.isfinite(arm.low).any():
            axis.fill_between(arm.x, arm.low, arm.high, step="post", color=arm.look.color, alpha=0.12, linewidth=0)
    ends = [float(edge) for arm in arms if len(arm.x) for edge in (arm.x[0], arm.x[-1])]
    if ends and max(ends) > min(ends):
        axis.set_xlim(min(ends), max(ends))
    axis.set_ylim(-0.02, 1.02)
    axis.set_xlabel(broken(axis, x))
    axis.set_ylabel(broken(axis, y, along="y"))
    if log:
        log_ticks(axis)
    else:
        linear_ticks(axis)
