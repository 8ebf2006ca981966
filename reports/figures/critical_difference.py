"""Critical difference: arms by their mean rank over tasks; a thick bar joins those that are not shown to differ.

Source: Demsar 2006, figure 1."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from reports.figures.legend import figure_size, text_width
from reports.figures.style import BLACK, LONGEST, current, labels

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def critical_difference(
    axis: Axes,
    names: Sequence[str],
    ranks: Sequence[float],
    cliques: Sequence[Sequence[int]],
    difference: float,
    said: str,
) -> None:
    """Draw on `axis`. ranks: mean rank of each name, 1 the best. cliques: groups that are not shown to differ.
    difference: that is needed, nan where there is none. said: how often ranked, and by what rule."""
    k = len(names)
    width = figure_size(axis)[0] * 72
    shown = labels(names, max(8, min(LONGEST, int(0.2 * width / (0.5 * current().small)))))
    order: list[int] = sorted(range(k), key=lambda i: ranks[i])
    left, right = order[: math.ceil(k / 2)], order[math.ceil(k / 2) :]
    thin, thick, small = current().thin + 0.3, current().line * 2, current().small
    beside = max(text_width(f"{text}  10.00", small) for text in shown.values())
    every = math.ceil((max(k, 2) - 1) * text_width("00", small) * 1.3 / max(width * 0.94 - 2 * beside, 1))
    axis.set_axis_off()
    top, row = 0.0, 1.0
    low, high = 1.0, float(max(k, 2))
    axis.plot([low, high], [top, top], color=BLACK, linewidth=thin, clip_on=False)
    for rank in range(1, int(high) + 1, every):
        axis.plot([rank, rank], [top, top + 0.25], color=BLACK, linewidth=thin, clip_on=False)
        axis.text(rank, top + 0.35, f"{rank}", ha="center", va="bottom", fontsize=small)
    start = top - 0.45 - 0.5 * len(cliques)
    reach = (high - low) * 0.04
    for side, members, x, align in (("left", left, low - reach, "right"), ("right", right[::-1], high + reach, "left")):
        for place, index in enumerate(members):
            y = start - row * (place + 0.5)
            axis.plot([ranks[index], ranks[index], x], [top, y, y], color=BLACK, linewidth=thin, clip_on=False)
            gap = -3 if side == "left" else 3
            text = (
                f"{shown[names[index]]}  {ranks[index]:.2f}"
                if side == "left"
                else f"{ranks[index]:.2f}  {shown[names[index]]}"
            )
            axis.annotate(
                text, (x, y), xytext=(gap, 0), textcoords="offset points", ha=align, va="center", fontsize=small
            )
    for place, group in enumerate(cliques):
        y = top - 0.4 - 0.5 * place
        edges = [ranks[index] for index in group]
        axis.plot([min(edges) - 0.03, max(edges) + 0.03], [y, y], color=BLACK, linewidth=thick, clip_on=False)
    above = top + 1.7
    if math.isfinite(difference) and difference <= high - low:
        axis.plot([low, low + difference], [above, above], color=BLACK, linewidth=thin, marker="|", clip_on=False)
    if math.isfinite(difference):
        axis.text(low, above + 0.25, f"critical difference {difference:.2f}", fontsize=small, va="bottom")
    axis.text(low, above + 1.3, said, ha="left", va="bottom", fontsize=small)
    axis.set_ylim(start - row * max(len(left), 1) - 0.1, above + 2.3)
    axis.set_xlim(low - reach, high + reach)
