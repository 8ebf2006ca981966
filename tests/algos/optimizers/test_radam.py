"""RAdam equals steps by hand, torch.optim.RAdam, and takes its rectified step from rho > 5 on, also in float32."""

import math
from typing import Any

import pytest
import torch
from torch import nn

from algos.noisy_quadratic import difference, train, weights
from algos.optimizers.radam import RAdam, rectification
from tests.algos.parity import Case

HYPER: dict[str, dict[str, Any]] = {
    "weight_decay=0.1": {"weight_decay": 0.1},
    "every hyperparameter changed": {"lr": 0.01, "betas": (0.8, 0.95), "weight_decay": 0.2, "eps": 1e-3},
    "never rectified: b2=0.6": {"betas": (0.9, 0.6)},
}

PARITY = [
    Case(
        reference="torch.optim.RAdam",
        package="torch",
        variant=variant,
        ours=lambda params, hyper=hyper: RAdam(params, form="loop", **hyper),
        theirs=lambda params, hyper=hyper: torch.optim.RAdam(
            params, decoupled_weight_decay=True, foreach=False, **hyper
        ),
    )
    for variant, hyper in HYPER.items()
]


def test_five_plain_steps_then_a_rectified_one_by_hand() -> None:
    """With one gradient all along, m and v corrected are g and g^2."""
    w = nn.Parameter(torch.tensor([0.0], dtype=torch.float64))
    optimizer = RAdam([w], lr=0.1, betas=(0.9, 0.999), eps=0.0, form="loop")
    w.grad = torch.tensor([3.0], dtype=torch.float64)
    for t in range(1, 6):
        optimizer.step()
        assert w.item() == pytest.approx(-0.1 * 3.0 * t, rel=1e-12)
    optimizer.step()
    longest = 1999.0
    rho = longest - 2 * 6 * 0.999**6 / (1 - 0.999**6)
    assert 5 < rho < 6
    r = math.sqrt((rho - 4) * (rho - 2) * longest / ((longest - 4) * (longest - 2) * rho))
    assert r < 0.05
    assert w.item() == pytest.approx(-0.1 * 3.0 * 5 - 0.1 * r, rel=1e-10)


@pytest.mark.parametrize("b2", [0.9, 0.99, 0.999, 0.9999, 0.99999])
def test_float32_does_not_move_the_threshold(b2: float) -> None:
    """rho is t - (t^2 - 1)/6*(1 - b2) and smaller terms: the fifth step is below 5 for every b2."""
    for t in (4.0, 5.0, 6.0, 7.0):
        wide, r = rectification(torch.tensor(b2, dtype=torch.float64), torch.tensor(t))
        narrow, near = rectification(torch.tensor(b2, dtype=torch.float32), torch.tensor(t))
        assert wide == narrow
        if b2 >= 0.99:
            assert wide.item() == (t > 5)
        if wide:
            assert near.item() == pytest.approx(r.item(), rel=2e-2 if b2 > 0.9999 else 2e-3)


@pytest.mark.parametrize("form", ["loop", "stacked"])
def test_float32_follows_float64_over_the_threshold(form: str) -> None:
    wide, narrow = weights(torch.float64), weights(torch.float32)
    for params in (wide, narrow):
        train(RAdam(params, form=form, lr=0.01), params, range(10))
    assert difference(narrow, wide) < 1e-5
