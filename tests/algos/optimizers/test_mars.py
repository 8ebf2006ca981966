"""MARS equals two steps by hand, pytorch_optimizer's and a transcription of the authors' code; and sorts parameters."""

import math
from typing import Any

import pytest
import pytorch_optimizer
import torch
from torch import Tensor, nn

from algos.noisy_quadratic import difference, train, weights
from algos.optimizers.mars import MARS
from algos.parameters import describe
from tests.algos.parity import Case, Transcription


class AuthorsMARS(Transcription):
    """What AGI-Arena/MARS computes with is_approx=True and mars_type="mars-adamw"; AdamW below rank 2."""

    def one(self, param: Tensor, grad: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
        own = param.dim() >= 2
        (b1, b2), decay = group["betas" if own else "betas_1d"], group["weight_decay" if own else "weight_decay_1d"]
        lr = group["lr"] * (1.0 if own else group["lr_1d_factor"])
        t = state["t"] = state.get("t", 0) + 1
        c = grad
        if own:
            c = (grad - state.get("before", torch.zeros_like(grad))) * (group["gamma"] * b1 / (1 - b1)) + grad
            if c.norm() > 1:
                c = c / c.norm()
        state["m"] = b1 * state.get("m", 0) + (1 - b1) * c
        state["v"] = b2 * state.get("v", 0) + (1 - b2) * c**2
        root = (state["v"].sqrt() / math.sqrt(1 - b2**t) + group["eps"]) * (1 - b1**t)
        param.copy_(param - lr * (decay * param + state["m"] / root))
        state["before"] = grad.clone()


def ours(form: str, **hyper: Any) -> Any:
    return lambda params: MARS(params, form=form, **hyper)


def theirs(**hyper: Any) -> Any:
    return lambda params: pytorch_optimizer.MARS(params, foreach=False, **hyper)


def transcribed(**hyper: Any) -> Any:
    return lambda params: AuthorsMARS(params, **hyper)


DEFAULTS: dict[str, Any] = {"lr": 3e-3, "betas": (0.95, 0.99), "gamma": 0.025, "weight_decay": 0.0, "eps": 1e-8}
DEFAULTS_1D: dict[str, Any] = {"betas_1d": (0.9, 0.95), "weight_decay_1d": 0.1}
OTHER: dict[str, Any] = {"lr": 0.01, "betas": (0.8, 0.95), "gamma": 0.1, "weight_decay": 0.2, "eps": 1e-3}
OTHER_1D: dict[str, Any] = {"betas_1d": (0.7, 0.8), "weight_decay_1d": 0.3}
OUR_1D: dict[str, Any] = {
    "fallback_lr": 0.02,
    "fallback_betas": (0.7, 0.8),
    "fallback_weight_decay": 0.3,
    "fallback_eps": 1e-3,
}

#: pytorch_optimizer adds eps to sqrt(v) before its correction, the authors after it (and 1e-15 to v, which shows).
NO_EPS: dict[str, Any] = {**OTHER, "eps": 0.0}

PARITY = [
    *(
        Case(
            reference="pytorch_optimizer.MARS",
            package="pytorch_optimizer",
            variant=f"every hyperparameter changed, eps=0, {form}",
            ours=ours(form, **NO_EPS, **{**OUR_1D, "fallback_eps": 0.0}),
            theirs=theirs(**NO_EPS, **OTHER_1D, lr_1d=0.02),
        )
        for form in ("loop", "stacked")
    ),
    Case(
        reference="transcription of AGI-Arena/MARS",
        ours=ours("loop"),
        theirs=transcribed(**DEFAULTS, **DEFAULTS_1D, lr_1d_factor=1.0),
    ),
    Case(
        reference="transcription of AGI-Arena/MARS",
        variant="every hyperparameter changed",
        ours=ours("stacked", **OTHER, **OUR_1D),
        theirs=transcribed(**OTHER, **OTHER_1D, lr_1d_factor=2.0),
    ),
]


def test_two_steps_by_hand() -> None:
    w = nn.Parameter(torch.tensor([[2.0, 1.0]], dtype=torch.float64))
    optimizer = MARS([w], lr=0.1, betas=(0.5, 0.75), gamma=0.5, eps=0.0, weight_decay=0.5, form="loop")
    w.grad = torch.tensor([[2.0, 0.0]], dtype=torch.float64)
    optimizer.step()  # c = g + 0.5*(g - 0) = (3, 0), clipped to (1, 0); eps 0 and no gradient: nan
    assert w[0, 0].item() == pytest.approx(2.0 * 0.95 - 0.1, rel=1e-14)
    assert w[0, 1].isnan()
    w.data = torch.tensor([[1.8, 1.0]], dtype=torch.float64)
    w.grad.copy_(torch.tensor([[0.8, 0.6]]))  # in the memory of the gradient before, as a loop that adds would
    optimizer.step()  # c = g + 0.5*(g - (2, 0)) = (0.2, 0.9), not clipped
    m = [0.5 * 0.5 + 0.5 * 0.2, 0.5 * 0.9]
    v = [0.75 * 0.25 + 0.25 * 0.04, 0.25 * 0.81]
    for found, before, mean, square in zip(w[0].tolist(), (1.8, 1.0), m, v, strict=True):
        direction = mean / (1 - 0.5**2) / math.sqrt(square / (1 - 0.75**2))
        assert found == pytest.approx(before * 0.95 - 0.1 * direction, rel=1e-6)


def test_the_clip_is_of_each_tensor() -> None:
    """Two tensors trained together move as each alone, though their gradients differ in size by a thousand."""
    together, apart = weights(shapes=((3, 4), (3, 4))), weights(shapes=((3, 4), (3, 4)))
    for params in (together, apart):
        optimizers = [MARS(params)] if params is together else [MARS([param]) for param in params]
        for step in range(5):
            for index, param in enumerate(params):
                param.grad = (param.detach() - step) * 1000**index
            for optimizer in optimizers:
                optimizer.step()
    assert difference(together, apart) < 1e-14


def test_a_model_s_vectors_are_adamw_s_and_its_embeddings_mars_s() -> None:
    model = nn.Sequential(nn.Embedding(5, 4), nn.Conv1d(4, 4, 3), nn.LayerNorm(4), nn.Linear(4, 5))
    for decay_all in (False, True):
        optimizer = MARS(model, weight_decay=0.2, decay_all=decay_all)
        rows = {row.name: row for row in describe(optimizer, model)}
        own = {name for name, row in rows.items() if row.rule == "mars"}
        assert own == {"0.weight", "1.weight", "3.weight"}
        decays = {name: row.weight_decay for name, row in rows.items()}
        vectors = dict.fromkeys(rows.keys() - own, 0.1 if decay_all else 0.0)
        assert decays == {**vectors, "0.weight": 0.2 if decay_all else 0.0, "1.weight": 0.2, "3.weight": 0.2}


def test_without_correction_and_clip_it_is_adamw() -> None:
    """gamma = 0 and gradients shorter than 1."""
    ours, theirs = weights(shapes=((3, 4),)), weights(shapes=((3, 4),))
    optimizers = MARS(ours, gamma=0.0, lr=0.01), torch.optim.AdamW(theirs, lr=0.01, betas=(0.95, 0.99), weight_decay=0)
    for params, optimizer in zip((ours, theirs), optimizers, strict=True):
        for _ in range(20):
            params[0].grad = (params[0].detach() - 1) / 100
            optimizer.step()
    assert difference(ours, theirs) < 1e-12
    train(optimizers[0], ours, [0])
    train(optimizers[1], theirs, [0])  # a longer gradient
    assert difference(ours, theirs) > 1e-4
