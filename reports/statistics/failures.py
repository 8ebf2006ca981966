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
    are nan where no value at all is known, or a run diverged and nothing says what that is worth."""

    best: float
    worst: float


def bounds(
    a: ArrayLike, b: ArrayLike, mode: str, limits: tuple[float, float] | None = None, diverged: float = math.nan
) -> Bounds:
    """The difference of means of `a` and `b` when what is missing (nan) is filled in. In the best case what `a` lacks
    takes the best value and what `b` lacks the worst; in the worst case the reverse. limits: the least and the greatest
    value possible, as 0 and 1 of an accuracy, and no value of `a` or `b` lies outside; without it, those seen in `a`
    and `b`, which is milder. diverged: what a diverged run (inf, -inf) is worth, in both cases, as it is no missing
    one; where a run that did not diverge was worse, as that one; by default the worse of the limits.

    >>> bounds([3.0, 2.0], [1.0, float("nan")], "max", limits=(0, 4))
    Bounds(best=2.0, worst=0.0)
    >>> bounds([0.4, 0.4], [0.3, float("inf")], "min", diverged=10.0)
    Bounds(best=4.75, worst=4.75)
    """
    sign = 1.0 if mode == "max" else -1.0
    x, y = sign * np.asarray(a, float), sign * np.asarray(b, float)
    seen = np.concatenate([x, y])
    finite = seen[np.isfinite(seen)]
    ends = sorted(sign * limit for limit in limits) if limits is not None else None
    assert ends is None or not len(finite) or ends[0] <= finite.min() <= finite.max() <= ends[1], "values beyond limits"
    worth = sign * diverged if math.isfinite(diverged) else ends[0] if ends else math.nan
    if np.isinf(seen).any():
        if math.isnan(worth):
            return Bounds(math.nan, math.nan)
        worth = min([worth, *finite])
        x, y = np.where(np.isinf(x), worth, x), np.where(np.isinf(y), worth, y)
        finite = np.append(finite, worth)
    if not (len(finite) or ends) or not len(x) or not len(y):
        return Bounds(math.nan, math.nan)
    least, most = ends or (float(finite.min()), float(finite.max()))
    best = _filled(x, most).mean() - _filled(y, least).mean()
    worst = _filled(x, least).mean() - _filled(y, most).mean()
    return Bounds(float(best), float(worst))


def _ranked(values: ArrayLike, mode: str) -> NDArray[np.float64]:
    """Greater is better, and -inf is a failure."""
    x = np.asarray(values, float)
    return np.where(np.isfinite(x), x if mode == "max" else -x, -math.inf)


def _filled(x: NDArray[np.float64], missing: float) -> NDArray[np.float64]:
    return np.where(np.isnan(x), missing, x)
