"""The cosine schedule: by hand, and against torch's."""

import pytest
import torch

from algos.contracts import Progress
from algos.schedules.cosine import Cosine


def at(fraction: float, **hyper: float) -> float:
    return Cosine(**hyper)(Progress(0, fraction))


def test_values_by_hand():
    # cos of 0, 60, 90, 120 and 180 degrees: 1, 1/2, 0, -1/2, -1
    assert [at(f) for f in (0.0, 1 / 3, 0.5, 2 / 3, 1.0)] == pytest.approx([1.0, 0.75, 0.5, 0.25, 0.0])
    assert at(1 / 3, final=0.2) == pytest.approx(0.2 + 0.8 * 0.75)


def test_after_the_budgets_end_it_stays_at_final():
    assert at(1.0, final=0.1) == at(1.7, final=0.1) == pytest.approx(0.1)


@pytest.mark.parametrize("final", [0.0, 0.1])
def test_it_is_torchs(final):
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.7)
    theirs = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=37, eta_min=0.7 * final)
    for update in range(38):
        assert 0.7 * at(update / 37, final=final) == pytest.approx(theirs.get_last_lr()[0], abs=1e-13)
        optimizer.step()
        theirs.step()
