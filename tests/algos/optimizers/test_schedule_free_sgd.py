"""Schedule-Free SGD equals the paper's equations with x, y, z kept apart, and the authors' package."""

from typing import Any

import pytest
import schedulefree
import torch
from torch import nn

from algos.noisy_quadratic import difference, train, weights
from algos.optimizers.schedule_free_sgd import ScheduleFreeSGD
from tests.algos.parity import Case


def theirs(params: Any, **hyper: Any) -> Any:
    optimizer = schedulefree.SGDScheduleFree(params, foreach=False, **hyper)
    optimizer.train()
    return optimizer


OTHER: dict[str, Any] = {"lr": 0.3, "momentum": 0.7, "weight_decay": 0.1, "r": 1.0, "weight_lr_power": 1.0}

PARITY = [
    Case(
        "schedulefree.SGDScheduleFree",
        lambda params: ScheduleFreeSGD(params, form="loop"),
        lambda params: theirs(params),
        package="schedulefree",
    ),
    Case(
        "schedulefree.SGDScheduleFree",
        lambda params: ScheduleFreeSGD(params, form="loop", **OTHER),
        lambda params: theirs(params, **OTHER),
        package="schedulefree",
        variant="r=1, weight_lr_power=1, decay",
    ),
]


def test_two_steps_by_hand() -> None:
    """Equations 1 to 3 with x, y and z kept apart, for one number, at a constant rate: c = 1/t."""
    w = nn.Parameter(torch.tensor([1.0], dtype=torch.float64))
    optimizer = ScheduleFreeSGD([w], lr=0.1, momentum=0.9, weight_decay=0.5, form="loop")
    x = y = z = 1.0
    for t, g in ((1, 3.0), (2, -1.0)):
        w.grad = torch.tensor([g], dtype=torch.float64)
        optimizer.step()
        z = z - 0.1 * (g + 0.5 * y)
        x = (1 - 1 / t) * x + 1 / t * z
        y = 0.1 * z + 0.9 * x
        assert w.item() == pytest.approx(y, rel=1e-13)
        with optimizer.evaluating():
            assert w.item() == pytest.approx(x, rel=1e-13)
        assert w.item() == pytest.approx(y, rel=1e-13)


@pytest.mark.parametrize("form", ["loop", "stacked"])
def test_the_evaluation_weights_are_the_package_s(form: str) -> None:
    ours, reference = weights(), weights()
    optimizer, package = ScheduleFreeSGD(ours, form=form, **OTHER), theirs(reference, **OTHER)
    train(optimizer, ours, range(50))
    train(package, reference, range(50))
    package.eval()
    with optimizer.evaluating():
        assert difference(ours, reference) < 1e-12


@pytest.mark.parametrize(("dtype", "short"), [(torch.float32, 1), (torch.float64, 0)])
def test_a_float32_sum_of_weights_stands_still_at_last(dtype: torch.dtype, short: int) -> None:
    """a = lr^2 = 2^-4; after 2^24 steps a is half of the last bit of S = 2^20, and the sum is rounded to S."""
    w = nn.Parameter(torch.ones(1, dtype=dtype))
    optimizer = ScheduleFreeSGD([w], lr=0.25)
    w.grad = torch.zeros_like(w)
    optimizer.step()
    assert optimizer.state[w]["weight_sum"].item() == 2.0**-4
    optimizer.state[w]["weight_sum"].fill_(2.0**20)
    optimizer.step()
    assert optimizer.state[w]["weight_sum"].item() == 2.0**20 + (1 - short) * 2.0**-4


def test_a_first_step_at_rate_zero_leaves_no_nan() -> None:
    params = weights()
    optimizer = ScheduleFreeSGD(params)
    for lr in (0.0, 0.01):
        optimizer.param_groups[0]["lr"] = lr
        for param in params:
            param.grad = torch.ones_like(param)
        optimizer.step()
    assert all(torch.isfinite(param).all() for param in params)


def test_momentum_cannot_be_zero() -> None:
    with pytest.raises(ValueError, match=r"momentum.*0.0.*\(0, 1\)"):
        ScheduleFreeSGD(weights(), momentum=0.0)
