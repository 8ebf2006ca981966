"""Rank tests of two samples, how likely one beats the other, and the survivors that must not win."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from reports.statistics.ranks import probability_better, probability_greater, rank_sum

VALUES = st.lists(st.one_of(st.integers(-5, 5).map(float), st.just(-math.inf)), min_size=1, max_size=7)


def test_survivors_do_not_win() -> None:
    """Two of five runs of b diverged. Without them b looks better with 0.967; with them as worst, 0.58."""
    a, b = [0.92, 0.91, 0.93, 0.9, 0.92], [0.94, 0.95, 0.93, -np.inf, -np.inf]
    assert probability_greater(b[:3], a) == pytest.approx(0.967, abs=5e-4)
    assert probability_greater(b, a) == pytest.approx(0.58)
    assert probability_better(b, a).value == pytest.approx(0.58)


@pytest.mark.parametrize(("n", "floor"), [(3, 0.1), (4, 0.0286), (5, 0.0079)])
def test_smallest_p_value(n: int, floor: float) -> None:
    result = rank_sum(np.arange(n), np.arange(n) + 100)
    assert result.p == result.floor
    assert result.p == pytest.approx(floor, abs=5e-5)


@pytest.mark.parametrize("n", [4, 12, 30])
def test_is_mann_whitneys(n: int) -> None:
    rng = np.random.default_rng(n)
    a, b = rng.normal(0, 1, n), rng.normal(0.5, 1, n + 3)
    assert rank_sum(a, b).p == pytest.approx(stats.mannwhitneyu(a, b, method="exact").pvalue)


def test_ties_are_counted_as_they_are() -> None:
    """Against all 252 splits by scipy."""
    a, b = [1.0, 2.0, 2.0, 3.0, 3.0], [2.0, 3.0, 3.0, 4.0, 4.0]
    reference = stats.permutation_test(
        (a, b), lambda x, y: stats.rankdata(np.concatenate([x, y]))[: len(x)].sum(), vectorized=False
    )
    assert rank_sum(a, b).p == pytest.approx(reference.pvalue)


def test_many_values_use_the_normal_approximation() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.normal(0, 1, 60), rng.normal(0.5, 1, 60)
    reference = stats.mannwhitneyu(a, b, method="asymptotic", use_continuity=False).pvalue
    assert rank_sum(a, b).p == pytest.approx(reference, rel=1e-9)


def test_ties_alone_say_nothing() -> None:
    assert rank_sum([1.0, 1.0, 1.0], [1.0, 1.0, 1.0]).p == 1.0


def test_interval_solves_newcombes_equation() -> None:
    """Method 5 with 5 of each: at both bounds the distance to 0.8 is 1.96 of that bound's own standard errors."""
    a, b = [3.0, 5.0, 7.0, 8.0, 10.0], [1.0, 2.0, 4.0, 6.0, 9.0]
    estimate = probability_better(a, b)
    assert estimate.value == pytest.approx(18 / 25)
    for theta in (estimate.low, estimate.high):
        assert theta is not None
        spread = 1 + 4 * ((1 - theta) / (2 - theta) + theta / (1 + theta))
        variance = theta * (1 - theta) / 25 * spread
        assert abs(theta - 18 / 25) == pytest.approx(1.959964 * math.sqrt(variance), rel=1e-5)


def test_three_against_three_cannot_exclude_a_half() -> None:
    """Even apart altogether: the exact test's p-value is 0.1 there."""
    estimate = probability_better([4, 5, 6], [1, 2, 3])
    assert (estimate.value, estimate.low, estimate.high) == (1.0, 0.5, 1.0)
    five = probability_better([6, 7, 8, 9, 10], [1, 2, 3, 4, 5])
    assert five.low is not None
    assert five.low > 0.5


@given(VALUES, VALUES)
def test_a_half_is_inside_wherever_the_rank_sum_cannot_tell(a: list[float], b: list[float]) -> None:
    estimate = probability_better(a, b)
    assert estimate.low is not None
    assert estimate.high is not None
    assert 0 <= estimate.low <= estimate.value <= estimate.high <= 1
    if rank_sum(a, b).p > 0.05:
        assert estimate.low <= 0.5 <= estimate.high


@given(VALUES, VALUES)
def test_swapping_the_samples_mirrors_everything(a: list[float], b: list[float]) -> None:
    there, back = probability_better(a, b), probability_better(b, a)
    assert there.low is not None
    assert there.high is not None
    assert (there.value, there.low, there.high) == pytest.approx((1 - back.value, 1 - back.high, 1 - back.low))  # type: ignore[operator]
    assert rank_sum(a, b).p == pytest.approx(rank_sum(b, a).p)
    assert rank_sum(a, b).statistic == -rank_sum(b, a).statistic


@given(VALUES, VALUES)
def test_only_order_matters(a: list[float], b: list[float]) -> None:
    assert probability_better(np.exp(a), np.exp(b)) == probability_better(a, b)


@given(VALUES, VALUES)
def test_better_runs_never_lower_it(a: list[float], b: list[float]) -> None:
    assert probability_better(np.add(a, 1), b).value >= probability_better(a, b).value


def test_unlike_spreads_widen_it_where_they_can_be_seen() -> None:
    """Ten wide against ten narrow around the same place: the samples' own variance is the larger."""
    wide, narrow = np.linspace(-10, 10, 10), np.linspace(-0.1, 0.1, 10)
    alike = probability_better(np.linspace(-1, 1, 10) + 0.01, np.linspace(-1, 1, 10)).half_width
    unlike = probability_better(wide, narrow).half_width
    assert alike is not None
    assert unlike is not None
    assert unlike > 1.05 * alike


def test_an_empty_sample_has_no_interval() -> None:
    assert probability_better([], [1.0]).low is None
