"""The tuning picture: every trial's objective against one hyperparameter, winners ringed, the ranges' edges drawn."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from reports.figures.style import GREY, Mark, label

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
    log = any(one.log for one in slices)
    if log:
        axis.set_xscale("log")
    axis.set_xlim(*_x_range(slices, log))
    axis.set_ylim(*_y_range(slices))
    _edges(axis, slices)
    floor = 0.03 if better == "up" else 0.97
    for one in slices:
        good = [(x, score) for x, score in zip(one.x, one.y) if score is not None and math.isfinite(score)]
        axis.plot(
            [x for x, _ in good],
            [score for _, score in good],
            one.look.marker,
            color=one.look.color,
            markersize=4,
            alpha=0.75,
            markeredgewidth=0,
            clip_on=False,
            label=label(one.name),
        )
        bad = [x for x, score in zip(one.x, one.y) if score is None or not math.isfinite(score)]
        axis.plot(
            bad, [floor] * len(bad), "x", color=one.look.color, markersize=5, transform=axis.get_xaxis_transform()
        )
        best = one.y[one.winner] if one.winner is not None else None
        if one.winner is not None and best is not None:
            axis.plot(
                [one.x[one.winner]],
                [best],
                "o",
                markersize=9,
                markerfacecolor="none",
                markeredgecolor="#111827",
                markeredgewidth=1.1,
                clip_on=False,
            )
    axis.set_xlabel(slices[0].hyper, parse_math=False)
    axis.set_ylabel(y)
    if log:
        _log_ticks(axis)


def _edges(axis: Axes, slices: Sequence[Slice]) -> None:
    """Each range's edges, in its arm's color where arms have different ranges; widened ones dashed."""
    alike = len({tuple(one.ranges) for one in slices}) == 1
    for one in slices[:1] if alike else slices:
        for index, pair in enumerate(one.ranges):
            for edge in pair:
                axis.axvline(
                    edge,
                    color=GREY if alike else one.look.color,
                    linewidth=0.9,
                    alpha=0.8,
                    linestyle="solid" if index == 0 else (0, (3, 2)),
                    zorder=1,
                )


def _log_ticks(axis: Axes) -> None:
    from matplotlib.ticker import LogLocator, NullFormatter

    low, high = axis.get_xlim()
    axis.xaxis.set_major_locator(LogLocator(subs=(1.0,) if high / low > 30 else (1.0, 2.0, 5.0), numticks=8))
    axis.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axis.xaxis.set_minor_formatter(NullFormatter())


def _x_range(slices: Sequence[Slice], log: bool) -> tuple[float, float]:
    """All trials and all edges, with a margin on the axis's own scale."""
    shown = [x for one in slices for x in (*one.x, *(edge for pair in one.ranges for edge in pair))]
    low, high = min(shown, default=0.1), max(shown, default=1.0)
    if log:
        factor = (high / low) ** 0.05 if high > low else 2.0
        return low / factor, high * factor
    margin = 0.05 * (high - low) or 0.5 * abs(high) or 1.0
    return low - margin, high + margin


def _y_range(slices: Sequence[Slice]) -> tuple[float, float]:
    seen = [y for one in slices for y in one.y if y is not None and math.isfinite(y)]
    if not seen:
        return 0.0, 1.0
    low, high = min(seen), max(seen)
    margin = 0.08 * (high - low) or 0.05 * max(abs(high), 1e-3)
    return low - margin, high + margin
