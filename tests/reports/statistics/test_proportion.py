"""Wilson's interval on worked cases."""

import pytest

from reports.statistics.proportion import wilson


@pytest.mark.parametrize(("events", "n", "low", "high"), [(0, 5, 0.0, 0.434), (2, 10, 0.057, 0.51)])
def test_worked_cases(events: int, n: int, low: float, high: float) -> None:
    estimate = wilson(events, n)
    assert (estimate.low, estimate.high) == pytest.approx((low, high), abs=6e-4)


def test_all_of_n_mirrors_none_of_n() -> None:
    none, every = wilson(0, 7), wilson(7, 7)
    assert none.high is not None
    assert every.low == pytest.approx(1 - none.high)
