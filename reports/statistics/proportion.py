"""Wilson's interval of a proportion: how often runs fail, from few of them.

Source: Wilson 1927, Journal of the American Statistical Association 22. Unlike the normal interval it stays inside [0,
1] and says something at 0 of n; there its lower end is exactly 0, and at n of n the upper one exactly 1."""

from __future__ import annotations

import math

from scipy import stats

from reports.statistics.result import Estimate


def wilson(events: int, n: int, confidence: float = 0.95) -> Estimate:
    """The share events / n with its interval; n >= 1.

    >>> estimate = wilson(0, 5); round(estimate.high, 3)
    0.434
    """
    assert 0 <= events <= n
    assert n > 0
    z = float(stats.norm.ppf((1 + confidence) / 2))
    share = events / n
    centre = (share + z**2 / (2 * n)) / (1 + z**2 / n)
    half = z / (1 + z**2 / n) * math.sqrt(share * (1 - share) / n + z**2 / (4 * n**2))
    low = 0.0 if events == 0 else max(0.0, centre - half)  # exactly: rounding would leave 1e-15 there
    high = 1.0 if events == n else min(1.0, centre + half)
    return Estimate(share, low, high, n, confidence)
