"""Room: the y axis of a picture of trials, with a row for each arm on the worse side of all objectives, for what it
searched and for its trials that gave none."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from reports.figures.legend import empty
from reports.figures.ticks import log_ticks, needs_log

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: From one arm's row to the next, as a share of the axis.
_ROW = 0.055


def rows_beside(axis: Axes, objectives: Sequence[float], arms: int, better: str) -> list[float]:
    """Give `axis` the y range of the objectives that are finite, and room for a row an arm; on a log scale where some
    are many times others. better: "up" or "down". Returns where the rows are, as shares of the axis."""
    step = min(_ROW, 0.3 / max(arms, 1))
    seen = [value for value in objectives if math.isfinite(value)]
    if log := needs_log(seen):
        axis.set_yscale("log")
    low, high = (min(seen), max(seen)) if seen else (0.0, 1.0)
    if log:
        low, high = math.log10(low), math.log10(high)
    margin = 0.08 * (high - low) or 0.05 * max(abs(high), 1e-3)
    share = step * (arms + 1)
    room = (high - low + 2 * margin) * share / (1 - share)
    edges = low - margin, high + margin
    ends = (edges[0] - room, edges[1]) if better == "up" else (edges[0], edges[1] + room)
    axis.set_ylim(*(10**end for end in ends) if log else ends)
    if not seen:
        empty(axis, "no trial gave an objective", along="y")
    elif log:
        log_ticks(axis, "y")
    else:
        axis.set_yticks([tick for tick in axis.get_yticks() if edges[0] <= tick <= edges[1]])
    return [float(row) for row in (0.03 + step * np.arange(arms) if better == "up" else 0.97 - step * np.arange(arms))]
