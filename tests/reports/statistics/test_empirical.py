"""Empirical likelihood of a mean, recomputed by a general optimiser, and the laws of its interval."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize

from reports.statistics.empirical import interval, ratio

TIMES = st.lists(st.integers(0, 50).map(float), min_size=10, max_size=20).filter(lambda x: len(set(x)) > 1)


def test_ratio_is_the_largest_likelihood_under_the_mean() -> None:
    """Weights that maximise the product, given that the weighted mean (pseudo-value included) is 0."""
    x, mean = np.array([1.0, 2.0, 2.5, 4.0, 7.0, 9.0]), 5.0
    z = np.append(x - mean, -1.0 * (x - mean).mean())
    n = len(z)
    found = optimize.minimize(
        lambda w: -2 * np.log(n * w).sum(),
        np.full(n, 1 / n),
        bounds=[(1e-9, 1)] * n,
        constraints=[{"type": "eq", "fun": lambda w: w.sum() - 1}, {"type": "eq", "fun": lambda w: w @ z}],
        options={"ftol": 1e-14, "maxiter": 500},
    )
    assert ratio(x[None, :], mean)[0] == pytest.approx(found.fun, rel=1e-6)


def test_ratio_is_zero_at_the_mean_itself() -> None:
    x = np.random.default_rng(0).exponential(1, (3, 12))
    assert ratio(x, x.mean(axis=1)) == pytest.approx(0, abs=1e-12)


@settings(max_examples=15, deadline=None)
@given(TIMES)
def test_interval_holds_the_mean_and_stays_within_what_is_possible(x: list[float]) -> None:
    bounds = interval(x, 0.0, 50.0)
    assert bounds is not None
    assert 0 <= bounds[0] <= np.mean(x) <= bounds[1] <= 50


@settings(max_examples=15, deadline=None)
@given(TIMES)
def test_turned_around_it_is_its_mirror_image(x: list[float]) -> None:
    there, back = interval(x, 0.0, 50.0), interval([50 - v for v in x], 0.0, 50.0)
    assert there is not None
    assert back is not None
    assert there == pytest.approx((50 - back[1], 50 - back[0]), abs=1e-6)


def test_more_confidence_is_wider() -> None:
    x = np.random.default_rng(1).exponential(1, 15)
    narrow, wide = interval(x, 0, 20, 0.8), interval(x, 0, 20, 0.99)
    assert narrow is not None
    assert wide is not None
    assert wide[0] < narrow[0] < narrow[1] < wide[1]


def test_nine_values_or_no_spread_have_none() -> None:
    assert interval(np.arange(9.0), 0, 10) is None
    assert interval(np.full(12, 3.0), 0, 10) is None
    assert math.isfinite(interval(np.arange(10.0), 0, 10)[0])  # type: ignore[index]
