"""SGD equals two steps by hand, torch.optim.SGD without decay, and a transcription of SGDW with it."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from algos.noisy_quadratic import difference, give_gradient, rate, train, weights
from algos.optimizers.sgd import SGD
from tests.algos.parity import Case, Transcription


class SGDW(Transcription):
    """Momentum and decoupled decay, the rate outside the momentum."""

    def one(self, param: Tensor, grad: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
        m = state["m"] = group["momentum"] * state.get("m", 0) + grad
        u = grad + group["momentum"] * m if group["nesterov"] else m
        param.copy_(param - group["lr"] * group["weight_decay"] * param - group["lr"] * u)


WITHOUT_DECAY: dict[str, dict[str, Any]] = {
    "momentum=0": {"momentum": 0.0},
    "momentum=0, weight_decay=0.1": {"momentum": 0.0, "weight_decay": 0.1},
    "momentum=0.9": {"momentum": 0.9},
    "momentum=0.9, nesterov": {"momentum": 0.9, "nesterov": True},
}
PARITY = [
    *(
        Case(
            reference="torch.optim.SGD",
            package="torch",
            variant=variant,
            ours=lambda params, hyper=hyper: SGD(params, form="loop", lr=0.05, **hyper),
            theirs=lambda params, hyper=hyper: torch.optim.SGD(params, lr=0.05, foreach=False, **hyper),
        )
        for variant, hyper in WITHOUT_DECAY.items()
    ),
    *(
        Case(
            reference="transcription of SGD with decoupled decay",
            variant=f"momentum=0.8, weight_decay=0.1{', nesterov' if nesterov else ''}",
            ours=lambda params, hyper=hyper: SGD(params, form="loop", **hyper),
            theirs=lambda params, hyper=hyper: SGDW(params, **hyper),
        )
        for nesterov in (False, True)
        for hyper in ({"lr": 0.05, "momentum": 0.8, "weight_decay": 0.1, "nesterov": nesterov},)
    ),
]


def test_two_steps_by_hand() -> None:
    w = nn.Parameter(torch.tensor([1.0], dtype=torch.float64))
    optimizer = SGD([w], lr=0.1, momentum=0.5, nesterov=True, weight_decay=0.2, form="loop")
    w.grad = torch.tensor([2.0], dtype=torch.float64)
    optimizer.step()  # m = 2, u = 2 + 0.5*2
    assert w.item() == pytest.approx(0.98 - 0.3)
    w.grad = torch.tensor([-1.0], dtype=torch.float64)
    optimizer.step()  # m = 0.5*2 - 1 = 0, u = -1 + 0.5*0
    assert w.item() == pytest.approx(0.68 * 0.98 + 0.1)


@pytest.mark.parametrize("form", ["loop", "stacked", "torch"])
@pytest.mark.parametrize(("momentum", "nesterov"), [(0.0, False), (0.9, False), (0.9, True)])
def test_a_hundred_steps_equal_torch_without_decay(form: str, momentum: float, nesterov: bool) -> None:
    ours, theirs = weights(), weights()
    train(SGD(ours, form=form, lr=0.05, momentum=momentum, nesterov=nesterov), ours, range(100))
    reference = torch.optim.SGD(theirs, lr=0.05, momentum=momentum, nesterov=nesterov, foreach=False)
    train(reference, theirs, range(100))
    assert difference(ours, theirs) < 1e-12


@pytest.mark.parametrize("form", ["loop", "stacked", "torch"])
def test_a_hundred_steps_equal_a_transcription_of_sgdw(form: str) -> None:
    ours, theirs = weights(), weights()
    train(SGD(ours, form=form, lr=0.05, momentum=0.8, weight_decay=0.1), ours, range(100))
    momenta = [torch.zeros_like(param) for param in theirs]
    for step in range(100):
        for index, (param, m) in enumerate(zip(theirs, momenta, strict=True)):
            give_gradient(param, index, step)
            m.mul_(0.8).add_(param.grad)
            lr = rate(0.05, step)
            param.data = param.data - lr * m - lr * 0.1 * param.data
    assert difference(ours, theirs) < 1e-12


@pytest.mark.parametrize("form", ["loop", "stacked", "torch"])
def test_nesterov_without_momentum_is_gradient_descent(form: str) -> None:
    ours, plain = weights(), weights()
    train(SGD(ours, form=form, momentum=0.0, nesterov=True), ours, range(5))
    train(SGD(plain, form="loop", momentum=0.0), plain, range(5))
    assert difference(ours, plain) < 1e-14
