"""The polynomial schedule: by hand, and against torch's."""

import pytest
import torch

from algos.contracts import Progress
from algos.schedules.polynomial import Polynomial


def at(fraction: float, **hyper: float) -> float:
    return Polynomial(**hyper)(Progress(0, fraction))


def test_values_by_hand():
    # a quarter left: its root is 1/2, its square 1/16
    assert at(0.75, power=0.5) == pytest.approx(0.5)
    assert at(0.75, power=2.0) == pytest.approx(1 / 16)
    assert at(0.75, power=2.0, final=0.2) == pytest.approx(0.2 + 0.8 / 16)
    assert at(0.0) == 1.0


def test_after_the_budgets_end_it_stays_at_final():
    assert at(1.0, final=0.1) == at(1.7, final=0.1) == pytest.approx(0.1)


@pytest.mark.parametrize("power", [0.9, 1.0, 2.5])
def test_it_is_torchs(power):
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.7)
    theirs = torch.optim.lr_scheduler.PolynomialLR(optimizer, total_iters=37, power=power)
    for update in range(40):
        assert 0.7 * at(min(1.0, update / 37), power=power) == pytest.approx(theirs.get_last_lr()[0], abs=1e-13)
        optimizer.step()
        theirs.step()
