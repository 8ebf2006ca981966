"""Student's t keeps its word at n = 3, and errs as often as it says when nothing is there."""

import math

import numpy as np
import pytest
from scipy import stats

from reports.statistics.student import mean_interval, paired, welch


def test_interval_is_scipys() -> None:
    values = [0.91, 0.93, 0.94, 0.92]
    ours = mean_interval(values)
    low, high = stats.ttest_1samp(values, 0).confidence_interval(0.95)
    assert (ours.low, ours.high) == pytest.approx((low, high), rel=1e-12)


def test_one_value_has_no_interval() -> None:
    estimate = mean_interval([0.5])
    assert (estimate.value, estimate.low, estimate.high) == (0.5, None, None)


def test_covers_the_mean_as_often_as_it_says_at_three_seeds() -> None:
    """A percentile bootstrap covers 76 % here."""
    rng = np.random.default_rng(1)
    draws = rng.normal(0.3, 2.0, (4000, 3))
    half = np.array([mean_interval(row).half_width for row in draws], float)
    covered = np.mean(np.abs(draws.mean(axis=1) - 0.3) <= half)
    assert covered == pytest.approx(0.95, abs=0.015)


def test_paired_test_finds_nothing_where_there_is_nothing() -> None:
    """False positives at 5 %, with a seed effect that both arms share."""
    rng = np.random.default_rng(2)
    found = 0
    for _ in range(4000):
        shared = rng.normal(0, 5, 5)
        a, b = shared + rng.normal(0, 1, 5), shared + rng.normal(0, 1, 5)
        found += paired(a - b)[1] <= 0.05
    assert 0.035 <= found / 4000 <= 0.055 + 0.01


def test_paired_and_welch_agree_with_scipy() -> None:
    a, b = np.array([0.92, 0.95, 0.91, 0.96]), np.array([0.90, 0.91, 0.92, 0.90])
    estimate, p = paired(a - b)
    reference = stats.ttest_rel(a, b)
    assert p == pytest.approx(reference.pvalue, rel=1e-12)
    assert (estimate.low, estimate.high) == pytest.approx(tuple(reference.confidence_interval()), rel=1e-12)
    estimate, p = welch(a, b)
    reference = stats.ttest_ind(a, b, equal_var=False)
    assert p == pytest.approx(reference.pvalue, rel=1e-12)
    assert (estimate.low, estimate.high) == pytest.approx(tuple(reference.confidence_interval()), rel=1e-12)


def test_no_spread_gives_no_p_value() -> None:
    assert math.isnan(paired([0.01, 0.01, 0.01])[1])
    assert math.isnan(welch([1.0, 1.0, 1.0], [2.0, 2.0, 2.0])[1])


def test_what_rounding_leaves_is_no_spread() -> None:
    """Accuracies of 0.9 that differ by one unit in the last place, and by two at one seed."""
    x = np.array([0.90, 0.91, 0.89, 0.92, 0.905])
    y = np.nextafter(x, 2)
    y[4] = np.nextafter(y[4], 2)
    assert (y - x).std() > 0
    assert math.isnan(paired(y - x, scale=0.92)[1])
    assert paired([0.01, 0.02, 0.015], scale=0.92)[1] < 0.05


def test_one_difference_has_no_p_value_and_no_warning() -> None:
    estimate, p = paired([0.1])
    assert (estimate.value, estimate.low) == (0.1, None)
    assert math.isnan(p)


def test_few_against_more_have_welchs_statistic_and_hsus_degrees() -> None:
    """t by scipy; 3 - 1 degrees for 4 against 3."""
    a, b = np.array([0.92, 0.95, 0.91, 0.96]), np.array([0.90, 0.91, 0.92])
    reference = stats.ttest_ind(a, b, equal_var=False)
    assert welch(a, b)[1] == pytest.approx(2 * stats.t.sf(abs(reference.statistic), 2))
    assert welch(b, a)[1] == pytest.approx(welch(a, b)[1])


def test_five_against_more_are_welchs() -> None:
    a, b = np.array([0.92, 0.95, 0.91, 0.96, 0.93]), np.array([0.90, 0.91, 0.92, 0.94, 0.89, 0.93, 0.9])
    assert welch(a, b)[1] == pytest.approx(stats.ttest_ind(a, b, equal_var=False).pvalue, rel=1e-12)


@pytest.mark.parametrize(("n", "m", "spread"), [(3, 10, 1.5), (3, 30, 1.0), (4, 10, 2.0)])
def test_few_against_more_err_no_more_than_they_say(n: int, m: int, spread: float) -> None:
    """Welch's own degrees err in 7.1, 7.6 and 6 % of these."""
    rng = np.random.default_rng(4)
    wrong = sum(welch(rng.normal(0, spread, n), rng.normal(0, 1, m))[1] <= 0.05 for _ in range(5000))
    assert wrong / 5000 <= 0.055
