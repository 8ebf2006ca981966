"""CAME equals the paper's two steps by hand, and the authors' package."""

import math
from typing import Any

import came_pytorch
import pytest
import torch
from torch import Tensor, nn

from algos.optimizers.came import Came
from tests.algos.parity import Case, Transcription


class Paper(Transcription):
    """Algorithm 2, with the paper's sums; vectors as in the authors' package."""

    def one(self, param: Tensor, grad: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
        b1, b2 = group["betas"]
        b3, matrix = group["beta3"], param.dim() >= 2
        n = max(1, param.numel())

        def estimate(name: str, squares: Tensor, beta: float) -> Tensor:
            r = state[f"r{name}"] = beta * state.get(f"r{name}", 0) + (1 - beta) * squares.sum(-1)
            c = state[f"c{name}"] = beta * state.get(f"c{name}", 0) + (1 - beta) * squares.sum(-2)
            return r.unsqueeze(-1) * c.unsqueeze(-2) / r.sum(-1)[..., None, None]

        squares = grad**2 + group["eps"]
        if matrix:
            v = estimate("v", squares, b2)
        else:
            v = state["v"] = b2 * state.get("v", 0) + (1 - b2) * squares
        u = grad / v.sqrt()
        u = u / max(1.0, (float((u**2).sum()) / n) ** 0.5 / group["clip_threshold"])
        m = state["m"] = b1 * state.get("m", 0) + (1 - b1) * u
        step = m / estimate("u", (u - m) ** 2 + group["instability_eps"], b3).sqrt() if matrix else m
        param.sub_(group["lr"] * group["weight_decay"] * param + group["lr"] * step)


HYPER: dict[str, Any] = {"betas": (0.8, 0.9), "beta3": 0.95, "clip_threshold": 0.5, "weight_decay": 0.1, "lr": 1e-3}
LARGE: dict[str, Any] = {**HYPER, "lr": 1e-2, "eps": 0.1, "instability_eps": 0.2}


def theirs(params: Any, **hyper: Any) -> Any:
    betas, beta3 = hyper.pop("betas"), hyper.pop("beta3")
    if "eps" in hyper:
        hyper["eps"] = (hyper["eps"], hyper.pop("instability_eps"))
    return came_pytorch.CAME(params, betas=(*betas, beta3), **hyper)


PARITY = [
    Case(
        "came_pytorch.CAME",
        lambda params: Came(params, lr=2e-4, form="loop"),
        lambda params: came_pytorch.CAME(params, lr=2e-4),
        package="came-pytorch",
    ),
    Case(
        "came_pytorch.CAME",
        lambda params: Came(params, form="stacked", **HYPER),
        lambda params: theirs(params, **HYPER),
        package="came-pytorch",
        variant="stacked; other betas, clipping and decay",
    ),
    Case(
        "transcription of Luo et al. 2023, algorithm 2",
        lambda params: Came(params, form="loop", **HYPER),
        lambda params: Paper(params, **{"eps": 1e-30, "instability_eps": 1e-16, **HYPER}),
        variant="other betas, clipping and decay",
    ),
    Case(
        "came_pytorch.CAME",
        lambda params: Came(params, form="loop", **LARGE),
        lambda params: theirs(params, **LARGE),
        package="came-pytorch",
        variant="eps=0.1, instability_eps=0.2",
    ),
    Case(
        "transcription of Luo et al. 2023, algorithm 2",
        lambda params: Came(params, form="loop", **LARGE),
        lambda params: Paper(params, **LARGE),
        variant="eps=0.1, instability_eps=0.2",
    ),
]


def test_two_steps_by_hand() -> None:
    """A matrix of one number: V and S are plain averages, and sqrt(V) and sqrt(S) are sizes."""
    w = nn.Parameter(torch.tensor([[1.0]], dtype=torch.float64))
    optimizer = Came([w], lr=0.1, betas=(0.5, 0.75), beta3=0.9, clip_threshold=0.8, weight_decay=0.2, form="loop")
    w.grad = torch.tensor([[4.0]], dtype=torch.float64)
    optimizer.step()  # V = 4, u = 2, clipped to 0.8; m = 0.4; U = 0.16, S = 0.016
    first = 1.0 * 0.98 - 0.1 * 0.4 / math.sqrt(0.016)
    assert w.item() == pytest.approx(first, rel=1e-12)
    w.grad = torch.tensor([[-1.0]], dtype=torch.float64)
    optimizer.step()  # V = 3 + 0.25, u = -1/sqrt(3.25), not clipped
    u = -1 / math.sqrt(3.25)
    m = 0.5 * 0.4 + 0.5 * u
    s = 0.9 * 0.016 + 0.1 * (u - m) ** 2
    assert w.item() == pytest.approx(first * 0.98 - 0.1 * m / math.sqrt(s), rel=1e-12)


def test_a_vector_has_no_confidence() -> None:
    w = nn.Parameter(torch.tensor([1.0, 2.0], dtype=torch.float64))
    optimizer = Came([w], lr=0.1, form="loop")
    w.grad = torch.tensor([3.0, -3.0], dtype=torch.float64)
    optimizer.step()  # u = g/sqrt(0.001*g^2), clipped to signs; m a tenth of it
    assert w.tolist() == pytest.approx([1.0 - 0.01, 2.0 + 0.01], rel=1e-12)
    assert optimizer.state[w].keys() == {"exp_avg", "exp_avg_sq"}
