"""Performance profiles: shares of runs above thresholds, and of problems within a ratio of the fastest."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from reports.statistics.profiles import performance_profile, time_profile, time_ratios
from reports.statistics.proportion import wilson

scores = arrays(float, st.tuples(st.integers(1, 6), st.integers(1, 5)), elements=st.integers(-9, 9).map(float))
times = arrays(
    float,
    st.tuples(st.integers(1, 6), st.integers(1, 4)),
    elements=st.one_of(st.integers(1, 50).map(float), st.just(np.inf)),
)


@given(scores)
def test_a_profile_falls_from_one_to_zero_and_lies_in_its_band(values: np.ndarray) -> None:
    profile = performance_profile(values, np.arange(-10, 10.5, 0.5))
    assert np.all(np.diff(profile.share) <= 0)
    assert (profile.share[0], profile.share[-1]) == (pytest.approx(1.0), 0.0)
    assert np.all((profile.low >= 0) & (profile.low <= profile.share))
    assert np.all((profile.share <= profile.high) & (profile.high <= 1))


@given(scores)
def test_less_is_better_mirrors_more_is_better(values: np.ndarray) -> None:
    at = np.arange(-10, 11.0)
    more, less = performance_profile(-values, -at, "max"), performance_profile(values, at, "min")
    for side in ("share", "low", "high"):
        assert np.array_equal(getattr(more, side), getattr(less, side))


def test_the_area_under_a_profile_of_scores_in_0_1_is_their_mean() -> None:
    """Agarwal et al. 2021, section 4.1."""
    values = np.random.default_rng(0).random((7, 5))
    at = np.linspace(0, 1, 20_001)
    share = performance_profile(values, at).share
    assert np.sum(share[:-1]) * (at[1] - at[0]) == pytest.approx(values.mean(), abs=1e-4)


def test_a_score_is_not_above_itself_and_a_diverged_run_above_nothing() -> None:
    profile = performance_profile([[0.5], [-np.inf]], [-1e300, 0.5])
    assert profile.share.tolist() == [0.5, 0.0]


def test_one_task_has_wilsons_interval() -> None:
    """Wilson's for 0 of 5 ends at 0.434, for 2 of 10 runs from 0.057 to 0.510."""
    profile = performance_profile(np.zeros((5, 1)), [1.0])
    assert (profile.low[0], round(profile.high[0], 3)) == (0.0, 0.434)
    profile = performance_profile(np.array([[1.0]] * 2 + [[0.0]] * 8), [0.5])
    assert (round(profile.low[0], 3), round(profile.high[0], 3)) == (0.057, 0.51)


def test_tasks_that_differ_leave_less_to_chance() -> None:
    """Ten runs on four tasks, half above: by task all or none, or each task half. The first is known better; the second
    as well as 40 runs of one task."""
    split = np.tile([0.0, 0.0, 1.0, 1.0], (10, 1))
    mixed = np.repeat([[0.0], [1.0]], 5, axis=0).repeat(4, axis=1)
    ours = [performance_profile(values, [0.5]) for values in (split, mixed)]
    reference = wilson(20, 40)
    assert [profile.share[0] for profile in ours] == [0.5, 0.5]
    assert ours[1].low[0] == pytest.approx(reference.low)
    assert ours[0].low[0] > reference.low + 0.03
    assert ours[0].high[0] < reference.high - 0.03


def test_tasks_weigh_the_same_with_different_numbers_of_runs() -> None:
    assert performance_profile([[1.0, 0.0], [1.0, np.nan], [1.0, np.nan]], [0.5]).share[0] == 0.5


def test_dolan_more_by_hand() -> None:
    """Ratios: A 1, 4, inf; B 2, 1, 1."""
    seconds = [[1.0, 2.0], [4.0, 1.0], [np.nan, 3.0]]
    assert time_ratios(seconds).tolist() == [[1.0, 2.0], [4.0, 1.0], [np.inf, 1.0]]
    profile = time_profile(seconds, [1, 2, 4, 1e9])
    assert profile == pytest.approx(np.array([[1, 2], [1, 3], [2, 3], [2, 3]]) / 3)


@given(times)
def test_a_time_profile_rises_and_ends_at_what_is_solved(seconds: np.ndarray) -> None:
    profile = time_profile(seconds, [1, 1.5, 2, 4, 8, 1e6])
    assert np.all(np.diff(profile, axis=0) >= 0)
    assert profile[-1] == pytest.approx(np.isfinite(seconds).mean(axis=0))
    if np.isfinite(seconds).any(axis=1).all():
        assert profile[0].sum() >= 1 - 1e-12  # somebody is the fastest on each problem


@given(times, st.floats(0.1, 10))
def test_units_of_time_do_not_matter(seconds: np.ndarray, factor: float) -> None:
    at = [1, 1.3, 2.7]
    assert np.array_equal(time_profile(seconds, at), time_profile(seconds * factor, at))
