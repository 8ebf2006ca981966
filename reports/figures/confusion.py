"""Confusion matrix: how often each class was taken for each, counts as numbers, the share of the row as shade."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from reports.figures.legend import broken, figure_size
from reports.figures.style import current, labels

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: More classes than this have no number in each cell.
_NUMBERED = 20


def confusion(axis: Axes, counts: NDArray[np.int64], names: Sequence[str], *, said: str) -> None:
    """Draw counts (true, predicted) on `axis`. names: of the classes. said: of what, e.g. "validation, 360 images"."""
    counts = np.asarray(counts)
    totals = counts.sum(axis=1, keepdims=True)
    share = np.divide(counts, totals, out=np.zeros(counts.shape), where=totals > 0)
    classes = len(counts)
    ink = current().ink
    if ink:
        axis.imshow(share, cmap="Blues", vmin=0, vmax=1, aspect="equal")
    else:
        axis.set_aspect("equal")
        axis.set_xlim(-0.5, classes - 0.5)
        axis.set_ylim(classes - 0.5, -0.5)
        for edge in np.arange(-0.5, classes + 0.4):
            axis.plot([edge, edge], [-0.5, classes - 0.5], color="black", linewidth=current().thin, clip_on=False)
            axis.plot([-0.5, classes - 0.5], [edge, edge], color="black", linewidth=current().thin, clip_on=False)
    if classes <= _NUMBERED:
        size = _fitting(axis, counts)
        for row, column in np.ndindex(counts.shape):
            if counts[row, column]:
                color = "white" if ink and share[row, column] > 0.55 else "black"
                axis.text(column, row, f"{counts[row, column]:d}", ha="center", va="center", color=color, fontsize=size)
    shown = labels(list(names))
    every = max(1, classes // 20)
    places = range(0, classes, every)
    texts = [shown[names[place]] for place in places]
    turned = max((len(text) for text in texts), default=0) > 3
    axis.set_xticks(places, texts, rotation=90 if turned else 0)
    axis.set_yticks(places, texts)
    axis.tick_params(length=0, labelsize=min(current().small, _fitting(axis, counts) * 1.3))
    axis.grid(visible=False)
    for spine in axis.spines.values():
        spine.set_visible(False)
    axis.set_xlabel(broken(axis, f"predicted ({said})"))
    axis.set_ylabel("true class")


def _fitting(axis: Axes, counts: NDArray[np.int64]) -> float:
    """A font size at which the largest count fits its cell."""
    whole, _ = figure_size(axis)
    cell = 0.72 * whole * 72 / max(len(counts), 1)
    digits = len(str(int(counts.max()))) if counts.size else 1
    return max(3.0, min(current().small, cell / (0.62 * digits + 0.4)))
