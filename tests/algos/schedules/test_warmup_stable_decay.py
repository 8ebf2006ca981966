"""Warm-up, stable, decay: values by hand, and where the stages meet."""

import pytest

from algos.contracts import Progress
from algos.finding import InputError
from algos.schedules.warmup_stable_decay import WarmupStableDecay


def at(fraction: float, **hyper: object) -> float:
    return WarmupStableDecay(**hyper)(Progress(0, fraction))


def test_the_first_update_gets_the_initial_factor_and_is_not_wasted():
    assert at(0.0) == 0.01
    assert at(0.0, warmup=0.0) == 1.0


def test_the_plateau_is_the_full_rate():
    assert [at(f, warmup=0.1, decay=0.2) for f in (0.1, 0.5, 0.799)] == [1.0, 1.0, 1.0]


def test_the_two_shapes_of_decay():
    # a quarter of the decay: linear 3/4, 1 - sqrt(1/4) = 1/2
    assert at(0.85, decay=0.2, shape="linear") == pytest.approx(0.75)
    assert at(0.85, decay=0.2, shape="1-sqrt") == pytest.approx(0.5)
    assert at(0.85, decay=0.2, shape="linear", final=0.2) == pytest.approx(0.2 + 0.8 * 0.75)


@pytest.mark.parametrize("shape", ["linear", "1-sqrt"])
@pytest.mark.parametrize("decay", [0.1, 0.2, 0.3, 0.95])
def test_stages_meet_and_the_end_is_final(shape, decay):
    hyper = {"shape": shape, "decay": decay, "final": 0.1}
    assert at(1 - decay, **hyper) == pytest.approx(1.0)
    assert at(1.0, **hyper) == pytest.approx(0.1)
    assert at(2.0, **hyper) == pytest.approx(0.1)


def test_stages_longer_than_the_budget_are_refused():
    with pytest.raises(InputError, match=r"warmup=0.6 and decay=0.5 are more than the whole budget"):
        WarmupStableDecay(warmup=0.6, decay=0.5)
