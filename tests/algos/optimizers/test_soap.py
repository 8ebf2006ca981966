"""SOAP equals the authors' algorithm in a plain transcription, and Adam in a basis that is written down by hand."""

from __future__ import annotations

import math
from typing import Any

import pytest
import pytorch_optimizer
import torch
from torch import Tensor, nn

from algos.formulas.kronecker import eigenbasis
from algos.noisy_quadratic import difference, train, weights
from algos.optimizers.soap import SOAP
from tests.algos.parity import Case, Transcription

MATRICES = ((6, 4), (3, 7), (5, 5))
MIXED = (*MATRICES, (5, 3, 2, 2), (7,), ())
HYPER = {
    "lr": 3e-3, "betas": (0.95, 0.95), "shampoo_beta": None, "eps": 1e-8, "wd": 0.01, "frequency": 10, "largest": 10000,
    "vectors": False, "merge": False, "normalize": False, "one_sided": False, "correct": True,
}  # fmt: skip


class Authors(Transcription):
    """Vyas et al. 2024, algorithm 3: momentum in the weights' own space, turned at every step, every product written as
    an einsum; with the deviations that algos/optimizers/soap.py states."""

    def one(self, param: Tensor, grad: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
        shape = (param.shape[0], -1) if group["merge"] and param.dim() > 2 else param.shape
        g = grad.reshape(shape)
        param.mul_(1 - group["lr"] * group["wd"])
        state["t"] = state.get("t", 0) + 1
        beta = group["betas"][1] if group["shampoo_beta"] is None else group["shampoo_beta"]
        if state["t"] > 1:
            self._move(param, g, state, group)
        some = g.dim() != 1 or group["vectors"]
        dims = [i for i, size in enumerate(g.shape) if size <= group["largest"]] if some else []
        if group["one_sided"] and g.dim() == 2:
            dims = [0 if g.shape[0] <= g.shape[1] else 1]
        for i in dims:
            unfolded = g.movedim(i, 0).reshape(g.shape[i], -1)
            old = state.get(f"L{i}", torch.zeros(1))
            state[f"L{i}"] = beta * old + (1 - beta) * unfolded @ unfolded.T
        if state["t"] == 1:
            state |= {f"Q{i}": eigenbasis(state[f"L{i}"]) for i in dims}
            state["m"], state["v"] = torch.zeros_like(g), torch.zeros_like(g)
        elif state["t"] % group["frequency"] == 0:
            for i in dims:
                estimates = torch.diag(state[f"Q{i}"].T @ state[f"L{i}"] @ state[f"Q{i}"])
                order = torch.argsort(estimates, descending=True)
                state["v"] = state["v"].index_select(i, order)
                state[f"Q{i}"] = torch.linalg.qr(state[f"L{i}"] @ state[f"Q{i}"][:, order])[0]

    def _move(self, param: Tensor, g: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
        (b1, b2), s = group["betas"], state["t"] - 1
        state["m"] = b1 * state["m"] + (1 - b1) * g
        state["v"] = b2 * state["v"] + (1 - b2) * self._turn(g, state) ** 2
        n = self._turn(self._turn(state["m"], state) / (state["v"].sqrt() + group["eps"]), state, back=True)
        if group["normalize"]:
            n = n / (1e-30 + (n**2).mean() ** 0.5)
        size = group["lr"] * (math.sqrt(1 - b2**s) / (1 - b1**s) if group["correct"] else 1.0)
        param.sub_(size * n.reshape(param.shape))

    @staticmethod
    def _turn(x: Tensor, state: dict[str, Any], back: bool = False) -> Tensor:
        for i in range(x.dim()):
            if f"Q{i}" in state:
                q = state[f"Q{i}"].T if back else state[f"Q{i}"]
                x = torch.einsum("k...,kj->j...", x.movedim(i, 0), q).movedim(0, i)
        return x


def _case(variant: str, theirs: dict[str, Any], form: str = "loop", **ours: Any) -> Case:
    return Case(
        "transcription of Vyas et al. 2024, algorithm 3",
        lambda params: SOAP(params, form=form, **ours),
        lambda params: Authors(params, **HYPER | theirs),
        variant=variant,
        shapes=MIXED,
    )


PARITY = [
    Case(
        "pytorch_optimizer.SOAP",  # which turns one step later, and in float32: so here never
        lambda params: SOAP(params, form="loop", precondition_frequency=1000, weight_decay=0.0),
        lambda params: pytorch_optimizer.SOAP(params, precondition_frequency=1000, weight_decay=0.0),
        package="pytorch_optimizer",
        variant="precondition_frequency=1000, weight_decay=0",
        shapes=((5, 5), (5, 3, 2, 2), (7,), ()),
    ),
    _case("defaults", {}),
    _case("stacked", {}, form="stacked"),
    _case("precondition_frequency=1", {"frequency": 1}, precondition_frequency=1),
    _case(
        "precondition_frequency=8, shampoo_beta=0.8, precondition_1d, stacked",
        {"frequency": 8, "shampoo_beta": 0.8, "vectors": True},
        form="stacked", precondition_frequency=8, shampoo_beta=0.8, precondition_1d=True,
    ),
    _case("merge_dims, weight_decay=0", {"merge": True, "wd": 0.0}, merge_dims=True, weight_decay=0.0),
    _case("one_sided", {"one_sided": True, "frequency": 3}, one_sided=True, precondition_frequency=3),
    _case("normalize_grads", {"normalize": True, "frequency": 4}, normalize_grads=True, precondition_frequency=4),
    _case("correct_bias=false, eps=1e-3", {"correct": False, "eps": 1e-3}, correct_bias=False, eps=1e-3),
    _case("max_precond_dim=5", {"largest": 5, "frequency": 2}, max_precond_dim=5, precondition_frequency=2),
]  # fmt: skip


@pytest.mark.parametrize("form", ["loop", "stacked"])
def test_three_steps_by_hand(form: str) -> None:
    """The first gradient gives the axes on the left and (1, 1), (1, -1) on the right; nothing moves. The later ones are
    Adam's in that basis, turned back."""
    w = nn.Parameter(torch.zeros(2, 2, dtype=torch.float64))
    optimizer = SOAP([w], lr=0.1, betas=(0.5, 0.9), eps=0.0, weight_decay=0.0, form=form)
    h = torch.tensor([[1.0, 1.0], [1.0, -1.0]], dtype=torch.float64) / math.sqrt(2)
    m = v = expected = torch.zeros(2, 2, dtype=torch.float64)
    for s, rows in enumerate([[[3.0, 3.0], [1.0, -1.0]], [[1.0, 2.0], [3.0, 4.0]], [[-2.0, 1.0], [0.5, 3.0]]]):
        w.grad = torch.tensor(rows, dtype=torch.float64)
        optimizer.step()
        if s:
            m, v = 0.5 * m + 0.5 * w.grad @ h, 0.9 * v + 0.1 * (w.grad @ h) ** 2
            expected = expected - 0.1 * (m / (1 - 0.5**s)) / (v / (1 - 0.9**s)).sqrt() @ h.T
        torch.testing.assert_close(w.detach(), expected, rtol=1e-12, atol=1e-14)


def test_without_a_factor_it_is_adam_one_step_late() -> None:
    shapes = ((7,), (), (4, 3))
    ours, theirs = weights(shapes=shapes), weights(shapes=shapes)
    train(SOAP(ours, form="loop", max_precond_dim=0, weight_decay=0.0), ours, range(50))
    reference = torch.optim.Adam(theirs, lr=3e-3, betas=(0.95, 0.95), eps=1e-30)
    train(reference, theirs, range(1, 50))
    assert difference(ours, theirs) < 1e-7  # eps stands before the correction of v here, after it in Adam


@pytest.mark.parametrize("form", ["loop", "stacked"])
def test_the_path_turns_with_the_problem(form: str) -> None:
    """In coordinates turned on both sides the weights' path is turned likewise: what Adam does not do."""
    generator = torch.Generator().manual_seed(0)
    turns = [torch.linalg.qr(torch.randn(n, n, generator=generator, dtype=torch.float64))[0] for n in (4, 4)]
    curvatures = torch.rand(4, 4, generator=generator, dtype=torch.float64) + 0.5
    start = torch.randn(4, 4, generator=generator, dtype=torch.float64)
    plain, turned = nn.Parameter(start.clone()), nn.Parameter(turns[0] @ start @ turns[1].T)
    optimizers = [SOAP([w], weight_decay=0.0, precondition_frequency=3, form=form) for w in (plain, turned)]
    for _ in range(20):
        plain.grad = curvatures * plain.detach()
        turned.grad = turns[0] @ (curvatures * (turns[0].T @ turned.detach() @ turns[1])) @ turns[1].T
        for optimizer in optimizers:
            optimizer.step()
    torch.testing.assert_close(turned.detach(), turns[0] @ plain.detach() @ turns[1].T, rtol=1e-9, atol=1e-9)
    assert (plain.detach() - start).abs().max() > 0.01


@pytest.mark.parametrize("form", ["loop", "stacked"])
def test_bases_turn_only_when_due(form: str) -> None:
    params = weights(shapes=((4, 3), (4, 3)))
    optimizer = SOAP(params, precondition_frequency=4, form=form)
    seen = []
    for step in range(9):
        train(optimizer, params, [step])
        seen.append(optimizer.state[params[0]]["Q_1"].clone())
        assert (seen[-1].mT @ seen[-1] - torch.eye(3)).abs().max() < 1e-12
    changed = [step + 1 for step in range(1, 9) if not torch.equal(seen[step], seen[step - 1])]
    assert changed == [4, 8]


@pytest.mark.parametrize("form", ["loop", "stacked"])
def test_a_state_loaded_between_two_turns_goes_on_bit_for_bit(form: str) -> None:
    """Also for a parameter that thawed later and is due at other steps."""
    params, copies = weights(shapes=((4, 3), (4, 3))), weights(shapes=((4, 3), (4, 3)))
    optimizer, other = (SOAP(each, precondition_frequency=4, form=form) for each in (params, copies))
    train(optimizer, params, range(2), having=[0])
    train(optimizer, params, range(2, 5))
    other.load_state_dict(optimizer.state_dict())
    for copied, param in zip(copies, params, strict=True):
        copied.data.copy_(param.detach())
    for each, those in ((optimizer, params), (other, copies)):
        train(each, those, range(5, 14))
    assert all(torch.equal(a, b) for a, b in zip(params, copies, strict=True))
