"""Sensitivity to the learning rate: the best objective that each arm reached at each rate, and how wide its good range
is.

A wide bar is worth as much as a high peak: it says how badly a rate may be chosen. Where other hyperparameters were
tuned too, the line joins the best trial of each tenth of the range that was tried; with the rate alone, all trials."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from reports.figures.legend import broken, empty
from reports.figures.room import rows_beside
from reports.figures.style import Mark, current, labels
from reports.figures.ticks import log_ticks
from reports.statistics.curves import Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_BINS = 10


@dataclass(frozen=True)
class Rates:
    """One arm's trials. rate: (trials,), > 0. objective: nan where a trial gave none. alone: whether nothing else was
    tuned."""

    name: str
    look: Mark
    rate: Array
    objective: Array
    alone: bool = True


def envelope(rates: Rates, better: str) -> tuple[Array, Array]:
    """Rate and objective of the trials that the line joins, by rate."""
    known = np.isfinite(rates.objective)
    x, y = rates.rate[known], rates.objective[known]
    order = np.argsort(x, kind="stable")
    x, y = x[order], y[order]
    if rates.alone or len(x) < 3:
        return x, y
    edges = np.geomspace(x[0], x[-1], _BINS + 1)[1:-1]
    place = np.digitize(x, edges)
    best = np.argmax if better == "up" else np.argmin
    picked = [np.flatnonzero(place == index)[best(y[place == index])] for index in np.unique(place)]
    return x[picked], y[picked]


def good_range(x: Array, y: Array, better: str, tolerance: float) -> tuple[float, float] | None:
    """The rates around the best one at which the line stays within `tolerance` of it, linear in log rate. None without
    points."""
    if not len(x):
        return None
    sign = 1.0 if better == "up" else -1.0
    best = int(np.argmax(sign * y))
    least = sign * y[best] - tolerance
    ends = []
    for step, stop in ((-1, -1), (1, len(x))):
        at = float(np.log(x[best]))
        for index in range(best + step, stop, step):
            here, before = sign * y[index], sign * y[index - step]
            if here < least:
                share = (before - least) / (before - here)
                at += share * float(np.log(x[index]) - np.log(x[index - step]))
                break
            at = float(np.log(x[index]))
        ends.append(float(np.exp(at)))
    return ends[0], ends[1]


def middle_spread(objectives: Sequence[Array], better: str) -> float:
    """From the best to the median objective of each arm's trials that gave one; of these, the one in the middle, of two
    the lesser. 0 without objectives."""
    known = [objective[np.isfinite(objective)] for objective in objectives]
    best = np.max if better == "up" else np.min
    spreads = sorted(abs(float(best(found) - np.median(found))) for found in known if len(found))
    return spreads[(len(spreads) - 1) // 2] if spreads else 0.0


def sensitivity(axis: Axes, arms: Sequence[Rates], *, x: str, y: str, better: str, tolerance: float) -> None:
    """Draw `arms` on `axis`. better: "up" or "down". Bars on the worse side span each arm's rates within `tolerance` of
    its best; crosses beside them are trials that gave no objective."""
    shown = labels([each.name for each in arms])
    axis.set_xscale("log")
    rows = rows_beside(axis, [float(y) for arm in arms for y in arm.objective], len(arms), better)
    for arm, row in zip(arms, rows):
        look, across = arm.look, axis.get_xaxis_transform()
        line = envelope(arm, better)
        axis.plot(
            arm.rate,
            arm.objective,
            look.marker,
            color=look.color,
            markersize=current().marker * 0.8,
            alpha=0.5,
            markeredgewidth=0,
            linestyle="none",
        )
        axis.plot(*line, color=look.color, linestyle=look.dash, marker=look.marker, label=shown[arm.name])
        if (span := good_range(*line, better, tolerance)) is not None:
            axis.plot(span, [row, row], color=look.color, linewidth=current().line * 1.5, transform=across)
            axis.plot(span, [row, row], "|", color=look.color, transform=across, linestyle="none")
            if not current().ink:  # whose it is
                axis.plot(span[:1], [row], look.marker, markersize=current().marker * 0.8, transform=across)
        lost = arm.rate[~np.isfinite(arm.objective)]
        axis.plot(lost, [row] * len(lost), "x", color=look.color, transform=across, linestyle="none")
    rates = [float(rate) for arm in arms for rate in arm.rate]
    if rates:
        around = (max(rates) / min(rates)) ** 0.05 if max(rates) > min(rates) else 3.0
        axis.set_xlim(min(rates) / around, max(rates) * around)
    if not rates:
        empty(axis, "no trials")
    axis.set_xlabel(broken(axis, x))
    axis.set_ylabel(broken(axis, y, along="y"))
    if rates:
        log_ticks(axis)
