"""Shampoo equals plain transcriptions of Shi et al. and Gupta et al., and pytorch_optimizer's where that is Gupta's."""

from __future__ import annotations

from typing import Any

import pytest
import pytorch_optimizer
import torch
from torch import Tensor, nn

from algos.noisy_quadratic import difference, train, weights
from algos.optimizers.adamw import AdamW
from algos.optimizers.shampoo import Shampoo
from tests.algos.parity import Case, Transcription

MIXED = ((6, 4), (3, 7), (5, 3, 2, 2), (7,), ())
GUPTA: dict[str, Any] = {
    "betas": (0.0, 0.999), "statistics": "sum", "grafting": "none", "ridge": "absolute", "precondition_frequency": 1,
}  # fmt: skip
HYPER = {
    "lr": 1e-3, "betas": (0.9, 0.999), "eps": 1e-6, "wd": 0.0, "frequency": 20, "largest": 8192, "graft": "adam",
    "graft_eps": 1e-8, "vectors": True, "merge": False, "sum": False, "relative": True, "root": 0,
}  # fmt: skip


def _power(matrix: Tensor, exponent: float) -> Tensor:
    u, s, _ = torch.linalg.svd(matrix)
    return u @ torch.diag(s**exponent) @ u.T


class Shi(Transcription):
    """Shi et al. 2023, algorithm 2, without blocks; ridge and one-sided exponent of Anil et al. 2020."""

    def one(self, param: Tensor, grad: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
        b1, b2 = group["betas"]
        t = state["t"] = state.get("t", 0) + 1
        shape = (param.shape[0], -1) if group["merge"] and param.dim() > 2 else param.shape
        state["m"] = b1 * state.get("m", torch.zeros_like(grad)) + (1 - b1) * grad
        state["v"] = b2 * state.get("v", torch.zeros_like(grad)) + (1 - b2) * grad**2
        n, g = state["m"] / (1 - b1**t), grad.reshape(shape)
        graft = n / ((state["v"] / (1 - b2**t)).sqrt() + group["graft_eps"]) if group["graft"] == "adam" else n
        preconditioned, dims = n.reshape(shape), self._dims(g, group)
        for i in dims:
            unfolded = g.movedim(i, 0).reshape(g.shape[i], -1)
            old = state.get(f"F{i}", torch.zeros(1))
            new = unfolded @ unfolded.T
            state[f"F{i}"] = old + new if group["sum"] else b2 * old + (1 - b2) * new
            if t % group["frequency"] == 0:
                f = state[f"F{i}"] / (1 if group["sum"] else 1 - b2**t)
                ridge = group["eps"] * (torch.linalg.eigvalsh(f)[-1] if group["relative"] else 1)
                state[f"R{i}"] = _power(f + ridge * torch.eye(len(f)), -1 / (group["root"] or 2 * len(dims)))
            if f"R{i}" in state:
                moved = torch.einsum("k...,kj->j...", preconditioned.movedim(i, 0), state[f"R{i}"])
                preconditioned = moved.movedim(0, i)
        p = preconditioned.reshape(param.shape)
        if group["graft"] != "none":
            p = p * graft.norm() / p.norm() if dims and t >= group["frequency"] else graft
        param.sub_(group["lr"] * (p + group["wd"] * param))

    @staticmethod
    def _dims(g: Tensor, group: dict[str, Any]) -> list[int]:
        if g.dim() == 1 and not group["vectors"]:
            return []
        return [i for i, size in enumerate(g.shape) if size <= group["largest"]]


def _case(variant: str, theirs: dict[str, Any], form: str = "loop", **ours: Any) -> Case:
    return Case(
        "transcription of Shi et al. 2023, algorithm 2",
        lambda params: Shampoo(params, form=form, **ours),
        lambda params: Shi(params, **HYPER | theirs),
        variant=variant,
        shapes=MIXED,
    )


PARITY = [
    Case(
        "pytorch_optimizer.Shampoo",
        lambda params: Shampoo(params, form="loop", **GUPTA),
        lambda params: pytorch_optimizer.Shampoo(params, lr=1e-3),
        package="pytorch_optimizer",
        variant="Gupta et al. 2018",
        shapes=MIXED,
    ),
    Case(
        "pytorch_optimizer.Shampoo",
        lambda params: Shampoo(params, form="stacked", **GUPTA),
        lambda params: pytorch_optimizer.Shampoo(params, lr=1e-3),
        package="pytorch_optimizer",
        variant="Gupta et al. 2018, stacked",
        shapes=MIXED,
    ),
    _case("defaults", {}),
    _case("stacked", {}, form="stacked"),
    _case(
        "grafting=sgd, weight_decay=0.1, precondition_frequency=3, stacked",
        {"graft": "sgd", "wd": 0.1, "frequency": 3},
        form="stacked", grafting="sgd", weight_decay=0.1, precondition_frequency=3, decay_all=True,
    ),
    _case(
        "grafting=none, statistics=sum, ridge=absolute, eps=1e-3",
        {"graft": "none", "sum": True, "relative": False, "eps": 1e-3},
        grafting="none", statistics="sum", ridge="absolute", eps=1e-3,
    ),
    _case("root=2, precondition_1d=false", {"root": 2, "vectors": False}, root=2, precondition_1d=False),
    _case("max_precond_dim=5, merge_dims", {"largest": 5, "merge": True}, max_precond_dim=5, merge_dims=True),
]  # fmt: skip


@pytest.mark.parametrize("form", ["loop", "stacked"])
def test_two_steps_by_hand(form: str) -> None:
    """Diagonal gradients keep every matrix diagonal: each entry moves by g / (sum of g^2 + eps)^(1/4 + 1/4)."""
    w = nn.Parameter(torch.zeros(2, 2, dtype=torch.float64))
    optimizer = Shampoo([w], lr=0.1, form=form, eps=0.5, **{k: v for k, v in GUPTA.items() if k != "eps"})
    expected, total = torch.zeros(2, dtype=torch.float64), torch.full((2,), 0.5, dtype=torch.float64)
    for entries in ([3.0, -1.0], [-2.0, 0.5]):
        g = torch.tensor(entries, dtype=torch.float64)
        w.grad = torch.diag(g)
        optimizer.step()
        total = total + g**2
        expected = expected - 0.1 * g / total.sqrt()
        torch.testing.assert_close(w.detach(), torch.diag(expected), rtol=1e-13, atol=1e-14)


def test_a_vector_s_root_is_the_square_root() -> None:
    """Of one gradient g: (g g^T + r I)^(-1/2) g = g / sqrt(|g|^2 + r), the full-matrix AdaGrad."""
    w = nn.Parameter(torch.zeros(3, dtype=torch.float64))
    w.grad = torch.tensor([3.0, 0.0, -4.0], dtype=torch.float64)
    Shampoo([w], lr=1.0, eps=11.0, form="loop", **{k: v for k, v in GUPTA.items() if k != "eps"}).step()
    torch.testing.assert_close(w.detach(), torch.tensor([-0.5, 0.0, 4 / 6], dtype=torch.float64))


@pytest.mark.parametrize("form", ["loop", "stacked"])
def test_grafting_gives_adam_s_length_and_before_the_first_roots_adam(form: str) -> None:
    ours, theirs = weights(shapes=MIXED), weights(shapes=MIXED)
    optimizer, adam = Shampoo(ours, form=form, precondition_frequency=6), AdamW(theirs, weight_decay=0.0, form="loop")
    lengths: list[dict[str, float]] = []

    def note(params: Any, grads: Any, directions: Any) -> Any:
        lengths.append({str(d.shape): d.norm().item() for d in directions})
        return directions

    optimizer.directing = adam.directing = note
    train(optimizer, ours, range(5))
    train(adam, theirs, range(5))
    assert difference(ours, theirs) < 1e-14
    train(optimizer, ours, range(5, 6))
    train(adam, theirs, range(5, 6))
    assert difference(ours, theirs) > 1e-6
    assert lengths[-2] == pytest.approx(lengths[-1], rel=1e-12)


@pytest.mark.parametrize("form", ["loop", "stacked"])
def test_roots_change_only_when_due(form: str) -> None:
    params = weights(shapes=((4, 3), (4, 3)))
    optimizer = Shampoo(params, precondition_frequency=4, form=form)
    seen = [torch.eye(4, dtype=torch.float64)]
    for step in range(9):
        train(optimizer, params, [step])
        seen.append(optimizer.state[params[0]]["inv_factor_0"].clone())
    assert [step for step in range(1, 10) if not torch.equal(seen[step], seen[step - 1])] == [4, 8]


def test_the_direction_does_not_depend_on_the_gradient_s_unit() -> None:
    """With a relative ridge and no eps of Adam's, gradients a thousand times larger lead to the same weights."""
    ours, theirs = weights(shapes=MIXED), weights(shapes=MIXED)
    for params, unit in ((ours, 1.0), (theirs, 1000.0)):
        optimizer = Shampoo(params, graft_eps=0.0, precondition_frequency=3)
        for step in range(10):
            for index, param in enumerate(params):
                generator = torch.Generator().manual_seed(10 * step + index)
                param.grad = unit * torch.randn(param.shape, generator=generator, dtype=torch.float64)
            optimizer.step()
    assert difference(ours, theirs) < 1e-12
