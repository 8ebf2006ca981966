"""Seeds as points, one row an arm, with the mean and its t interval. No bars: a bar hides n.

What failed does not press the rest together: diverged runs are counted at the worse edge, and where a few values lie
many times farther off than all others do from each other, they stand at that edge as numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from reports.figures.legend import broken, inner_width, text_width
from reports.figures.style import GREY, Mark, current, labels
from reports.figures.ticks import linear_ticks, log_ticks, needs_log
from reports.statistics.result import Estimate

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from reports.statistics.curves import Array

#: How many times the range of all others a range must be for what makes it so to stand at the edge.
_FAR = 8.0


@dataclass(frozen=True)
class Row:
    """values: of the seeds that did not diverge. estimate: None where a run diverged or seeds are too few."""

    name: str
    look: Mark
    values: Array
    diverged: int
    estimate: Estimate | None


def points(axis: Axes, rows: Sequence[Row], *, x: str, better: str) -> None:
    """Draw `rows` on `axis`, the first on top. better: "right" or "left", where what diverged or lies far off stands on
    the other side."""
    shown = labels([each.name for each in rows])
    log = needs_log(value for row in rows for value in row.values)
    edge = None if log else far(rows, better)
    if log:
        axis.set_xscale("log")
    told = []
    for index, row in enumerate(rows):
        kept = _kept(row, edge, better)
        _row(axis, index, row, kept)
        told.append(_told(row, row.values[~kept]))
        if told[-1]:
            _at_the_edge(axis, index, row.look.color, told[-1], better, hollow=not row.diverged)
    axis.set_yticks(range(len(rows)), [shown[row.name] for row in rows])
    axis.set_ylim(len(rows) - 0.4, -0.6)
    axis.grid(axis="y", visible=False)
    axis.tick_params(axis="y", length=0)
    axis.set_xlabel(broken(axis, x, beside=list(shown.values())))
    axis.margins(x=0.08)
    if not any(len(row.values) for row in rows):
        axis.set_xticks([])
        return
    if log:
        log_ticks(axis)
    else:
        if edge is not None:
            _limit(axis, rows, edge, better)
        linear_ticks(axis)
    seen = [row.values[_kept(row, edge, better)] for row in rows]
    _make_room(axis, seen, told, better, inner_width(axis, shown.values()))


def far(rows: Sequence[Row], better: str) -> float | None:
    """The worst value that keeps its place, where at most half of all values, the worst ones, make the range many times
    what it is without them. None where all keep theirs, as those of two arms do: their distance is the result."""
    order = sorted((float(v) for row in rows for v in row.values), reverse=better == "right")
    for count in range(len(order) - 1, len(order) - len(order) // 2 - 1, -1):
        worst, whole = order[count - 1], abs(order[-1] - order[0])
        inside = sum(any(_inside(v, worst, better) for v in row.values) for row in rows)
        near = abs(worst - order[0])
        if inside >= 2 and near > 0 and whole > _FAR * near and abs(order[count] - worst) > near:
            return worst
    return None


def _inside(value: float, worst: float, better: str) -> bool:
    return value >= worst if better == "right" else value <= worst


def _kept(row: Row, edge: float | None, better: str) -> np.ndarray:
    """Which of its values stand on the axis."""
    if edge is None:
        return np.ones(len(row.values), bool)
    return row.values >= edge if better == "right" else row.values <= edge


def _row(axis: Axes, index: int, row: Row, kept: np.ndarray) -> None:
    size, look, values = current().marker, row.look, row.values[kept]
    axis.plot(
        values,
        np.full(len(values), index + 0.0),
        look.marker,
        color=look.color,
        markersize=size,
        alpha=0.55,
        markeredgewidth=0,
    )
    estimate = row.estimate
    if estimate is None or estimate.low is None or estimate.high is None or not kept.any():
        return
    line = current().line * 0.9
    axis.plot([estimate.low, estimate.high], [index - 0.28] * 2, color=look.color, linewidth=line)
    axis.plot([estimate.value], [index - 0.28], "|", color=look.color, markersize=size * 2.2, markeredgewidth=1.6)


def _told(row: Row, off: Array) -> str:
    """What the edge says of a row."""
    said = [f"{row.diverged} diverged"] if row.diverged else []
    if len(off):
        low, high = float(off.min()), float(off.max())
        both = f"{low:.3g}" if len(off) == 1 or f"{low:.3g}" == f"{high:.3g}" else f"{low:.3g} to {high:.3g}"
        said.append(f"{len(off)} at {both}")
    return ", ".join(said).replace("-", "\N{MINUS SIGN}")


def _at_the_edge(axis: Axes, index: int, color: str, text: str, better: str, *, hollow: bool) -> None:
    """A cross for what diverged, an arrow for what lies beyond; and the words."""
    side, size = (0.02 if better == "right" else 0.98), current().marker
    marker = ("<" if better == "right" else ">") if hollow else "x"
    axis.plot(
        [side],
        [index],
        marker,
        color=color,
        markersize=size * 1.5,
        clip_on=False,
        transform=axis.get_yaxis_transform(),
    )
    axis.annotate(
        text,
        (side, index),
        xycoords=axis.get_yaxis_transform(),
        xytext=(size * 2 if better == "right" else -size * 2, 0),
        textcoords="offset points",
        va="center",
        ha="left" if better == "right" else "right",
        color=GREY,
        fontsize=_size(),
    )


def _size() -> float:
    return current().small * 0.94


def _limit(axis: Axes, rows: Sequence[Row], edge: float, better: str) -> None:
    """The axis to what keeps its place, and the intervals of rows that keep all."""
    seen = [float(v) for row in rows for v in row.values[_kept(row, edge, better)]]
    for row in rows:
        if row.estimate is not None and _kept(row, edge, better).all():
            seen += [bound for bound in (row.estimate.low, row.estimate.high) if bound is not None]
    margin = 0.08 * (max(seen) - min(seen))
    axis.set_xlim(min(seen) - margin, max(seen) + margin)


def _make_room(axis: Axes, seen: Sequence[Array], told: Sequence[str], better: str, width: float) -> None:
    """On the worse side, as much as the words of a row need to stay clear of its own points. width: points."""
    low, high = axis.transData.transform([(edge, 0) for edge in axis.get_xlim()])[:, 0]
    share = 0.0
    for values, text in zip(seen, told):
        if not text or not len(values):
            continue
        words = min(0.7, (text_width(text, _size()) + 4.5 * current().marker) / width + 0.02)
        ends = axis.transData.transform([(float(v), 0) for v in (values.min(), values.max())])[:, 0]
        free = (ends[0] - low if better == "right" else high - ends[1]) / (high - low)
        # With a share s of the new axis added, what was free is s + (1 - s)*free of it.
        share = max(share, (words - free) / (1 - free) if words > free else 0.0)
    if not share:
        return
    room = (high - low) * share / (1 - share)
    edges = (low - room, high) if better == "right" else (low, high + room)
    axis.set_xlim(*axis.transData.inverted().transform([(edge, 0) for edge in edges])[:, 0])
