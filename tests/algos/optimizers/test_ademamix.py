"""AdEMAMix equals two steps by hand, pytorch_optimizer's and a transcription with the authors' JAX schedulers."""

import math
from typing import Any

import pytest
import pytorch_optimizer
import torch
from torch import Tensor, nn

from algos.optimizers.ademamix import AdEMAMix, warmed_up
from tests.algos.parity import Case, Transcription


class AuthorsAdEMAMix(Transcription):
    """What apple/ml-ademamix computes, without the 1e-8 that its PyTorch version adds to betas in the scheduler."""

    def one(self, param: Tensor, grad: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
        (b1, b2), b3, alpha, lr = group["betas"], group["beta3"], group["alpha"], group["lr"]
        t = state["t"] = state.get("t", 0) + 1
        if group["warmup"] and t < group["warmup"]:
            part = t / group["warmup"]
            alpha = part * alpha
            lengths = [math.log(0.5) / math.log(b) - 1 for b in (b1, b3)]
            b3 = 0.5 ** (1 / ((1 - part) * lengths[0] + part * lengths[1] + 1))
        state["fast"] = b1 * state.get("fast", 0) + (1 - b1) * grad
        state["slow"] = b3 * state.get("slow", 0) + (1 - b3) * grad
        state["v"] = b2 * state.get("v", 0) + (1 - b2) * grad**2
        root = state["v"].sqrt() / math.sqrt(1 - b2**t) + group["eps"]
        update = (state["fast"] / (1 - b1**t) + alpha * state["slow"]) / root
        param.copy_(param - lr * (update + group["weight_decay"] * param))


DEFAULTS: dict[str, Any] = {"betas": (0.9, 0.999), "beta3": 0.9999, "alpha": 5.0, "warmup": None}
OTHER: dict[str, Any] = {
    "lr": 0.01,
    "betas": (0.8, 0.95),
    "beta3": 0.99,
    "alpha": 8.0,
    "weight_decay": 0.1,
    "eps": 1e-3,
}


def package_s(params: Any, *, betas: Any, beta3: float, warmup: int | None, **hyper: Any) -> Any:
    return pytorch_optimizer.AdEMAMix(
        params, betas=(*betas, beta3), t_alpha_beta3=warmup, weight_decouple=True, foreach=False, **hyper
    )


def cases(variant: str, hyper: dict[str, Any]) -> list[Case]:
    def ours(params: Any) -> Any:
        return AdEMAMix(params, form="loop", **hyper)

    full = {"lr": 1e-3, "eps": 1e-8, "weight_decay": 0.0, **hyper}
    return [
        Case(
            reference="pytorch_optimizer.AdEMAMix",
            package="pytorch_optimizer",
            variant=variant,
            ours=ours,
            theirs=lambda params: package_s(params, **full),
        ),
        Case(
            reference="transcription of apple/ml-ademamix (JAX)",
            variant=variant,
            ours=ours,
            theirs=lambda params: AuthorsAdEMAMix(params, **full),
        ),
    ]


PARITY = [
    *cases("no warm-up", DEFAULTS),
    *cases("warmup=1000, longer than the run", {**DEFAULTS, "warmup": 1000}),
    *cases("warmup=60, every hyperparameter changed", {**OTHER, "warmup": 60}),
]


def test_two_steps_by_hand() -> None:
    w = nn.Parameter(torch.tensor([2.0], dtype=torch.float64))
    hyper = {"betas": (0.5, 0.99), "beta3": 0.9, "alpha": 6.0, "eps": 0.0}
    optimizer = AdEMAMix([w], lr=0.1, warmup=2, weight_decay=0.5, form="loop", **hyper)
    w.grad = torch.tensor([4.0], dtype=torch.float64)
    optimizer.step()  # half of the warm-up: alpha 3, and the half-life in the middle between those of 0.5 and 0.9
    half_life = (math.log(0.5) / math.log(0.5) + math.log(0.5) / math.log(0.9)) / 2
    slow = (1 - 0.5 ** (1 / half_life)) * 4.0
    first = 2.0 * 0.95 - 0.1 * (4.0 + 3.0 * slow) / 4.0
    assert w.item() == pytest.approx(first, rel=1e-13)
    w.grad = torch.tensor([-2.0], dtype=torch.float64)
    optimizer.step()  # warmed up: alpha 6, beta3 0.9
    fast, slow = 0.5 * 2.0 - 0.5 * 2.0, 0.9 * slow - 0.1 * 2.0
    v = (0.99 * 0.01 * 16.0 + 0.01 * 4.0) / (1 - 0.99**2)
    assert w.item() == pytest.approx(first * 0.95 - 0.1 * (fast + 6.0 * slow) / math.sqrt(v), rel=1e-13)


def test_the_schedulers_of_the_paper() -> None:
    """beta3 = min(exp(ln(b1)*ln(b3) / ((1 - t/T)*ln(b3) + (t/T)*ln(b1))), b3), alpha = min(t*alpha/T, alpha)."""
    b1, b3 = torch.tensor(0.9, dtype=torch.float64), torch.tensor(0.9999, dtype=torch.float64)
    alpha = torch.tensor(5.0, dtype=torch.float64)
    one, three = math.log(0.9), math.log(0.9999)
    for t in (1, 50, 99, 100, 101, 500):
        part = t / 100
        found = warmed_up(torch.tensor(float(t)), 100, alpha, b1, b3)
        assert found[0].item() == pytest.approx(min(part * 5, 5), rel=1e-14)
        expected = min(math.exp(one * three / ((1 - part) * three + part * one)), 0.9999)
        assert 1 - found[1].item() == pytest.approx(1 - expected, rel=1e-10)


def test_warm_up_from_no_memory_at_all() -> None:
    """b1 = 0 has half-life 0, which the scheduler of beta3 must survive."""
    w = nn.Parameter(torch.ones(3))
    optimizer = AdEMAMix([w], betas=(0.0, 0.9), warmup=4)
    for _ in range(6):
        w.grad = torch.ones(3)
        optimizer.step()
        assert torch.isfinite(w).all()
    _, b3 = warmed_up(torch.tensor(2.0), 4, torch.tensor(1.0), torch.tensor(0.0), torch.tensor(0.9))
    assert b3.item() == pytest.approx(0.81)  # half the half-life
