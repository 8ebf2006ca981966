"""The tuning picture: every trial's objective against one hyperparameter, winners ringed, each arm's range below."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from reports.figures.legend import broken
from reports.figures.style import Mark, current, labels
from reports.figures.ticks import log_ticks

if TYPE_CHECKING:
    from matplotlib.axes import Axes


#: From one arm's range to the next, as a share of the axis.
_ROW = 0.055


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
    step = _step(slices)
    log = any(one.log for one in slices)
    if log:
        axis.set_xscale("log")
    axis.set_xlim(*_x_range(slices, log))
    low, high, floor, ceiling = _y_range(slices, better)
    axis.set_ylim(floor, ceiling)
    axis.set_yticks([tick for tick in axis.get_yticks() if low <= tick <= high])
    for index, one in enumerate(slices):
        row = 0.03 + step * index if better == "up" else 0.97 - step * index
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
            clip_on=False,
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


def _step(slices: Sequence[Slice]) -> float:
    return min(_ROW, 0.3 / max(len(slices), 1))


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


def _x_range(slices: Sequence[Slice], log: bool) -> tuple[float, float]:
    """All trials and all edges, with a margin on the axis's own scale."""
    shown = [x for one in slices for x in (*one.x, *(edge for pair in one.ranges for edge in pair))]
    low, high = min(shown, default=0.1), max(shown, default=1.0)
    if log:
        factor = (high / low) ** 0.05 if high > low else 2.0
        return low / factor, high * factor
    margin = 0.05 * (high - low) or 0.5 * abs(high) or 1.0
    return low - margin, high + margin


def _y_range(slices: Sequence[Slice], better: str) -> tuple[float, float, float, float]:
    """All objectives with a margin; and the same with room for the arms' ranges on the worse side."""
    seen = [y for one in slices for y in one.y if y is not None and math.isfinite(y)]
    low, high = (min(seen), max(seen)) if seen else (0.0, 1.0)
    margin = 0.08 * (high - low) or 0.05 * max(abs(high), 1e-3)
    share = _step(slices) * (len(slices) + 1)
    room = (high - low + 2 * margin) * share / (1 - share)
    low, high = low - margin, high + margin
    return (low, high, low - room, high) if better == "up" else (low, high, low, high + room)
