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
    of the points around each curve's own line. p: one-sided, of "it does not improve". share: of x, that the part is.
    """

    gain: float
    noise: float
    p: float
    share: float

    @property
    def improving(self) -> bool:
        """p < 0.005 and not 0.05, since neighbouring evaluations of one run are alike; and a gain above the noise."""
        return self.p < 0.005 and self.gain > self.noise


def last_trend(xs: Sequence[ArrayLike], ys: Sequence[ArrayLike], mode: str, share: float = 0.25) -> Trend | None:
    """The trend over the last `share` of each curve's x, at least its last 2 points, with one slope and a level for
    each curve (analysis of covariance). None where that leaves too few points, or is more than the last half.
    Positive gain: better, whatever the mode."""
    sign = 1.0 if mode == "max" else -1.0
    parts: list[tuple[Array, Array]] = []
    spans = []
    for x, y in zip(xs, ys):
        x, y = np.asarray(x, float), sign * np.asarray(y, float)
        kept = max(2, int(np.sum(x >= x[-1] - share * (x[-1] - x[0])))) if len(x) else 0
        if len(x) < 3 or x[-1] - x[-kept] > 0.5 * (x[-1] - x[0]):
            return None
        spans.append((x[-1] - x[-kept], (x[-1] - x[-kept]) / x[-1]))
        parts.append((x[-kept:] - x[-kept:].mean(), y[-kept:] - y[-kept:].mean()))
    degrees = sum(len(x) for x, _ in parts) - len(parts) - 1
    if degrees < 2:
        return None
    x, y = (np.concatenate([part[side] for part in parts]) for side in (0, 1))
    slope = float(x @ y / (x @ x))
    noise = math.sqrt(float(((y - slope * x) ** 2).sum()) / degrees)
    error = noise / math.sqrt(float(x @ x))
    t = slope / error if error > 0 else math.copysign(math.inf, slope) if slope else 0.0
    span, of_all = np.mean(spans, axis=0)
    return Trend(gain=slope * float(span), noise=noise, p=float(stats.t.sf(t, degrees)), share=float(of_all))
