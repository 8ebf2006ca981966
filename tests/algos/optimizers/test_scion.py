"""Scion equals its authors' code, norm by norm, and keeps constrained weights in their ball."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from algos.noisy_quadratic import train, weights
from algos.optimizers.scion import Scion
from algos.parameters import describe
from tests.algos.optimizers.test_muon import Block, newton_schulz
from tests.algos.parity import Case, Transcription

SHAPES = ((6, 4), (5, 3, 2, 2), (3, 7), (6, 4), (7,), ())
MATRICES = ((6, 4), (3, 7), (6, 4))


class Authors(Transcription):
    """LIONS-EPFL/scion: `Scion` with the norms that its README gives; momentum is 1 - ours."""

    def one(self, param: Tensor, grad: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
        momentum = 0.1
        state["buf"] = (1 - momentum) * state.get("buf", torch.zeros_like(grad)) + momentum * grad
        update = group["scale"] * LMO[group["norm"]](state["buf"])
        if not group["unconstrained"]:
            param.mul_(1 - group["lr"])
        param.sub_(group["lr"] * update)


def auto(g: Tensor) -> Tensor:
    return bias_rms(g) if g.ndim < 2 else spectral(g) if g.ndim == 2 else spectral_conv(g)


def spectral(g: Tensor) -> Tensor:
    return newton_schulz(g) * (g.shape[0] / g.shape[1]) ** 0.5


def spectral_conv(g: Tensor) -> Tensor:
    out_channels, in_channels, k, _ = g.shape
    return newton_schulz(g.reshape(len(g), -1)).view(g.shape) * (out_channels / in_channels) ** 0.5 / k**2


def bias_rms(g: Tensor) -> Tensor:
    return g / (torch.sqrt(torch.mean(g**2)) + 1e-8)


def col_norm(g: Tensor) -> Tensor:
    return g / (1 / math.sqrt(g.size(0)) * torch.sqrt(torch.sum(g**2, dim=0, keepdim=True)) + 1e-8)


def row_norm(g: Tensor) -> Tensor:
    return g / (torch.sqrt(torch.sum(g**2, dim=-1, keepdim=True)) * math.sqrt(g.size(-1)) + 1e-8)


LMO = {
    "auto": auto,
    "sign": lambda g: torch.sign(g) / g.shape[1],
    "col_norm": col_norm,
    "embedding": lambda g: col_norm(g.T).T,
    "row_norm": row_norm,
    "bias_rms": bias_rms,
}


def of_norm(norm: str) -> Case:
    return Case(
        "transcription of LIONS-EPFL/scion",
        lambda params: Scion(params, form="stacked", norm=norm, weight_decay=0.0),
        lambda params: Authors(params, lr=2**-12, scale=50.0, norm=norm, unconstrained=True),
        variant=f"norm={norm}, weight_decay=0 (unconstrained), stacked",
        shapes=MATRICES,
    )


PARITY = [
    Case(
        "transcription of LIONS-EPFL/scion",
        lambda params: Scion(params, form="loop"),
        lambda params: Authors(params, lr=2**-12, scale=50.0, norm="auto", unconstrained=False),
        variant="defaults (constrained)",
        shapes=SHAPES,
    ),
    Case(
        "transcription of LIONS-EPFL/scion",
        lambda params: Scion(params, form="stacked", lr=0.01, scale=8.0, weight_decay=0.0),
        lambda params: Authors(params, lr=0.01, scale=8.0, norm="auto", unconstrained=True),
        variant="scale=8, weight_decay=0 (unconstrained), stacked",
        shapes=SHAPES,
    ),
    *map(of_norm, ("sign", "col_norm", "embedding", "row_norm", "bias_rms")),
]


def test_two_steps_by_hand() -> None:
    """Signs over two inputs, radius 3: constrained, each step goes a tenth of the way to +-1.5."""
    w = nn.Parameter(torch.tensor([[1.0, -0.5]], dtype=torch.float64))
    optimizer = Scion([{"params": [w], "norm": "sign"}], lr=0.1, scale=3.0, momentum=0.5, form="loop")
    w.grad = torch.tensor([[2.0, -4.0]], dtype=torch.float64)
    optimizer.step()
    torch.testing.assert_close(w.detach(), torch.tensor([[0.9 - 0.15, -0.45 + 0.15]], dtype=torch.float64))
    w.grad = torch.tensor([[-3.0, 1.0]], dtype=torch.float64)
    optimizer.step()  # m = 0.5*(1, -2) + 0.5*(-3, 1) = (-1, -0.5)
    torch.testing.assert_close(w.detach(), torch.tensor([[0.675 + 0.15, -0.27 + 0.15]], dtype=torch.float64))


def test_constrained_weights_stay_in_their_ball_and_others_leave_it() -> None:
    """sqrt(in/out) times the spectral norm is at most the radius, whatever the gradients."""
    largest = {}
    for decay in (1.0, 0.0):
        (w,) = weights(shapes=[(6, 3)])
        w.data *= 0.1
        optimizer = Scion([w], lr=0.05, scale=1.0, weight_decay=decay, coefficients="polar_express", steps=10)
        for _ in range(100):
            w.grad = torch.ones_like(w) + 0.1 * torch.randn(w.shape, generator=torch.Generator().manual_seed(0))
            optimizer.step()
        largest[decay] = math.sqrt(3 / 6) * float(torch.linalg.matrix_norm(w.detach(), 2))
    assert 0.9 < largest[1.0] <= 1.0 + 1e-6
    assert largest[0.0] > 3


def test_a_model_s_layers_get_their_norms() -> None:
    model = Block()
    groups = {group["label"]: group for group in Scion(model, head_scale=7.0).param_groups}
    found = {row.name: row.group for row in describe(Scion(model), model)}
    assert found["tokens.weight"] == "embeddings"
    assert found["head.weight"] == "head"
    assert found["qkv.weight"] == "fused matrices"
    assert found["conv.weight"] == found["up.weight"] == "matrices"
    assert {name for name, label in found.items() if label == "vectors"} == {
        name for name in found if name.endswith("bias") or name == "norm.weight"
    }
    assert (groups["head"]["norm"], groups["head"]["scale"]) == ("sign", 7.0)
    assert (groups["fused matrices"]["parts"], groups["embeddings"]["norm"]) == (3, "embedding")


def test_a_tied_embedding_is_a_head() -> None:
    model = nn.Sequential(nn.Embedding(9, 4), nn.Linear(4, 4), nn.Linear(4, 9, bias=False))
    model[2].weight = model[0].weight
    assert {row.name: row.group for row in describe(Scion(model), model)}["0.weight"] == "head"


def test_a_vector_has_no_spectral_norm() -> None:
    with pytest.raises(ValueError, match=r"\(3,\) has no spectral norm"):
        Scion([{"params": [nn.Parameter(torch.ones(3))], "norm": "spectral"}])
    with pytest.raises(ValueError, match="not 3 matrices"):
        Scion([{"params": [nn.Parameter(torch.ones(4, 2))], "parts": 3}])


def test_it_trains_every_parameter_of_a_model() -> None:
    model = Block()
    before = [param.detach().clone() for param in model.parameters()]
    train(Scion(model), list(model.parameters()), range(2))
    assert all((param != old).any() for param, old in zip(model.parameters(), before, strict=True))


def test_positions_for_the_batch_to_share_are_tokens_row_by_row() -> None:
    """(1, tokens, dimensions) moves as (tokens, dimensions) does, and vectors called embeddings as vectors."""

    class Vision(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.cls_token = nn.Parameter(torch.zeros(1, 1, 4))
            self.class_embedding = nn.Parameter(torch.zeros(4))
            self.pos_embed = nn.Parameter(torch.zeros(1, 3, 4))
            self.head = nn.Linear(4, 2)

    model = Vision()
    optimizer = Scion(model, lr=0.1, scale=1.0, weight_decay=0.0)
    groups = {row.name: row.group for row in describe(optimizer, model)}
    assert (groups["pos_embed"], groups["cls_token"], groups["class_embedding"]) == ("embeddings", "vectors", "vectors")
    grad = torch.tensor([[3.0, 0, 0, 4], [0.03, 0, 0, 0.04], [0, 0, 5, 0]])
    model.pos_embed.grad = grad.unsqueeze(0)
    optimizer.step()
    lengths = torch.linalg.vector_norm(model.pos_embed.detach(), dim=-1)
    torch.testing.assert_close(lengths, torch.full((1, 3), 0.2))  # root mean square of 0.1
