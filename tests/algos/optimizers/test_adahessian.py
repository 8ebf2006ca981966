"""AdaHessian equals the paper by hand, the authors' code in a plain transcription, and pytorch_optimizer's."""

from __future__ import annotations

import math
from typing import Any

import pytest
import pytorch_optimizer
import torch
from torch import Tensor, nn

from algos.optimizers.adahessian import AdaHessian
from tests.algos.parity import Case, Transcription


class Authors(Transcription):
    """amirgholami/adahessian, image classification: kernels share the mean of |z*(Hz)|. signed: the paper's mean."""

    def observe_curvature(self, estimates: dict[Tensor, Tensor]) -> None:
        self.estimates = estimates

    def one(self, param: Tensor, grad: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
        (b1, b2), power = group["betas"], group["power"]
        curvature = self.estimates[param]
        if param.dim() == 4:
            curvature = (curvature if group["signed"] else curvature.abs()).mean([2, 3], keepdim=True)
        state["t"] = state.get("t", 0) + 1
        state["m"] = b1 * state.get("m", torch.zeros_like(param)) + (1 - b1) * grad
        state["v"] = b2 * state.get("v", torch.zeros_like(param)) + (1 - b2) * curvature**2
        root = state["v"].sqrt() ** power / math.sqrt(1 - b2 ** state["t"]) ** power
        step = state["m"] / (1 - b1 ** state["t"]) / (root + group["eps"]) + group["wd"] * param
        param.sub_(group["lr"] * step)


class NoAverage(pytorch_optimizer.AdaHessian):
    """Its estimates are a list."""

    def observe_curvature(self, estimates: dict[Tensor, Tensor]) -> None:
        self.estimates = list(estimates.values())

    def step(self, closure: Any = None, hessian: Any = None) -> Any:
        return super().step(closure, hessian=self.estimates)


def _authors(params: list[nn.Parameter], **changed: Any) -> Authors:
    given = {"lr": 0.15, "betas": (0.9, 0.999), "eps": 1e-4, "wd": 0.0, "power": 1.0, "signed": False}
    return Authors(params, **given | changed)


PARITY = [
    Case(
        "transcription of amirgholami/adahessian",
        lambda params: AdaHessian(params, form="loop"),
        _authors,
        curvature=True,
    ),
    Case(
        "transcription of amirgholami/adahessian",
        lambda params: AdaHessian(params, form="stacked", weight_decay=0.1, hessian_power=0.5, eps=1e-2),
        lambda params: _authors(params, wd=0.1, power=0.5, eps=1e-2),
        variant="stacked, weight_decay=0.1, hessian_power=0.5",
        curvature=True,
    ),
    Case(
        "transcription of Yao et al. 2021, algorithm 1",
        lambda params: AdaHessian(params, form="loop", spatial="signed", decay_all=True),
        lambda params: _authors(params, signed=True),
        variant="spatial=signed",
        curvature=True,
    ),
    Case(
        "pytorch_optimizer.AdaHessian",
        lambda params: AdaHessian(params, form="loop", spatial="none", weight_decay=0.1),
        lambda params: NoAverage(params, lr=0.15, eps=1e-4, weight_decay=0.1),
        package="pytorch_optimizer",
        variant="spatial=none",
        curvature=True,
    ),
]


@pytest.mark.parametrize("form", ["loop", "stacked"])
def test_three_steps_by_hand_the_middle_one_without_an_estimate(form: str) -> None:
    w = nn.Parameter(torch.tensor([1.0], dtype=torch.float64))
    optimizer = AdaHessian([w], form=form, lr=0.1, betas=(0.5, 0.9), eps=0.0, update_period=2)
    expected, m, v = 1.0, 0.0, 0.0
    for step, (grad, estimate) in enumerate([(4.0, -2.0), (1.0, None), (2.0, 3.0)], start=1):
        assert optimizer.wants_curvature == (estimate is not None)
        w.grad = torch.tensor([grad], dtype=torch.float64)
        if estimate is not None:
            optimizer.observe_curvature({w: torch.tensor([estimate], dtype=torch.float64)})
        optimizer.step()
        m = 0.5 * m + 0.5 * grad
        if estimate is not None:
            v = 0.9 * v + 0.1 * estimate**2
        estimates = (step + 1) // 2
        expected -= 0.1 * (m / (1 - 0.5**step)) / math.sqrt(v / (1 - 0.9**estimates))
        assert w.item() == pytest.approx(expected, rel=1e-13)


def test_with_one_curvature_everywhere_the_period_changes_nothing() -> None:
    """v is an average of equal numbers, corrected to that number at every step: it must not depend on how many."""
    led = []
    for period in (1, 7):
        w = nn.Parameter(torch.tensor([1.0, -2.0], dtype=torch.float64))
        optimizer = AdaHessian([w], update_period=period)
        for _ in range(10):
            w.grad = w.detach() * 3
            if optimizer.wants_curvature:
                optimizer.observe_curvature({w: torch.full((2,), 3.0, dtype=torch.float64)})
            optimizer.step()
        led.append(w.detach())
    torch.testing.assert_close(led[0], led[1], rtol=1e-12, atol=0)


@pytest.mark.parametrize("form", ["loop", "stacked"])
def test_a_parameter_waits_for_its_first_estimate(form: str) -> None:
    """Thawed between two estimates it has none; its gradient over nothing would be a step of gradient/eps."""
    early, late = (nn.Parameter(torch.ones(2, dtype=torch.float64)) for _ in range(2))
    optimizer = AdaHessian([early, late], form=form, update_period=3)
    early.grad = torch.ones_like(early)
    optimizer.observe_curvature({early: torch.ones_like(early)})
    optimizer.step()
    late.grad = torch.ones_like(late)
    for _ in range(2):
        optimizer.step()
    assert torch.equal(late.detach(), torch.ones(2, dtype=torch.float64))
    optimizer.observe_curvature({early: torch.ones_like(early), late: torch.full_like(late, 2.0)})
    optimizer.step()
    torch.testing.assert_close(late.detach(), torch.full((2,), 1 - 0.15 / (2 + 1e-4), dtype=torch.float64))


def test_a_convolution_s_kernel_shares_its_mean_curvature_and_a_matrix_does_not() -> None:
    for shape, shared in (((2, 3, 3, 3), True), ((2, 3, 5), True), ((2, 3), False), ((4,), False), ((), False)):
        w = nn.Parameter(torch.zeros(shape, dtype=torch.float64))
        w.grad = torch.ones_like(w)
        optimizer = AdaHessian([w], lr=1.0, eps=0.0)
        estimate = torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
        optimizer.observe_curvature({w: estimate})
        optimizer.step()
        found = 1 / -w.detach()
        if shared:
            assert found.flatten(2).std(-1).abs().max() < 1e-12
            torch.testing.assert_close(found.flatten(2)[..., 0], estimate.abs().flatten(2).mean(-1))
        else:
            torch.testing.assert_close(found, estimate.abs())
