"""The cyclic schedule: by hand, and against torch's."""

import pytest
import torch

from algos.contracts import Progress
from algos.schedules.cyclic import Cyclic


def at(fraction: float, **hyper: object) -> float:
    return Cyclic(**hyper)(Progress(0, fraction))


def test_values_by_hand():
    # the second of two cycles, half the way up: triangular 1/2, triangular2 1/4, exp_range 1/2 * 0.01^(5/8)
    place = {"cycles": 2, "base": 0.2}
    assert at(0.625, **place) == pytest.approx(0.2 + 0.8 / 2)
    assert at(0.625, mode="triangular2", **place) == pytest.approx(0.2 + 0.8 / 4)
    assert at(0.625, mode="exp_range", gamma=0.01, **place) == pytest.approx(0.2 + 0.8 / 2 * 0.01**0.625)
    # a rise of a fifth of a cycle
    assert at(0.1, up=0.2, **place) == pytest.approx(1.0)
    assert at(0.3, up=0.2, **place) == pytest.approx(0.2 + 0.8 / 2)


def test_it_begins_and_ends_at_the_base():
    assert at(0.0, base=0.3) == at(1.0, base=0.3) == at(1.7, base=0.3) == 0.3


@pytest.mark.parametrize("mode", ["triangular", "triangular2", "exp_range"])
@pytest.mark.parametrize("rise", [10, 4])
def test_it_is_torchs(mode, rise):
    """Three cycles of 20 updates."""
    total, gamma = 60, 0.97
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.7)
    theirs = torch.optim.lr_scheduler.CyclicLR(
        optimizer, 0.7 * 0.1, 0.7, step_size_up=rise, step_size_down=20 - rise, mode=mode, gamma=gamma,
        cycle_momentum=False,
    )  # fmt: skip
    hyper = {"cycles": 3, "base": 0.1, "up": rise / 20, "mode": mode, "gamma": gamma**total}
    for update in range(total + 1):
        assert 0.7 * at(update / total, **hyper) == pytest.approx(theirs.get_last_lr()[0], abs=1e-12)
        optimizer.step()
        theirs.step()
