"""Curves over seeds: interpolation, bands that never hold survivors only, and late bloomers."""

import math

import numpy as np
import pytest

from reports.statistics.curves import band, best_so_far, last_trend, value_at
from reports.statistics.student import mean_interval


def test_value_between_evaluations_is_linear_and_nothing_is_extrapolated() -> None:
    assert value_at([10, 20], [1.0, 3.0], 12.5) == 1.5
    assert math.isnan(value_at([10, 20], [1.0, 3.0], 25))
    assert math.isnan(value_at([10, 20], [1.0, 3.0], 5))


def test_best_so_far_follows_the_mode() -> None:
    assert best_so_far([1, 3, 2], "max").tolist() == [1, 3, 3]
    assert best_so_far([3, 1, 2], "min").tolist() == [3, 1, 1]


def test_band_is_the_t_interval_at_each_point() -> None:
    x = [10.0, 20.0]
    found = band([x, x, x], [[1, 4], [2, 5], [3, 9]])
    reference = mean_interval([4, 5, 9])
    assert (found.mean[1], found.low[1], found.high[1]) == pytest.approx((6, reference.low, reference.high))


def test_band_ends_with_the_first_curve_that_ends() -> None:
    """The mean of what is left would be one of survivors."""
    long, short = [1.0, 2.0, 3.0, 4.0], [1.0, 2.0]
    found = band([long, long, short], [[1, 1, 9, 9], [1, 1, 9, 9], [1, 1]])
    assert found.x.tolist() == [1.0, 2.0]
    assert found.mean.tolist() == [1.0, 1.0]


def test_a_seed_without_any_point_leaves_no_band() -> None:
    assert len(band([[1.0, 2.0], []], [[1.0, 2.0], []]).x) == 0


def test_two_seeds_have_a_mean_but_no_interval() -> None:
    found = band([[1.0], [1.0]], [[1.0], [3.0]])
    assert found.mean.tolist() == [2.0]
    assert np.isnan(found.low).all()


def test_curves_on_different_clocks_are_interpolated() -> None:
    found = band([[0.0, 1.0, 2.0], [0.0, 1.1, 2.2]], [[0, 1, 2], [0, 1.1, 2.2]])
    assert found.mean == pytest.approx(found.x)
    assert found.x[-1] == 2.0


def test_a_curve_that_rises_at_its_end_is_found() -> None:
    x = np.arange(1, 21)
    rng = np.random.default_rng(0)
    trend = last_trend([x] * 3, [0.01 * x + rng.normal(0, 0.005, 20) for _ in range(3)], "max")
    assert trend is not None
    assert trend.improving
    assert trend.gain == pytest.approx(0.01 * (20 - 16), rel=0.3)  # the last quarter holds updates 16 to 20
    falling = last_trend([x] * 3, [-0.01 * x + rng.normal(0, 0.005, 20) for _ in range(3)], "min")
    assert falling is not None
    assert falling.improving


def test_a_flat_end_is_rarely_called_rising() -> None:
    rng = np.random.default_rng(1)
    x = np.arange(1, 21)
    called = sum(last_trend([x] * 3, list(rng.normal(0, 1, (3, 20))), "max").improving for _ in range(1000))  # type: ignore[union-attr]
    assert called <= 10


def test_rare_evaluations_still_tell_a_steep_end() -> None:
    """Five evaluations, so the last two: the gain between them against how much seeds differ in it."""
    x = [20, 40, 60, 80, 100]
    trend = last_trend([x] * 3, [[1, 2, 3, 4, 5.01], [1, 2, 3, 4, 5.0], [1, 2, 3, 4, 4.99]], "max")
    assert trend is not None
    assert trend.improving
    assert trend.gain == pytest.approx(1.0)
    assert trend.share == pytest.approx(0.2)


def test_what_would_be_most_of_a_curve_is_not_its_end() -> None:
    assert last_trend([[50, 100]] * 3, [[1, 2]] * 3, "max") is None
    assert last_trend([[10, 90, 100]], [[1, 2, 3]], "max") is None  # one run, two points: no noise to compare with
