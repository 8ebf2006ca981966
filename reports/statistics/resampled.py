"""The corrected resampled t: scores of one pair of algorithms over random splits or folds of one data set.

Source: Nadeau & Bengio 2003, Machine Learning 52, section 4. Splits share training examples, so their scores are
correlated and the plain t-test errs far too often. The variance of the mean is (1/k + test/train) s^2 and not s^2 / k.
Exact for normal scores whose correlation is test / (test + train); that this is the correlation is the assumption."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from reports.statistics.result import Estimate


def corrected_t(differences: ArrayLike, ratio: float, confidence: float = 0.95) -> tuple[Estimate, float]:
    """Mean of the differences over k splits with its interval, and the two-sided p-value of "the mean is 0". ratio: the
    number of test examples over that of training examples, 0.25 for 5 folds. Without spread, or with k < 2, there is no
    interval and the p-value is nan.

    >>> estimate, p = corrected_t([0.02, 0.01, 0.03, 0.015, 0.005], 0.25); round(p, 4)
    0.0682
    """
    d = np.asarray(differences, float)
    assert len(d)
    assert ratio >= 0
    k, mean = len(d), float(d.mean())
    spread = float(d.std(ddof=1)) if k > 1 else 0.0
    if not spread > 1e-12 * float(np.abs(d).max()):
        return Estimate(mean, None, None, k, confidence), math.nan
    error = spread * math.sqrt(1 / k + ratio)
    half = error * float(special.stdtrit(k - 1, (1 + confidence) / 2))
    p = float(2 * special.stdtr(k - 1, -abs(mean) / error))
    return Estimate(mean, mean - half, mean + half, k, confidence), p
