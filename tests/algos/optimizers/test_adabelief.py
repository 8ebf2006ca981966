"""AdaBelief equals two steps by hand, pytorch_optimizer's, and a transcription; eps is summed up inside the root."""

import math
from typing import Any

import pytest
import pytorch_optimizer
import torch
from torch import Tensor, nn

from algos.optimizers.adabelief import AdaBelief
from tests.algos.parity import Case, Transcription


class Algorithm2(Transcription):
    """Of Zhuang et al. 2020, with decoupled decay."""

    def one(self, param: Tensor, grad: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
        (b1, b2), eps, lr = group["betas"], group["eps"], group["lr"]
        t = state["t"] = state.get("t", 0) + 1
        state["m"] = b1 * state.get("m", 0) + (1 - b1) * grad
        state["s"] = b2 * state.get("s", 0) + (1 - b2) * (grad - state["m"]) ** 2 + eps
        m, s = state["m"] / (1 - b1**t), state["s"] / (1 - b2**t)
        param.copy_(param - lr * group["weight_decay"] * param - lr * m / (s.sqrt() + eps))


OTHER: dict[str, Any] = {"lr": 0.01, "betas": (0.8, 0.95), "weight_decay": 0.1, "eps": 1e-3}
PACKAGE: dict[str, Any] = {"rectify": False, "weight_decouple": True, "foreach": False}

PARITY = [
    Case(
        reference="pytorch_optimizer.AdaBelief, rectify=False",
        package="pytorch_optimizer",
        ours=lambda params: AdaBelief(params, form="loop"),
        theirs=lambda params: pytorch_optimizer.AdaBelief(params, **PACKAGE),
    ),
    Case(
        reference="pytorch_optimizer.AdaBelief, rectify=False",
        package="pytorch_optimizer",
        variant="every hyperparameter changed",
        ours=lambda params: AdaBelief(params, form="loop", **OTHER),
        theirs=lambda params: pytorch_optimizer.AdaBelief(params, **OTHER, **PACKAGE),
    ),
    Case(
        reference="transcription of Zhuang et al. 2020, algorithm 2",
        variant="every hyperparameter changed",
        ours=lambda params: AdaBelief(params, form="loop", **OTHER),
        theirs=lambda params: Algorithm2(params, **OTHER),
    ),
]


def test_two_steps_by_hand() -> None:
    w = nn.Parameter(torch.tensor([2.0], dtype=torch.float64))
    optimizer = AdaBelief([w], lr=0.1, betas=(0.9, 0.99), eps=0.5, weight_decay=0.5, form="loop")
    w.grad = torch.tensor([4.0], dtype=torch.float64)
    optimizer.step()  # m = 0.4, g - m = 3.6
    s = 0.01 * 3.6**2 + 0.5
    first = 2.0 * 0.95 - 0.1 * 4.0 / (math.sqrt(s / 0.01) + 0.5)
    assert w.item() == pytest.approx(first, rel=1e-13)
    w.grad = torch.tensor([-2.0], dtype=torch.float64)
    optimizer.step()  # m = 0.36 - 0.2, g - m = -2.16: eps is added to s again
    s = 0.99 * s + 0.01 * 2.16**2 + 0.5
    direction = 0.16 / (1 - 0.9**2) / (math.sqrt(s / (1 - 0.99**2)) + 0.5)
    assert w.item() == pytest.approx(first * 0.95 - 0.1 * direction, rel=1e-13)
    assert optimizer.state[w]["exp_avg_var"].item() == pytest.approx(s)


def test_float32_keeps_the_small_eps() -> None:
    """The default eps is summed up also where float32 weights see no gradient at all."""
    w = nn.Parameter(torch.zeros(3))
    optimizer = AdaBelief([w])
    w.grad = torch.zeros(3)
    for _ in range(10):
        optimizer.step()
    assert optimizer.state[w]["exp_avg_var"].tolist() == pytest.approx([1e-16 * (1 - 0.999**10) / 1e-3] * 3, rel=1e-3)
    assert w.tolist() == [0.0, 0.0, 0.0]
