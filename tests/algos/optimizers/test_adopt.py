"""ADOPT equals three steps by hand, a transcription of the authors' code, and pytorch_optimizer's with its clip."""

import math
from typing import Any

import pytest
import pytorch_optimizer
import torch
from torch import Tensor, nn

from algos.noisy_quadratic import difference, train, weights
from algos.optimizers.adopt import ADOPT
from tests.algos.parity import Case, Transcription


class AuthorsADOPT(Transcription):
    """What iShohei220/adopt computes with decouple=True, but with decay at the first step too. k counts from 0."""

    def one(self, param: Tensor, grad: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
        (b1, b2), lr = group["betas"], group["lr"]
        k = state["k"] = state.get("k", -1) + 1
        param.mul_(1 - lr * group["weight_decay"])
        if k == 0:
            state["m"], state["v"] = torch.zeros_like(param), grad**2
            return
        n = grad / state["v"].sqrt().clamp(min=group["eps"])
        if group["clip"]:
            n = n.clamp(-(k**0.25), k**0.25)
        state["m"] = b1 * state["m"] + (1 - b1) * n
        param.sub_(lr * state["m"])
        state["v"] = b2 * state["v"] + (1 - b2) * grad**2


DEFAULTS: dict[str, Any] = {"lr": 1e-3, "betas": (0.9, 0.9999), "eps": 1e-6, "weight_decay": 0.0}
OTHER: dict[str, Any] = {"lr": 0.01, "betas": (0.8, 0.95), "eps": 0.1, "weight_decay": 0.1}

PARITY = [
    *(
        Case(
            reference="transcription of iShohei220/adopt",
            variant=f"clip={clip}, {label}",
            ours=lambda params, clip=clip, hyper=hyper: ADOPT(params, form="loop", clip=clip, **hyper),
            theirs=lambda params, clip=clip, hyper=hyper: AuthorsADOPT(params, clip=clip != "none", **hyper),
        )
        for clip in ("t^0.25", "none")
        for label, hyper in (("defaults", DEFAULTS), ("every hyperparameter changed", OTHER))
    ),
    Case(
        reference="pytorch_optimizer.ADOPT, whose clip counts from 1",
        package="pytorch_optimizer",
        variant="every hyperparameter changed",
        ours=lambda params: ADOPT(params, form="loop", **OTHER),
        theirs=lambda params: pytorch_optimizer.ADOPT(
            params, clip_lambda=lambda step: (step - 1) ** 0.25, weight_decouple=True, foreach=False, **OTHER
        ),
    ),
]


@pytest.mark.parametrize("form", ["loop", "stacked"])
def test_three_steps_by_hand(form: str) -> None:
    w = nn.Parameter(torch.tensor([2.0, 5.0], dtype=torch.float64))
    optimizer = ADOPT([w], lr=0.1, betas=(0.9, 0.5), eps=0.5, form=form)
    w.grad = torch.tensor([4.0, 0.0], dtype=torch.float64)
    optimizer.step()  # v = g^2, and nothing else
    assert w.tolist() == [2.0, 5.0]
    assert optimizer.state[w]["exp_avg_sq"].tolist() == [16.0, 0.0]
    assert optimizer.state[w]["exp_avg"].tolist() == [0.0, 0.0]
    w.grad = torch.tensor([-2.0, 3.0], dtype=torch.float64)
    optimizer.step()  # n = (-2/4, 3/0.5 clipped to 1); v = (8 + 2, 4.5)
    assert w.tolist() == pytest.approx([2.0 + 0.1 * 0.05, 5.0 - 0.1 * 0.1], rel=1e-14)
    w.grad = torch.tensor([math.sqrt(10), 2 * math.sqrt(4.5)], dtype=torch.float64)
    optimizer.step()  # n = (1, 2 clipped to 2^0.25)
    m = [0.9 * -0.05 + 0.1, 0.9 * 0.1 + 0.1 * 2**0.25]
    assert w.tolist() == pytest.approx([2.005 - 0.1 * m[0], 4.99 - 0.1 * m[1]], rel=1e-14)


@pytest.mark.parametrize("clip", ["t^0.25", "none"])
def test_weights_without_a_first_gradient_stay_finite(clip: str) -> None:
    """Where the first gradient is 0, as behind a layer begun with zeros, the second is divided by eps."""
    w = nn.Parameter(torch.ones(3))
    optimizer = ADOPT([w], lr=0.1, clip=clip)
    for size in (0.0, 1e-3):
        w.grad = torch.full((3,), size)
        optimizer.step()
    moved = 1.0 if clip == "t^0.25" else 1e-3 / 1e-6
    assert w.tolist() == pytest.approx([1 - 0.1 * 0.1 * moved] * 3, rel=1e-5)


def test_the_clip_is_felt() -> None:
    clipped, free = weights(), weights()
    train(ADOPT(clipped, lr=0.01), clipped, range(5))
    train(ADOPT(free, lr=0.01, clip="none"), free, range(5))
    assert difference(clipped, free) > 1e-3
