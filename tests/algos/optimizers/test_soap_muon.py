"""SOAP-Muon equals the record scripts' preconditioner on plain Muon."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from algos.formulas.kronecker import eigenbasis
from algos.noisy_quadratic import train, weights
from algos.optimizers.muon import Muon
from algos.optimizers.soap_muon import SOAPMuon
from tests.algos.optimizers.test_muon import PlainMuon, newton_schulz, original
from tests.algos.parity import Case

SQUARE = ((4, 4), (5, 5), (4, 4), (7,))
SHAPES = ((6, 4), (3, 7), (6, 4), (5, 2, 2, 2), (7,), ())


class Scripts(PlainMuon):
    """modded-nanogpt, pull request 278: `soap_precondition_momentum`, Muon, `soap_update_preconditioner`.

    basis: of the first step; "eigh" where it is determined.
    """

    def one(self, param: Tensor, grad: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
        super().one(param, grad, state, group)
        if param.dim() < 2:
            return
        g = grad.flatten(1)
        state["step"] = state.get("step", 0) + 1
        state["row_gg"] = 0.9 * state.get("row_gg", 0) + 0.1 * g @ g.T
        state["col_gg"] = 0.9 * state.get("col_gg", 0) + 0.1 * g.T @ g
        if "q_row" not in state:
            for side in ("row", "col"):
                gg = state[f"{side}_gg"]
                state[f"q_{side}"] = torch.linalg.eigh(gg)[1].flip(1) if group["basis"] == "eigh" else eigenbasis(gg)
        elif state["step"] % group["frequency"] == 0:
            for dim, side in enumerate(("row", "col")):
                q, gg = state[f"q_{side}"], state[f"{side}_gg"]
                order = torch.argsort(torch.diag(q.T @ gg @ q), descending=True)
                state["v"] = state["v"].index_select(dim, order)
                state[f"q_{side}"] = torch.linalg.qr(gg @ q[:, order])[0]

    def move(self, n: Tensor, state: dict[str, Any], group: dict[str, Any]) -> Tensor:
        return original(*n.shape) * newton_schulz(self.precondition(n, state))

    def precondition(self, n: Tensor, state: dict[str, Any]) -> Tensor:
        if "q_row" not in state:
            return n
        projected = state["q_row"].T @ n @ state["q_col"]
        state["v"] = 0.9 * state.get("v", torch.zeros_like(n)) + 0.1 * projected**2
        scaled = state["q_row"] @ (projected / (state["v"].sqrt() + 1e-8)) @ state["q_col"].T
        return scaled * (n.norm() / scaled.norm().clamp_min(1e-8))


PARITY = [
    Case(
        "transcription of modded-nanogpt's pull request 278",
        lambda params: SOAPMuon(params, form="loop", precondition_frequency=1),
        lambda params: Scripts(params, lr=0.02, frequency=1, basis="eigh"),
        variant="precondition_frequency=1",
        shapes=SQUARE,
    ),
    Case(
        "transcription of modded-nanogpt's pull request 278, our basis of eigenvalue 0",
        lambda params: SOAPMuon(params, form="loop"),
        lambda params: Scripts(params, lr=0.02, frequency=10, basis="ours"),
        shapes=SHAPES,
    ),
    Case(
        "transcription of modded-nanogpt's pull request 278, our basis of eigenvalue 0",
        lambda params: SOAPMuon(params, form="stacked", precondition_frequency=7, weight_decay=0.1, nesterov=False),
        lambda params: Scripts(params, lr=0.02, frequency=7, basis="ours", wd=0.1, nesterov=False),
        variant="precondition_frequency=7, weight_decay=0.1, nesterov=False, stacked",
        shapes=SHAPES,
    ),
]


def test_two_steps_by_hand() -> None:
    """A diagonal matrix stays one. Its second step: n = (1, 2), v = 0.1*n^2, so equal singular values 1/sqrt(2)."""
    w = nn.Parameter(torch.zeros(2, 2, dtype=torch.float64))
    optimizer = SOAPMuon([w], lr=1.0, momentum=0.0, form="loop")
    grad = torch.diag(torch.tensor([1.0, 2.0], dtype=torch.float64))
    moved = []
    for _ in range(2):
        before = w.detach().clone()
        w.grad = grad.clone()
        optimizer.step()
        moved.append((before - w.detach()).diagonal())
    for found, singular in zip(moved, ([1 / 5**0.5, 2 / 5**0.5], [1 / 2**0.5, 1 / 2**0.5]), strict=True):
        expected = torch.tensor(singular, dtype=torch.float64)
        for _ in range(5):
            expected = 3.4445 * expected - 4.7750 * expected**3 + 2.0315 * expected**5
        torch.testing.assert_close(found, expected, rtol=1e-6, atol=0)


def test_the_first_step_is_muon_s() -> None:
    moved = []
    for optimizer in (SOAPMuon, Muon):
        params = weights(shapes=[(6, 4), (4, 9)])
        train(optimizer(params), params, [0])
        moved.append(params)
    assert all(torch.equal(ours, muons) for ours, muons in zip(*moved, strict=True))


@pytest.mark.parametrize("frequency", [1, 3])
def test_bases_stay_orthonormal_and_sorted(frequency: int) -> None:
    params = weights(shapes=[(4, 4)])
    optimizer = SOAPMuon(params, precondition_frequency=frequency)
    train(optimizer, params, range(30))
    state = optimizer.state[params[0]]
    for i in (0, 1):
        q, gram = state[f"Q_{i}"][0], state[f"GG_{i}"][0]
        torch.testing.assert_close(q.mT @ q, torch.eye(4, dtype=torch.float64), rtol=0, atol=1e-12)
        values = (q.mT @ gram @ q).diagonal()
        assert values.argmax() == 0
        assert values.argmin() == 3
