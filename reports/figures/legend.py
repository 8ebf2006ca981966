"""Legend and labels: above the data, never on them, in as many columns as fit; labels broken where they are long."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING

from reports.figures.fonts import families
from reports.figures.style import GREY, current

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: In ems: the handle with its gaps, the gap between columns, what stands left of an axis, a line's height.
_HANDLE, _GAP, _LEFT, _LINE = 3.0, 1.2, 4.5, 1.35


def legend(axis: Axes, lift: float = 0.1) -> None:
    """A legend of what has a label on `axis`, above it by `lift` ems and as wide as its part of the figure."""
    handles, texts = axis.get_legend_handles_labels()
    if not handles:
        return
    columns = fitting(texts, _width(axis))
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


def fitting(texts: Sequence[str], width: float) -> int:
    """How many columns of a legend fit into `width` inches."""
    em = current().small
    room = width * 72 - _LEFT * em
    widths = [text_width(text, em) + (_HANDLE + _GAP) * em for text in texts]
    for columns in range(len(texts), 1, -1):
        rows = math.ceil(len(texts) / columns)
        taken = sum(max(widths[start : start + rows]) for start in range(0, len(texts), rows))
        if taken <= room:
            return columns
    return 1


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


def broken(axis: Axes, text: str, *, along: str = "x", beside: Sequence[str] = ()) -> str:
    """A label in lines that fit its axis. beside: the tick labels that take of its room."""
    taken = max([_LEFT * 0.8 * current().small, *(text_width(each, current().small) for each in beside)])
    room = (_width(axis) if along == "x" else _height(axis)) * 72 - taken - current().small
    letters = max(12, int(room / max(text_width(text, current().size), 1) * len(text)))
    return "\n".join(textwrap.wrap(text, letters, break_long_words=True)) or text


def empty(axis: Axes, said: str) -> None:
    """Say in the middle of an axis why there is nothing to see."""
    axis.set_xticks([])
    axis.set_yticks([])
    axis.text(0.5, 0.5, broken(axis, said), transform=axis.transAxes, ha="center", va="center", color=GREY)


def _width(axis: Axes) -> float:
    whole = axis.figure.get_figwidth() if hasattr(axis.figure, "get_figwidth") else 4.0
    spec = axis.get_subplotspec()
    return whole if spec is None else whole * len(spec.colspan) / spec.get_gridspec().ncols


def _height(axis: Axes) -> float:
    whole = axis.figure.get_figheight() if hasattr(axis.figure, "get_figheight") else 3.0
    spec = axis.get_subplotspec()
    return whole if spec is None else whole * len(spec.rowspan) / spec.get_gridspec().nrows
