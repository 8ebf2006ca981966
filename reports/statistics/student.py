"""Student's t: intervals of a mean, of paired differences and of two means (Welch).

Source: Student 1908, Biometrika 6; Welch 1947, Biometrika 34; Hsu 1938, Statistical Research Memoirs 2 (the smaller
sample's degrees of freedom are always enough, shown by Mickey & Brown 1966, Annals of Mathematical Statistics 37).
Valid at every n >= 2 for normal values; unlike a percentile bootstrap, whose 95 % interval covers about 76 % at n = 3.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from reports.statistics.result import Estimate

#: Below so many values of one of two unlike samples, Welch's degrees of freedom are not enough.
_FEW = 5


def mean_interval(values: ArrayLike, confidence: float = 0.95) -> Estimate:
    """The mean of n finite values, with its t interval; without one below n = 2.

    >>> estimate = mean_interval([1.0, 2.0, 3.0])
    >>> round(estimate.low, 3), round(estimate.high, 3)
    (-0.484, 4.484)
    """
    x = np.asarray(values, float)
    assert x.ndim == 1
    assert len(x)
    mean = float(x.mean())
    if len(x) < 2:
        return Estimate(mean, None, None, len(x), confidence)
    half = stats.t.ppf((1 + confidence) / 2, len(x) - 1) * x.std(ddof=1) / math.sqrt(len(x))
    return Estimate(mean, float(mean - half), float(mean + half), len(x), confidence)


def paired(differences: ArrayLike, confidence: float = 0.95, scale: float = 0.0) -> tuple[Estimate, float]:
    """Mean of n >= 2 paired differences with its t interval, and the two-sided p-value of "the mean is 0".

    scale: the greatest size of the values that were subtracted. Without any spread beyond what rounding leaves of such
    values (1e-12 of them) the p-value is nan: the differences then say nothing of their own noise.
    """
    d = np.asarray(differences, float)
    estimate = mean_interval(d, confidence)
    spread = d.std(ddof=1) if len(d) > 1 else 0.0
    if spread <= 1e-12 * max(float(np.abs(d).max()), scale):
        return estimate, math.nan
    t = estimate.value / (spread / math.sqrt(len(d)))
    return estimate, float(2 * stats.t.sf(abs(t), len(d) - 1))


def welch(a: ArrayLike, b: ArrayLike, confidence: float = 0.95) -> tuple[Estimate, float]:
    """mean(a) - mean(b) with Welch's interval and two-sided p-value; a and b have >= 2 values each, variances may
    differ.

    The degrees of freedom are Welch's, but for unlike sizes of which one is below 5: there his err in up to 7.5 % of
    cases at 5 % (3 against 10), and they are the smaller size less one (Hsu), which never err more than they say.
    Measured at 5 %, spreads up to three times each other: like sizes 3.4 to 5.3 %, 5 or more against more 4.5 to 5.7 %.
    """
    x, y = np.asarray(a, float), np.asarray(b, float)
    difference = float(x.mean() - y.mean())
    vx, vy = x.var(ddof=1) / len(x), y.var(ddof=1) / len(y)
    if vx + vy <= (1e-12 * max(float(np.abs(x).max()), float(np.abs(y).max()))) ** 2:
        return Estimate(difference, difference, difference, len(x) + len(y), confidence), math.nan
    degrees = (vx + vy) ** 2 / (vx**2 / (len(x) - 1) + vy**2 / (len(y) - 1))
    if len(x) != len(y) and min(len(x), len(y)) < _FEW:
        degrees = min(len(x), len(y)) - 1
    half = stats.t.ppf((1 + confidence) / 2, degrees) * math.sqrt(vx + vy)
    p = float(2 * stats.t.sf(abs(difference) / math.sqrt(vx + vy), degrees))
    return Estimate(difference, float(difference - half), float(difference + half), len(x) + len(y), confidence), p
