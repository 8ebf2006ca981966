"""Muon Hyperball equals the record scripts and NVIDIA's code, and keeps the norms of matrices."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from algos.noisy_quadratic import train, weights
from algos.optimizers.muon_hyperball import MuonHyperball
from tests.algos.optimizers.test_muon import Block, PlainMuon, newton_schulz
from tests.algos.parity import Case

SHAPES = ((6, 4), (5, 3, 2, 2), (3, 7), (6, 4), (7,), ())


class Records(PlainMuon):
    """modded-nanogpt, MuonH's `scale_invariant_update_`, around Muon's direction; the radius stays the first."""

    def apply(self, param: Tensor, update: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
        state.setdefault("radius", param.norm())
        moved = param - group["lr"] * update * state["radius"] / update.norm().clamp(min=1e-10)
        param.copy_(moved / moved.norm() * state["radius"])


class NorMuonH(Records):
    """With the second moment along the longer side: "short_axis", as microsoft/dion calls it."""

    def move(self, n: Tensor, state: dict[str, Any], group: dict[str, Any]) -> Tensor:
        o = newton_schulz(n)
        dim = group["dim"] if group["dim"] is not None else -1 if n.shape[0] >= n.shape[1] else -2
        squares = (o * o).mean(dim=dim, keepdim=True)
        state["v"] = 0.95 * state.get("v", torch.zeros_like(squares)) + 0.05 * squares
        return o / (state["v"].sqrt() + 1e-10)


PARITY = [
    Case(
        "transcription of modded-nanogpt's MuonH (pull request 267)",
        lambda params: MuonHyperball(params, form="loop"),
        lambda params: Records(params, lr=0.018, ratio=1e-3 / 0.018),
        shapes=SHAPES,
    ),
    Case(
        "transcription of microsoft/dion's MuonH",
        lambda params: MuonHyperball(params, form="stacked", neurons="short_axis"),
        lambda params: NorMuonH(params, lr=0.018, ratio=1e-3 / 0.018, dim=None),
        variant="neurons=short_axis, stacked",
        shapes=SHAPES,
    ),
    Case(
        "transcription of microsoft/dion's MuonH",
        lambda params: MuonHyperball(params, form="stacked", neurons="rows", nesterov=False),
        lambda params: NorMuonH(params, lr=0.018, ratio=1e-3 / 0.018, dim=-1, nesterov=False),
        variant="neurons=rows, nesterov=False, stacked",
        shapes=SHAPES,
    ),
]


def test_two_steps_by_hand() -> None:
    """A row of two numbers on a circle of radius 5: w - lr*5*(unit gradient), brought back to the circle."""
    w = nn.Parameter(torch.tensor([[3.0, 4.0]], dtype=torch.float64))
    optimizer = MuonHyperball([w], lr=0.2, momentum=0.0, form="loop")
    x, y = 3.0, 4.0
    for gx, gy in ((1.0, 0.0), (0.6, -0.8)):
        w.grad = torch.tensor([[7 * gx, 7 * gy]], dtype=torch.float64)
        optimizer.step()
        x, y = x - 0.2 * 5 * gx, y - 0.2 * 5 * gy
        x, y = 5 * x / math.hypot(x, y), 5 * y / math.hypot(x, y)
        torch.testing.assert_close(w.detach(), torch.tensor([[x, y]], dtype=torch.float64), rtol=1e-12, atol=0)


@pytest.mark.parametrize("neurons", ["none", "rows", "short_axis"])
def test_every_matrix_keeps_its_norm(neurons: str) -> None:
    """Exactly its first, after a hundred steps at a large rate; each part of a fused one its own."""
    params = weights(shapes=[(6, 4), (9, 2), (4, 3, 2, 2)])
    groups = [{"params": [params[0], params[2]]}, {"params": [params[1]], "parts": 3}]
    before = [params[0].norm().item(), *(part.norm().item() for part in params[1].chunk(3)), params[2].norm().item()]
    train(MuonHyperball(groups, lr=0.5, neurons=neurons), params, range(100))
    after = [params[0].norm().item(), *(part.norm().item() for part in params[1].chunk(3)), params[2].norm().item()]
    assert after == pytest.approx(before, rel=1e-12)


def test_the_scale_of_weights_and_gradients_does_not_matter() -> None:
    """Ten times the weights and a thousand times the gradients give ten times the weights: only directions count."""
    small, large = weights(shapes=[(6, 4)]), weights(shapes=[(6, 4)])
    large[0].data *= 10
    optimizers = [MuonHyperball(small, lr=0.1), MuonHyperball(large, lr=0.1)]
    for step in range(10):
        grad = torch.randn(6, 4, generator=torch.Generator().manual_seed(step), dtype=torch.float64)
        small[0].grad, large[0].grad = grad, 1000 * grad
        for optimizer in optimizers:
            optimizer.step()
    torch.testing.assert_close(10 * small[0].detach(), large[0].detach(), rtol=1e-10, atol=1e-12)


def test_a_matrix_of_zeros_is_refused() -> None:
    model = Block()
    nn.init.zeros_(model.up.weight)
    with pytest.raises(ValueError, match=r"a matrix of zeros, of shape \(8, 4\).*initialize"):
        MuonHyperball(model)
    nn.init.zeros_(model.head.weight)
    nn.init.ones_(model.up.weight)
    MuonHyperball(model)  # the head goes to the fallback


def test_a_part_or_a_member_of_zeros_is_refused() -> None:
    fused = torch.ones(6, 2)
    fused[2:4] = 0
    with pytest.raises(ValueError, match=r"of shape \(6, 2\), part 2 of 3, stays"):
        MuonHyperball([{"params": [nn.Parameter(fused)], "parts": 3}])
    MuonHyperball([nn.Parameter(fused)])  # one matrix, not of zeros
    members = torch.stack([torch.ones(6, 2), fused])
    with pytest.raises(ValueError, match=r"of shape \(6, 2\), part 2 of 3, member 1, stays"):
        MuonHyperball([{"params": [nn.Parameter(members)], "parts": 3}], population=2)
    with pytest.raises(ValueError, match=r"of shape \(2, 2\), member 0, stays"):
        MuonHyperball([nn.Parameter(torch.stack([torch.zeros(2, 2), torch.ones(2, 2)]))], population=2)
