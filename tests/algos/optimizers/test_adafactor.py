"""Adafactor equals the paper's two steps by hand, torch.optim.Adafactor, and a transcription without its options."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from algos.noisy_quadratic import train, weights
from algos.optimizers.adafactor import Adafactor
from tests.algos.parity import Case, Transcription

SHAPES = ((6, 4), (5, 3, 2, 2), (6, 4), (7,), ())  # torch divides by the size of an empty tensor


class Paper(Transcription):
    """Algorithms 4 and 5 with sums, not means, and row and column statistics kept apart."""

    def one(self, param: Tensor, grad: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
        t = state["t"] = state.get("t", 0) + 1
        lr, eps1, eps2 = group["lr"], group.get("eps", 1e-30), group.get("scale_eps", 1e-3)
        b2 = 1 - t ** group.get("beta2_decay", -0.8)
        squares = grad**2 + eps1
        if param.dim() < 2:
            v = state["v"] = b2 * state.get("v", 0) + (1 - b2) * squares
        else:
            r = state["r"] = b2 * state.get("r", 0) + (1 - b2) * squares.sum(-1)
            c = state["c"] = b2 * state.get("c", 0) + (1 - b2) * squares.sum(-2)
            v = r.unsqueeze(-1) * c.unsqueeze(-2) / r.sum(-1)[..., None, None]
        u = grad / v.sqrt()
        n = max(1, param.numel())
        u = u / max(1.0, (float((u**2).sum()) / n) ** 0.5 / group.get("d", 1.0))
        alpha = min(lr, 1 / math.sqrt(t)) if group.get("relative_step") else lr
        if group.get("scale_parameter", True):
            alpha *= max(eps2, (float((param**2).sum()) / n) ** 0.5)
        param.mul_(1 - lr * group.get("weight_decay", 0.0))
        param.sub_(alpha * u)


def paper_case(variant: str, form: str = "loop", **hyper: Any) -> Case:
    return Case(
        "transcription of Shazeer & Stern 2018, algorithms 4 and 5",
        lambda params: Adafactor(params, form=form, **hyper),
        lambda params: Paper(params, **{"lr": 1e-2, **hyper}),
        variant=variant,
    )


PARITY = [
    Case(
        "torch.optim.Adafactor",
        lambda params: Adafactor(params, lr=0.5, weight_decay=0.1, relative_step=True, form="loop"),
        lambda params: torch.optim.Adafactor(params, lr=0.5, weight_decay=0.1),
        package="torch",
        variant="relative_step=True, which torch always takes",
        shapes=SHAPES,
    ),
    Case(
        "torch.optim.Adafactor",
        lambda params: Adafactor(params, lr=0.05, d=2.0, beta2_decay=-0.5, form="stacked"),
        lambda params: torch.optim.Adafactor(params, lr=0.05, d=2.0, beta2_decay=-0.5),
        package="torch",
        variant="stacked; lr below 1/sqrt(t), where torch's relative step is lr",
        shapes=SHAPES,
    ),
    paper_case("defaults"),
    paper_case("stacked", "stacked"),
    paper_case("scale_parameter=False", scale_parameter=False, weight_decay=0.1),
    paper_case("relative_step=True", relative_step=True, lr=0.5, scale_eps=1.5),
    paper_case("eps=0.1", lr=0.05, eps=0.1, d=0.5),
]


def test_two_steps_by_hand() -> None:
    """A matrix of one row: row mean and column means give V = the average of squares, as for a vector."""
    w = nn.Parameter(torch.tensor([[2.0, -2.0]], dtype=torch.float64))
    optimizer = Adafactor([w], lr=0.1, weight_decay=0.5, form="loop")
    w.grad = torch.tensor([[3.0, 1.0]], dtype=torch.float64)
    optimizer.step()  # b2 = 0: V = g^2, u = sign(g), of RMS 1: not clipped; RMS(w) = 2
    first = [2.0 * 0.95 - 0.1 * 2, -2.0 * 0.95 - 0.1 * 2]
    assert w[0].tolist() == pytest.approx(first, rel=1e-13)
    w.grad = torch.tensor([[1.0, 4.0]], dtype=torch.float64)
    optimizer.step()
    b2 = 1 - 2**-0.8
    v = [b2 * 9 + (1 - b2) * 1, b2 * 1 + (1 - b2) * 16]
    u = [1 / math.sqrt(v[0]), 4 / math.sqrt(v[1])]
    clip = max(1.0, math.sqrt((u[0] ** 2 + u[1] ** 2) / 2))
    size = math.sqrt((first[0] ** 2 + first[1] ** 2) / 2)
    expected = [x * 0.95 - 0.1 * size * each / clip for x, each in zip(first, u, strict=True)]
    assert w[0].tolist() == pytest.approx(expected, rel=1e-13)


@pytest.mark.parametrize(("size", "factor"), [(1e-3, 1.0), (1e-4, math.sqrt(2**-23) / 1e-4)])
def test_torch_s_float32_steps_are_larger_where_gradients_are_small(size: float, factor: float) -> None:
    """torch has max(mean(R), 2^-23) for mean(R) = size^2; without clipping the two updates are in this proportion."""
    signs = torch.tensor([[1.0, -1.0], [-1.0, 1.0], [1.0, 1.0]])
    moves = []
    for build in (Adafactor, torch.optim.Adafactor):
        w = nn.Parameter(torch.zeros(3, 2))
        w.grad = size * signs
        build([w], lr=0.5, d=1e9, weight_decay=0.0).step()  # type: ignore[operator]
        moves.append(w.detach())
    torch.testing.assert_close(moves[0], -0.5 * 1e-3 * signs)
    torch.testing.assert_close(moves[1], factor * moves[0])


def test_clipping_leaves_two_percent_of_that() -> None:
    """At an RMS gradient of 1e-4; at 1e-3 the same two optimizers agree to rounding."""
    apart = []
    for size in (1e-3, 1e-4):
        random = torch.Generator().manual_seed(0)
        start = torch.randn(64, 32, generator=random)
        ours, theirs = nn.Parameter(start.clone()), nn.Parameter(start.clone())
        optimizers = (Adafactor([ours], lr=0.01), torch.optim.Adafactor([theirs], lr=0.01, weight_decay=0.0))
        worst = 0.0
        for _ in range(20):
            before = ours.detach().clone(), theirs.detach().clone()
            ours.grad = size * torch.randn(64, 32, generator=random)
            theirs.grad = ours.grad.clone()
            for optimizer in optimizers:
                optimizer.step()
            step = theirs.detach() - before[1]
            worst = max(worst, float((ours.detach() - before[0] - step).norm() / step.norm()))
        apart.append(worst)
    assert apart[0] < 1e-5
    assert 0.01 < apart[1] < 0.04


def test_the_rate_is_what_the_schedule_says() -> None:
    """No relative step of its own: after a thousand steps a step is still lr times the size of the weights."""
    w = nn.Parameter(torch.ones(3, 3, dtype=torch.float64))
    optimizer = Adafactor([w], lr=0.5, form="loop")
    w.grad = torch.ones_like(w)
    for _ in range(1000):
        w.data.fill_(1.0)
        optimizer.step()
    torch.testing.assert_close(w.data, torch.full_like(w, 0.5))


def test_the_state_of_a_matrix_is_rows_and_columns() -> None:
    params = weights(shapes=[(6, 4), (5, 3, 2, 7), (7,)])
    optimizer = Adafactor(params)
    train(optimizer, params, [0])
    shapes = [{name: tuple(tensor.shape) for name, tensor in optimizer.state[param].items()} for param in params]
    assert shapes[0] == {"step": (), "row_var": (6, 1), "col_var": (1, 4)}
    assert shapes[1] == {"step": (), "row_var": (5, 3, 2, 1), "col_var": (5, 3, 1, 7)}
    assert shapes[2] == {"step": (), "variance": (7,)}


def test_torch_state_loads_here() -> None:
    ours, theirs = weights(shapes=SHAPES), weights(shapes=SHAPES)
    reference = torch.optim.Adafactor(theirs, lr=0.05)
    train(reference, theirs, range(10))
    for param, value in zip(ours, theirs, strict=True):
        param.data.copy_(value.detach())
    optimizer = Adafactor(ours, lr=0.05)
    saved = reference.state_dict()
    optimizer.load_state_dict({**saved, "param_groups": [{"params": saved["param_groups"][0]["params"]}]})
    train(optimizer, ours, range(10, 15))
    train(reference, theirs, range(10, 15))
    for param, value in zip(ours, theirs, strict=True):
        torch.testing.assert_close(param, value, rtol=1e-12, atol=1e-12)
