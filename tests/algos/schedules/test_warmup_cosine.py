"""Warm-up and cosine, against values from the formula done by hand."""

import math

import pytest

from algos.contracts import Progress
from algos.schedules.warmup_cosine import WarmupCosine


def at(fraction: float, **hyper: float) -> float:
    return WarmupCosine(**hyper)(Progress(0, fraction))


def test_the_first_update_gets_the_initial_factor_and_is_not_wasted():
    assert at(0.0) == 0.01
    assert at(0.0, initial=0.2) == 0.2
    assert at(0.0, warmup=0.0) == 1.0


def test_warm_up_is_a_line_that_meets_the_cosine_at_1():
    assert at(0.05, warmup=0.1, initial=0.2) == pytest.approx(0.6)
    assert at(0.1 - 1e-12, warmup=0.1) == pytest.approx(1.0)
    assert at(0.1, warmup=0.1) == 1.0


def test_the_cosine_falls_to_final():
    # a third of the way down: (1 + cos 60 deg)/2 = 3/4; two thirds: 1/4
    assert at(0.4, warmup=0.1, final=0.2) == pytest.approx(0.2 + 0.8 * 0.75)
    assert at(0.7, warmup=0.1, final=0.2) == pytest.approx(0.2 + 0.8 * 0.25)
    assert at(1.0, warmup=0.1, final=0.2) == pytest.approx(0.2)


def test_after_the_budgets_end_it_stays_at_final():
    assert at(1.0, final=0.1) == at(1.7, final=0.1) == pytest.approx(0.1)


def test_without_warm_up_its_mean_is_halfway():
    steps = 10_000
    mean = math.fsum(at((i + 0.5) / steps, warmup=0.0, final=0.1) for i in range(steps)) / steps
    assert mean == pytest.approx(0.55, abs=1e-9)
