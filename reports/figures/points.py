"""Seeds as points, one row an arm, with the mean and its t interval. No bars: a bar hides n."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from reports.figures.style import GREY, Mark, label
from reports.statistics.result import Estimate

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from reports.statistics.curves import Array


@dataclass(frozen=True)
class Row:
    """values: of the seeds that did not diverge. estimate: None where a run diverged or seeds are too few."""

    name: str
    look: Mark
    values: Array
    diverged: int
    estimate: Estimate | None


def points(axis: Axes, rows: Sequence[Row], *, x: str, better: str) -> None:
    """Draw `rows` on `axis`, the first on top. better: "right" or "left", where diverged runs stand on the other
    side."""
    for index, row in enumerate(rows):
        look = row.look
        axis.plot(
            row.values,
            np.full(len(row.values), index + 0.0),
            look.marker,
            color=look.color,
            markersize=4,
            alpha=0.55,
            markeredgewidth=0,
        )
        if row.estimate is not None and row.estimate.low is not None and row.estimate.high is not None:
            axis.plot([row.estimate.low, row.estimate.high], [index - 0.28] * 2, color=look.color, linewidth=1.4)
            axis.plot([row.estimate.value], [index - 0.28], "|", color=look.color, markersize=9, markeredgewidth=1.6)
        if row.diverged:
            side = 0.02 if better == "right" else 0.98
            axis.plot(
                [side],
                [index],
                "x",
                color=look.color,
                markersize=6,
                clip_on=False,
                transform=axis.get_yaxis_transform(),
            )
            axis.annotate(
                f"{row.diverged} diverged",
                (side, index),
                xycoords=axis.get_yaxis_transform(),
                xytext=(8 if better == "right" else -8, 0),
                textcoords="offset points",
                va="center",
                ha="left" if better == "right" else "right",
                color=GREY,
                fontsize=7,
            )
    axis.set_yticks(range(len(rows)), [label(row.name) for row in rows])
    axis.set_ylim(len(rows) - 0.4, -0.6)
    axis.grid(axis="y", visible=False)
    axis.tick_params(axis="y", length=0)
    axis.set_xlabel(x)
    axis.margins(x=0.08)
