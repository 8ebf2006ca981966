"""The corrected resampled t on a worked case, and what it is without overlap."""

import math

import numpy as np
import pytest
from scipy import stats

from reports.statistics.resampled import corrected_t

FOLDS = [0.02, 0.01, 0.03, 0.015, 0.005]  # five folds, so test / train = 0.25


def test_worked_case() -> None:
    """Nadeau & Bengio 2003: t = 2.48 and p = 0.0682, where the naive test says 0.0205."""
    estimate, p = corrected_t(FOLDS, 0.25)
    assert p == pytest.approx(0.0682, abs=5e-5)
    error = np.std(FOLDS, ddof=1) * math.sqrt(1 / 5 + 0.25)
    assert estimate.value / error == pytest.approx(2.48, abs=5e-3)
    assert corrected_t(FOLDS, 0.0)[1] == pytest.approx(0.0205, abs=5e-5)


def test_without_overlap_it_is_students() -> None:
    estimate, p = corrected_t(FOLDS, 0.0)
    reference = stats.ttest_1samp(FOLDS, 0)
    assert p == pytest.approx(reference.pvalue, rel=1e-9)
    assert (estimate.low, estimate.high) == pytest.approx(tuple(reference.confidence_interval()), rel=1e-9)


def test_more_overlap_is_less_evidence() -> None:
    p = [corrected_t(FOLDS, ratio)[1] for ratio in (0.0, 0.1, 0.25, 1.0)]
    assert p == sorted(p)


def test_interval_excludes_zero_where_p_is_below() -> None:
    estimate, p = corrected_t(FOLDS, 0.1)
    assert estimate.low is not None
    assert (estimate.low > 0) == (p < 0.05)


def test_no_spread_and_one_fold_say_nothing() -> None:
    assert math.isnan(corrected_t([0.1, 0.1, 0.1], 0.25)[1])
    assert math.isnan(corrected_t([0.1], 0.25)[1])
    assert corrected_t([0.1], 0.25)[0].low is None
