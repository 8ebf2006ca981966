"""Verdicts of pairs: refused, cannot be reached, corrected, and never won by survivors."""

import math

import numpy as np
import pytest
from scipy import stats

from reports.comparison import Pair, compare, order
from reports.table import Outcomes

BASE = np.array([0.900, 0.912, 0.895, 0.921, 0.904, 0.910])
STEP = np.array([0.020, 0.023, 0.018, 0.021, 0.019, 0.022])


def outcomes(values: object, seeds: tuple[int, ...] = (), name: str = "a") -> Outcomes:
    x = np.asarray(values, float)
    seeds = seeds or tuple(range(1, len(x) + 1))
    return Outcomes(seeds, x, tuple(f"{name}{seed}" for seed in seeds))


def only(pairs: list[Pair]) -> Pair:
    (pair,) = pairs
    return pair


def test_a_steady_difference_is_shown_though_seeds_vary_more() -> None:
    """Paired by seed: unpaired the same numbers show less."""
    pair = only(compare({"a": outcomes(BASE + STEP), "b": outcomes(BASE, name="b")}, sign=1))
    assert (pair.ruling, pair.test, pair.n) == ("better", "paired t", 6)
    assert pair.p == pytest.approx(stats.ttest_rel(BASE + STEP, BASE).pvalue)
    assert pair.exact is not None
    assert pair.exact.p == pytest.approx(2 / 2**6)
    assert pair.p < stats.ttest_ind(BASE + STEP, BASE, equal_var=False).pvalue


def test_less_is_better_turns_the_verdict() -> None:
    pair = only(compare({"a": outcomes(BASE + STEP), "b": outcomes(BASE)}, sign=-1))
    assert pair.ruling == "worse"
    assert pair.estimate is not None
    assert pair.estimate.value < 0


def test_seen_from_the_other_side_it_is_the_same_difference() -> None:
    pair = only(compare({"a": outcomes(BASE + STEP), "b": outcomes(BASE)}, sign=1))
    turned = pair.seen_from("b")
    assert (turned.first, turned.ruling) == ("b", "worse")
    assert turned.estimate is not None
    assert pair.estimate is not None
    assert (turned.estimate.low, turned.estimate.high) == (-pair.estimate.high, -pair.estimate.low)  # type: ignore[operator]


@pytest.mark.parametrize("n", [1, 2])
def test_fewer_than_three_seeds_are_refused(n: int) -> None:
    pair = only(compare({"a": outcomes([0.99] * n), "b": outcomes([0.1] * n)}, sign=1))
    assert pair.ruling == "too few seeds"
    assert pair.estimate is None
    assert math.isnan(pair.p)


def test_seeds_that_differ_are_not_paired() -> None:
    pair = only(compare({"a": outcomes(BASE + STEP), "b": outcomes(BASE, seeds=(11, 12, 13, 14, 15, 16))}, sign=1))
    assert pair.test == "Welch t"
    assert pair.p == pytest.approx(stats.ttest_ind(BASE + STEP, BASE, equal_var=False).pvalue)


def test_shared_seeds_are_paired_and_the_rest_left_out() -> None:
    pair = only(compare({"a": outcomes(BASE + STEP), "b": outcomes(BASE[2:], seeds=(3, 4, 5, 6))}, sign=1))
    assert (pair.test, pair.n, pair.unmatched) == ("paired t", 4, 2)


def test_holm_takes_back_what_one_comparison_alone_would_show() -> None:
    rng = np.random.default_rng(3)
    found = {"a": outcomes(BASE), **{f"b{i}": outcomes(BASE + rng.normal(0, 0.01, 6)) for i in range(5)}}
    found["c"] = outcomes(BASE + np.array([0.02, -0.002, 0.03, 0.012, 0.004, 0.016]))
    pair = next(p for p in compare(found, sign=1) if {p.first, p.second} == {"a", "c"})
    assert pair.p <= 0.05 < pair.adjusted
    assert pair.ruling == "not shown"


def test_an_arm_that_diverged_is_not_the_winner_by_its_survivors() -> None:
    a = outcomes([0.92, 0.91, 0.93, 0.90, 0.92])
    b = outcomes([0.94, 0.95, 0.93, -np.inf, -np.inf])
    pair = only(compare({"a": a, "b": b}, sign=1))
    assert pair.ruling == "cannot reach"
    assert pair.exact is not None
    assert pair.exact.floor > 0.05
    assert pair.estimate is None
    assert pair.better == pytest.approx(1 - 0.58)
    assert pair.diverged == (0, 2)


def test_enough_seeds_show_that_an_arm_which_mostly_diverges_is_worse() -> None:
    seeds = np.linspace(0.90, 0.92, 8)
    broken = np.array([-np.inf] * 7 + [0.95])
    pair = only(compare({"a": outcomes(seeds), "b": outcomes(broken)}, sign=1))
    assert (pair.test, pair.ruling) == ("signed ranks", "better")


def test_both_diverging_everywhere_is_a_tie() -> None:
    pair = only(compare({"a": outcomes([-np.inf] * 6), "b": outcomes([-np.inf] * 6)}, sign=1))
    assert not pair.shown


def test_equal_differences_have_no_spread() -> None:
    exact = np.array([0.5, 0.75, 0.25])  # sums of powers of two: the differences are equal to the last bit
    pair = only(compare({"a": outcomes(exact + 0.125), "b": outcomes(exact)}, sign=1))
    assert pair.ruling == "no spread"


def test_order_counts_divergence_against_an_arm() -> None:
    steady, brilliant = outcomes([0.9, 0.91, 0.92]), outcomes([0.99, -np.inf, -np.inf])
    found = {"brilliant": brilliant, "steady": steady}
    assert order(found, compare(found, sign=1)) == ["steady", "brilliant"]
    found = {"b": outcomes([2.0, 2.1, 2.2]), "a": outcomes([1.0, 1.1, 1.2])}
    assert order(found, compare(found, sign=-1)) == ["a", "b"]


def test_a_divergence_of_an_unshared_seed_is_not_dropped_by_pairing() -> None:
    """Three shared seeds where both ended would pair and be shown; the two that diverged count all the same."""
    steady = outcomes(BASE[:3])
    wild = outcomes([*(BASE[:3] + STEP[:3]), -np.inf, -np.inf], name="b")
    pair = only(compare({"wild": wild, "steady": steady}, sign=1))
    assert (pair.estimate, pair.test, pair.diverged, pair.unmatched) == (None, "rank sum", (2, 0), 0)
    assert not pair.shown
    assert len(pair.runs) == 8


def test_a_ruling_by_ranks_has_the_direction_of_its_own_test() -> None:
    """Ten paired differences, eight for a and large, though by chance a run of a is not the likelier to be better."""
    b = np.array([0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.05, 0.0501, 0.0502])
    a = b + np.array([5, 6, 7, 8, 9, 10, 11, -1, -1.1, -1.2]) / 1000
    a[0], b[0] = -0.2, -np.inf
    pair = only(compare({"a": outcomes(a), "b": outcomes(b)}, sign=1))
    assert pair.better < 0.5 < pair.lead
    assert pair.ruling == "better"
    assert pair.seen_from("b").ruling == "worse"
    found = {"b": outcomes(b), "a": outcomes(a)}
    assert order(found, compare(found, sign=1)) == ["a", "b"]


def test_the_leader_leads_in_the_runs_of_the_test() -> None:
    """a has the higher mean by its two unmatched runs alone; on the seeds that both ran b is better on each."""
    a, b = outcomes([*BASE[:4], 0.99, 0.99]), outcomes(BASE[:4] + STEP[:4], name="b")
    assert a.values.mean() > b.values.mean()
    found = {"a": a, "b": b}
    assert order(found, compare(found, sign=1)) == ["b", "a"]


def test_what_holm_forbids_at_this_n_cannot_be_reached() -> None:
    """Six signed ranks reach 0.031 alone, but not among three comparisons of which the others show nothing."""
    broken = outcomes([-np.inf] * 6, name="c")
    pairs = compare({"a": outcomes(BASE), "b": outcomes(BASE[::-1], name="b"), "c": broken}, sign=1)
    assert [pair.ruling for pair in pairs] == ["not shown", "cannot reach", "cannot reach"]
    assert only(compare({"a": outcomes(BASE), "c": broken}, sign=1)).ruling == "better"


def test_without_spread_there_is_no_interval_at_any_scale() -> None:
    exact = np.array([0.5, 0.75, 0.25])
    for scale in (1.0, 2.0**-50):
        pair = only(compare({"a": outcomes(scale * (exact + 0.125)), "b": outcomes(scale * exact)}, sign=1))
        assert pair.estimate is not None
        assert (pair.ruling, pair.estimate.low, pair.estimate.high) == ("no spread", None, None)
    tiny = only(compare({"a": outcomes(1e-13 * (BASE + STEP)), "b": outcomes(1e-13 * BASE)}, sign=1))
    assert tiny.ruling == "better"


@pytest.mark.slow
def test_family_of_three_arms_errs_at_most_as_often_as_it_says() -> None:
    """Any difference shown among three equal arms, five seeds paired: at most 5 % of studies."""
    rng = np.random.default_rng(5)
    wrong = 0
    for _ in range(2000):
        shared = rng.normal(0, 1, 5)
        found = {name: outcomes(shared + rng.normal(0, 1, 5)) for name in "abc"}
        wrong += any(pair.shown for pair in compare(found, sign=1))
    assert wrong / 2000 <= 0.06


def test_values_that_differ_by_rounding_are_not_ruled() -> None:
    x = BASE.copy()
    y = np.nextafter(x, 2)
    y[3] = np.nextafter(y[3], 2)
    pair = only(compare({"a": outcomes(y), "b": outcomes(x)}, sign=1))
    assert (pair.ruling, pair.effect is not None and math.isnan(pair.effect.value)) == ("no spread", True)


def test_one_lucky_seed_does_not_lead() -> None:
    """b and c can be compared, a cannot: b leads, and a weighs nothing in whether it does."""
    found = {"a": outcomes([0.99]), "b": outcomes(BASE + STEP), "c": outcomes(BASE)}
    assert order(found, compare(found, sign=1)) == ["b", "c", "a"]


def test_where_nothing_can_be_ruled_the_runs_order_as_they_are() -> None:
    found = {"b": outcomes(BASE), "a": outcomes([0.99])}
    assert order(found, compare(found, sign=1)) == ["a", "b"]


def test_the_seeds_it_takes_follow_from_what_holm_does_to_the_others() -> None:
    """Six pairs, of which the three without d are significant whatever Holm makes of them: d's three are corrected
    among themselves alone. Signed ranks: 2 / 2^7 is 0.016, times 3 is 0.047; times 6 it would take 8 seeds."""
    wild = BASE[:5] - 0.01
    wild[2] = -np.inf
    noise = 1e-5 * np.random.default_rng(0).normal(0, 1, (3, 5))
    found = {n: outcomes(BASE[:5] + by + e) for n, by, e in zip("abc", (0.05, 0.03, 0.0), noise)}
    pairs = [pair for pair in compare({**found, "d": outcomes(wild)}, sign=1) if pair.second == "d"]
    assert [(pair.ruling, pair.least) for pair in pairs] == [("cannot reach", 7)] * 3
