"""The stratified bootstrap: runs are drawn anew within each task, tasks are kept.

Source: Agarwal et al. 2021, "Deep reinforcement learning at the edge of the statistical precipice", section 4 (runs
resampled within tasks); Hesterberg 2015, The American Statistician 69 (for few runs the percentile interval is too
narrow by sqrt((n-1)/n) * z/t: its ends are to be read further out). Every draw comes from a generator of its own, made
from a seed: no global state is read or changed, and the same seed gives the same interval."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]

RESAMPLES = 5000


def resampled(samples: Sequence[ArrayLike], resamples: int = RESAMPLES, seed: int = 0) -> list[Array]:
    """Each sample (n_t,) drawn anew with replacement, `resamples` times: arrays (resamples, n_t).

    >>> [a.shape for a in resampled([[1.0, 2.0], [3.0, 4.0, 5.0]], resamples=10)]
    [(10, 2), (10, 3)]
    """
    rng = np.random.default_rng(seed)
    values = [np.asarray(sample, float) for sample in samples]
    return [x[rng.integers(len(x), size=(resamples, len(x)))] for x in values]


def counts(sizes: Sequence[int], resamples: int = RESAMPLES, seed: int = 0) -> list[Array]:
    """How often each run is drawn, instead of which: arrays (resamples, n_t), each row summing to n_t."""
    rng = np.random.default_rng(seed)
    rows = np.arange(resamples)[:, None]
    drawn = []
    for n in sizes:
        which = rng.integers(n, size=(resamples, n)) + n * rows  # each resample counts in a row of its own
        drawn.append(np.bincount(which.ravel(), minlength=n * resamples).reshape(resamples, n).astype(float))
    return drawn


def enough(sizes: Sequence[int]) -> bool:
    """Whether the intervals made here hold for tasks with `sizes` runs each: 5 runs on 5 tasks, or 10 on 3.

    With fewer they were seen to cover as little as 75 % for 95 (tests/reports/statistics/test_coverage_many.py)."""
    return (len(sizes) >= 5 and min(sizes) >= 5) or (len(sizes) >= 3 and min(sizes) >= 10)


def widened(confidence: float, variances: ArrayLike, sizes: Sequence[int], ratio: float) -> float:
    """The confidence to read percentiles at, so that they cover `confidence` with few runs.

    variances: each part's share of the estimate's variance, known from `sizes` runs of that part: Satterthwaite's
    degrees of freedom follow. ratio: the unbiased variance over the bootstrap's. So z becomes t * sqrt(ratio)
    (Hesterberg 2015, section 5.3; there for one sample of n: ratio n / (n - 1)).

    >>> round(widened(0.95, [1.0], [10], 10 / 9), 3), round(widened(0.95, [1.0] * 5, [1000] * 5, 1.0), 3)
    (0.983, 0.95)
    """
    from scipy import stats

    v, degrees = np.asarray(variances, float), np.asarray(sizes, float) - 1
    if not v.sum() > 0:
        return confidence
    freedom = v.sum() ** 2 / (v**2 / degrees).sum()
    return float(2 * stats.norm.cdf(stats.t.ppf((1 + confidence) / 2, freedom) * math.sqrt(ratio)) - 1)


def percentiles(replicates: Array, confidence: float) -> tuple[Array, Array]:
    """The two ends of the percentile interval, along axis 0. They are replicates themselves, never between two, so
    that infinite ones are right."""
    ordered = np.sort(replicates, axis=0)
    tail = math.floor((1 - confidence) / 2 * len(ordered) + 1e-9)
    return ordered[tail], ordered[len(ordered) - 1 - tail]
