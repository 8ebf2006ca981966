"""Ticks of logarithmic axes, as plain numbers: 0.001, 0.01, 0.1."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def log_ticks(axis: Axes, along: str = "x") -> None:
    """At the decades; where an axis has less than one and a half, between them too."""
    from matplotlib.ticker import LogLocator, NullFormatter

    part = axis.xaxis if along == "x" else axis.yaxis
    low, high = axis.get_xlim() if along == "x" else axis.get_ylim()
    part.set_major_locator(LogLocator(subs=(1.0,) if high / low > 30 else (1.0, 2.0, 5.0), numticks=6))
    part.set_major_formatter(lambda value, _: f"{value:g}")
    part.set_minor_formatter(NullFormatter())
