"""Aurora equals its authors' code with the same polar factor, and balances the rows of tall matrices."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from algos.optimizers.aurora import Aurora
from algos.optimizers.muon import Muon
from tests.algos.optimizers.test_muon import PlainMuon, polar_express
from tests.algos.parity import Case

SHAPES = ((6, 4), (13, 3, 2, 2), (3, 7), (6, 4), (4, 4), (7,), ())


class Authors(PlainMuon):
    """tilde-research/aurora-release, src/aurora.py; `both` is its first release."""

    def move(self, n: Tensor, state: dict[str, Any], group: dict[str, Any]) -> Tensor:
        rows, columns = n.shape
        if rows == columns or (rows < columns and not group["both"]):
            update = polar_express(n, 8)
        else:
            transposed = rows < columns
            g = n.mT if transposed else n
            d = 1.0 / g.norm(dim=-1, keepdim=True).clamp_(min=1e-7)
            for k in range(group["pp_iterations"]):
                u = polar_express(d * g, 8)
                if k < group["pp_iterations"] - 1:
                    row_sq = u.pow(2).sum(dim=-1, keepdim=True).clamp_(min=1e-14)
                    d = d * (min(rows, columns) / max(rows, columns) / row_sq).pow(group["pp_beta"])
            update = u.mT if transposed else u
        return update * max(1, rows / columns) ** 0.5


def authors(params: list[nn.Parameter], **changed: Any) -> Authors:
    given = {"lr": 0.05, "wd": 0.025, "ratio": 0.02, "pp_iterations": 2, "pp_beta": 0.5, "both": False}
    return Authors(params, **given | changed)


PARITY = [
    Case(
        "transcription of tilde-research/aurora-release, Polar Express in float64",
        lambda params: Aurora(params, form="loop"),
        authors,
        shapes=SHAPES,
    ),
    Case(
        "transcription of tilde-research/aurora-release, Polar Express in float64",
        lambda params: Aurora(params, form="stacked", sides="both", rounds=4, balance=0.25, nesterov=False),
        lambda params: authors(params, both=True, pp_iterations=4, pp_beta=0.25, nesterov=False),
        variant="sides=both, rounds=4, balance=0.25, nesterov=False, stacked",
        shapes=SHAPES,
    ),
]


def test_two_steps_by_hand() -> None:
    """A column: D makes the rows equal, so each moves by lr*sqrt(2)/sqrt(2), whatever the gradient's sizes."""
    w = nn.Parameter(torch.zeros(2, 1, dtype=torch.float64))
    optimizer = Aurora([w], lr=0.1, momentum=0.5, nesterov=False, weight_decay=0.5, steps=12, form="loop")
    w.grad = torch.tensor([[3.0], [-400.0]], dtype=torch.float64)
    optimizer.step()
    torch.testing.assert_close(w.detach(), torch.tensor([[-0.1], [0.1]], dtype=torch.float64))
    w.grad = torch.tensor([[-2.0], [100.0]], dtype=torch.float64)
    optimizer.step()  # m = 0.5*(1.5, -200) + 0.5*(-2, 100) = (-0.25, -50)
    expected = torch.tensor([[-0.095 + 0.1], [0.095 + 0.1]], dtype=torch.float64)
    torch.testing.assert_close(w.detach(), expected)


def test_a_tall_update_is_orthonormal_with_equal_rows() -> None:
    """More rounds bring the rows together; the columns stay orthonormal. Muon's rows stay apart."""
    grad = torch.randn(12, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    grad[:3] *= 0.01
    spread = {}
    for rounds in (1, 2, 20):
        w = nn.Parameter(torch.zeros_like(grad))
        w.grad = grad.clone()
        Aurora([w], lr=1.0, weight_decay=0.0, rounds=rounds, steps=12).step()
        torch.testing.assert_close(w.mT @ w / 3, torch.eye(4, dtype=torch.float64), rtol=0, atol=1e-6)
        rows = w.detach().norm(dim=1)
        spread[rounds] = float(rows.std() / rows.mean())
    w = nn.Parameter(torch.zeros_like(grad))
    w.grad = grad.clone()
    Muon([w], lr=1.0, steps=12, coefficients="polar_express").step()
    muons = float(w.detach().norm(dim=1).std() / w.detach().norm(dim=1).mean())
    assert spread[20] < 0.02 < spread[2] < spread[1] < muons


@pytest.mark.parametrize("shape", [(4, 4), (4, 9)])
def test_square_and_wide_matrices_are_muon_s(shape: tuple[int, int]) -> None:
    grad = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    moved = []
    for optimizer in (Aurora, Muon):
        w = nn.Parameter(torch.zeros(shape))
        w.grad = grad.clone()
        optimizer([w], lr=1.0, weight_decay=0.0, coefficients="polar_express", steps=8).step()
        moved.append(w.detach())
    assert torch.equal(*moved)
