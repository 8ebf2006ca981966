"""Ranks of several methods over several tasks: the papers' numbers, scipy's, and laws."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats

from reports.statistics.friedman import (
    alike,
    cliques,
    cliques_by_p,
    critical_difference,
    friedman,
    holm_pairs,
    mean_ranks,
    nemenyi,
)
from reports.statistics.multiple import holm

#: Demsar 2006, JMLR 7, table 6: AUC of C4.5, C4.5+m, C4.5+cf and C4.5+m+cf on 14 data sets.
DEMSAR = np.array(
    [
        [0.763, 0.768, 0.771, 0.798],
        [0.599, 0.591, 0.590, 0.569],
        [0.954, 0.971, 0.968, 0.967],
        [0.628, 0.661, 0.654, 0.657],
        [0.882, 0.888, 0.886, 0.898],
        [0.936, 0.931, 0.916, 0.931],
        [0.661, 0.668, 0.609, 0.685],
        [0.583, 0.583, 0.563, 0.625],
        [0.775, 0.838, 0.866, 0.875],
        [1.000, 1.000, 1.000, 1.000],
        [0.940, 0.962, 0.965, 0.962],
        [0.619, 0.666, 0.614, 0.669],
        [0.972, 0.981, 0.9751, 0.975],
        [0.957, 0.978, 0.946, 0.970],
    ]
)
SMALL = np.array([[4, 3, 4, 4, 5, 6, 3], [1, 2, 3, 5, 6, 7, 7], [1, 2, 6, 4, 1, 5, 1]], float)
tables = arrays(float, st.tuples(st.integers(2, 7), st.integers(2, 5)), elements=st.integers(0, 6).map(float))


def test_demsars_example() -> None:
    assert mean_ranks(DEMSAR, "max") == pytest.approx([3.143, 2.0, 2.893, 1.964], abs=5e-4)
    result = friedman(DEMSAR, "max")
    assert result.statistic == pytest.approx(10.228, abs=5e-4)
    assert result.p == pytest.approx(0.01672, abs=5e-6)
    assert result.n == (14, 4)
    assert critical_difference(4, 14) == pytest.approx(1.2536, abs=5e-5)
    assert cliques(mean_ranks(DEMSAR, "max"), critical_difference(4, 14)) == [(3, 1, 2, 0)]


def test_small_example_with_nemenyis_p_values() -> None:
    result = friedman(SMALL, "max")
    assert result.statistic == pytest.approx(8.4684, abs=5e-5)
    assert result.p == pytest.approx(0.205758, abs=5e-7)
    pairs = nemenyi(SMALL, "max")
    expected = {(0, 2): 0.8414506, (0, 5): 0.2147827, (5, 6): 0.5511935}
    for (i, j), p in expected.items():
        assert pairs[i, j] == pairs[j, i] == pytest.approx(p, abs=1e-6)
    assert np.diag(pairs).tolist() == [1.0] * 7


@pytest.mark.parametrize(("k", "q"), [(2, 1.960), (3, 2.343), (5, 2.728), (10, 3.164)])
def test_critical_values_are_those_of_demsars_table_5(k: int, q: float) -> None:
    assert critical_difference(k, 30) == pytest.approx(q * np.sqrt(k * (k + 1) / 180), rel=4e-4)


def test_critical_difference_and_p_value_agree() -> None:
    """Two mean ranks that lie the critical difference apart have p = alpha."""
    averaged = mean_ranks(DEMSAR, "max")
    p = nemenyi(DEMSAR, "max")[0, 3]
    assert critical_difference(4, 14, alpha=float(p)) == pytest.approx(averaged[0] - averaged[3], rel=1e-6)


@given(tables)
def test_the_statistic_is_scipys(scores: np.ndarray) -> None:
    if scores.shape[1] < 3 or (scores == scores[:, :1]).all():
        return
    reference = stats.friedmanchisquare(*scores.T)
    result = friedman(scores, "min")
    assert result.statistic == pytest.approx(reference.statistic, rel=1e-9, abs=1e-9)
    if scores.shape[1] > 3:
        assert result.p == pytest.approx(reference.pvalue, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize(
    ("tasks", "p"),
    [
        ([[1, 2, 3]] * 3, 0.028),
        ([[1, 2, 3]] * 3 + [[2, 1, 3]], 0.042),
        ([[1, 2, 3]] * 3 + [[1, 3, 2]] + [[2, 1, 3]], 0.039),
    ],
)
def test_exact_p_values_of_three_methods_are_the_tables(tasks: list[list[int]], p: float) -> None:
    """Friedman 1937, table V: chi-squared of 6.0 at n = 3: 0.028; 6.5 at n = 4: 0.042; 6.4 at n = 5: 0.039."""
    assert friedman(tasks, "min").p == pytest.approx(p, abs=5e-4)


@settings(max_examples=25, deadline=None)
@given(arrays(float, st.tuples(st.integers(2, 4), st.just(3)), elements=st.integers(0, 3).map(float)))
def test_exact_p_values_are_those_of_all_orders(scores: np.ndarray) -> None:
    """Every order of each task's ranks, ties and all, counted one by one."""
    ranked = stats.rankdata(scores, axis=1)
    orders = [list(itertools.permutations(row)) for row in ranked]
    apart = [np.square(np.sum(rows, axis=0) - 2 * len(ranked)).sum() for rows in itertools.product(*orders)]
    seen = np.square(ranked.sum(axis=0) - 2 * len(ranked)).sum()
    result = friedman(scores, "min")
    assert result.p == pytest.approx(np.mean(np.array(apart) >= seen - 1e-9))
    assert result.floor == pytest.approx(np.mean(np.array(apart) >= max(apart) - 1e-9))


def test_two_methods_have_the_sign_test() -> None:
    scores = np.random.default_rng(0).normal(0, 1, (12, 2))
    wins = int((scores[:, 0] > scores[:, 1]).sum())
    assert friedman(scores, "max").p == pytest.approx(stats.binomtest(wins, 12).pvalue)


@pytest.mark.parametrize(("n", "k"), [(2, 3), (3, 2), (4, 2), (3, 4)])
def test_the_floor_is_reached_by_one_order_on_all_tasks(n: int, k: int) -> None:
    result = friedman(np.tile(np.arange(k), (n, 1)), "max")
    assert result.p == result.floor
    assert result.reachable(0.05) == (result.p <= 0.05)


@given(tables, st.randoms(use_true_random=False))
@settings(deadline=None)
def test_order_of_tasks_and_names_of_methods_do_not_matter(scores: np.ndarray, random) -> None:
    tasks, methods = list(range(scores.shape[0])), list(range(scores.shape[1]))
    random.shuffle(tasks)
    random.shuffle(methods)
    other = scores[np.ix_(tasks, methods)]
    assert mean_ranks(other, "max") == pytest.approx(mean_ranks(scores, "max")[methods])
    assert friedman(other, "max").p == pytest.approx(friedman(scores, "max").p)
    assert nemenyi(other, "max") == pytest.approx(nemenyi(scores, "max")[np.ix_(methods, methods)])


@given(tables)
def test_mean_ranks_sum_to_what_ranks_do_and_turn_with_the_mode(scores: np.ndarray) -> None:
    k = scores.shape[1]
    averaged = mean_ranks(scores, "max")
    assert averaged.sum() == pytest.approx(k * (k + 1) / 2)
    assert mean_ranks(scores, "min") == pytest.approx(k + 1 - averaged)


def test_a_diverged_method_ranks_last_and_pairs_still_have_p_values() -> None:
    scores = np.array([[0.3, 0.5, np.inf], [0.2, 0.4, np.inf], [0.3, 0.6, 0.7], [0.1, 0.2, np.inf]])
    assert mean_ranks(scores, "min").tolist() == [1.0, 2.0, 3.0]
    both = np.array([[0.3, np.inf, np.inf]] * 6)
    assert holm_pairs(both, "min")[1, 2] == 1.0
    assert holm_pairs(both, "min")[0, 1] == pytest.approx(3 * 2 / 2**6)


def test_holm_pairs_are_wilcoxons_tests_corrected_by_holm() -> None:
    scores = np.random.default_rng(3).normal([0.0, 0.4, 1.5], 1, (9, 3))
    pairs = list(itertools.combinations(range(3), 2))
    reference = holm([stats.wilcoxon(scores[:, i], scores[:, j], method="exact").pvalue for i, j in pairs])
    ours = holm_pairs(scores, "max")
    assert [ours[i, j] for i, j in pairs] == pytest.approx(reference)
    assert ours == pytest.approx(ours.T)


def test_five_tasks_cannot_tell_any_pair_apart() -> None:
    """Wilcoxon's smallest p-value is 2 / 2^5."""
    scores = np.arange(3) + 0.1 * np.arange(5)[:, None]
    assert holm_pairs(scores, "max").min() == pytest.approx(3 * 0.0625)


def test_all_ties_say_nothing() -> None:
    scores = np.ones((4, 3))
    assert (friedman(scores, "max").statistic, friedman(scores, "max").p) == (0.0, pytest.approx(1.0))
    assert np.all(nemenyi(scores, "max") == 1)
    assert np.all(holm_pairs(scores, "max") == 1)


def test_cliques_cover_all_pairs_that_are_alike_and_none_that_is_not() -> None:
    averaged = np.array([1.2, 4.8, 2.0, 3.4, 2.9])
    groups = cliques(averaged, 1.5)
    together = {frozenset(pair) for group in groups for pair in itertools.combinations(group, 2)}
    alike = {frozenset(p) for p in itertools.combinations(range(5), 2) if abs(averaged[p[0]] - averaged[p[1]]) <= 1.5}
    assert together == alike
    assert groups == [(0, 2), (2, 4, 3), (3, 1)]
    assert not any(set(a) < set(b) for a in groups for b in groups)


def test_cliques_by_p_value_hold_no_pair_that_differs() -> None:
    p = np.ones((3, 3))
    p[0, 2] = p[2, 0] = 0.01
    assert cliques_by_p([1.0, 2.0, 3.0], p) == [(0, 1), (1, 2)]
    assert cliques_by_p([1.0, 2.0, 3.0], np.full((3, 3), 0.01)) == []


def test_bars_by_either_test_of_pairs() -> None:
    """Nine tasks of one order: signed ranks, 2 / 2^9 each, tell all four methods apart; by Nemenyi the critical
    difference is 2.569 sqrt(4 * 5 / 54) = 1.56, so neighbours stay joined."""
    scores = np.tile([1.0, 2.0, 3.0, 4.0], (9, 1))
    assert critical_difference(4, 9) == pytest.approx(1.56, abs=5e-3)
    assert alike(scores, "min") == []
    assert alike(scores, "min", "nemenyi") == [(0, 1), (1, 2), (2, 3)]
    assert alike(scores, "max", "nemenyi") == [(3, 2), (2, 1), (1, 0)]
    assert alike(scores, "min", "nemenyi") == cliques(mean_ranks(scores, "min"), critical_difference(4, 9))
    with pytest.raises(AssertionError, match="holm or nemenyi"):
        alike(scores, "min", "bonferroni")  # type: ignore[arg-type]


def test_missing_scores_are_refused() -> None:
    with pytest.raises(AssertionError):
        mean_ranks([[0.1, np.nan]], "max")
