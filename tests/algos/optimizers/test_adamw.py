"""AdamW equals the paper's two steps by hand, and torch.optim.AdamW."""

import math
from typing import Any

import pytest
import torch
from torch import nn

from algos.noisy_quadratic import difference, train, weights
from algos.optimizers.adamw import AdamW
from tests.algos.parity import Case

HYPER: dict[str, dict[str, Any]] = {
    "defaults": {},
    "every hyperparameter changed": {"lr": 0.01, "betas": (0.8, 0.95), "eps": 1e-3, "weight_decay": 0.1},
}
PARITY = [
    Case(
        reference="torch.optim.AdamW",
        package="torch",
        variant=variant,
        ours=lambda params, hyper=hyper: AdamW(params, form="loop", **hyper),
        theirs=lambda params, hyper=hyper: torch.optim.AdamW(params, foreach=False, **hyper),
    )
    for variant, hyper in HYPER.items()
]


def test_two_steps_by_hand() -> None:
    w = nn.Parameter(torch.tensor([2.0], dtype=torch.float64))
    optimizer = AdamW([w], lr=0.1, betas=(0.9, 0.99), eps=0.0, weight_decay=0.5, form="loop")
    w.grad = torch.tensor([4.0], dtype=torch.float64)
    optimizer.step()
    first = 2.0 * (1 - 0.1 * 0.5) - 0.1 * 1.0  # m/c = 4, v/c = 16: a unit direction
    assert w.item() == pytest.approx(first, rel=1e-14)
    w.grad = torch.tensor([-2.0], dtype=torch.float64)
    optimizer.step()
    m = 0.9 * (0.1 * 4.0) + 0.1 * -2.0
    v = 0.99 * (0.01 * 16.0) + 0.01 * 4.0
    direction = (m / (1 - 0.9**2)) / math.sqrt(v / (1 - 0.99**2))
    assert w.item() == pytest.approx(first * 0.95 - 0.1 * direction, rel=1e-13)


@pytest.mark.parametrize("form", ["loop", "stacked", "torch"])
def test_a_hundred_steps_equal_torch(form: str) -> None:
    ours, theirs = weights(), weights()
    train(AdamW(ours, form=form, weight_decay=0.1, betas=(0.8, 0.95)), ours, range(100))
    reference = torch.optim.AdamW(theirs, weight_decay=0.1, betas=(0.8, 0.95), foreach=False)
    train(reference, theirs, range(100))
    assert difference(ours, theirs) < 1e-12


@pytest.mark.parametrize("form", ["loop", "stacked", "torch"])
def test_torch_state_loads_here_and_ours_there(form: str) -> None:
    ours, theirs = weights(), weights()
    optimizer = AdamW(ours, form=form)
    reference = torch.optim.AdamW(theirs, lr=1e-3, weight_decay=0.01)
    train(reference, theirs, range(10))
    for param, value in zip(ours, theirs, strict=True):
        param.data.copy_(value.detach())
    optimizer.load_state_dict(reference.state_dict())
    train(optimizer, ours, range(10, 15))
    train(reference, theirs, range(10, 15))
    assert difference(ours, theirs) < 1e-12
    back = optimizer.state_dict()
    assert back["state"][0].keys() == reference.state_dict()["state"][0].keys()
    torch.testing.assert_close(back["state"][0], reference.state_dict()["state"][0])


def test_float32_corrects_the_bias_of_early_steps() -> None:
    """1 - b2^t near 0.001 keeps its digits: float32 stays within 1e-6 of float64 from the first steps on."""
    wide, narrow = weights(torch.float64), weights(torch.float32)
    for params in (wide, narrow):
        train(AdamW(params, form="loop", lr=0.01), params, range(5))
    assert difference(narrow, wide) < 1e-6
