"""Ablation: how far each variant lies from a reference, as bars from zero with every seed as a point on them.

A bar may be drawn since its zero means something: no difference. What bar, line and points are, and n, is written on
the axis or at the bar."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from reports.figures.legend import broken
from reports.figures.style import BLACK, GREY, Mark, current, labels
from reports.figures.ticks import linear_ticks
from reports.statistics.curves import Array
from reports.statistics.result import Estimate

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True)
class Bar:
    """One variant. differences: from the reference, one a seed, of seeds that diverged in neither; (seeds,). estimate:
    of their mean; None where a run diverged. diverged: how many seeds were lost to that."""

    name: str
    look: Mark
    differences: Array
    estimate: Estimate | None
    diverged: int = 0


def ablation(axis: Axes, bars: Sequence[Bar], *, x: str, reference: str, mode: str) -> None:
    """Draw `bars` on `axis`, the first on top. A variant with diverged runs has points and a count but no bar."""
    shown = labels([*(bar.name for bar in bars), reference])
    small, size = current().small, current().marker
    for index, bar in enumerate(bars):
        color = bar.look.color
        estimate = bar.estimate
        if estimate is not None:
            axis.barh(index, estimate.value, height=0.62, color=color, alpha=0.35, linewidth=current().thin, gid="bar")
            if estimate.low is not None and estimate.high is not None:
                axis.plot([estimate.low, estimate.high], [index, index], color=color, marker="|")
        spread = np.linspace(-0.16, 0.16, len(bar.differences)) if len(bar.differences) > 1 else [0.0]
        ys = [index + offset for offset in spread[: len(bar.differences)]]
        axis.plot(bar.differences, ys, "o", color=color, markersize=size * 0.75, alpha=0.8, linestyle="none", zorder=3)
    axis.axvline(0, color=BLACK, linewidth=current().thin + 0.2)
    texts = [
        f"{shown[bar.name]}\nn = {len(bar.differences)}" + (f", {bar.diverged} diverged" if bar.diverged else "")
        for bar in bars
    ]
    beside = [line for text in texts for line in text.split("\n")]
    axis.set_yticks(range(len(bars)), texts, fontsize=small)
    axis.set_ylim(len(bars) - 0.4, -0.6)
    axis.grid(axis="y", visible=False)
    axis.tick_params(axis="y", length=0)
    axis.margins(x=0.08)
    linear_ticks(axis)
    better = "right" if mode == "max" else "left"
    lines = any(bar.estimate is not None and bar.estimate.low is not None for bar in bars)
    what = "bar: mean; line: 95 % t interval; points: seeds" if lines else "bar: mean; points: seeds"
    axis.set_xlabel(broken(axis, f"{x}, less that of {shown[reference]} (better: {better})", beside=beside))
    axis.annotate(
        broken(axis, what, beside=beside),
        (0, 1),
        xycoords="axes fraction",
        xytext=(0, 3),
        textcoords="offset points",
        fontsize=small,
        color=GREY,
        va="bottom",
    )
