"""Time to target with runs that never reach it: worked cases, scipy's own, and laws."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from reports.statistics.survival import (
    Crossing,
    crossing,
    gap,
    kaplan_meier,
    log_rank,
    mantel,
    median,
    restricted_mean,
    time_ratio,
)

WORKED = ([10, 20, 30, 40, 40], [True, True, True, False, False])
A = ([10, 12, 15, 20, 22], [True] * 5)
B = ([18, 25, 30, 40, 40], [True, True, True, False, False])
RUNS = st.lists(st.tuples(st.integers(1, 30), st.booleans()), min_size=1, max_size=7)


def split(runs: list[tuple[int, bool]]) -> tuple[np.ndarray, np.ndarray]:
    times, reached = zip(*runs)
    return np.array(times, float), np.array(reached, bool)


def test_kaplan_meier_worked_case() -> None:
    curve = kaplan_meier(*WORKED)
    assert curve.times.tolist() == [10, 20, 30]
    assert curve.survival == pytest.approx([0.8, 0.6, 0.4])
    assert curve.at_risk.tolist() == [5, 4, 3]


def test_restricted_mean_worked_case() -> None:
    """1 for 10, 0.8 for 10, 0.6 for 10, 0.4 for 10."""
    assert restricted_mean(*WORKED, 40).value == pytest.approx(28.0)
    assert restricted_mean(*WORKED, 25).value == pytest.approx(10 + 8 + 0.6 * 5)


@given(RUNS)
def test_kaplan_meier_is_scipys(runs: list[tuple[int, bool]]) -> None:
    times, reached = split(runs)
    curve = kaplan_meier(times, reached)
    reference = stats.ecdf(stats.CensoredData(times[reached], right=times[~reached])).sf
    assert curve.survival == pytest.approx(reference.evaluate(curve.times))
    assert curve.times.tolist() == sorted(set(times[reached]))


@given(RUNS)
def test_restricted_mean_is_the_mean_of_cut_times_where_all_were_watched(runs: list[tuple[int, bool]]) -> None:
    times, reached = split(runs)
    times = np.where(reached, times, math.inf)
    assert restricted_mean(times, reached, 20).value == pytest.approx(np.minimum(times, 20).mean())


def test_restricted_mean_has_an_interval_from_ten_runs_watched_to_the_horizon() -> None:
    times = np.arange(1.0, 11)
    assert restricted_mean(times[:9], times[:9] < 8, 8).low is None
    estimate = restricted_mean(np.minimum(times, 8), times < 8, 8)
    assert estimate.low is not None
    assert estimate.high is not None
    assert 0 < estimate.low < estimate.value < estimate.high <= 8
    assert restricted_mean(times, times != 3, 8).low is None  # one was left at 3


def test_what_nobody_watched_is_not_known() -> None:
    assert math.isnan(restricted_mean([10, 20], [True, False], 40).value)
    assert restricted_mean([10, 20], [True, True], 40).value == 15


def test_median_is_the_first_time_with_half_through() -> None:
    assert median(*WORKED).value == 30
    assert median([10, 20, 40, 40, 40], [True, True, False, False, False]).value == math.inf


@pytest.mark.parametrize("n", [6, 7, 9, 10, 17, 30])
def test_median_interval_lies_between_the_sign_tests(n: int) -> None:
    """The order statistics on either side have coverage 1 - 2 P(B < d) just above and just below 95 %."""
    times = np.arange(1.0, n + 1)
    estimate = median(times, np.ones(n, bool))
    depth = int(stats.binom.ppf(0.025, n, 0.5))
    assert estimate.low is not None
    assert estimate.high is not None
    assert depth <= estimate.low <= depth + 1
    assert estimate.high == pytest.approx(n + 1 - estimate.low)


def test_median_interval_by_hand() -> None:
    """n = 7: depths 1 and 2 cover 126/128 and 112/128, so 0.31 of the way in coverage and 0.73 in time."""
    estimate = median([10, 20, 30, 40, 50, 60, 60], [True] * 5 + [False] * 2)
    inward = (126 / 128 - 0.95) / (14 / 128)
    assert estimate.low == pytest.approx(10 + 10 * 6 * inward / (1 + 5 * inward))
    assert estimate.high == math.inf


def test_five_runs_have_no_interval_of_the_median() -> None:
    assert median([1, 2, 3, 4, 5], [True] * 5).low is None
    assert median([1, 2, 3, 4, 5, 6], [True] * 6).low is not None


def test_runs_left_early_widen_the_median_both_ways() -> None:
    times = np.arange(1.0, 11)
    full = median(times, np.ones(10, bool))
    early = median(times, times != 2)  # one left at 2: it may reach at once or never
    assert full.low == early.low
    assert early.high is not None
    assert full.high is not None
    assert early.high > full.high


def test_mantel_worked_case() -> None:
    """|z| = 2.4929, p = 0.01267: the first arm is the earlier."""
    found = mantel(*A, *B)
    assert found.statistic == pytest.approx(-2.4929, abs=5e-5)
    assert found.p == pytest.approx(0.01267, abs=5e-6)


def test_log_rank_weighs_what_scipys_does() -> None:
    """Reached less expected, by scipy's z times its standard deviation (recomputed by hand over the eight times)."""
    at_risk = [(5, 5), (4, 5), (3, 5), (2, 5), (2, 4), (1, 4), (0, 4), (0, 3)]  # at 10 12 15 18 20 22 25 30
    expected = sum(a / (a + b) for a, b in at_risk)
    assert log_rank(*A, *B).statistic == pytest.approx(expected - 5)


def test_log_rank_is_the_permutation_test() -> None:
    """Of the same weight over all 252 splits, by scipy."""
    times, reached = np.array(A[0] + B[0], float), np.array(A[1] + B[1])

    def weight(x: np.ndarray, y: np.ndarray) -> float:
        first, second = x.astype(int), y.astype(int)
        return log_rank(times[first], reached[first], times[second], reached[second]).statistic

    reference = stats.permutation_test((np.arange(5), np.arange(5, 10)), weight, vectorized=False)
    assert log_rank(*A, *B).p == pytest.approx(reference.pvalue)


def test_log_rank_with_many_runs_is_near_mantels() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.exponential(1, 40), rng.exponential(1.7, 40)
    cut = (np.minimum(a, 2), a < 2, np.minimum(b, 2), b < 2)
    assert log_rank(*cut).p == pytest.approx(mantel(*cut).p, rel=0.1)


def test_log_rank_reaches_no_lower_than_it_says() -> None:
    three = np.ones(3, bool)
    apart = log_rank([1, 2, 3], three, [11, 12, 13], three)
    assert apart.p == apart.floor == pytest.approx(0.1)
    assert not apart.reachable(0.05)


def test_nobody_reached_says_nothing() -> None:
    none = np.zeros(4, bool)
    for test in (log_rank, mantel):
        assert test([9, 9, 9, 9], none, [9, 9, 9, 9], none).p == 1.0
        assert test([5, 5], [True, True], [5, 5], [True, True]).p == 1.0


@settings(deadline=None)
@given(RUNS, RUNS)
def test_log_rank_swapped_and_on_another_clock(first: list[tuple[int, bool]], second: list[tuple[int, bool]]) -> None:
    """Only the order of times matters; swapping the arms changes the sign."""
    (t, hit), (u, struck) = split(first), split(second)
    there, back, other = (
        log_rank(t, hit, u, struck),
        log_rank(u, struck, t, hit),
        log_rank(t**2, hit, u**2, struck),
    )
    assert there.p == pytest.approx(back.p) == pytest.approx(other.p)
    assert there.statistic == pytest.approx(-back.statistic)
    assert there.floor <= there.p + 1e-12


def test_crossing_by_hand() -> None:
    assert crossing([100, 200, 300], [1.0, 3.0, 4.0], 2.0, "max") == Crossing(100, 200, 150)
    assert crossing([100, 200, 300], [4.0, 3.0, 1.0], 2.0, "min") == Crossing(200, 300, 250)
    assert crossing([100, 200], [2.0, 1.0], 2.0, "max") == Crossing(0, 100, 100)
    assert crossing([100, 200], [1.0, 1.5], 2.0, "max") == Crossing(200, math.inf, math.inf)
    assert crossing([], [], 2.0, "max") == Crossing(0, math.inf, math.inf)


def test_crossing_counts_the_first_time_and_no_gaps() -> None:
    """It may fall back later; an evaluation that gave nan reaches nothing and is no end of a line."""
    assert crossing([1, 2, 3, 4], [0.0, 2.0, 0.0, 2.0], 1.0, "max").at == 1.5
    assert crossing([1, 2, 3], [0.0, math.nan, 2.0], 1.0, "max") == Crossing(2, 3, 3)
    assert crossing([1, 2], [math.inf, 1.0], 2.0, "min") == Crossing(1, 2, 2)


@given(
    st.lists(st.integers(-20, 20).map(float), min_size=1, max_size=8),
    st.integers(-20, 20).map(float),
    st.integers(1, 5).map(float),
)
def test_crossing_laws(y: list[float], target: float, harder: float) -> None:
    """The crossing is in its interval, a harder target never comes earlier, mode only turns the sign, and what stays
    short has a gap."""
    x = np.arange(1, len(y) + 1) * 10
    found = crossing(x, y, target, "max")
    assert found.low <= found.at <= found.high
    assert crossing(x, y, target + harder, "max").at >= found.at
    assert crossing(x, np.negative(y), -target, "min") == found
    assert (gap(y, target, "max") == 0) == math.isfinite(found.at)
    assert gap(y, target, "max") == gap(np.negative(y), -target, "min") == max(0, target - max(y))


def test_gap_without_values() -> None:
    assert gap([], 1.0, "max") == gap([math.nan], 1.0, "min") == math.inf


def test_time_ratio_by_hand() -> None:
    """The ratios are 1/2, 1/4 and 1: the t interval of their logs, raised again."""
    estimate = time_ratio([10, 5, 20], [20, 20, 20])
    logs = np.log([1 / 2, 1 / 4, 1])
    low, high = stats.ttest_1samp(logs, 0).confidence_interval()
    assert estimate.value == pytest.approx(0.5)
    assert (estimate.low, estimate.high) == pytest.approx((math.exp(low), math.exp(high)))


@given(st.lists(st.tuples(st.integers(1, 99), st.integers(1, 99)), min_size=2, max_size=6), st.floats(0.01, 100))
def test_time_ratio_laws(pairs: list[tuple[int, int]], unit: float) -> None:
    """The other way around is one over it; the unit of time does not matter."""
    a, b = np.array(pairs, float).T
    there, back = time_ratio(a, b), time_ratio(b, a)
    assert there.value == pytest.approx(1 / back.value)
    assert there.low == pytest.approx(1 / back.high)  # type: ignore[operator]
    assert time_ratio(unit * a, unit * b).value == pytest.approx(there.value)


def test_no_ratio_of_survivors() -> None:
    estimate = time_ratio([10, 20, math.inf], [20, 40, 60])
    assert math.isnan(estimate.value)
    assert estimate.low is None
