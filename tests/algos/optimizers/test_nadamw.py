"""NAdamW equals two steps by hand, and torch.optim.NAdam with decoupled decay."""

import math
from typing import Any

import pytest
import torch
from torch import nn

from algos.noisy_quadratic import Tensors
from algos.optimizers.nadamw import NAdamW
from tests.algos.parity import Case


def torch_s(params: Tensors, **hyper: Any) -> torch.optim.Optimizer:
    """torch's NAdam, begun by hand: it would keep the product of the schedule in float32, also for float64 weights."""
    optimizer = torch.optim.NAdam(params, decoupled_weight_decay=True, foreach=False, **hyper)
    for param in params:
        optimizer.state[param] = {
            "step": torch.zeros(()),
            "mu_product": torch.ones((), dtype=torch.float64),
            "exp_avg": torch.zeros_like(param),
            "exp_avg_sq": torch.zeros_like(param),
        }
    return optimizer


OTHER: dict[str, Any] = {"lr": 0.01, "betas": (0.8, 0.95), "weight_decay": 0.1, "eps": 1e-3, "momentum_decay": 0.05}

PARITY = [
    Case(
        reference="torch.optim.NAdam",
        package="torch",
        variant="weight_decay=0.1",
        ours=lambda params: NAdamW(params, form="loop", weight_decay=0.1),
        theirs=lambda params: torch_s(params, weight_decay=0.1),
    ),
    Case(
        reference="torch.optim.NAdam",
        package="torch",
        variant="every hyperparameter changed",
        ours=lambda params: NAdamW(params, form="loop", **OTHER),
        theirs=lambda params: torch_s(params, **OTHER),
    ),
]


def test_two_steps_by_hand() -> None:
    w = nn.Parameter(torch.tensor([2.0], dtype=torch.float64))
    optimizer = NAdamW([w], lr=0.1, betas=(0.9, 0.99), eps=0.0, momentum_decay=1.0, weight_decay=0.5, form="loop")
    w.grad = torch.tensor([4.0], dtype=torch.float64)
    optimizer.step()
    mu = [0.9 * (1 - 0.5 * 0.96**t) for t in range(4)]
    m = 0.1 * 4.0
    u = ((1 - mu[1]) / (1 - mu[1]) * 4.0 + mu[2] / (1 - mu[1] * mu[2]) * m) / 4.0  # sqrt(v / (1 - b2)) = 4
    first = 2.0 * 0.95 - 0.1 * u
    assert w.item() == pytest.approx(first, rel=1e-14)
    w.grad = torch.tensor([-2.0], dtype=torch.float64)
    optimizer.step()
    m = 0.9 * m + 0.1 * -2.0
    v = (0.99 * 0.01 * 16.0 + 0.01 * 4.0) / (1 - 0.99**2)
    product = mu[1] * mu[2]
    u = ((1 - mu[2]) / (1 - product) * -2.0 + mu[3] / (1 - product * mu[3]) * m) / math.sqrt(v)
    assert w.item() == pytest.approx(first * 0.95 - 0.1 * u, rel=1e-13)
    assert optimizer.state[w]["mu_product"].item() == pytest.approx(product)
