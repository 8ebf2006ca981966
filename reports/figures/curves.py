"""Learning curves: each seed a thin line, their mean a thick one, its pointwise t interval a band."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from reports.figures.legend import broken, empty
from reports.figures.style import GREY, Mark, current, labels
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
    In black and white a seed is drawn on its own only where there is no mean.

    The y axis leaves out the first fifth of training, which would press everything else together.
    """
    shown = labels([line.name for line in lines])
    size, thin = current().marker, current().thin + 0.1
    for line in lines:
        look = line.look
        middle = band(line.xs, line.ys)
        alone = sum(len(seed_x) > 0 for seed_x in line.xs) < 2 or not len(middle.x)
        for seed_x, seed_y, diverged in zip(line.xs, line.ys, line.diverged):
            if current().ink or alone:
                spot = "." if len(seed_x) == 1 else None
                axis.plot(seed_x, seed_y, color=look.color, linewidth=thin, alpha=0.5, marker=spot)
            if diverged and len(seed_x):
                axis.plot(seed_x[-1:], seed_y[-1:], "x", color=look.color, markersize=size * 1.25, clip_on=False)
        many = len(lines) > 4 or not current().ink
        axis.plot(
            middle.x,
            middle.mean,
            color=look.color,
            linestyle=look.dash,
            label=shown[line.name],
            marker=look.marker if many or len(middle.x) == 1 else None,
            markevery=max(1, len(middle.x) // 6),
            markersize=size,
        )
        axis.fill_between(middle.x, middle.low, middle.high, color=look.color, alpha=0.1, linewidth=0)
    if target is not None and math.isfinite(target):
        axis.axhline(target, color=GREY, linewidth=thin + 0.1, linestyle=(0, (4, 3)), label="target")
    if not any(len(seed_x) for line in lines for seed_x in line.xs):
        empty(axis, "no run was evaluated before it ended")
    axis.set_xlabel(broken(axis, x))
    axis.set_ylabel(broken(axis, y, along="y"))
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
