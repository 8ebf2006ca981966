"""Curves over seeds: a value at a budget between evaluations, a pointwise interval, and whether a curve still rises at
its end.

Pointwise: the interval at one x covers 95 % there, not the whole curve at once. Interpolation is linear between
evaluations."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

Array = NDArray[np.float64]


def value_at(x: ArrayLike, y: ArrayLike, budget: float) -> float:
    """y at x = budget, linear between points; nan outside of the points (nothing is extrapolated). x increases.

    >>> value_at([0, 10], [1.0, 2.0], 5)
    1.5
    """
    return float(np.interp(budget, np.asarray(x, float), np.asarray(y, float), left=math.nan, right=math.nan))


def best_so_far(y: ArrayLike, mode: str) -> Array:
    """The running best of a curve; mode "max" or "min"."""
    values = np.asarray(y, float)
    return np.maximum.accumulate(values) if mode == "max" else np.minimum.accumulate(values)


@dataclass(frozen=True)
class Band:
    """Mean over seeds with its pointwise t interval, at each x. low and high are nan below 3 seeds."""

    x: Array
    mean: Array
    low: Array
    high: Array


def band(xs: Sequence[ArrayLike], ys: Sequence[ArrayLike], confidence: float = 0.95) -> Band:
    """The band of n curves, where all of them have values (the curve that ends first ends it). Where the curves share
    their x those are used, else 60 points between."""
    curves = [(np.asarray(x, float), np.asarray(y, float)) for x, y in zip(xs, ys) if len(np.asarray(x)) > 0]
    empty = np.empty(0)
    if not curves or len(curves) < len(xs):
        return Band(empty, empty, empty, empty)
    start, end = max(x[0] for x, _ in curves), min(x[-1] for x, _ in curves)
    if end < start:
        return Band(empty, empty, empty, empty)
    shared = set(curves[0][0]).intersection(*(set(x) for x, _ in curves[1:]))
    within = {value for x, _ in curves for value in x if start <= value <= end}
    grid = np.array(sorted(shared)) if shared == within else np.linspace(start, end, 60)
    values = np.stack([np.interp(grid, x, y) for x, y in curves])  # (seeds, points)
    n = len(values)
    mean = values.mean(axis=0)
    if n < 3:
        nothing = np.full_like(mean, math.nan)
        return Band(grid, mean, nothing, nothing)
    half = stats.t.ppf((1 + confidence) / 2, n - 1) * values.std(axis=0, ddof=1) / math.sqrt(n)
    return Band(grid, mean, mean - half, mean + half)


@dataclass(frozen=True)
class Trend:
    """The common slope of the last part of several curves. gain: improvement over that part. noise: standard deviation
    of the points around each curve's own line. z: slope over its standard error."""

    gain: float
    noise: float
    z: float

    @property
    def improving(self) -> bool:
        """z > 3, not 1.6, since neighbouring evaluations of one run are alike; and a gain that the noise does not
        hide."""
        return self.z > 3 and self.gain > self.noise


def last_trend(xs: Sequence[ArrayLike], ys: Sequence[ArrayLike], mode: str, share: float = 0.25) -> Trend | None:
    """The trend over the last `share` of each curve's x (at least its last 4 points), with one slope and a level for
    each curve (analysis of covariance); None where there are too few points. Positive gain: better, whatever the
    mode."""
    sign = 1.0 if mode == "max" else -1.0
    centred: list[tuple[Array, Array]] = []
    for x, y in zip(xs, ys):
        x, y = np.asarray(x, float), sign * np.asarray(y, float)
        if len(x) < 5:
            continue
        kept = max(4, int(np.sum(x >= x[-1] - share * (x[-1] - x[0]))))
        centred.append((x[-kept:] - x[-kept:].mean(), y[-kept:] - y[-kept:].mean()))
    if not centred:
        return None
    x, y = np.concatenate([c[0] for c in centred]), np.concatenate([c[1] for c in centred])
    slope = float(x @ y / (x @ x))
    degrees = len(x) - len(centred) - 1
    noise = math.sqrt(float(((y - slope * x) ** 2).sum()) / degrees)
    span = float(np.mean([c[0][-1] - c[0][0] for c in centred]))
    error = noise / math.sqrt(float(x @ x))
    z = slope / error if error > 1e-15 else (math.inf if slope > 1e-12 else 0.0)
    return Trend(gain=slope * span, noise=noise, z=z)
