"""LAMB equals the paper's two steps by hand, and a transcription of its algorithm with bias correction."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from algos.noisy_quadratic import difference, train, weights
from algos.optimizers.adamw import AdamW
from algos.optimizers.lamb import Lamb
from tests.algos.parity import Case, Transcription


class Paper(Transcription):
    """Algorithm 2, with phi the identity, and the ratio 1 where a norm is 0."""

    def one(self, param: Tensor, grad: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
        b1, b2 = group["betas"]
        t = state["t"] = state.get("t", 0) + 1
        m = state["m"] = b1 * state.get("m", 0) + (1 - b1) * grad
        v = state["v"] = b2 * state.get("v", 0) + (1 - b2) * grad**2
        r = (m / (1 - b1**t)) / ((v / (1 - b2**t)).sqrt() + group["eps"]) + group["weight_decay"] * param
        ratio = 1.0
        if group["adapt"] and param.norm() > 0 and r.norm() > 0:
            ratio = float(param.norm() / r.norm())
        param.sub_(group["lr"] * ratio * r)


def case(variant: str, form: str = "loop", **changed: Any) -> Case:
    hyper = {"lr": 1e-3, "betas": (0.9, 0.999), "eps": 1e-6, "weight_decay": 0.01, "adapt": True, **changed}
    return Case(
        "transcription of You et al. 2020, algorithm 2",
        lambda params: Lamb(params, form=form, **hyper),
        lambda params: Paper(params, **hyper),
        variant=variant,
    )


PARITY = [
    case("defaults"),
    case("stacked; other betas and decay", "stacked", lr=0.02, betas=(0.8, 0.95), weight_decay=0.3),
    case("adapt=False", lr=0.02, adapt=False),
    case("eps=0.1", lr=0.02, eps=0.1),
]


def test_two_steps_by_hand() -> None:
    w = nn.Parameter(torch.tensor([3.0, 4.0], dtype=torch.float64))
    optimizer = Lamb([w], lr=0.1, betas=(0.5, 0.75), eps=0.0, weight_decay=0.5, form="loop")
    w.grad = torch.tensor([2.0, -7.0], dtype=torch.float64)
    optimizer.step()  # Adam's direction is the sign; |w| = 5
    r = [1 + 1.5, -1 + 2.0]
    length = math.hypot(*r)
    first = [3 - 0.1 * 5 / length * r[0], 4 - 0.1 * 5 / length * r[1]]
    assert w.tolist() == pytest.approx(first, rel=1e-13)
    w.grad = torch.tensor([1.0, 1.0], dtype=torch.float64)
    optimizer.step()
    m = [(0.25 * g + 0.5) / 0.75 for g in (2.0, -7.0)]
    v = [(0.1875 * g * g + 0.25) / 0.4375 for g in (2.0, -7.0)]
    r = [a / math.sqrt(b) + 0.5 * x for a, b, x in zip(m, v, first, strict=True)]
    ratio = math.hypot(*first) / math.hypot(*r)
    assert w.tolist() == pytest.approx([x - 0.1 * ratio * each for x, each in zip(first, r, strict=True)], rel=1e-13)


@pytest.mark.parametrize("form", ["loop", "stacked"])
def test_a_step_moves_a_tensor_by_lr_times_its_norm(form: str) -> None:
    params = weights(shapes=((6, 4), (5, 3, 2, 2), (7,), ()))
    before = [param.detach().clone() for param in params]
    optimizer = Lamb(params, form=form, lr=0.1)
    for param in params:
        param.grad = torch.randn(param.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    optimizer.step()
    for param, old in zip(params, before, strict=True):
        assert (param - old).norm().item() == pytest.approx(0.1 * old.norm().item(), rel=1e-12)


def test_weights_of_zero_take_adam_s_step() -> None:
    w = nn.Parameter(torch.zeros(3))
    optimizer = Lamb([w], lr=0.1)
    w.grad = torch.tensor([1.0, -2.0, 3.0])
    optimizer.step()
    torch.testing.assert_close(w.data, torch.tensor([-0.1, 0.1, -0.1]))


def test_without_scaling_and_decay_it_is_adam() -> None:
    ours, theirs = weights(), weights()
    train(Lamb(ours, lr=0.01, adapt=False, weight_decay=0.0, form="loop"), ours, range(20))
    train(AdamW(theirs, lr=0.01, eps=1e-6, weight_decay=0.0, form="loop"), theirs, range(20))
    assert difference(ours, theirs) < 1e-13
