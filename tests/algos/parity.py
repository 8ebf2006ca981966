"""Parity: an optimizer of the catalogue takes the steps of its named reference.

Each `tests/algos/optimizers/test_<entry>.py` has `PARITY = [Case(...), ...]`; `tests/algos/test_parity.py` runs every
case and holds the table in docs/parity.md to them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from algos.noisy_quadratic import SHAPES, Tensors, difference, give_gradient, rate, weights

#: The largest difference of the weights after any step, relative to the largest weight.
TOLERANCE = 1e-9


@dataclass(frozen=True)
class Case:
    """One comparison, in float64.

    reference: its name as people know it ("torch.optim.NAdam", "transcription of Xie et al. 2023, algorithm 1").
    package: the distribution whose version the table shows; "" for a transcription. variant: what is special here.
    ours, theirs: build an optimizer over given parameters; both are trained on the same noisy quadratic under the same
    changing rate. curvature: whether both are given the same estimates of curvature (`observe_curvature`).
    """

    reference: str
    ours: Callable[[Tensors], torch.optim.Optimizer]
    theirs: Callable[[Tensors], torch.optim.Optimizer]
    package: str = ""
    variant: str = "defaults"
    shapes: Sequence[tuple[int, ...]] = SHAPES
    steps: int = 100
    curvature: bool = False


class Transcription(torch.optim.Optimizer):
    """A paper's equations, written as plainly as can be: `one` moves one parameter in place."""

    def __init__(self, params: Any, **hyper: Any):
        super().__init__(params, hyper)

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            for param in group["params"]:
                if param.grad is not None:
                    self.one(param, param.grad, self.state[param], group)

    def one(self, param: Tensor, grad: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
        raise NotImplementedError


def error(case: Case) -> float:
    """The largest difference over all steps."""
    ours, theirs = weights(shapes=case.shapes), weights(shapes=case.shapes)
    optimizers = [(case.ours(ours), ours), (case.theirs(theirs), theirs)]
    worst = 0.0
    for step in range(case.steps):
        for optimizer, params in optimizers:
            for group in optimizer.param_groups:
                group["lr"] = rate(group.setdefault("initial_lr", group["lr"]), step)
            for index, param in enumerate(params):
                give_gradient(param, index, step)
            if case.curvature:
                optimizer.observe_curvature(  # type: ignore[attr-defined]
                    {param: estimate(param, index, step) for index, param in enumerate(params)}
                )
            optimizer.step()
        found = difference(ours, theirs)
        assert math.isfinite(found), f"{case.reference}: not finite at step {step}"
        worst = max(worst, found)
    return worst


def estimate(param: Tensor, index: int, step: int) -> Tensor:
    """A noisy estimate of the curvature, the same at every call: 1 and noise, sometimes negative."""
    random = torch.Generator().manual_seed(7_000_000 + 1000 * step + index)
    return 1 + torch.randn(param.shape, generator=random, dtype=torch.float64).to(param)
