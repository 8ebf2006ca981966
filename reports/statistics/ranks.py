"""Two unpaired samples by rank: how likely one beats the other, and an exact rank-sum test.

Source: Mann & Whitney 1947, Annals of Mathematical Statistics 18; ties count half. A diverged run is given as -inf (or
+inf where less is better): it ranks below every other and ties with its like."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special, stats

from reports.statistics.result import Estimate, PValue

#: Values of both samples together up to which all splits are counted.
_MOST_EXACT = 100
#: Values of each sample from which their own variance is heeded.
_MANY = 10
_NEAR = 0.05


def probability_greater(a: ArrayLike, b: ArrayLike) -> float:
    """P(A > B) + P(A = B) / 2 over all pairs of a value of `a` and one of `b`.

    >>> probability_greater([2, 3], [1, 3])
    0.625
    """
    x, y = np.asarray(a, float)[:, None], np.asarray(b, float)[None, :]
    return float(np.mean((x > y) + 0.5 * (x == y)))


def probability_better(a: ArrayLike, b: ArrayLike, confidence: float = 0.95) -> Estimate:
    """`probability_greater` with its interval, which infinities and ties do not disturb. n: of both together.

    Those probabilities from which the one that was seen is at most z standard errors away, the error being that of each
    probability (Newcombe 2006, Statistics in Medicine 25, part 2, method 5; as Wilson's, close to nominal on average
    over the probabilities). From 10 values of each on, where the error which the samples themselves show is the larger
    (DeLong, DeLong & Clarke-Pearson 1988, Biometrics 44), as with unlike spreads or many ties, it is the geometric mean
    of the two. It has 0.5 wherever the exact rank sum cannot tell the samples apart. None where one is empty.

    >>> three = probability_better([4, 5, 6], [1, 2, 3]); three.value, three.low, three.high
    (1.0, 0.5, 1.0)
    """
    x, y = np.asarray(a, float), np.asarray(b, float)
    n, m = len(x), len(y)
    if not n or not m:
        return Estimate(math.nan, None, None, n + m, confidence)
    value = probability_greater(x, y)
    z2, wider = float(special.ndtri((1 + confidence) / 2)) ** 2, 1.0
    if min(n, m) >= _MANY and 0 < value < 1:
        wider = math.sqrt(max(1.0, _placements(x, y) / _variance(value, n, m)))

    def outside(theta: float) -> bool:
        return (theta - value) ** 2 > z2 * wider * _variance(theta, n, m)

    low, high = _edge(outside, 0.0, value), _edge(outside, 1.0, value)
    short = max(low - 0.5, 0.5 - high)  # by how much 0.5 is missed; where by far, the rank sum agrees
    if 0 < short < _NEAR and rank_sum(x, y).p > 1 - confidence:
        low, high = min(low, 0.5), max(high, 0.5)
    return Estimate(value, low, high, n + m, confidence)


def _variance(theta: float, n: int, m: int) -> float:
    """Of the share of pairs, where the probability is theta (Hanley & McNeil 1982 for exponential values, with n and m
    evened out)."""
    evened = (n + m) / 2 - 1
    return theta * (1 - theta) / (n * m) * (1 + evened * ((1 - theta) / (2 - theta) + theta / (1 + theta)))


def _placements(x: NDArray[np.float64], y: NDArray[np.float64]) -> float:
    """The same from how the values of each sample lie among those of the other."""
    above = (x[:, None] > y[None, :]) + 0.5 * (x[:, None] == y[None, :])
    return float(above.mean(axis=1).var(ddof=1) / len(x) + above.mean(axis=0).var(ddof=1) / len(y))


def _edge(outside: Callable[[float], bool], end: float, value: float) -> float:
    """The bound between the value and the end of the scale, by halving; the end itself where it is the value."""
    outer, inner = end, value
    for _ in range(60 if end != value else 0):
        middle = (outer + inner) / 2
        outer, inner = (middle, inner) if outside(middle) else (outer, middle)
    return outer


def rank_sum(a: ArrayLike, b: ArrayLike) -> PValue:
    """Two-sided p-value of "one distribution", from all splits of the pooled ranks (above 100 values together, normal).

    The smallest p-value possible without ties: 0.1 for 3 against 3, 0.0079 for 5 against 5.
    """
    x, y = np.asarray(a, float), np.asarray(b, float)
    ranks = stats.rankdata(np.concatenate([x, y]))
    total, n = len(ranks), len(x)
    expected = n * (total + 1) / 2
    statistic = float(ranks[:n].sum()) - expected
    seen = abs(statistic)
    if total > _MOST_EXACT:
        variance = n * len(y) * ranks.var(ddof=1) / total
        p = float(2 * stats.norm.sf(seen / math.sqrt(variance))) if variance else 1.0
        return PValue(p, 2.0 / math.comb(total, n), (n, len(y)), statistic)
    splits = _splits(ranks, n)
    distances = np.abs(np.arange(len(splits)) / 2 - expected)
    possible = distances[splits > 0]
    floor = float(splits[distances >= possible.max()].sum() / splits.sum())
    return PValue(float(splits[distances >= seen].sum() / splits.sum()), floor, (n, len(y)), statistic)


def _splits(ranks: NDArray[np.float64], n: int) -> NDArray[np.float64]:
    """How many of the splits with n in the first sample have the sum s / 2 there, for s = 0, 1, ... Ranks are whole or
    half; they are taken in one after the other."""
    doubled = np.rint(2 * np.sort(ranks)).astype(int)
    counts = np.zeros((n + 1, int(doubled[len(doubled) - n :].sum()) + 1))
    counts[0, 0] = 1.0
    for taken, rank in enumerate(doubled):
        few, most = max(0, n - len(doubled) + taken), min(n - 1, taken)  # in the first sample so far, of use later
        counts[few + 1 : most + 2, rank:] += counts[few : most + 1, : counts.shape[1] - rank].copy()
    return np.asarray(counts[n])
