"""Runs that failed rank last, whatever the rest did, and missing ones bound what could be said."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from reports.statistics.failures import Bounds, bounds, worst_rank

A, B = [0.92, 0.91, 0.93, 0.9, 0.92], [0.94, 0.95, 0.93, math.nan, math.nan]
VALUES = st.lists(st.one_of(st.integers(-5, 5).map(float), st.just(math.nan)), min_size=2, max_size=6)


def test_survivors_do_not_win() -> None:
    """Two of five of b diverged. Its three survivors alone rank above all but a tie: 4 of the 56 splits of ranks 1, 2,
    3.5, 3.5, 5.5, 5.5, 7, 8 are as far out. With all, nothing can be said."""
    assert worst_rank(B[:3], A).p == pytest.approx(4 / 56)
    assert worst_rank(B, A).p > 0.6


@pytest.mark.parametrize("failed", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("mode", ["max", "min"])
def test_a_failure_is_worst_however_it_is_written(failed: float, mode: str) -> None:
    """All of b failed, a's values are what they may: a is better, as clearly as 4 against 4 can show."""
    found = worst_rank([1.0, -7.0, 3.0, 1e9], [failed] * 4, mode)
    assert found.p == pytest.approx(2 / math.comb(8, 4))
    assert found.statistic > 0


def test_is_mann_whitneys_without_failures() -> None:
    a, b = [1.1, 2.2, 3.3, 0.2], [2.0, 4.4, 5.5, 6.6, 0.9]
    reference = stats.mannwhitneyu(a, b, method="exact").pvalue
    assert worst_rank(a, b).p == pytest.approx(reference)
    assert worst_rank(a, b, "min").p == pytest.approx(reference)


def test_unpaired_is_the_permutation_test_of_ranks() -> None:
    low = -1e6
    reference = stats.permutation_test(
        ([0.92, 0.91, 0.93, 0.90], [0.95, low, low, low]),
        lambda x, y: stats.rankdata(np.concatenate([x, y]))[: len(x)].sum(),
        vectorized=False,
        n_resamples=10**5,
    )
    assert worst_rank([0.92, 0.91, 0.93, 0.90], [0.95, math.nan, math.nan, math.nan]).p == pytest.approx(
        reference.pvalue
    )


def test_paired_failures_are_the_largest_differences_and_two_of_a_seed_a_tie() -> None:
    """Differences +1, +2, +3 and one lost: ranks 1 + 2 + 3 - 4, which 14 of 16 patterns reach."""
    found = worst_rank([2.0, 3.0, 4.0, math.nan], [1.0, 1.0, 1.0, 1.0], paired=True)
    assert found.p == pytest.approx(14 / 16)
    tied = worst_rank([2.0, 3.0, 4.0, math.nan], [1.0, 1.0, 1.0, math.nan], paired=True)
    assert tied.p == worst_rank([2.0, 3.0, 4.0], [1.0, 1.0, 1.0], paired=True).p


@given(VALUES, VALUES)
def test_swapping_changes_the_sign_only(a: list[float], b: list[float]) -> None:
    there, back = worst_rank(a, b), worst_rank(b, a)
    assert there.p == pytest.approx(back.p)
    assert there.statistic == pytest.approx(-back.statistic)


@given(VALUES, VALUES)
def test_monotone_changes_of_the_metric_change_nothing(a: list[float], b: list[float]) -> None:
    assert worst_rank(np.power(a, 3), np.power(b, 3)).p == pytest.approx(worst_rank(a, b).p)


@pytest.mark.parametrize("mode", ["max", "min"])
@pytest.mark.parametrize("paired", [False, True])
@given(st.permutations(range(12)), st.integers(0, 5))
def test_a_failure_more_never_speaks_for_its_arm(mode: str, paired: bool, ranks: list[int], failed: int) -> None:
    """Where a leads already, no run of b that fails makes it less certain. Were it dropped, as survivors' tests do, it
    would: of six against six, all apart, p is 2 / 924, of six against five 2 / 462."""
    a, b = np.array(ranks[:6], float) ** 3, np.array(ranks[6:], float) ** 3
    after = b.copy()
    after[failed] = math.nan
    there, then = worst_rank(a, b, mode, paired), worst_rank(a, after, mode, paired)
    assert then.statistic >= there.statistic
    if there.statistic >= 0:
        assert then.p <= there.p + 1e-12


def test_bounds_by_hand() -> None:
    """Mean 2 against (1, ?): of 0 to 4, the missing one makes b's mean 0.5 or 2.5."""
    assert bounds([2.0, 2.0], [1.0, math.nan], "max", limits=(0, 4)) == Bounds(best=1.5, worst=-0.5)
    assert bounds([2.0, 2.0], [1.0, math.nan], "min", limits=(0, 4)) == Bounds(best=0.5, worst=-1.5)


def test_bounds_without_limits_fill_with_what_was_seen() -> None:
    assert bounds([2.0, 2.0], [1.0, math.nan], "max") == Bounds(best=1.0, worst=0.5)


def test_a_diverged_run_is_known_to_be_bad() -> None:
    """It is no gap in what is known: both cases give it the worst value of the task."""
    assert bounds([3.0, -math.inf], [1.0, 2.0], "max", diverged=1.0) == Bounds(best=0.5, worst=0.5)
    assert bounds([3.0, math.inf], [1.0, 2.0], "min", diverged=9.0) == Bounds(best=-4.5, worst=-4.5)
    assert bounds([3.0, -math.inf], [1.0, 2.0], "max", limits=(0, 4)) == Bounds(best=0.0, worst=0.0)


def test_the_arm_that_diverges_is_not_the_better_one_for_it() -> None:
    """Loss 0.4 five times against 0.38 thrice and two diverged, each worth 10: (3 x 0.38 + 20) / 5 - 0.4."""
    found = bounds([0.4] * 5, [0.38] * 3 + [math.inf] * 2, "min", diverged=10.0)
    assert found.best == found.worst == pytest.approx(21.14 / 5 - 0.4)


def test_what_a_diverged_run_is_worth_must_be_known() -> None:
    """The worst value seen of others says nothing of it."""
    found = bounds([0.4, 0.41], [0.38, math.inf], "min")
    assert math.isnan(found.best)
    assert math.isnan(found.worst)


def test_a_diverged_run_is_no_better_than_one_that_ended_badly() -> None:
    assert bounds([1.0, 1.0], [20.0, math.inf], "min", diverged=10.0) == Bounds(best=19.0, worst=19.0)


def test_a_missing_run_may_have_been_as_bad_as_one_that_diverged() -> None:
    """b: 1, worth 9, and one that may be anything from 1 to 9."""
    found = bounds([2.0], [1.0, math.inf, math.nan], "min", diverged=9.0)
    assert (found.best, found.worst) == pytest.approx((19 / 3 - 2, 11 / 3 - 2))


def test_limits_enclose_the_values() -> None:
    with pytest.raises(AssertionError, match="beyond limits"):
        bounds([96.0, math.nan], [93.0, 92.0], "max", limits=(0, 1))


@given(VALUES, VALUES, st.sampled_from(["max", "min"]), st.sampled_from([None, (-5.0, 5.0), (-9.0, 8.0)]))
def test_whatever_the_missing_values_were_the_difference_lies_between(
    a: list[float], b: list[float], mode: str, limits: tuple[float, float] | None
) -> None:
    """Filled in by any one value that was seen."""
    seen = [value for value in (*a, *b) if not math.isnan(value)]
    sign = 1 if mode == "max" else -1
    found = bounds(a, b, mode, limits)
    for value in seen:
        x, y = (np.where(np.isnan(values), value, values).mean() for values in (a, b))
        assert found.worst - 1e-9 <= sign * (x - y) <= found.best + 1e-9


def test_nothing_known() -> None:
    found = bounds([math.nan], [math.nan, math.nan], "max")
    assert math.isnan(found.best)
    assert math.isnan(found.worst)


@given(VALUES, VALUES, st.sampled_from(["max", "min"]))
def test_best_is_never_below_worst_and_complete_samples_leave_no_room(
    a: list[float], b: list[float], mode: str
) -> None:
    found, back = bounds(a, b, mode, (-5, 5)), bounds(b, a, mode, (-5, 5))
    assert found.best >= found.worst
    assert found.best == pytest.approx(-back.worst)
    if not np.isnan([*a, *b]).any():
        sign = 1 if mode == "max" else -1
        assert found.best == found.worst == pytest.approx(sign * (np.mean(a) - np.mean(b)))
