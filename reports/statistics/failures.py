"""Comparisons in which some runs failed: as the worst of all ranks, and how far those missing could move a difference.

Source: Lachin 1999, Controlled Clinical Trials 20 (worst ranks); Hollis & Campbell 1999, British Medical Journal 319
(best and worst case). Leaving failures out compares the survivors, and the arm that fails most looks best."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from reports.statistics.ranks import rank_sum
from reports.statistics.result import PValue
from reports.statistics.signs import signed_rank


def worst_rank(a: ArrayLike, b: ArrayLike, mode: str = "max", paired: bool = False) -> PValue:
    """Two-sided exact p-value of "no difference" where a failed run (nan, inf or -inf) ranks below all that did not
    fail and ties with its like. The rank sum, or signed ranks where a[i] and b[i] are of one seed. statistic: positive
    where `a` is better.

    >>> worst_rank([0.92, 0.91, 0.93, 0.90], [0.95, float("nan"), float("nan"), float("nan")]).p
    0.3142857142857143
    """
    x, y = _ranked(a, mode), _ranked(b, mode)
    if not paired:
        return rank_sum(x, y)
    assert len(x) == len(y)
    with np.errstate(invalid="ignore"):
        return signed_rank(np.where(np.isneginf(x) & np.isneginf(y), 0.0, x - y))


@dataclass(frozen=True)
class Bounds:
    """A difference of means, positive where the first sample is better: in the best case for it and in the worst. Both
    are nan where no value at all is known."""

    best: float
    worst: float


def bounds(a: ArrayLike, b: ArrayLike, mode: str, limits: tuple[float, float] | None = None) -> Bounds:
    """The difference of means of `a` and `b` when what is missing (nan) is filled in. In the best case what `a` lacks
    takes the best value and what `b` lacks the worst; in the worst case the reverse. limits: the least and the greatest
    value possible, as 0 and 1 of an accuracy; without it, those seen in `a` and `b`, which is milder. A diverged run
    (inf, -inf) is no missing one: it has the worst value in both cases.

    >>> bounds([3.0, 2.0], [1.0, float("nan")], "max", limits=(0, 4))
    Bounds(best=2.0, worst=0.0)
    """
    sign = 1.0 if mode == "max" else -1.0
    x, y = sign * np.asarray(a, float), sign * np.asarray(b, float)
    seen = np.concatenate([x, y])
    seen = seen[np.isfinite(seen)] if limits is None else sign * np.asarray(limits, float)
    if not len(seen) or not len(x) or not len(y):
        return Bounds(math.nan, math.nan)
    least, most = float(seen.min()), float(seen.max())
    best = _filled(x, least, most).mean() - _filled(y, least, least).mean()
    worst = _filled(x, least, least).mean() - _filled(y, least, most).mean()
    return Bounds(float(best), float(worst))


def _ranked(values: ArrayLike, mode: str) -> NDArray[np.float64]:
    """Greater is better, and -inf is a failure."""
    x = np.asarray(values, float)
    return np.where(np.isfinite(x), x if mode == "max" else -x, -math.inf)


def _filled(x: NDArray[np.float64], diverged: float, missing: float) -> NDArray[np.float64]:
    return np.where(np.isnan(x), missing, np.where(np.isinf(x), diverged, x))
