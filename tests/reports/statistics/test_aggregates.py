"""Aggregates over tasks: rliable's definitions, laws, and what diverged runs do."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats

from reports.statistics.aggregates import iqm, iqm_interval, optimality_gap, probability_of_improvement

X = np.array([[1, 2], [2, 2], [1, 1], [2, 1]], float)
Y = np.array([[1, 1], [2, 2], [3, 3]], float)
scores = arrays(float, st.tuples(st.integers(1, 8), st.integers(1, 5)), elements=st.integers(-20, 20).map(float))


def columns(matrix: np.ndarray) -> list[np.ndarray]:
    return list(matrix.T)


def test_probability_of_improvement_is_rliables() -> None:
    """4 runs of x and 3 of y on 2 tasks: 1/3."""
    estimate = probability_of_improvement(columns(X), columns(Y))
    assert estimate.value == pytest.approx(1 / 3)
    assert (estimate.low, estimate.high, estimate.n) == (None, None, 14)
    assert probability_of_improvement(columns(X), columns(Y), mode="min").value == pytest.approx(2 / 3)


def test_probability_of_improvement_is_mann_whitneys_u_over_the_pairs() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.normal(0.5, 1, (12, 6)).round(1), rng.normal(0, 1, (9, 6)).round(1)
    u = [stats.mannwhitneyu(a, b).statistic / (12 * 9) for a, b in zip(x.T, y.T)]
    assert probability_of_improvement(columns(x), columns(y)).value == pytest.approx(np.mean(u), rel=1e-12)


@given(scores)
def test_iqm_is_scipys_trimmed_mean_of_all_runs(values: np.ndarray) -> None:
    assert iqm(values) == pytest.approx(stats.trim_mean(values, 0.25, axis=None), rel=1e-12, abs=1e-12)


@given(scores, st.randoms(use_true_random=False))
def test_iqm_knows_no_order_of_runs_and_tasks(values: np.ndarray, random) -> None:
    shuffled = values.ravel().tolist()
    random.shuffle(shuffled)
    assert iqm(np.reshape(shuffled, values.shape)) == pytest.approx(iqm(values), rel=1e-12, abs=1e-12)


@given(st.floats(-1e6, 1e6), st.integers(1, 9), st.integers(1, 9))
def test_iqm_of_a_constant_is_the_constant(value: float, runs: int, tasks: int) -> None:
    assert iqm(np.full((runs, tasks), value)) == pytest.approx(value, rel=1e-12)


@given(scores, st.integers(-5, 5), st.integers(1, 4))
def test_iqm_follows_a_change_of_units(values: np.ndarray, shift: int, scale: int) -> None:
    assert iqm(scale * values + shift) == pytest.approx(scale * iqm(values) + shift, abs=1e-9)


@settings(max_examples=30)
@given(scores, scores)
def test_the_two_probabilities_of_improvement_sum_to_one(a: np.ndarray, b: np.ndarray) -> None:
    tasks = min(a.shape[1], b.shape[1])
    x, y = columns(a[:, :tasks]), columns(b[:, :tasks])
    there, back = probability_of_improvement(x, y), probability_of_improvement(y, x)
    assert there.value + back.value == pytest.approx(1)
    assert probability_of_improvement(x, y, "min").value == pytest.approx(back.value)
    assert probability_of_improvement(x, x).value == pytest.approx(0.5)


def test_same_seed_same_interval_whatever_the_global_seed() -> None:
    x, y = np.random.default_rng(0).normal(0, 1, (2, 10, 5))
    seen = []
    for state in (1, 2):
        np.random.seed(state)
        seen.append((iqm_interval(x, seed=7), probability_of_improvement(columns(x), columns(y), seed=7)))
    assert seen[0] == seen[1]
    assert iqm_interval(x, seed=8) != seen[0][0]


def test_an_interval_holds_its_value_and_grows_with_confidence() -> None:
    x, y = np.random.default_rng(0).normal(0, 1, (2, 10, 5))
    estimates = [
        (iqm_interval(x, c), probability_of_improvement(columns(x), columns(y), confidence=c)) for c in (0.8, 0.95)
    ]
    for narrow, wide in zip(*estimates):
        assert wide.low < narrow.low <= narrow.value <= narrow.high < wide.high


def test_iqm_interval_is_near_the_trimmed_means_own_error() -> None:
    """Many runs on one distribution: +- 1.96 times the winsorised standard error (Tukey & McLaughlin 1963)."""
    x = np.random.default_rng(1).normal(0, 1, (60, 10))
    flat = np.sort(x.ravel())
    winsorised = np.clip(flat, flat[150], flat[449])
    expected = 1.96 * winsorised.std(ddof=1) / (0.5 * np.sqrt(600))
    assert iqm_interval(x).half_width == pytest.approx(expected, rel=0.06)


def test_few_runs_have_no_interval() -> None:
    x = np.random.default_rng(0).normal(0, 1, (4, 10))
    assert iqm_interval(x).half_width is None
    assert probability_of_improvement(columns(x), columns(x)).half_width is None
    assert iqm_interval(x.T[:5, :2]).half_width is None


def test_diverged_runs_are_trimmed_until_there_are_too_many() -> None:
    x = np.tile(np.arange(10.0)[:, None], (1, 5))
    x[0] = -np.inf
    few = iqm_interval(x)
    assert few.value == 4.5
    assert np.isfinite([few.low, few.high]).all()
    x[:2] = -np.inf
    near = iqm_interval(x)
    assert (near.value, near.low) == (4.5, -np.inf)  # by chance more than a quarter of the runs diverges
    assert np.isfinite(near.high)
    x[:4] = -np.inf
    many = iqm_interval(x)
    assert (many.value, many.low) == (-np.inf, -np.inf)


def test_diverged_runs_lose_and_tie_with_each_other() -> None:
    x, y = np.tile([1.0, 2, 3, 4, np.inf, np.inf], (5, 1)), np.tile([2.5, 2.5, 2.5, 2.5, 2.5, np.inf], (5, 1))
    estimate = probability_of_improvement(list(x), list(y), mode="min")
    # Of 36 pairs a task: 1 and 2 beat all 6; 3 and 4 beat the one diverged; the two diverged tie with it.
    assert estimate.value == pytest.approx((6 + 6 + 1 + 1 + 0.5 + 0.5) / 36)
    assert 0 < estimate.low < estimate.value < estimate.high < 1


def test_winning_every_time_is_not_certainty() -> None:
    """A bootstrap says [1, 1]. Newcombe's score interval: the low end is 1.96 of its own standard errors below 1."""
    tasks = [np.arange(5.0)] * 5
    estimate = probability_of_improvement([a + 100 for a in tasks], tasks)
    assert (estimate.value, estimate.high) == (1.0, 1.0)
    p = estimate.low
    variance = p * (1 - p) * (1 + 4 * ((1 - p) / (2 - p) + p / (1 + p))) / 25 / 5
    assert 1 - p == pytest.approx(1.959964 * np.sqrt(variance), rel=1e-6)
    assert p == pytest.approx(0.91, abs=0.005)
    reverse = probability_of_improvement(tasks, [a + 100 for a in tasks])
    assert (reverse.low, reverse.high) == (0.0, pytest.approx(1 - p, abs=1e-9))


def test_tasks_may_have_different_numbers_of_runs() -> None:
    assert iqm([[1, 5], [2, np.nan], [3, np.nan]]) == 2.5  # of 1, 2, 3, 5 the middle two
    assert optimality_gap([[0.5, 1.0], [0.9, np.nan]]) == pytest.approx(0.2)


def test_optimality_gap_is_infinite_where_a_run_diverged() -> None:
    assert optimality_gap([[0.5, -np.inf]]) == np.inf
    assert optimality_gap([[3.0, 1.5]]) == 0.0
