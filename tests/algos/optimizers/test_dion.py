"""Dion equals the paper and its authors' code; what its low rank leaves out is not lost."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from algos.optimizers.dion import Dion
from tests.algos.optimizers.test_muon import adamw
from tests.algos.parity import Case, Transcription

SHAPES = ((6, 4), (3, 7), (6, 4), (5, 3, 2, 2), (7,), ())


class Authors(Transcription):
    """microsoft/dion, the centralized update with its transposition, QR; AdamW for vectors."""

    def one(self, param: Tensor, grad: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
        if param.dim() < 2:
            adamw(param, grad, state, 0.1 * group["lr"])
            return
        x, g, mu = param.flatten(1), grad.flatten(1), 0.95
        fan_out, fan_in = x.shape
        if "M" not in state:
            side = min(x.shape)
            stream = torch.Generator().manual_seed(0)
            rank = math.ceil(group["fraction"] * side)
            state["M"], state["Q"] = torch.zeros_like(x), torch.randn(side, rank, generator=stream, dtype=x.dtype)
        transposed = fan_out < fan_in
        state["M"] = state["M"] + g
        b = state["M"].T if transposed else state["M"]
        p = torch.linalg.qr(b @ state["Q"])[0]
        r = b.T @ p
        kept = p @ r.T
        state["M"] = state["M"] - (1 - mu) * (kept.T if transposed else kept)
        state["Q"] = r / (r.norm(dim=0, keepdim=True) + 1e-8)
        update = p @ state["Q"].T
        x = x * (1 - group["lr"] * group["wd"])
        x = x - group["lr"] * math.sqrt(fan_out / fan_in) * (update.T if transposed else update)
        param.copy_(x.view_as(param))


def at_rank(fraction: float) -> Case:
    return Case(
        "transcription of microsoft/dion",
        lambda params: Dion(params, form="stacked", rank_fraction=fraction, weight_decay=0.1),
        lambda params: Authors(params, lr=0.01, fraction=fraction, wd=0.1),
        variant=f"rank_fraction={fraction}, weight_decay=0.1, stacked",
        shapes=SHAPES,
    )


PARITY = [
    Case(
        "transcription of microsoft/dion",
        lambda params: Dion(params, form="loop"),
        lambda params: Authors(params, lr=0.01, fraction=1.0, wd=0.01),
        shapes=SHAPES,
    ),
    at_rank(0.5),
    at_rank(0.25),
]


def test_two_steps_by_hand() -> None:
    """A matrix of one number: P = sign(B), R = |B|, so the direction is sign(B) and M = mu*B."""
    w = nn.Parameter(torch.tensor([[1.0]], dtype=torch.float64))
    optimizer = Dion([w], lr=0.1, momentum=0.5, weight_decay=0.2, form="loop")
    w.grad = torch.tensor([[5.0]], dtype=torch.float64)
    optimizer.step()
    assert w.item() == pytest.approx(0.98 - 0.1, rel=1e-8)
    w.grad = torch.tensor([[-3.0]], dtype=torch.float64)
    optimizer.step()  # B = 2.5 - 3 < 0
    assert w.item() == pytest.approx((0.98 - 0.1) * 0.98 + 0.1, rel=1e-8)


def test_at_full_rank_a_constant_gradient_is_orthonormalized() -> None:
    """Power iteration of the last step's factor converges: the direction is U V^T, scaled by sqrt(rows/columns)."""
    grad = torch.randn(6, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    w = nn.Parameter(torch.zeros_like(grad))
    optimizer = Dion([w], lr=1.0, weight_decay=0.0)
    for _ in range(200):
        before = w.detach().clone()
        w.grad = grad.clone()
        optimizer.step()
    u, _, v = torch.linalg.svd(grad, full_matrices=False)
    torch.testing.assert_close(before - w.detach(), math.sqrt(2) * u @ v, rtol=0, atol=1e-6)


def test_feedback_brings_what_a_low_rank_leaves_out() -> None:
    """At rank 1 a gradient of rank 2 moves the weights along both of its directions in the end."""
    grad = torch.diag(torch.tensor([1.0, 0.2, 0.0, 0.0], dtype=torch.float64))
    w = nn.Parameter(torch.zeros_like(grad))
    optimizer = Dion([w], lr=0.01, rank_fraction=0.25, weight_decay=0.0)
    for step in range(200):
        w.grad = grad.clone()
        optimizer.step()
        if step == 0:
            assert torch.linalg.matrix_rank(w.detach(), rtol=1e-6) == 1
    assert (w.detach().diagonal()[:2] < -0.1).all()
    assert w.detach().diagonal()[2:].abs().max() < 1e-3


def test_zero_gradients_change_neither_weights_nor_factors() -> None:
    w = nn.Parameter(torch.ones(4, 3))
    optimizer = Dion([w], weight_decay=0.0)
    w.grad = torch.zeros(4, 3)
    optimizer.step()
    first = optimizer.state[w]["Q"].clone()
    assert torch.equal(w.detach(), torch.ones(4, 3))
    assert first.any()
    optimizer.step()
    assert torch.equal(optimizer.state[w]["Q"], first)


def test_in_float32_a_gradient_of_rank_one_moves_the_weights_by_one_singular_value() -> None:
    """QR's other 63 columns are invented: they move nothing, and their factors stay as they were."""
    stream = torch.Generator().manual_seed(0)
    grad = torch.randn(64, 1, generator=stream) @ torch.randn(1, 64, generator=stream)
    w = nn.Parameter(torch.zeros(64, 64))
    optimizer = Dion([w], lr=1.0, weight_decay=0.0)
    for size in (1.0, 1e-4, 1e4):
        before = w.detach().clone()
        w.grad = size * grad
        optimizer.step()
        values = torch.linalg.svdvals((before - w.detach()).double())
        assert values[0].item() == pytest.approx(1, abs=1e-3)
        assert values[1] < 1e-3
    first = torch.randn(64, 64, generator=torch.Generator().manual_seed(0), dtype=torch.float64).float()
    assert torch.equal(optimizer.state[w]["Q"][0, :, 1:], first[:, 1:])
    w.grad = 1e4 * torch.randn(64, 64, generator=stream)
    optimizer.step()
    assert (torch.linalg.vector_norm(optimizer.state[w]["Q"][0], dim=0) - 1).abs().max() < 1e-5  # all are in use now


def test_the_first_factor_does_not_depend_on_the_global_seed() -> None:
    factors = []
    for seed in (0, 1):
        torch.manual_seed(seed)
        w = nn.Parameter(torch.ones(4, 3))
        w.grad = torch.ones(4, 3)
        optimizer = Dion([w])
        optimizer.step()
        factors.append(optimizer.state[w]["Q"])
    assert torch.equal(*factors)
