"""Muon equals a plain transcription and torch.optim.Muon, and sorts parameters as its docstring says."""

from __future__ import annotations

import math
from typing import Any
from unittest.mock import patch

import pytest
import torch
from torch import Tensor, nn

from algos.noisy_quadratic import SHAPES, difference, train, weights
from algos.optimizers.muon import Muon
from algos.parameters import describe
from tests.algos.parity import Case, Transcription

MATRICES = ((6, 4), (3, 7), (6, 4), (4, 4))


class Block(nn.Module):
    """Something of everything: embedding, fused and plain matrices, convolution, norm, biases, head."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(11, 4)
        self.qkv = nn.Linear(4, 12)
        self.norm = nn.LayerNorm(4)
        self.conv = nn.Conv2d(2, 3, 2)
        self.up = nn.Linear(4, 8)
        self.head = nn.Linear(8, 5)


def newton_schulz(g: Tensor) -> Tensor:
    """The published five iterations on one matrix, in its own dtype."""
    return polynomials(g, [(3.4445, -4.7750, 2.0315)] * 5, 1.0)


def polar_express(g: Tensor, steps: int = 5) -> Tensor:
    """Amsel et al. 2025, the listing under algorithm 1: every polynomial but the last with a safety factor of 1.01."""
    published = [
        (8.28721201814563, -23.595886519098837, 17.300387312530933),
        (4.107059111542203, -2.9478499167379106, 0.5448431082926601),
        (3.9486908534822946, -2.908902115962949, 0.5518191394370137),
        (3.3184196573706015, -2.488488024314874, 0.51004894012372),
        (2.300652019954817, -1.6689039845747493, 0.4188073119525673),
        (1.891301407787398, -1.2679958271945868, 0.37680408948524835),
        (1.8750014808534479, -1.2500016453999487, 0.3750001645474248),
    ]
    safe = [(a / 1.01, b / 1.01**3, c / 1.01**5) for a, b, c in published] + [(1.875, -1.25, 0.375)] * steps
    return polynomials(g, safe[:steps], 1.01)


def polynomials(g: Tensor, coefficients: list[tuple[float, float, float]], margin: float) -> Tensor:
    x = g.T if g.shape[0] > g.shape[1] else g
    x = x / (x.norm() * margin).clamp(min=1e-7)
    for a, b, c in coefficients:
        gram = x @ x.T
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x.T if g.shape[0] > g.shape[1] else x


class PlainMuon(Transcription):
    """The authors' loop: momentum, Nesterov, `move` of the matrix, decoupled decay; AdamW for vectors, at `ratio` times
    the rate."""

    def __init__(self, params: Any, **hyper: Any):
        given = {"mu": 0.95, "wd": 0.0, "nesterov": True, "ratio": 0.05, "scale": original}
        super().__init__(params, **given | hyper)

    def one(self, param: Tensor, grad: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
        if param.dim() < 2:
            adamw(param, grad, state, group["lr"] * group["ratio"])
            return
        mu = group["mu"]
        state["m"] = mu * state.get("m", torch.zeros_like(param)) + (1 - mu) * grad
        n = (1 - mu) * grad + mu * state["m"] if group["nesterov"] else state["m"]
        self.apply(param, self.move(n.flatten(1), state, group).view_as(param), state, group)

    def apply(self, param: Tensor, update: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
        param.mul_(1 - group["lr"] * group["wd"])
        param.sub_(group["lr"] * update)

    def move(self, n: Tensor, state: dict[str, Any], group: dict[str, Any]) -> Tensor:
        """What lr is multiplied by. n: (rows, columns)."""
        return group["scale"](*n.shape) * group.get("polar", newton_schulz)(n)


def adamw(param: Tensor, grad: Tensor, state: dict[str, Any], lr: float) -> None:
    """With betas 0.9, 0.95, eps 1e-8 and no decay."""
    state["t"] = state.get("t", 0) + 1
    state["m"] = 0.9 * state.get("m", torch.zeros_like(param)) + 0.1 * grad
    state["v"] = 0.95 * state.get("v", torch.zeros_like(param)) + 0.05 * grad**2
    root = (state["v"] / (1 - 0.95 ** state["t"])).sqrt()
    param.sub_(lr * state["m"] / (1 - 0.9 ** state["t"]) / (root + 1e-8))


def original(rows: int, columns: int) -> float:
    return math.sqrt(max(1.0, rows / columns))


class InFloat64(torch.optim.Muon):
    """torch's, without its conversion to bfloat16."""

    def step(self, closure: Any = None) -> Any:
        with patch.object(Tensor, "bfloat16", Tensor.clone):
            return super().step(closure)


PARITY = [
    Case(
        "torch.optim.Muon, with its conversion to bfloat16 taken out",
        lambda params: Muon(params, form="loop"),
        lambda params: InFloat64(params, lr=0.02, weight_decay=0.0),
        package="torch",
        shapes=MATRICES,
    ),
    Case(
        "torch.optim.Muon, with its conversion to bfloat16 taken out",
        lambda params: Muon(params, form="stacked", scaling="match_rms_adamw", nesterov=False, weight_decay=0.1),
        lambda params: InFloat64(params, lr=0.02, weight_decay=0.1, nesterov=False, adjust_lr_fn="match_rms_adamw"),
        package="torch",
        variant="scaling=match_rms_adamw, nesterov=False, weight_decay=0.1, stacked",
        shapes=MATRICES,
    ),
    Case(
        "transcription of Jordan et al. 2024, with AdamW for vectors",
        lambda params: Muon(params, form="loop", momentum=0.9, weight_decay=0.1),
        lambda params: PlainMuon(params, lr=0.02, mu=0.9, wd=0.1),
        variant="momentum=0.9, weight_decay=0.1",
    ),
    Case(
        "transcription of Jordan et al. 2024, with AdamW for vectors",
        lambda params: Muon(params, form="stacked", nesterov=False),
        lambda params: PlainMuon(params, lr=0.02, nesterov=False),
        variant="nesterov=False, stacked",
    ),
    Case(
        "transcription of Amsel et al. 2025",
        lambda params: Muon(params, form="stacked", coefficients="polar_express", steps=9, scaling="unit_rms_norm"),
        lambda params: PlainMuon(
            params, lr=0.02, polar=lambda n: polar_express(n, 9), scale=lambda rows, columns: math.sqrt(rows / columns)
        ),
        variant="coefficients=polar_express, steps=9, scaling=unit_rms_norm, stacked",
        shapes=SHAPES[:-1],
    ),
]


def test_two_steps_by_hand() -> None:
    """A matrix of one number has one singular value, which goes to p(p(p(p(p(1))))) with p(s) = a*s + b*s^3 + c*s^5."""
    s = 1.0
    for _ in range(5):
        s = 3.4445 * s - 4.7750 * s**3 + 2.0315 * s**5
    w = nn.Parameter(torch.tensor([[1.0]], dtype=torch.float64))
    optimizer = Muon([w], lr=0.1, momentum=0.5, weight_decay=0.2, form="loop")
    w.grad = torch.tensor([[5.0]], dtype=torch.float64)
    optimizer.step()
    assert w.item() == pytest.approx(0.98 - 0.1 * s, rel=1e-12)
    w.grad = torch.tensor([[-4.0]], dtype=torch.float64)
    optimizer.step()  # m = 0.5*2.5 - 0.5*4 = -0.75, n = -0.5*4 - 0.5*0.75 < 0
    assert w.item() == pytest.approx((0.98 - 0.1 * s) * 0.98 + 0.1 * s, rel=1e-12)


@pytest.mark.parametrize("scaling", ["original", "match_rms_adamw"])
def test_it_is_torch_s_muon_in_bfloat16(scaling: str) -> None:
    """torch orthogonalizes in bfloat16, with three decimal digits: directions agree to those."""
    ours, theirs = weights(torch.float32, MATRICES), weights(torch.float32, MATRICES)
    train(Muon(ours, form="loop", scaling=scaling, orthogonalize_in="bfloat16"), ours, range(20))
    reference = torch.optim.Muon(theirs, lr=0.02, weight_decay=0.0, adjust_lr_fn=scaling)
    train(reference, theirs, range(20))
    moved = difference(ours, weights(torch.float32, MATRICES))
    assert difference(ours, theirs) < 0.02 * moved


@pytest.mark.parametrize("form", ["loop", "stacked"])
def test_the_size_of_gradients_does_not_matter(form: str) -> None:
    """In float32, from 1e-12 to 1e20."""
    grad, moved = torch.randn(4, 3, generator=torch.Generator().manual_seed(0)), []
    for size in (1.0, 1e-12, 1e20):
        w = nn.Parameter(torch.zeros(4, 3))
        w.grad = size * grad
        Muon([w], lr=1.0, form=form).step()
        moved.append(w.detach())
    torch.testing.assert_close(moved[1], moved[0], rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(moved[2], moved[0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("form", ["loop", "stacked"])
def test_the_fallback_is_adamw(form: str) -> None:
    shapes = ((7,), (), (5,))
    ours, theirs = weights(shapes=shapes), weights(shapes=shapes)
    train(Muon(ours, form=form, fallback_lr=0.01, fallback_weight_decay=0.1), ours, range(100))
    reference = torch.optim.AdamW(theirs, lr=0.01, betas=(0.9, 0.95), weight_decay=0.1)
    train(reference, theirs, range(100))
    assert difference(ours, theirs) < 1e-12


def test_a_model_s_parameters_go_where_the_docstring_says() -> None:
    model = Block()
    rows = {row.name: row for row in describe(Muon(model), model)}
    assert {name for name, row in rows.items() if row.rule == "muon"} == {"qkv.weight", "conv.weight", "up.weight"}
    assert {name for name, row in rows.items() if row.group == "fused matrices"} == {"qkv.weight"}
    assert rows.keys() == dict(model.named_parameters()).keys()
    assert rows["up.weight"].lr == 0.02
    assert rows["head.weight"].lr == 1e-3


def test_the_fallback_decays_only_the_head_unless_asked() -> None:
    model = Block()
    for decay_all, decayed in ((False, {"head.weight"}), (True, set(rows_of_fallback(model)))):
        optimizer = Muon(model, fallback_weight_decay=0.1, decay_all=decay_all)
        rows = describe(optimizer, model)
        assert {row.name for row in rows if row.rule == "fallback" and row.weight_decay} == decayed


def rows_of_fallback(model: nn.Module) -> list[str]:
    return [row.name for row in describe(Muon(model), model) if row.rule == "fallback"]


def test_fused_matrices_are_orthogonalized_apart() -> None:
    """Each third of a fused weight moves as it would alone."""
    fused = nn.Parameter(torch.zeros(12, 4, dtype=torch.float64))
    fused.grad = (
        torch.randn(12, 4, dtype=torch.float64) * torch.tensor([1.0, 10.0, 100.0]).repeat_interleave(4)[:, None]
    )
    thirds = [nn.Parameter(torch.zeros(4, 4, dtype=torch.float64)) for _ in range(3)]
    for third, grad in zip(thirds, fused.grad.chunk(3), strict=True):
        third.grad = grad.clone()
    Muon([{"params": [fused], "parts": 3}], lr=1.0).step()
    Muon(thirds, lr=1.0).step()
    torch.testing.assert_close(fused.detach(), torch.cat([third.detach() for third in thirds]))
    with pytest.raises(ValueError, match="not 5 matrices"):
        Muon([{"params": [fused], "parts": 5}])


def test_it_is_one_optimizer_with_one_state_dict() -> None:
    model = Block()
    optimizer = Muon(model)
    for param in model.parameters():
        param.grad = torch.ones_like(param)
    optimizer.step()
    states = optimizer.state_dict()["state"]
    assert len(states) == len(list(model.parameters()))
    assert {frozenset(state) for state in states.values()} == {
        frozenset({"momentum_buffer"}),
        frozenset({"step", "exp_avg", "exp_avg_sq"}),
    }
    with pytest.raises(ValueError, match=r"fallbak.*did you mean 'fallback'"):
        Muon([{"params": [nn.Parameter(torch.ones(2))], "rule": "fallbak"}])


@pytest.mark.parametrize("form", ["loop", "stacked"])
def test_a_population_of_a_model_is_grouped_as_the_model(form: str) -> None:
    model = Block().double()
    stacked = {name: nn.Parameter(torch.stack([param.detach()] * 2)) for name, param in model.named_parameters()}
    optimizer = Muon(model, weights=stacked, population=2, lr=[0.02, 0.01], form=form)
    assert {row.name for row in describe(optimizer) if row.rule == "muon"} == {"qkv.weight", "conv.weight", "up.weight"}
    train(optimizer, list(stacked.values()), range(5))
    for member, lr in enumerate((0.02, 0.01)):
        lone = Block().double()
        lone.load_state_dict(model.state_dict())
        train(Muon(lone, lr=lr), list(lone.parameters()), range(5))
        assert difference([each[member] for each in stacked.values()], list(lone.parameters())) < 1e-12
