"""Sophia equals algorithm 3 by hand and in a plain transcription, and the package that has the paper's first form."""

from __future__ import annotations

from typing import Any

import pytest
import pytorch_optimizer
import torch
from torch import Tensor, nn

from algos.finding import InputError
from algos.optimizers.sophia import Sophia
from tests.algos.parity import Case, Transcription


class Algorithm3(Transcription):
    """Liu et al. 2024, algorithm 3; estimates come from outside, at the steps of the harness."""

    def observe_curvature(self, estimates: dict[Tensor, Tensor]) -> None:
        self.estimates = estimates

    def one(self, param: Tensor, grad: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
        (b1, b2), lr = group["betas"], group["lr"]
        state["m"] = b1 * state.get("m", torch.zeros_like(param)) + (1 - b1) * grad
        state["h"] = b2 * state.get("h", torch.zeros_like(param)) + (1 - b2) * self.estimates[param]
        param.sub_(lr * group["wd"] * param)
        denominator = torch.clamp(group["gamma"] * state["h"], min=group["eps"])
        param.sub_(lr * torch.clamp(state["m"] / denominator, -1, 1))


class FirstForm(pytorch_optimizer.SophiaH):
    """rho*clip(m / (rho*max(h, eps)), 1): the packages' `p` is rho, and estimates are a list."""

    def observe_curvature(self, estimates: dict[Tensor, Tensor]) -> None:
        self.estimates = list(estimates.values())

    def step(self, closure: Any = None, hessian: Any = None) -> Any:
        return super().step(closure, hessian=self.estimates)


def _transcription(params: list[nn.Parameter], eps: float = 1e-12) -> torch.optim.Optimizer:
    return Algorithm3(params, lr=0.01, betas=(0.9, 0.8), gamma=0.5, eps=eps, wd=0.2)


PARITY = [
    Case(
        "transcription of Liu et al. 2024, algorithm 3",
        lambda params: Sophia(params, form="loop", lr=0.01, betas=(0.9, 0.8), gamma=0.5),
        _transcription,
        variant="gamma=0.5",
        curvature=True,
    ),
    Case(
        "transcription of Liu et al. 2024, algorithm 3",
        lambda params: Sophia(
            params, form="stacked", lr=0.01, betas=(0.9, 0.8), gamma=0.5, estimator="gauss_newton", decay_all=True
        ),
        _transcription,
        variant="stacked, estimator=gauss_newton (estimates given)",
        curvature=True,
    ),
    Case(
        "transcription of Liu et al. 2024, algorithm 3",
        lambda params: Sophia(params, form="loop", lr=0.01, betas=(0.9, 0.8), gamma=0.5, eps=0.3),
        lambda params: _transcription(params, eps=0.3),
        variant="gamma=0.5, eps=0.3",
        curvature=True,
    ),
    Case(
        "pytorch_optimizer.SophiaH",
        lambda params: Sophia(params, form="loop", lr=0.03, gamma=0.5, eps=0.5e-12, weight_decay=0.0),
        lambda params: FirstForm(params, lr=0.06, p=0.5, eps=1e-12, betas=(0.96, 0.99)),
        package="pytorch_optimizer",
        variant="lr=rho*lr of the paper's first form",
        curvature=True,
    ),
]


@pytest.mark.parametrize("form", ["loop", "stacked"])
def test_two_steps_by_hand(form: str) -> None:
    w = nn.Parameter(torch.tensor([2.0, 2.0, 2.0], dtype=torch.float64))
    hyper = {"lr": 0.1, "betas": (0.5, 0.8), "gamma": 2.0, "weight_decay": 0.5, "update_period": 2}
    optimizer = Sophia([w], form=form, **hyper)
    assert optimizer.wants_curvature
    w.grad = torch.tensor([4.0, 4.0, -4.0], dtype=torch.float64)
    optimizer.observe_curvature({w: torch.tensor([10.0, 1.0, -10.0], dtype=torch.float64)})
    optimizer.step()
    # m = +-2; gamma*h = 2*0.2*[10, 1, -10] = [4, 0.4, -4]: half a step, a clipped one, and the sign where h < 0
    first = [1.9 - 0.1 * 0.5, 1.9 - 0.1, 1.9 + 0.1]
    torch.testing.assert_close(w.detach(), torch.tensor(first, dtype=torch.float64), rtol=1e-14, atol=0)
    assert not optimizer.wants_curvature
    w.grad = torch.tensor([-1.0, -1.0, 1.0], dtype=torch.float64)
    optimizer.step()
    # m = +-(1 - 0.5) = [0.5, 0.5, -0.5], h as before: 0.125 of a step, the whole one, the sign
    second = [first[0] * 0.95 - 0.0125, first[1] * 0.95 - 0.1, first[2] * 0.95 + 0.1]
    torch.testing.assert_close(w.detach(), torch.tensor(second, dtype=torch.float64), rtol=1e-14, atol=0)
    assert optimizer.wants_curvature


@pytest.mark.filterwarnings("ignore:Using backward.. with create_graph=True")
def test_a_gradient_s_graph_is_enough_for_the_hessian_and_refused_for_the_gauss_newton_matrix() -> None:
    """The loss is w'Aw/2 with A diagonal, so that every draw of signs gives A exactly."""
    scales = torch.tensor([1.0, -2.0, 3.0], dtype=torch.float64)
    for estimator in ("hutchinson", "gauss_newton"):
        w = nn.Parameter(torch.ones(3, dtype=torch.float64))
        optimizer = Sophia([w], estimator=estimator, betas=(0.0, 0.0))
        (scales * w.square()).sum().div(2).backward(create_graph=True)
        if estimator == "gauss_newton":
            with pytest.raises(InputError, match="needs the Gauss-Newton matrix"):
                optimizer.step()
        else:
            optimizer.step()
            assert torch.equal(optimizer.state[w]["hessian"], scales)
        w.grad = None


def test_without_curvature_a_due_step_is_refused_and_others_are_not() -> None:
    w = nn.Parameter(torch.ones(2))
    optimizer = Sophia([w], update_period=2)
    w.grad = torch.ones(2)
    with pytest.raises(InputError, match="create_graph=True"):
        optimizer.step()
    optimizer.observe_curvature({w: torch.ones(2)})
    optimizer.step()
    optimizer.step()
    with pytest.raises(InputError, match="curvature is needed at this step"):
        optimizer.step()
