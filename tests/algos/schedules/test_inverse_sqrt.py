"""The inverse square root: by hand, and against the paper's equation."""

import pytest

from algos.contracts import Progress
from algos.schedules.inverse_sqrt import InverseSqrt


def at(fraction: float, **hyper: float) -> float:
    return InverseSqrt(**hyper)(Progress(0, fraction))


def test_values_by_hand():
    # four times the warm-up: 1/2; nine times: 1/3
    assert [at(f, warmup=0.1) for f in (0.1, 0.4, 0.9)] == pytest.approx([1.0, 1 / 2, 1 / 3])
    assert at(0.05, warmup=0.1, initial=0.2) == pytest.approx(0.6)


def test_the_first_update_gets_the_initial_factor_and_is_not_wasted():
    assert at(0.0) == 0.01
    assert at(0.0, initial=0.3) == 0.3


def test_it_meets_itself_at_the_end_of_the_warm_up():
    assert at(0.04 - 1e-12) == pytest.approx(1.0)


def test_after_the_budgets_end_it_stays():
    assert at(1.0, warmup=0.25) == at(1.7, warmup=0.25) == 0.5


@pytest.mark.parametrize("updates", [1_000, 25_000])
def test_it_is_the_papers_equation_over_its_peak_whatever_the_budget(updates):
    """lr(s) = width^-0.5 * min(s^-0.5, s*w^-1.5), with width 512; s updates done. The floor is taken out."""
    width, warmup = 512, 0.04
    w = warmup * updates

    def paper(s: float) -> float:
        return float(width**-0.5 * min(s**-0.5, s * w**-1.5))

    for s in (1, 7, int(w / 2), int(w), int(2 * w), updates):
        ours = at(s / updates, warmup=warmup, initial=1e-12)
        assert ours == pytest.approx(paper(s) / paper(w), rel=1e-8)
