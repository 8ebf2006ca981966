"""Adan equals two steps by hand, pytorch_optimizer's and a transcription of the authors' code with proximal decay."""

import math
from typing import Any

import pytest
import pytorch_optimizer
import torch
from torch import Tensor, nn

from algos.optimizers.adan import Adan
from tests.algos.parity import Case, Transcription


class AuthorsAdan(Transcription):
    """What sail-sg/Adan computes with no_prox=False."""

    def one(self, param: Tensor, grad: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
        (b1, b2), b3, lr = group["betas"], group["beta3"], group["lr"]
        t = state["t"] = state.get("t", 0) + 1
        change = grad - state.get("before", grad)
        state["m"] = b1 * state.get("m", 0) + (1 - b1) * grad
        state["d"] = b2 * state.get("d", 0) + (1 - b2) * change
        state["n"] = b3 * state.get("n", 0) + (1 - b3) * (grad + b2 * change) ** 2
        root = state["n"].sqrt() / math.sqrt(1 - b3**t) + group["eps"]
        step = lr * state["m"] / (1 - b1**t) / root + lr * b2 * state["d"] / (1 - b2**t) / root
        param.copy_((param - step) / (1 + lr * group["weight_decay"]))
        state["before"] = grad.clone()


OTHER: dict[str, Any] = {"lr": 0.01, "betas": (0.8, 0.7), "beta3": 0.95, "weight_decay": 0.3, "eps": 1e-3}


def package_s(params: Any, *, betas: Any = (0.98, 0.92), beta3: float = 0.99, **hyper: Any) -> Any:
    return pytorch_optimizer.Adan(params, betas=(*betas, beta3), weight_decouple=False, foreach=False, **hyper)


PARITY = [
    Case(
        reference="pytorch_optimizer.Adan",
        package="pytorch_optimizer",
        ours=lambda params: Adan(params, form="loop"),
        theirs=package_s,
    ),
    Case(
        reference="pytorch_optimizer.Adan",
        package="pytorch_optimizer",
        variant="every hyperparameter changed",
        ours=lambda params: Adan(params, form="loop", **OTHER),
        theirs=lambda params: package_s(params, **OTHER),
    ),
    Case(
        reference="transcription of sail-sg/Adan",
        variant="every hyperparameter changed",
        ours=lambda params: Adan(params, form="loop", **OTHER),
        theirs=lambda params: AuthorsAdan(params, **OTHER),
    ),
]


def test_two_steps_by_hand() -> None:
    w = nn.Parameter(torch.tensor([2.0], dtype=torch.float64))
    optimizer = Adan([w], lr=0.1, betas=(0.9, 0.8), beta3=0.99, eps=0.0, weight_decay=0.5, form="loop")
    w.grad = torch.tensor([4.0], dtype=torch.float64)
    optimizer.step()  # no change of the gradient yet: m = 0.4, d = 0, n = 0.16, a unit direction
    first = (2.0 - 0.1) / 1.05
    assert w.item() == pytest.approx(first, rel=1e-14)
    assert optimizer.state[w]["exp_avg_diff"].item() == 0
    w.grad.fill_(-2.0)  # the memory of the gradient before, as where a loop sets gradients to zero and adds to them
    optimizer.step()  # change -6: m = 0.36 - 0.2, d = 0.2*-6, n = 0.99*0.16 + 0.01*(-2 + 0.8*-6)^2
    root = math.sqrt((0.99 * 0.16 + 0.01 * 6.8**2) / (1 - 0.99**2))
    direction = (0.16 / (1 - 0.9**2) + 0.8 * -1.2 / (1 - 0.8**2)) / root
    assert w.item() == pytest.approx((first - 0.1 * direction) / 1.05, rel=1e-13)


@pytest.mark.parametrize("form", ["loop", "stacked"])
def test_decay_alone_is_proximal(form: str) -> None:
    """Without a gradient a weight is divided by 1 + lr*wd."""
    w = nn.Parameter(torch.tensor([2.0, -3.0], dtype=torch.float64))
    w.grad = torch.zeros_like(w)
    Adan([w], lr=0.5, weight_decay=0.2, form=form).step()
    assert w.tolist() == pytest.approx([2.0 / 1.1, -3.0 / 1.1], rel=1e-15)
