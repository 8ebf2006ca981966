"""The linear schedule: by hand, and against torch's."""

import pytest
import torch

from algos.contracts import Progress
from algos.schedules.linear import Linear


def at(fraction: float, **hyper: float) -> float:
    return Linear(**hyper)(Progress(0, fraction))


def test_values_by_hand():
    assert [at(f) for f in (0.0, 0.2, 0.5, 1.0)] == pytest.approx([1.0, 0.8, 0.5, 0.0])
    assert at(0.5, initial=0.2, final=0.6) == pytest.approx(0.4)


def test_after_the_budgets_end_it_stays_at_final():
    assert at(1.0, final=0.1) == at(1.7, final=0.1) == 0.1


@pytest.mark.parametrize(("initial", "final"), [(1.0, 0.0), (1 / 3, 1.0), (1.0, 0.1)])
def test_it_is_torchs(initial, final):
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.7)
    theirs = torch.optim.lr_scheduler.LinearLR(optimizer, initial, final, total_iters=37)
    for update in range(40):
        fraction = min(1.0, update / 37)
        assert 0.7 * at(fraction, initial=initial, final=final) == pytest.approx(theirs.get_last_lr()[0], abs=1e-13)
        optimizer.step()
        theirs.step()
