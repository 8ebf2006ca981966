"""Wilson's interval on worked cases."""

import pytest

from reports.quantity import Quantity
from reports.statistics.proportion import wilson


@pytest.mark.parametrize(("events", "n", "low", "high"), [(0, 5, 0.0, 0.434), (2, 10, 0.057, 0.51)])
def test_worked_cases(events: int, n: int, low: float, high: float) -> None:
    estimate = wilson(events, n)
    assert (estimate.low, estimate.high) == pytest.approx((low, high), abs=6e-4)


def test_all_of_n_mirrors_none_of_n() -> None:
    none, every = wilson(0, 7), wilson(7, 7)
    assert none.high is not None
    assert every.low == pytest.approx(1 - none.high)


@pytest.mark.parametrize("n", range(1, 60))
def test_none_and_all_of_n_are_exact(n: int) -> None:
    """The ends that Wilson's formula has in exact arithmetic; rounding leaves 1e-15 there, of 14 for one."""
    assert (wilson(0, n).low, wilson(n, n).high) == (0.0, 1.0)


def test_none_of_fourteen_as_it_is_shown() -> None:
    found = wilson(0, 14)
    assert found.low is not None
    assert found.high is not None
    assert Quantity(value=0.0, low=100 * found.low, high=100 * found.high, statistic="s").number == "0 [0, 22]"
