"""Hedges' g: the published correction, intervals that the noncentral t itself confirms, and the laws of a ratio."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from reports.statistics.effect import correction, hedges, hedges_paired, noncentrality

SAMPLES = st.lists(st.integers(-100, 100).map(float), min_size=2, max_size=8)


@pytest.mark.parametrize(("degrees", "factor"), [(2, math.pi**-0.5), (4, (2 / math.pi) ** 0.5)])
def test_correction_in_closed_form(degrees: int, factor: float) -> None:
    """Gamma functions of halves: 1 / sqrt(pi) and sqrt(2 / pi)."""
    assert correction(degrees) == pytest.approx(factor, rel=1e-12)


def test_corrected_effect_is_right_on_average() -> None:
    """A true effect of 0.8 with 3 of each: the plain ratio gives 1.0 on average, the corrected one 0.8."""
    rng = np.random.default_rng(0)
    found = [hedges(rng.normal(0.8, 1, 3), rng.normal(0, 1, 3)).value for _ in range(20_000)]
    assert np.mean(found) == pytest.approx(0.8, abs=0.03)


def test_hand_computed() -> None:
    """Means 5 and 2, both variances 1: d = 3 with 4 degrees of freedom, where c(4) = 0.7979."""
    assert hedges([4, 5, 6], [1, 2, 3]).value == pytest.approx(3 * 0.7979, abs=2e-4)
    assert hedges_paired([1, 2, 3]).value == pytest.approx(2 * 0.5642, abs=2e-4)


@pytest.mark.parametrize("d", [[0.3, -0.1, 0.7], [0.02, 0.03, 0.01, 0.025, 0.018], [-1.0, 0.2, 0.1, -0.4]])
def test_bounds_are_where_the_noncentral_t_has_its_tails(d: list[float]) -> None:
    estimate, n = hedges_paired(d), len(d)
    t = float(stats.ttest_1samp(d, 0).statistic)
    assert estimate.low is not None
    assert estimate.high is not None
    assert stats.nct.cdf(t, n - 1, estimate.low * math.sqrt(n)) == pytest.approx(0.975, abs=1e-5)
    assert stats.nct.cdf(t, n - 1, estimate.high * math.sqrt(n)) == pytest.approx(0.025, abs=1e-5)


def test_bounds_of_two_samples() -> None:
    a, b = [0.92, 0.95, 0.91, 0.96], [0.90, 0.91, 0.92]
    estimate, root = hedges(a, b), math.sqrt(4 * 3 / 7)
    t = float(stats.ttest_ind(a, b).statistic)
    assert estimate.low is not None
    assert stats.nct.cdf(t, 5, estimate.low * root) == pytest.approx(0.975, abs=1e-5)


@pytest.mark.parametrize(("t", "degrees"), [(1200.0, 2), (-1200.0, 4), (5000.0, 29)])
def test_very_large_effects_agree_with_simulation_free_integration(t: float, degrees: int) -> None:
    """P(T <= t) = E Phi(t w - nc) with w a chi over its root: integrated here over w's quantiles."""
    w = np.sqrt(stats.chi2.ppf((np.arange(200_000) + 0.5) / 200_000, degrees) / degrees)
    for probability in (0.025, 0.975):
        shift = noncentrality(t, degrees, probability)
        assert stats.norm.cdf(t * w - shift).mean() == pytest.approx(probability, abs=1e-4)


def test_interval_excludes_no_effect_exactly_where_the_t_test_does() -> None:
    rng = np.random.default_rng(0)
    for _ in range(200):
        d = rng.normal(0.8, 1, 5)
        low = hedges_paired(d).low
        high = hedges_paired(d).high
        assert low is not None
        assert high is not None
        assert (not low <= 0 <= high) == (stats.ttest_1samp(d, 0).pvalue < 0.05)


@given(SAMPLES, SAMPLES)
def test_swapping_the_samples_changes_the_sign(a: list[float], b: list[float]) -> None:
    there, back = hedges(a, b), hedges(b, a)
    if there.low is None or back.high is None:
        assert math.isnan(there.value)
        assert math.isnan(back.value)
        return
    assert there.value == pytest.approx(-back.value, abs=1e-9)
    assert there.low == pytest.approx(-back.high, rel=1e-5, abs=1e-5)


@given(SAMPLES, st.floats(0.01, 100), st.integers(-50, 50))
def test_neither_unit_nor_origin_matters(a: list[float], unit: float, origin: int) -> None:
    b = [0.0, 1.0, 5.0]
    moved = hedges([unit * (v + origin) for v in a], [unit * (v + origin) for v in b])
    assert moved.value == pytest.approx(hedges(a, b).value, rel=1e-6, abs=1e-9)


def test_no_spread_and_too_few_give_nothing() -> None:
    for estimate in (hedges_paired([1.0, 1.0]), hedges_paired([1.0]), hedges([1.0], [2.0]), hedges([], [1.0, 2.0])):
        assert math.isnan(estimate.value)
        assert estimate.low is None
        assert estimate.high is None


def test_two_pairs_have_an_interval_but_no_corrected_value() -> None:
    """With one degree of freedom the correction is 0 and its product meaningless."""
    estimate = hedges_paired([1.0, 2.0])
    assert math.isnan(estimate.value)
    assert estimate.low is not None


def test_differences_of_rounding_have_no_effect() -> None:
    d = 1.1e-16 * np.array([1, 1, 1, 2, 1])
    assert math.isnan(hedges_paired(d, scale=0.9).value)
    assert hedges_paired(d, scale=1e-16).value > 1
