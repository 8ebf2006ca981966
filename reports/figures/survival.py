"""Target survival: the share of runs that have not yet reached the target (Kaplan & Meier 1958). A small upright stroke
marks where a run was last watched without having reached it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from reports.figures.legend import broken
from reports.figures.style import Mark, current, labels
from reports.figures.ticks import linear_ticks
from reports.statistics.curves import Array
from reports.statistics.survival import kaplan_meier

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True)
class Watched:
    """One arm's runs. times: when each reached the target, or until when it was watched: (runs,), finite. reached:
    which did."""

    name: str
    look: Mark
    times: Array
    reached: NDArray[np.bool_]


def survival(axis: Axes, arms: Sequence[Watched], *, x: str) -> None:
    """Draw `arms` on `axis`. The lines end where the last run of all was watched."""
    shown = labels([each.name for each in arms])
    end = max((float(arm.times.max()) for arm in arms if len(arm.times)), default=1.0)
    for arm in arms:
        if not len(arm.times):
            continue
        curve = kaplan_meier(arm.times, arm.reached)
        until = float(arm.times.max()) if not arm.reached.all() else end
        xs = np.concatenate([[0.0], curve.times, [max(until, float(curve.times[-1]) if len(curve.times) else 0.0)]])
        ys = np.concatenate([[1.0], curve.survival, [curve.survival[-1] if len(curve.times) else 1.0]])
        axis.step(
            xs,
            ys,
            where="post",
            color=arm.look.color,
            linestyle=arm.look.dash,
            marker=arm.look.marker if len(arms) > 4 or not current().ink else None,
            markevery=max(1, len(xs) // 4),
            label=shown[arm.name],
            clip_on=False,
        )
        lost = np.unique(arm.times[~arm.reached])
        heights = ys[np.searchsorted(curve.times, lost, side="right")]
        size = current().marker * 2
        if len(lost):
            axis.plot(lost, heights, "|", color=arm.look.color, markersize=size, markeredgewidth=1.2, clip_on=False)
    axis.set_ylim(0, 1.0)
    axis.set_xlim(0, end * 1.02)
    linear_ticks(axis)
    axis.set_xlabel(broken(axis, x))
    axis.set_ylabel(broken(axis, "runs not yet at the target", along="y"))
    axis.yaxis.set_major_formatter(lambda value, _: f"{100 * value:.0f} %")
