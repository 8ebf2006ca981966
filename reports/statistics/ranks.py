"""Two unpaired samples by rank: how likely one beats the other, and an exact rank-sum test.

Source: Mann & Whitney 1947, Annals of Mathematical Statistics 18; ties count half. A diverged run is given as -inf (or
+inf where less is better): it ranks below every other and ties with its like."""

from __future__ import annotations

import itertools
import math

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from reports.statistics.result import PValue

_MOST_EXACT = 200_000


def probability_greater(a: ArrayLike, b: ArrayLike) -> float:
    """P(A > B) + P(A = B) / 2 over all pairs of a value of `a` and one of `b`.

    >>> probability_greater([2, 3], [1, 3])
    0.625
    """
    x, y = np.asarray(a, float)[:, None], np.asarray(b, float)[None, :]
    return float(np.mean((x > y) + 0.5 * (x == y)))


def rank_sum(a: ArrayLike, b: ArrayLike) -> PValue:
    """Two-sided p-value of "one distribution", from all splits of the pooled ranks (above 200,000 splits, normal).

    The smallest p-value possible without ties: 0.1 for 3 against 3, 0.0079 for 5 against 5.
    """
    x, y = np.asarray(a, float), np.asarray(b, float)
    ranks = stats.rankdata(np.concatenate([x, y]))
    total, n = len(ranks), len(x)
    expected = n * (total + 1) / 2
    statistic = float(ranks[:n].sum()) - expected
    seen = abs(statistic)
    splits = math.comb(total, n)
    if splits > _MOST_EXACT:
        variance = n * len(y) * ranks.var(ddof=1) / total
        p = float(2 * stats.norm.sf(seen / math.sqrt(variance))) if variance else 1.0
        return PValue(p, 2.0 / splits, (n, len(y)), statistic)
    chosen = np.array(list(itertools.combinations(range(total), n)))
    distances = np.abs(ranks[chosen].sum(axis=1) - expected)
    floor = float(np.mean(distances >= distances.max() - 1e-9))
    return PValue(float(np.mean(distances >= seen - 1e-9)), floor, (n, len(y)), statistic)
