"""LARS equals the paper's two steps by hand, and a transcription of its algorithm."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from algos.noisy_quadratic import difference, train, weights
from algos.optimizers.lars import Lars
from algos.optimizers.sgd import SGD
from tests.algos.parity import Case, Transcription


class Paper(Transcription):
    """Algorithm 1, but for the parameters that are excluded, weights of 0 and 0/0."""

    def one(self, param: Tensor, grad: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
        decay, local = group["weight_decay"], 1.0
        size, slope = float(param.norm()), float(grad.norm())
        excluded = param.dim() < 2 and not group["adapt_all"]
        undefined = size == 0 or (slope == 0 and decay == 0)
        if not (excluded or undefined):
            local = group["trust_coefficient"] * size / (slope + decay * size)
        v = group["momentum"] * state.get("v", 0) + group["lr"] * local * (grad + decay * param)
        state["v"] = v
        param.sub_(v)


def case(variant: str, form: str = "loop", **changed: Any) -> Case:
    hyper = {
        "lr": 1.0, "momentum": 0.9, "trust_coefficient": 0.001, "weight_decay": 0.0, "adapt_all": False, **changed,
    }  # fmt: skip
    return Case(
        "transcription of You et al. 2017, algorithm 1",
        lambda params: Lars(params, form=form, **hyper),
        lambda params: Paper(params, **hyper),
        variant=variant,
    )


PARITY = [
    case("defaults", lr=0.1),
    case("stacked; decay", "stacked", lr=0.3, trust_coefficient=0.02, weight_decay=0.1, momentum=0.8),
    case("adapt_all=True", lr=3.0, adapt_all=True, weight_decay=0.01),
]


def test_two_steps_by_hand() -> None:
    w = nn.Parameter(torch.tensor([[3.0, 4.0]], dtype=torch.float64))
    optimizer = Lars([w], lr=2.0, momentum=0.5, trust_coefficient=0.1, weight_decay=0.2, form="loop")
    w.grad = torch.tensor([[0.0, 1.0]], dtype=torch.float64)
    optimizer.step()  # lambda = 0.1*5 / (1 + 0.2*5) = 0.25
    v = [2 * 0.25 * 0.6, 2 * 0.25 * 1.8]
    first = [3 - v[0], 4 - v[1]]
    assert w[0].tolist() == pytest.approx(first, rel=1e-13)
    optimizer.param_groups[0]["lr"] = 1.0  # the velocity keeps the old rate
    optimizer.step()
    size = math.hypot(*first)
    local = 0.1 * size / (1 + 0.2 * size)
    second = [
        x - 0.5 * each - local * (g + 0.2 * x) for x, each, g in zip(first, v, (0.0, 1.0), strict=True)
    ]  # fmt: skip
    assert w[0].tolist() == pytest.approx(second, rel=1e-13)


@pytest.mark.parametrize("factor", [1e-3, 1e3])
def test_without_decay_the_size_of_gradients_does_not_matter(factor: float) -> None:
    random = torch.Generator().manual_seed(0)
    grads = torch.randn(20, 4, 3, generator=random, dtype=torch.float64)
    ends = []
    for scale in (1.0, factor):
        (w,) = weights(shapes=[(4, 3)])
        optimizer = Lars([w], lr=10.0)
        for grad in grads:
            w.grad = scale * grad
            optimizer.step()
        ends.append([w])
    assert difference(*ends) < 1e-13


def test_vectors_take_the_steps_of_momentum_sgd() -> None:
    """At a constant rate: inside the momentum or outside is then the same."""
    shapes = [(7,), ()]
    ours, theirs = weights(shapes=shapes), weights(shapes=shapes)
    for optimizer, params in (
        (Lars(ours, lr=0.1, form="loop"), ours),
        (SGD(theirs, lr=0.1, momentum=0.9, form="loop"), theirs),
    ):
        for step in range(20):
            for param in params:
                param.grad = param.detach() - step
            optimizer.step()
    assert difference(ours, theirs) < 1e-13


@pytest.mark.parametrize("form", ["loop", "stacked"])
@pytest.mark.parametrize("decay", [1e-4, 0.2])
def test_without_a_gradient_decay_takes_the_trust_coefficient_of_the_weight(form: str, decay: float) -> None:
    """lambda = eta*|w|/(wd*|w|) = eta/wd, so lambda*wd*w = eta*w, whatever wd."""
    w = nn.Parameter(torch.tensor([[3.0, 4.0]], dtype=torch.float64))
    w.grad = torch.zeros_like(w)
    Lars([w], lr=0.5, trust_coefficient=0.1, weight_decay=decay, form=form).step()
    assert w[0].tolist() == pytest.approx([3 * 0.95, 4 * 0.95], rel=1e-13)


@pytest.mark.parametrize("decay", [0.0, 0.1])
def test_with_gradients_of_zero_at_times_it_is_the_algorithm(decay: float) -> None:
    hyper = {"lr": 1.0, "momentum": 0.9, "trust_coefficient": 0.05, "weight_decay": decay, "adapt_all": True}
    shapes = [(4, 3), (5,)]
    ours, theirs = weights(shapes=shapes), weights(shapes=shapes)
    for optimizer, params in ((Lars(ours, form="loop", **hyper), ours), (Paper(theirs, **hyper), theirs)):
        for step in range(20):
            for param in params:
                param.grad = (param.detach() - 1) * float(step % 3 != 1)
            optimizer.step()
    assert difference(ours, theirs) < 1e-13


def test_weights_of_zero_move() -> None:
    w = nn.Parameter(torch.zeros(2, 2))
    w.grad = torch.ones(2, 2)
    Lars([w], lr=0.1).step()
    torch.testing.assert_close(w.data, torch.full((2, 2), -0.1))


def test_a_model_s_norms_and_biases_neither_adapt_nor_decay() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 3), nn.LayerNorm(3), nn.Linear(3, 2)).double()
    plain = [param for param in model.parameters() if param.dim() < 2]
    before = [param.detach().clone() for param in plain]
    optimizer = Lars(model, lr=0.5, weight_decay=0.1)
    train(optimizer, plain, [])
    for param in model.parameters():
        param.grad = torch.ones_like(param)
    optimizer.step()
    assert difference(plain, [old - 0.5 for old in before]) < 1e-14
