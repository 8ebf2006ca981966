"""The tuning picture: every trial's objective against one hyperparameter, winners ringed, each arm's range below."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from reports.figures.legend import broken
from reports.figures.room import rows_beside
from reports.figures.style import Mark, current, labels
from reports.figures.ticks import log_ticks

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True)
class Slice:
    """One arm's trials. x: the hyperparameter. y: the objective, None for a trial that gave none (it diverged). winner:
    which of them was chosen. ranges: (low, high) of each range searched, the first one first."""

    name: str
    hyper: str
    x: Sequence[float]
    y: Sequence[float | None]
    winner: int | None
    ranges: Sequence[tuple[float, float]]
    log: bool
    look: Mark


def trials(axis: Axes, slices: Sequence[Slice], *, y: str, better: str) -> None:
    """Draw the trials of arms that tuned one hyperparameter. better: "up" or "down"; what gave no objective stands at
    the other end, as crosses."""
    size = current().marker
    shown = labels([each.name for each in slices])
    log = any(one.log for one in slices)
    if log:
        axis.set_xscale("log")
    axis.set_xlim(*_x_range(slices, log))
    rows = rows_beside(axis, [y for one in slices for y in one.y if y is not None], len(slices), better)
    for one, row in zip(slices, rows):
        _range(axis, one, row)
        good = [(x, score) for x, score in zip(one.x, one.y) if score is not None and math.isfinite(score)]
        axis.plot(
            [x for x, _ in good],
            [score for _, score in good],
            one.look.marker,
            color=one.look.color,
            markersize=size,
            alpha=0.75,
            markeredgewidth=0,
            clip_on=not good,
            label=shown[one.name],
        )
        bad = [x for x, score in zip(one.x, one.y) if score is None or not math.isfinite(score)]
        axis.plot(
            bad,
            [row] * len(bad),
            "x",
            color=one.look.color,
            markersize=size * 1.25,
            transform=axis.get_xaxis_transform(),
        )
        best = one.y[one.winner] if one.winner is not None else None
        if one.winner is not None and best is not None:
            axis.plot(
                [one.x[one.winner]],
                [best],
                "o",
                markersize=size * 2.2,
                markerfacecolor="none",
                markeredgecolor="#111827",
                markeredgewidth=1.1,
                clip_on=False,
            )
    axis.set_xlabel(broken(axis, slices[0].hyper))
    axis.set_ylabel(broken(axis, y, along="y"))
    if log:
        log_ticks(axis)


def _range(axis: Axes, one: Slice, row: float) -> None:
    """What an arm searched, as a line between its edges; dashed where the range was widened."""
    for index, pair in enumerate(one.ranges):
        style = "solid" if index == 0 else (0, (3, 2))
        across = axis.get_xaxis_transform()
        axis.plot(
            pair,
            [row, row],
            linestyle=style,
            color=one.look.color,
            linewidth=current().thin + 0.4,
            alpha=0.8,
            transform=across,
        )
        axis.plot(pair, [row, row], "|", color=one.look.color, markersize=current().marker * 1.5, transform=across)
    if one.ranges and not current().ink:  # whose it is
        axis.plot(one.ranges[0][:1], [row], one.look.marker, markersize=current().marker * 0.8, transform=across)


def _x_range(slices: Sequence[Slice], log: bool) -> tuple[float, float]:
    """All trials and all edges, with a margin on the axis's own scale."""
    shown = [x for one in slices for x in (*one.x, *(edge for pair in one.ranges for edge in pair))]
    low, high = min(shown, default=0.1), max(shown, default=1.0)
    if log:
        factor = (high / low) ** 0.05 if high > low else 2.0
        return low / factor, high * factor
    margin = 0.05 * (high - low) or 0.5 * abs(high) or 1.0
    return low - margin, high + margin
