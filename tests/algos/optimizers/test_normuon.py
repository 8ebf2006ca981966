"""NorMuon equals the paper and its authors' code, and gives rows equal steps."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from algos.optimizers.muon import Muon
from algos.optimizers.normuon import NorMuon
from tests.algos.optimizers.test_muon import PlainMuon, newton_schulz, polar_express
from tests.algos.parity import Case

SHAPES = ((6, 4), (5, 3, 2, 2), (3, 7), (6, 4), (7,), ())


class Authors(PlainMuon):
    """zichongli5/NorMuon, `normuon_update`, of one matrix."""

    def move(self, n: Tensor, state: dict[str, Any], group: dict[str, Any]) -> Tensor:
        update = newton_schulz(n)
        vnorm = update.norm()
        self.second_moment(update, state)
        update = update / (state["v"].sqrt() + 1e-10)
        update = update * (vnorm / (update.norm() + 1e-10))
        return update * max(1, n.size(-2) / n.size(-1)) ** 0.5

    def second_moment(self, update: Tensor, state: dict[str, Any], dim: int = -1) -> None:
        v_mean = torch.mean(update * update, dim=dim, keepdim=True)
        state["v"] = 0.95 * state.get("v", torch.zeros_like(v_mean)) + (1 - 0.95) * v_mean


class ShortAxis(Authors):
    """As in nanochat: averaged along the longer side; Polar Express; eps inside the root is below all that occurs."""

    def move(self, n: Tensor, state: dict[str, Any], group: dict[str, Any]) -> Tensor:
        update = polar_express(n)
        vnorm = update.norm()
        self.second_moment(update, state, -1 if n.shape[-2] >= n.shape[-1] else -2)
        update = update * state["v"].clamp_min(1e-10).rsqrt()
        return update * (vnorm / update.norm()) * max(1.0, n.shape[-2] / n.shape[-1]) ** 0.5


class Paper(Authors):
    """Algorithm 1 of Li et al. 2025."""

    def move(self, n: Tensor, state: dict[str, Any], group: dict[str, Any]) -> Tensor:
        o = newton_schulz(n)
        self.second_moment(o, state)
        hat = o / (state["v"].sqrt() + 1e-10)
        return 0.2 * math.sqrt(n.numel()) / hat.norm() * hat


PARITY = [
    Case(
        "transcription of zichongli5/NorMuon",
        lambda params: NorMuon(params, form="loop"),
        lambda params: Authors(params, lr=0.02),
        shapes=SHAPES,
    ),
    Case(
        "transcription of zichongli5/NorMuon",
        lambda params: NorMuon(params, form="stacked", nesterov=False, weight_decay=0.1),
        lambda params: Authors(params, lr=0.02, nesterov=False, wd=0.1),
        variant="nesterov=False, weight_decay=0.1, stacked",
        shapes=SHAPES,
    ),
    Case(
        "transcription of Li et al. 2025, algorithm 1",
        lambda params: NorMuon(params, form="stacked", nesterov=False, scaling="match_rms_adamw"),
        lambda params: Paper(params, lr=0.02, nesterov=False),
        variant="nesterov=False, scaling=match_rms_adamw, stacked",
        shapes=SHAPES,
    ),
    Case(
        "transcription of karpathy/nanochat, without its other changes",
        lambda params: NorMuon(params, form="loop", neurons="short_axis", coefficients="polar_express"),
        lambda params: ShortAxis(params, lr=0.02),
        variant="neurons=short_axis, coefficients=polar_express",
        shapes=SHAPES,
    ),
]


def test_two_steps_by_hand() -> None:
    """A column of two numbers has one singular value s, which goes to p(p(p(p(p(1))))); its rows are single numbers."""
    s = 1.0
    for _ in range(5):
        s = 3.4445 * s - 4.7750 * s**3 + 2.0315 * s**5
    w = nn.Parameter(torch.zeros(2, 1, dtype=torch.float64))
    optimizer = NorMuon([w], lr=0.1, momentum=0.0, beta2=0.5, form="loop")
    w.grad = torch.tensor([[3.0], [4.0]], dtype=torch.float64)
    optimizer.step()  # O = s*(0.6, 0.8), v = 0.5*O^2: equal entries of norm sqrt(2)*s
    torch.testing.assert_close(w.detach(), torch.full_like(w, -0.1 * s))
    w.grad = torch.tensor([[4.0], [-3.0]], dtype=torch.float64)
    optimizer.step()  # O = s*(0.8, -0.6), v = 0.25*s^2*(0.36, 0.64) + 0.5*s^2*(0.64, 0.36)
    p = [0.8 / math.sqrt(0.25 * 0.36 + 0.5 * 0.64), -0.6 / math.sqrt(0.25 * 0.64 + 0.5 * 0.36)]
    step = [math.sqrt(2) * s * each / math.hypot(*p) for each in p]
    expected = torch.tensor([[-0.1 * s - 0.1 * each] for each in step], dtype=torch.float64)
    torch.testing.assert_close(w.detach(), expected, rtol=1e-9, atol=0)


@pytest.mark.parametrize("shape", [(8, 3), (3, 8)])
def test_rows_get_equal_steps_of_the_norm_of_muon_s(shape: tuple[int, int]) -> None:
    """At the first step the rows have one norm; the matrix has that of Muon's update."""
    grad = torch.randn(shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    steps = []
    for build in (NorMuon, Muon):
        w = nn.Parameter(torch.zeros_like(grad))
        w.grad = grad.clone()
        build([w], lr=1.0).step()
        steps.append(w.detach())
    rows = steps[0].norm(dim=1)
    torch.testing.assert_close(rows, rows.mean().expand_as(rows))
    torch.testing.assert_close(steps[0].norm(), steps[1].norm())


def test_the_paper_s_scaling_gives_a_root_mean_square_of_a_fifth() -> None:
    w = nn.Parameter(torch.zeros(5, 4))
    w.grad = torch.randn(5, 4)
    NorMuon([w], lr=1.0, scaling="match_rms_adamw").step()
    assert w.detach().square().mean().sqrt().item() == pytest.approx(0.2, rel=1e-5)


def test_fused_matrices_are_normalized_apart() -> None:
    fused = nn.Parameter(torch.zeros(12, 4, dtype=torch.float64))
    fused.grad = torch.randn(12, 4, dtype=torch.float64)
    thirds = [nn.Parameter(torch.zeros(4, 4, dtype=torch.float64)) for _ in range(3)]
    for third, grad in zip(thirds, fused.grad.chunk(3), strict=True):
        third.grad = grad.clone()
    for _ in range(2):
        NorMuon([{"params": [fused], "parts": 3}], lr=1.0).step()
        NorMuon(thirds, lr=1.0).step()
    torch.testing.assert_close(fused.detach(), torch.cat([third.detach() for third in thirds]))
