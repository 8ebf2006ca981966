"""Learning curves: each seed a thin line, their mean a thick one, its pointwise t interval a band."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from reports.figures.style import GREY, Mark, label
from reports.statistics.curves import Array, band

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True)
class Line:
    """One arm's curves: xs and ys hold one array a seed; diverged says which of them ended badly. look: the arm's,
    everywhere."""

    name: str
    look: Mark
    xs: Sequence[Array]
    ys: Sequence[Array]
    diverged: Sequence[bool]


def curves(axis: Axes, lines: Sequence[Line], *, x: str, y: str, target: float | None = None) -> None:
    """Draw `lines` on `axis`. x, y: axis labels. The mean ends where the first seed ends: it is never one of survivors.

    The y axis leaves out the first fifth of training, which would press everything else together.
    """
    for line in lines:
        look = line.look
        for seed_x, seed_y, diverged in zip(line.xs, line.ys, line.diverged):
            axis.plot(seed_x, seed_y, color=look.color, linewidth=0.7, alpha=0.5)
            if diverged and len(seed_x):
                axis.plot(seed_x[-1:], seed_y[-1:], "x", color=look.color, markersize=5, clip_on=False)
        middle = band(line.xs, line.ys)
        every = max(1, len(middle.x) // 6)
        axis.plot(
            middle.x,
            middle.mean,
            color=look.color,
            linestyle=look.dash,
            label=label(line.name),
            marker=look.marker if len(lines) > 4 else None,
            markevery=every,
            markersize=4,
        )
        axis.fill_between(middle.x, middle.low, middle.high, color=look.color, alpha=0.1, linewidth=0)
    if target is not None and math.isfinite(target):
        axis.axhline(target, color=GREY, linewidth=0.8, linestyle=(0, (4, 3)), label="target")
    axis.set_xlabel(x)
    axis.set_ylabel(y)
    axis.set_ylim(*limits(lines, target))
    axis.set_xlim(left=0)


def limits(lines: Sequence[Line], target: float | None) -> tuple[float | None, float | None]:
    """The y range of all points after the first fifth of each curve, and of the target, with a margin."""
    late = [y[x >= x[0] + 0.2 * (x[-1] - x[0])] for line in lines for x, y in zip(line.xs, line.ys) if len(x)]
    shown = np.concatenate([*late, np.array([target] if target is not None else [])]) if late else np.empty(0)
    shown = shown[np.isfinite(shown)]
    if not len(shown):
        return None, None
    low, high = float(shown.min()), float(shown.max())
    margin = 0.06 * (high - low) or 0.05 * max(abs(high), 1e-3)
    return low - margin, high + margin
