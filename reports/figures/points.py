"""Seeds as points, one row an arm, with the mean and its t interval. No bars: a bar hides n."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from reports.figures.legend import broken
from reports.figures.style import GREY, Mark, current, labels
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
    size = current().marker
    shown = labels([each.name for each in rows])
    for index, row in enumerate(rows):
        look = row.look
        axis.plot(
            row.values,
            np.full(len(row.values), index + 0.0),
            look.marker,
            color=look.color,
            markersize=size,
            alpha=0.55,
            markeredgewidth=0,
        )
        if row.estimate is not None and row.estimate.low is not None and row.estimate.high is not None:
            axis.plot(
                [row.estimate.low, row.estimate.high],
                [index - 0.28] * 2,
                color=look.color,
                linewidth=current().line * 0.9,
            )
            axis.plot(
                [row.estimate.value], [index - 0.28], "|", color=look.color, markersize=size * 2.2, markeredgewidth=1.6
            )
        if row.diverged:
            side = 0.02 if better == "right" else 0.98
            axis.plot(
                [side],
                [index],
                "x",
                color=look.color,
                markersize=size * 1.5,
                clip_on=False,
                transform=axis.get_yaxis_transform(),
            )
            axis.annotate(
                f"{row.diverged} diverged",
                (side, index),
                xycoords=axis.get_yaxis_transform(),
                xytext=(size * 2 if better == "right" else -size * 2, 0),
                textcoords="offset points",
                va="center",
                ha="left" if better == "right" else "right",
                color=GREY,
                fontsize=current().small * 0.94,
            )
    axis.set_yticks(range(len(rows)), [shown[row.name] for row in rows])
    axis.set_ylim(len(rows) - 0.4, -0.6)
    axis.grid(axis="y", visible=False)
    axis.tick_params(axis="y", length=0)
    axis.set_xlabel(broken(axis, x, beside=list(shown.values())))
    axis.margins(x=0.08)
    if not any(len(row.values) for row in rows):
        axis.set_xticks([])
    elif any(row.diverged for row in rows):
        _make_room(axis, better)


def _make_room(axis: Axes, better: str) -> None:
    """On the worse side, for the count of what diverged."""
    low, high = axis.get_xlim()
    share = min(0.7, 1.9 * current().small * 6 / (axis.figure.get_size_inches()[0] * 72))  # type: ignore[union-attr]
    room = (high - low) * share / (1 - share)
    axis.set_xlim((low - room, high) if better == "right" else (low, high + room))
