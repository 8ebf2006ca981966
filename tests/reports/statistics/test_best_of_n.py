"""The best of n trials: Dodge's V, the unbiased U, an exact interval, and who may have a curve at all."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from algos.finding import InputError
from reports.statistics.best_of_n import curve, expected_best

VALUES = [0.7, 0.72, 0.75, 0.8, 0.9]
trials = st.lists(st.integers(-50, 50).map(float), min_size=1, max_size=12)


def test_v_and_u_of_five_trials() -> None:
    """Dodge et al. 2019, equation 6 (V), and its form without replacement (U)."""
    v = [expected_best(VALUES, n, "max", "V") for n in range(1, 6)]
    u = [expected_best(VALUES, n, "max", "U") for n in range(1, 6)]
    assert v == pytest.approx([0.774, 0.8124, 0.83592, 0.85176, 0.86303], abs=5e-6)
    assert u == pytest.approx([0.774, 0.822, 0.855, 0.88, 0.9], abs=1e-12)


@given(trials, st.integers(1, 12))
def test_u_is_the_mean_over_all_sets_of_n_trials(values: list[float], n: int) -> None:
    n = min(n, len(values), 5)
    best = [max(chosen) for chosen in itertools.combinations(values, n)]
    assert expected_best(values, n, "max") == pytest.approx(np.mean(best), abs=1e-9)


@given(st.lists(st.integers(-9, 9).map(float), min_size=1, max_size=5), st.integers(1, 4))
def test_v_is_the_mean_over_all_draws_with_replacement(values: list[float], n: int) -> None:
    best = [min(drawn) for drawn in itertools.product(values, repeat=n)]
    assert expected_best(values, n, "min", "V") == pytest.approx(np.mean(best), abs=1e-9)


@given(trials)
def test_v_never_exceeds_u_and_both_rise_from_the_mean_to_the_best(values: list[float]) -> None:
    u, v = curve(values, "max").expected, curve(values, "max", kind="V").expected
    assert np.all(v <= u + 1e-9)
    assert np.all(np.diff(u) >= -1e-9)
    assert np.all(np.diff(v) >= -1e-9)
    assert (u[0], u[-1]) == (pytest.approx(np.mean(values), abs=1e-9), pytest.approx(max(values), abs=1e-9))


@given(trials, st.randoms(use_true_random=False))
def test_order_of_trials_does_not_matter_and_modes_mirror(values: list[float], random) -> None:
    shuffled = list(values)
    random.shuffle(shuffled)
    one, other, mirrored = curve(values, "max"), curve(shuffled, "max"), curve([-value for value in values], "min")
    for side in ("expected", "median", "low", "high"):
        assert np.array_equal(getattr(one, side), getattr(other, side), equal_nan=True)
    assert np.array_equal(one.expected, -mirrored.expected)
    assert np.array_equal(one.low, -mirrored.high, equal_nan=True)


def test_the_interval_of_one_trials_median_is_the_sign_tests() -> None:
    """n = 10 values: from the 2nd to the 9th, which holds the median with probability 97.9 % (e.g. Hollander & Wolfe
    1999, table A.2); of 5 values no interval at 95 %."""
    one = curve(np.arange(1.0, 11), "max")
    assert (one.low[0], one.high[0]) == (2.0, 9.0)
    few = curve(np.arange(1.0, 6), "max")
    assert np.isnan([few.low[0], few.high[0]]).all()


def test_the_better_end_is_missing_where_too_few_trials_were_made() -> None:
    """All 20 trials are worse than the median best of n with probability 2^(-20 / n): below 2.5 % up to n = 3."""
    made = curve(np.arange(20.0), "max")
    assert np.isfinite(made.high[:3]).all()
    assert np.isnan(made.high[3:]).all()
    assert np.isfinite(made.low[1:]).all()
    assert made.median[0] == 9.0


@pytest.mark.parametrize("sampler", ["tpe", "grid", "qmc", "cmaes", "gp", "nsga2"])
def test_trials_that_depend_on_each_other_are_refused(sampler: str) -> None:
    with pytest.raises(InputError, match=sampler) as caught:
        curve(VALUES, "max", sampler)
    assert caught.value.finding.rule == "dependent-trials"


def test_diverged_trials() -> None:
    """One of three: it is the best of no pair, but with replacement it is drawn twice in 1 of 9, so V is infinite."""
    assert expected_best([1.0, 2.0, np.inf], 2, "min") == pytest.approx((1 + 1 + 2) / 3)
    assert expected_best([1.0, 2.0, np.inf], 1, "min") == np.inf
    assert expected_best([1.0, 2.0, np.inf], 2, "min", "V") == np.inf
