"""Ticks that can be read: labels that never touch on linear axes, plain numbers on logarithmic ones (0.001, 0.01, 0.1).
And when an axis is logarithmic: where one arm's values would press another's into a line."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Values of which the greatest is this many times the least need a logarithmic axis to be told apart.
_MANY = 100.0


def log_ticks(axis: Axes, along: str = "x") -> None:
    """At the decades; where an axis has fewer than two of them, between them too."""
    from matplotlib.ticker import LogLocator, NullFormatter

    part = axis.xaxis if along == "x" else axis.yaxis
    low, high = sorted(axis.get_xlim() if along == "x" else axis.get_ylim())
    decades = math.floor(math.log10(high) + 1e-9) - math.ceil(math.log10(low) - 1e-9) + 1
    part.set_major_locator(LogLocator(subs=(1.0,) if decades > 1 else (1.0, 2.0, 5.0), numticks=6))
    part.set_major_formatter(lambda value, _: f"{value:g}".replace("-", "\N{MINUS SIGN}"))
    part.set_minor_formatter(NullFormatter())


def linear_ticks(axis: Axes) -> None:
    """Along x, as many as their labels leave room for, once the axis has its width."""
    if axis.get_xscale() == "linear":
        axis.xaxis.set_major_locator(_fitting())


def settle(axis: Axes) -> None:
    """Keep the ticks of `linear_ticks` as they are now, however wide the axis gets."""
    from matplotlib.ticker import FixedLocator

    part = axis.xaxis
    if getattr(part.get_major_locator(), "looks_at_labels", False):
        low, high = sorted(axis.get_xlim())
        part.set_major_locator(FixedLocator([at for at in part.get_majorticklocs() if low <= at <= high]))


def needs_log(values: Iterable[float]) -> bool:
    """Whether all are positive, and some of them many times others."""
    known = [float(value) for value in values if math.isfinite(value)]
    return bool(known) and min(known) > 0 and max(known) > _MANY * min(known)


def _fitting() -> Any:
    """A locator that looks, each time it is asked, how wide its labels are and how wide the axis is."""
    from matplotlib.ticker import MaxNLocator

    from reports.figures.legend import text_width

    class Fitting(MaxNLocator):
        looks_at_labels = True

        def tick_values(self, vmin: float, vmax: float) -> Any:
            part: Any = self.axis
            room = part.axes.get_window_extent().width * 72 / part.axes.figure.dpi
            size = part.majorTicks[0].label1.get_size() if part.majorTicks else 8.0
            ticks: Any = []
            for most in (9, 7, 5, 4, 3, 2, 1):
                self.set_params(nbins=most)
                ticks = super().tick_values(vmin, vmax)
                seen = [at for at in ticks if vmin <= at <= vmax]
                if sum(text_width(text, size) + size for text in part.major.formatter.format_ticks(seen)) <= room:
                    break
            return ticks

    return Fitting(steps=[1, 2, 2.5, 5, 10])
