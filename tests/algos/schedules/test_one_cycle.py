"""One cycle: by hand, and against torch's."""

import pytest
import torch

from algos.contracts import Progress
from algos.finding import InputError
from algos.schedules.one_cycle import OneCycle


def at(fraction: float, **hyper: object) -> float:
    return OneCycle(**hyper)(Progress(0, fraction))


def test_values_by_hand():
    assert at(0.0) == pytest.approx(1 / 25)
    assert at(0.3) == pytest.approx(1.0)
    assert at(1.0) == pytest.approx(1 / 250_000)
    # a third of a phase: cos 60 degrees = 1/2, so a quarter of the way
    assert at(0.1, div_factor=2.0) == pytest.approx(0.5 + 0.5 / 4)
    assert at(0.1, div_factor=2.0, anneal_strategy="linear") == pytest.approx(0.5 + 0.5 / 3)


def test_three_phases_pass_the_first_rate_on_the_way_down():
    assert at(0.6, three_phase=True) == pytest.approx(1 / 25)
    assert at(0.3, three_phase=True) == pytest.approx(1.0)
    assert at(1.0, three_phase=True) == pytest.approx(1 / 250_000)
    assert at(1.0, three_phase=True, pct_start=0.5) == pytest.approx(1 / 25)


def test_after_the_budgets_end_it_stays_at_the_last_rate():
    assert at(1.0, final_div_factor=10.0) == at(1.7, final_div_factor=10.0) == pytest.approx(1 / 250)


@pytest.mark.parametrize("strategy", ["cos", "linear"])
@pytest.mark.parametrize("three", [False, True])
def test_it_is_torchs(strategy, three):
    """torch's phases end at the updates pct*T - 1, 2*pct*T - 2 and T - 1."""
    total, pct = 41, 0.3
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.7)
    theirs = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, 0.7, total_steps=total, pct_start=pct, anneal_strategy=strategy, cycle_momentum=False,
        three_phase=three,
    )  # fmt: skip
    hyper = {"pct_start": (pct * total - 1) / (total - 1), "anneal_strategy": strategy, "three_phase": three}
    for update in range(total):
        assert 0.7 * at(update / (total - 1), **hyper) == pytest.approx(theirs.get_last_lr()[0], abs=1e-13)
        optimizer.step()
        if update < total - 1:
            theirs.step()


def test_phases_longer_than_the_budget_are_refused():
    with pytest.raises(InputError, match=r"pct_start=0.6 each, more than the budget"):
        OneCycle(pct_start=0.6, three_phase=True)
