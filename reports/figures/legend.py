"""Legend and labels: above the data, never on them, in as many columns as fit; labels broken where they are long."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from reports.figures.fonts import families
from reports.figures.style import GREY, current

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: In ems: the handle with its gaps, the gap between columns, what stands left of an axis, what right of it (half of the
#: last tick's label, and the margins), a line's height.
_HANDLE, _GAP, _LEFT, _RIGHT, _LINE = 3.0, 1.2, 4.5, 2.5, 1.35


def legend(axis: Axes, lift: float = 0.1) -> None:
    """A legend of what has a label on `axis`, above it by `lift` ems and as wide as its part of the figure."""
    handles, texts = axis.get_legend_handles_labels()
    if not handles:
        return
    beside = axis.yaxis.get_major_formatter().format_ticks(list(map(float, axis.get_yticks())))
    columns = fitting(texts, _width(axis), beside)
    axis.legend(
        handles,
        texts,
        loc="lower left",
        bbox_to_anchor=(0.0, 1.0),
        ncols=columns,
        borderaxespad=lift,
        borderpad=0.1,
        columnspacing=_GAP,
        handletextpad=0.6,
        labelspacing=0.25,
    )


def fitting(texts: Sequence[str], width: float, beside: Sequence[str] = ()) -> int:
    """How many columns of a legend fit into `width` inches. beside: the tick labels left of the axis."""
    em = current().small
    left = max([_LEFT * em, *(text_width(each, em) + 4.0 * em for each in beside)])
    widths = [text_width(text, em) + (_HANDLE + _GAP) * em for text in texts]
    for columns in range(len(texts), 1, -1):
        if sum(map(max, filled(widths, columns))) <= width * 72 - left:
            return columns
    return 1


def filled(entries: Sequence[float], columns: int) -> list[Sequence[float]]:
    """The entries of each column as matplotlib fills them: the first have one more where they do not come out even.

    >>> filled([1, 2, 3, 4, 5, 6, 7], 3)
    [[1, 2, 3], [4, 5], [6, 7]]
    """
    each, more = divmod(len(entries), columns)
    starts = [column * each + min(column, more) for column in range(columns + 1)]
    return [entries[start:stop] for start, stop in itertools.pairwise(starts)]


def height(texts: Sequence[str], width: float) -> float:
    """Inches that a legend takes above a figure of `width` inches."""
    rows = math.ceil(len(texts) / fitting(texts, width)) if texts else 0
    return rows * _LINE * current().small / 72


def text_width(text: str, size: float) -> float:
    """Points that a line of text takes."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import text_to_path

    prop = FontProperties(family=list(families(current().fonts)), size=size)
    return float(text_to_path.get_text_width_height_descent(text, prop, False)[0])


def inner_width(axis: Axes, beside: Iterable[str] = ()) -> float:
    """Points that an axis is about wide, once it is laid out. beside: the tick labels that take of its room."""
    taken = max([_LEFT * 0.8 * current().small, *(text_width(each, current().small) for each in beside)])
    return max(_width(axis) * 72 - taken - _RIGHT * current().small, 4 * current().small)


def broken(axis: Axes, text: str, *, along: str = "x", beside: Sequence[str] = ()) -> str:
    """A label in lines that fit its axis. beside: the tick labels that take of its room."""
    if along == "x":
        return _lines(text, inner_width(axis, beside))
    return _lines(text, max(_height(axis) * 72 - (_LEFT * 0.8 + 1) * current().small, 4 * current().small))


def _lines(text: str, room: float) -> str:
    """Lines of at most `room` points, of whole words where these are not longer."""
    lines = [""]
    for word in text.split():
        longer = f"{lines[-1]} {word}".strip()
        if text_width(longer, current().size) <= room:
            lines[-1] = longer
            continue
        lines.append("")
        for char in word:
            if lines[-1] and text_width(lines[-1] + char, current().size) > room:
                lines.append("")
            lines[-1] += char
    return "\n".join(line for line in lines if line) or text


def empty(axis: Axes, said: str, along: str = "xy") -> None:
    """Say in the middle of an axis why there is nothing to see. along: which of its scales mean nothing then."""
    if "x" in along:
        axis.set_xticks([])
    if "y" in along:
        axis.set_yticks([])
    axis.text(0.5, 0.5, broken(axis, said), transform=axis.transAxes, ha="center", va="center", color=GREY)


def figure_size(axis: Axes) -> tuple[float, float]:
    """Inches of the figure, or part of a figure, that an axis stands in."""
    inside = axis.figure.bbox.transformed(axis.figure.dpi_scale_trans.inverted())
    return float(inside.width), float(inside.height)


def _width(axis: Axes) -> float:
    whole, _ = figure_size(axis)
    spec = axis.get_subplotspec()
    return whole if spec is None else whole * len(spec.colspan) / spec.get_gridspec().ncols


def _height(axis: Axes) -> float:
    _, whole = figure_size(axis)
    spec = axis.get_subplotspec()
    return whole if spec is None else whole * len(spec.rowspan) / spec.get_gridspec().nrows
