"""Medians of times some of which never come."""

import math

from reports.statistics.censored import median_time
from reports.statistics.survival import median


def test_runs_that_never_reach_count_as_later() -> None:
    """The worked survival curve: 0.8 at 10, 0.6 at 20, 0.4 at 30, so half are through at 30."""
    assert median_time([10, 20, 30, math.inf, math.inf]) == 30


def test_fewer_than_half_give_no_median() -> None:
    assert median_time([10, 20, math.inf, math.inf, math.inf]) == math.inf


def test_dropping_those_that_never_reach_would_be_kinder() -> None:
    assert median_time([10, 20, 30, math.inf, math.inf]) > median_time([10, 20, 30])


def test_is_the_median_of_the_survival_curve() -> None:
    for times in ([10, 20, 30, math.inf, math.inf], [5, 1, 9, 7], [3, math.inf, math.inf], [4]):
        assert median_time(times) == median(times, [t < math.inf for t in times]).value
