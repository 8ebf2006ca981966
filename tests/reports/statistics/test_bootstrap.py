"""The stratified bootstrap draws within tasks, from its own seed, and reads its ends where few runs ask for."""

import numpy as np
import pytest
from scipy import stats

from reports.statistics.bootstrap import counts, enough, percentiles, resampled, widened


def test_runs_stay_in_their_task() -> None:
    first, second = resampled([[1.0, 2.0], [10.0, 20.0, 30.0]], resamples=200)
    assert set(first.ravel()) == {1.0, 2.0}
    assert set(second.ravel()) == {10.0, 20.0, 30.0}


def test_the_seed_alone_decides() -> None:
    np.random.seed(1)
    first = resampled([np.arange(9.0)], resamples=50, seed=3)[0]
    np.random.seed(2)
    before = np.random.get_state()[1].tolist()
    assert np.array_equal(first, resampled([np.arange(9.0)], resamples=50, seed=3)[0])
    assert not np.array_equal(first, resampled([np.arange(9.0)], resamples=50, seed=4)[0])
    assert np.random.get_state()[1].tolist() == before


def test_counts_are_of_the_same_size_as_the_task_and_vary_as_the_multinomial() -> None:
    drawn = counts([4, 7], resamples=20_000)
    assert [set(c.sum(axis=1)) for c in drawn] == [{4.0}, {7.0}]
    assert drawn[1].var() == pytest.approx(7 * (1 / 7) * (6 / 7), rel=0.03)


def test_percentiles_never_lie_between_replicates() -> None:
    """Interpolating between minus infinity and a number would give nan."""
    low, high = percentiles(np.r_[np.full(20, -np.inf), np.arange(80.0)], 0.8)
    assert (low, high) == (-np.inf, 69.0)


def test_one_sample_is_widened_as_hesterberg_says() -> None:
    """n = 10: the ends of a 95 % interval stand at Phi(-sqrt(10 / 9) * t(0.975; 9)), i.e. at 0.86 %."""
    level = widened(0.95, [1.0], [10], 10 / 9)
    assert (1 - level) / 2 == pytest.approx(stats.norm.cdf(-np.sqrt(10 / 9) * 2.262157), rel=1e-5)
    assert (1 - level) / 2 == pytest.approx(0.0086, abs=5e-5)


def test_freedom_is_satterthwaites() -> None:
    """Equal variances: all runs' degrees together. One task that has all the variance: its own."""
    one = widened(0.95, [1.0], [10], 1.0)
    assert widened(0.95, [1.0, 0.0, 0.0], [10, 10, 10], 1.0) == pytest.approx(one)
    assert widened(0.95, [2.0] * 3, [10] * 3, 1.0) == pytest.approx(widened(0.95, [1.0], [28], 1.0))


def test_no_variance_needs_no_widening() -> None:
    assert widened(0.95, [0.0, 0.0], [10, 10], 1.0) == 0.95


@pytest.mark.parametrize(
    ("sizes", "holds"),
    [([5] * 5, True), ([4] * 20, False), ([30] * 2, False), ([10] * 3, True), ([5, 5, 5, 30], False)],
)
def test_too_few_runs_or_tasks_for_an_interval(sizes: list[int], holds: bool) -> None:
    assert enough(sizes) == holds
