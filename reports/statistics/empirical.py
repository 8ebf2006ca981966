"""Empirical likelihood: an interval of a mean that stays within what is possible and leans to where values are skewed.

Source: Owen 1988, Biometrika 75; Chen, Variyath & Abraham 2008, Journal of Computational and Graphical Statistics 17
(one pseudo-value is added, with a_n = max(1, ln(n) / 2), so that the interval need not end at the outermost value).
Below 10 values it does not keep near to what it says, nor does Student's t where values are skewed or cut at a horizon,
so there is no interval; tests/reports/statistics/test_coverage.py measures both."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

Array = NDArray[np.float64]

#: Fewest values with an interval.
LEAST = 10
_HALVINGS = 60


def ratio(values: ArrayLike, means: ArrayLike) -> Array:
    """Minus twice the log of the adjusted empirical likelihood ratio of a mean; about chi-squared with 1 degree of
    freedom at the true one. values: (samples, n); means: (samples,) or a number."""
    x = np.asarray(values, float)
    z = x - np.broadcast_to(np.asarray(means, float), x.shape[:1])[:, None]
    weight = max(1.0, math.log(x.shape[1]) / 2)
    z = np.concatenate([z, -weight * z.mean(axis=1, keepdims=True)], axis=1)
    scale = np.abs(z).max(axis=1, keepdims=True)
    z = z / np.where(scale > 0, scale, 1.0)
    n = z.shape[1]
    with np.errstate(divide="ignore"):  # the multiplier lies where every weight is positive and at most 1
        low, high = (1 / n - 1) / z.max(axis=1), (1 / n - 1) / z.min(axis=1)
    low, high = np.where(np.isfinite(low), low, 0.0), np.where(np.isfinite(high), high, 0.0)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        rising = (z / (1 + middle[:, None] * z)).sum(axis=1) > 0
        low, high = np.where(rising, middle, low), np.where(rising, high, middle)
    return np.asarray(2 * np.log1p(((low + high) / 2)[:, None] * z).sum(axis=1), float)


def interval(values: ArrayLike, least: float, most: float, confidence: float = 0.95) -> tuple[float, float] | None:
    """The interval of the mean of n >= 10 independent values that can only lie between `least` and `most`. None below
    10 values, or where they are all the same."""
    x = np.asarray(values, float)
    if len(x) < LEAST or not float(np.ptp(x)) > 1e-12 * float(np.abs(x).max()):
        return None
    limit = 2 * float(special.gammaincinv(0.5, confidence))  # of chi-squared with 1 degree of freedom
    rows = np.stack([x, x])
    inner, outer = np.full(2, x.mean()), np.array([least, most], float)
    if np.all(ratio(rows, outer) <= limit):
        return float(least), float(most)
    for _ in range(_HALVINGS):
        middle = (inner + outer) / 2
        inside = ratio(rows, middle) <= limit
        inner, outer = np.where(inside, middle, inner), np.where(inside, outer, middle)
    return float(outer[0]), float(outer[1])
