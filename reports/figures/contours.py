"""Contours: the objective over two hyperparameters, interpolated between trials; the trials themselves on top.

The surface is linear in each triangle of trials (Delaunay), on the axes' own scales; nothing is said outside."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from reports.figures.legend import broken, empty
from reports.figures.style import current
from reports.figures.ticks import log_ticks
from reports.statistics.curves import Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.tri import TriContourSet

#: Fewer trials than this span no surface worth drawing.
_FEWEST = 6


@dataclass(frozen=True)
class Surface:
    """x, y: hyperparameters of each trial, (trials,), finite. objective: nan where it gave none. winner: the chosen
    trial. log: which of x and y stand on a log scale."""

    x: Array
    y: Array
    objective: Array
    winner: int | None
    log: tuple[bool, bool]


def contours(axis: Axes, surface: Surface, *, x: str, y: str, objective: str) -> None:
    """Draw `surface` on `axis`, with a colour bar; in black and white as labelled lines. Trials without an objective
    are crosses."""
    for use, scale in zip(surface.log, (axis.set_xscale, axis.set_yscale)):
        if use:
            scale("log")
    known = np.isfinite(surface.objective)
    lines = _field(axis, surface, known, objective)
    size = current().marker
    for these, look in ((known, {"marker": "o", "color": "k", "markersize": size * 0.7}),
                        (~known, {"marker": "x", "color": "#D55E00"})):  # fmt: skip
        if these.any():  # an empty line that is not clipped has a place: the corner of the whole figure
            axis.plot(surface.x[these], surface.y[these], linestyle="none", zorder=3, clip_on=False, **look)
    if surface.winner is not None:
        axis.plot(
            [surface.x[surface.winner]],
            [surface.y[surface.winner]],
            "o",
            markersize=size * 2.2,
            markerfacecolor="none",
            markeredgecolor="#D55E00",
            markeredgewidth=1.2,
            zorder=4,
            clip_on=False,
        )
    if not len(surface.x):
        empty(axis, "no trials")
    axis.grid(visible=False)
    axis.margins(0.06)
    axis.set_xlabel(broken(axis, x if lines is None else f"{x} (lines: {objective})"))
    axis.set_ylabel(broken(axis, y, along="y"))
    for use, along in zip(surface.log, "xy"):
        if use and len(surface.x):
            log_ticks(axis, along)
    if lines is not None:
        _labelled(axis, lines)


def _field(axis: Axes, surface: Surface, known: np.ndarray, objective: str) -> TriContourSet | None:
    """The surface; in black and white its lines, which are labelled when the axis has its limits."""
    from matplotlib.tri import Triangulation

    x, y, z = surface.x[known], surface.y[known], surface.objective[known]
    flat = [np.log(v) if log else v for v, log in zip((x, y), surface.log)]
    unit = [(v - v.min()) / (np.ptp(v) or 1.0) for v in flat] if len(x) else flat
    spans = len(x) >= _FEWEST and np.linalg.matrix_rank(np.stack([*unit, np.ones(len(x))]), tol=1e-6) == 3
    if not spans or np.ptp(z) == 0:
        return None
    triangles = Triangulation(unit[0], unit[1]).triangles
    mesh = Triangulation(x, y, triangles)
    if current().ink:
        drawn = axis.tricontourf(mesh, z, levels=9, cmap="cividis", alpha=0.9)
        bar = axis.figure.colorbar(drawn, ax=axis, pad=0.02, aspect=24)
        bar.set_label(objective)
        bar.outline.set_visible(False)  # type: ignore[operator]
        bar.ax.tick_params(length=2)
        return None
    return axis.tricontour(mesh, z, levels=5, colors="black", linewidths=current().thin)


def _labelled(axis: Axes, lines: TriContourSet) -> None:
    """Upright values on white; none at the edge, where it would be cut."""
    inside = axis.transData + axis.transAxes.inverted()
    for text in axis.clabel(lines, fontsize=current().small, fmt="%.3g", inline=False):
        across, up = inside.transform(text.get_position())
        if 0.1 < across < 0.9 and 0.08 < up < 0.92:
            text.set(rotation=0, bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.5})
        else:
            text.remove()
