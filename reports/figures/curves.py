"""Learning curves: each seed a thin line, their mean a thick one, its pointwise t interval a band."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from reports.figures.legend import broken, empty
from reports.figures.style import GREY, Mark, current, labels
from reports.figures.ticks import linear_ticks, log_ticks, needs_log
from reports.statistics.curves import Array, Band, band

if TYPE_CHECKING:
    from matplotlib.axes import Axes


#: More pieces than this of a column's width cannot be told apart, at 500 dots an inch.
_PIECES = 2000


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

    The y axis leaves out the first fifth of training, which would press everything else together, and is logarithmic
    where positive values are still many times others.
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
                axis.plot(*thinned(seed_x, seed_y), color=look.color, linewidth=thin, alpha=0.5, marker=spot)
            if diverged and len(seed_x):
                axis.plot(seed_x[-1:], seed_y[-1:], "x", color=look.color, markersize=size * 1.25, clip_on=False)
        many = len(lines) > 4 or not current().ink
        mean_x, mean_y = thinned(middle.x, middle.mean)
        axis.plot(
            mean_x,
            mean_y,
            color=look.color,
            linestyle=look.dash,
            label=shown[line.name],
            marker=look.marker if many or len(middle.x) == 1 else None,
            markevery=max(1, len(mean_x) // 6),
            markersize=size,
        )
        axis.fill_between(*_band(middle), color=look.color, alpha=0.1, linewidth=0)
    if target is not None and math.isfinite(target):
        axis.axhline(target, color=GREY, linewidth=thin + 0.1, linestyle=(0, (4, 3)), label="target")
    if not any(len(seed_x) for line in lines for seed_x in line.xs):
        empty(axis, "no run was evaluated before it ended")
    axis.set_xlabel(broken(axis, x))
    axis.set_ylabel(broken(axis, y, along="y"))
    if needs_log(_late(lines, target)):
        axis.set_yscale("log")
    log = axis.get_yscale() == "log"  # by us, or by whose axis it is
    axis.set_ylim(*limits(lines, target, log))
    if axis.get_xscale() != "log":
        axis.set_xlim(left=0)
    linear_ticks(axis)
    if log and axis.get_ylim()[0] > 0:
        log_ticks(axis, "y")


def thinned(x: Array, y: Array) -> tuple[Array, Array]:
    """The points of a line that an eye can tell from the line through all: where there are many, the first, last, least
    and greatest of each of 2,000 equal pieces. A file of 100,000 points a seed is one that no journal takes."""
    if len(x) <= 4 * _PIECES:
        return x, y
    kept = {0, len(x) - 1}
    for piece in np.array_split(np.arange(len(x)), _PIECES):
        low, high = piece[np.argmin(y[piece])], piece[np.argmax(y[piece])]
        kept |= {int(piece[0]), int(piece[-1]), int(low), int(high)}
    places = np.array(sorted(kept))
    return x[places], y[places]


def _band(middle: Band) -> tuple[Array, Array, Array]:
    """Its edges, of many points the widest of each of 2,000 pieces."""
    if len(middle.x) <= 4 * _PIECES:
        return middle.x, middle.low, middle.high
    pieces = np.array_split(np.arange(len(middle.x)), _PIECES)
    edges = [(middle.x[p[0]], middle.low[p].min(), middle.high[p].max()) for p in pieces]
    last = (middle.x[-1], middle.low[-1], middle.high[-1])
    return tuple(np.array(each, float) for each in zip(*edges, last))  # type: ignore[return-value]


def limits(lines: Sequence[Line], target: float | None, log: bool = False) -> tuple[float | None, float | None]:
    """The y range of all points after the first fifth of each curve, and of the target, with a margin on the axis's own
    scale."""
    shown = _late(lines, target)
    shown = shown[shown > 0] if log else shown
    if not len(shown):
        return None, None
    low, high = float(shown.min()), float(shown.max())
    if log:
        factor = (high / low) ** 0.06 if high > low else 2.0
        return low / factor, high * factor
    margin = 0.06 * (high - low) or 0.05 * max(abs(high), 1e-3)
    return low - margin, high + margin


def cut(lines: Sequence[Line], target: float | None) -> bool:
    """Whether values lie beyond the y axis."""
    low, high = limits(lines, target, needs_log(_late(lines, target)))
    seen = np.concatenate([y[np.isfinite(y)] for line in lines for y in line.ys] or [np.empty(0)])
    return low is not None and high is not None and bool(((seen < low) | (seen > high)).any())


def _late(lines: Sequence[Line], target: float | None) -> Array:
    late = [y[x >= x[0] + 0.2 * (x[-1] - x[0])] for line in lines for x, y in zip(line.xs, line.ys) if len(x)]
    shown = np.concatenate([*late, np.array([target] if target is not None else [])]) if late else np.empty(0)
    return shown[np.isfinite(shown)]
