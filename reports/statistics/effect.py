"""The standardised effect: a difference of means in standard deviations, with an interval that is exact for normal
values.

Source: Hedges 1981, Journal of Educational Statistics 6 (the correction for small samples, its exact form with gamma
functions); Steiger & Fouladi 1997, What If There Were No Significance Tests? (the interval: those effects under which
the t that was seen lies between the 2.5 % and the 97.5 % point of the noncentral t). The interval is of the effect in
the population and is not scaled by the correction."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from reports.statistics.result import Estimate

#: Above this t the noncentral t is, to six digits, a scaled chi.
_LARGE = 1000.0


def hedges_paired(differences: ArrayLike, confidence: float = 0.95, scale: float = 0.0) -> Estimate:
    """Mean of n >= 2 paired differences over their own standard deviation. nan without an interval below 2, or where
    they do not differ by more than rounding leaves of values as large as `scale`, those that were subtracted.

    >>> effect = hedges_paired([1.0, 2.0, 3.0]); round(effect.value, 3), round(effect.low, 3), round(effect.high, 3)
    (1.128, -0.142, 4.105)
    """
    d = np.asarray(differences, float)
    n = len(d)
    spread = float(d.std(ddof=1)) if n > 1 else 0.0
    if not spread > 1e-12 * max(float(np.abs(d).max(initial=0.0)), scale):
        return Estimate(math.nan, None, None, n, confidence)
    return _effect(float(d.mean()) / spread, n - 1, math.sqrt(n), n, confidence)


def hedges(a: ArrayLike, b: ArrayLike, confidence: float = 0.95) -> Estimate:
    """mean(a) - mean(b) over the pooled standard deviation, for two samples that differ in their mean only. nan without
    an interval where there is no spread, or a sample is empty, or both have one value. n: of both together."""
    x, y = np.asarray(a, float), np.asarray(b, float)
    n, degrees = len(x) + len(y), len(x) + len(y) - 2
    if not len(x) or not len(y) or degrees < 1:
        return Estimate(math.nan, None, None, n, confidence)
    squares = float(((x - x.mean()) ** 2).sum() + ((y - y.mean()) ** 2).sum())
    spread = math.sqrt(squares / degrees)
    if not spread > 1e-12 * max(float(np.abs(x).max()), float(np.abs(y).max())):
        return Estimate(math.nan, None, None, n, confidence)
    root = math.sqrt(len(x) * len(y) / n)
    return _effect(float(x.mean() - y.mean()) / spread, degrees, root, n, confidence)


def correction(degrees: float) -> float:
    """J, by which the plain effect is too large on average; 0.564 with 2 degrees of freedom.

    >>> round(correction(2), 4), round(correction(18), 4)
    (0.5642, 0.9576)
    """
    return math.exp(math.lgamma(degrees / 2) - math.lgamma((degrees - 1) / 2)) / math.sqrt(degrees / 2)


def _effect(plain: float, degrees: int, root: float, n: int, confidence: float) -> Estimate:
    """root: the noncentrality of one unit of effect. With 1 degree of freedom J is 0 / 0 in its limit, so no value."""
    t, tail = plain * root, (1 - confidence) / 2
    low, high = noncentrality(t, degrees, 1 - tail) / root, noncentrality(t, degrees, tail) / root
    return Estimate(correction(degrees) * plain if degrees > 1 else math.nan, low, high, n, confidence)


def noncentrality(t: float, degrees: int, probability: float) -> float:
    """The noncentrality under which a noncentral t is at most `t` with this probability."""
    if abs(t) > _LARGE:
        share = probability if t < 0 else 1 - probability
        return t * math.sqrt(2 * float(special.gammaincinv(degrees / 2, share)) / degrees)
    return float(special.nctdtrinc(degrees, probability, t))
