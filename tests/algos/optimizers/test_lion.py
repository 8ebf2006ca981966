"""Lion equals the paper's algorithm 2: two steps by hand, a plain transcription, and lion_pytorch."""

from typing import Any

import lion_pytorch
import pytest
import torch
from torch import Tensor, nn

from algos.noisy_quadratic import difference, give_gradient, rate, train, weights
from algos.optimizers.lion import Lion
from tests.algos.parity import Case

HYPER: dict[str, dict[str, Any]] = {
    "defaults": {},
    "every hyperparameter changed": {"lr": 0.01, "betas": (0.8, 0.95), "weight_decay": 0.3},
}
PARITY = [
    Case(
        reference="lion_pytorch.Lion",
        package="lion-pytorch",
        variant=variant,
        ours=lambda params, hyper=hyper: Lion(params, form="loop", **hyper),
        theirs=lambda params, hyper=hyper: lion_pytorch.Lion(params, **hyper),
    )
    for variant, hyper in HYPER.items()
]


def test_two_steps_by_hand() -> None:
    w = nn.Parameter(torch.tensor([1.0, -1.0, 0.0], dtype=torch.float64))
    optimizer = Lion([w], lr=0.1, betas=(0.5, 0.9), weight_decay=1.0, form="loop")
    w.grad = torch.tensor([2.0, -3.0, 0.0], dtype=torch.float64)
    optimizer.step()  # u = sign(g), m = 0.1*g
    assert w.tolist() == pytest.approx([0.9 - 0.1, -0.9 + 0.1, 0.0])
    w.grad = torch.tensor([-0.1, 0.4, 1.0], dtype=torch.float64)
    optimizer.step()  # b1*m + (1 - b1)*g = (0.05, 0.05, 0.5): all positive
    assert w.tolist() == pytest.approx([0.8 * 0.9 - 0.1, -0.8 * 0.9 - 0.1, -0.1])
    momentum = optimizer.state[w]["exp_avg"]
    assert momentum.tolist() == pytest.approx([0.9 * 0.2 + 0.1 * -0.1, 0.9 * -0.3 + 0.1 * 0.4, 0.1])


def transcription(params: list[nn.Parameter], steps: int, eta: float, b1: float, b2: float, decay: float) -> None:
    """Algorithm 2 of the paper, line by line."""
    momenta: list[Tensor] = [torch.zeros_like(param) for param in params]
    for step in range(steps):
        for index, (param, m) in enumerate(zip(params, momenta, strict=True)):
            give_gradient(param, index, step)
            assert param.grad is not None
            c = b1 * m + (1 - b1) * param.grad
            param.data -= rate(eta, step) * (c.sign() + decay * param.data)
            m.copy_(b2 * m + (1 - b2) * param.grad)


@pytest.mark.parametrize("form", ["loop", "stacked"])
def test_a_hundred_steps_equal_the_transcription(form: str) -> None:
    ours, theirs = weights(), weights()
    train(Lion(ours, form=form, lr=0.01, betas=(0.8, 0.95), weight_decay=0.3), ours, range(100))
    transcription(theirs, 100, 0.01, 0.8, 0.95, 0.3)
    assert difference(ours, theirs) < 1e-12
