"""What 32 members cost together, against one after another: whole training steps of the digits MLP, 64-64-10.

A step is the forward and backward pass of one batch of 64 and the optimizer's step. Alone, each member has a network
and an optimizer of its own, both in the form `auto` chooses; together, their weights are stacked and one optimizer
trains the population. Turns alternate; medians.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tests.benchmarks import optimizer_shapes as shapes
from tests.benchmarks.optimizer_timing import build_ours, stepper

MEMBERS, BATCH = 32, 64

Step = Callable[[], None]


def batch() -> tuple[Tensor, Tensor]:
    random = torch.Generator().manual_seed(2)
    return torch.rand(BATCH, 64, generator=random), torch.randint(10, (BATCH,), generator=random)


def alone(name: str) -> list[tuple[Step, Step]]:
    """Of each member: passes, and the optimizer's step."""
    x, y = batch()
    return [_alone(name, x, y) for _ in range(MEMBERS)]


def _alone(name: str, x: Tensor, y: Tensor) -> tuple[Step, Step]:
    params = shapes.make(shapes.MLP)
    w1, b1, w2, b2 = params.all

    def passes() -> None:
        for param in params.all:
            param.grad = None
        F.cross_entropy(F.linear(F.relu(F.linear(x, w1, b1)), w2, b2), y).backward()

    return passes, stepper(build_ours(name, params, "auto"), params)


def together(name: str) -> tuple[Step, Step]:
    x, y = batch()
    one = shapes.make(shapes.MLP)
    stacked = {id(p): nn.Parameter(p.detach().expand(MEMBERS, *p.shape).clone()) for p in one.all}
    params = shapes.Params(
        [stacked[id(p)] for p in one.all], [stacked[id(p)] for p in one.hidden],
        [gradient.expand(MEMBERS, *gradient.shape).clone() for gradient in one.gradients],
    )  # fmt: skip
    w1, b1, w2, b2 = params.all
    xs, ys = x.expand(MEMBERS, *x.shape), y.repeat(MEMBERS)

    def passes() -> None:
        for param in params.all:
            param.grad = None
        hidden = F.relu(torch.baddbmm(b1.unsqueeze(1), xs, w1.mT))
        logits = torch.baddbmm(b2.unsqueeze(1), hidden, w2.mT)
        loss = F.cross_entropy(logits.flatten(0, 1), ys, reduction="sum") / BATCH  # the members' means, added
        loss.backward()

    return passes, stepper(build_ours(name, params, "auto", population=MEMBERS), params)


def compare(name: str, turns: int = 15) -> dict[str, Any]:
    """Milliseconds of a whole step and of the optimizer's part, of 32 alone and of 32 together."""
    members, (passes, step) = alone(name), together(name)

    def turn_alone() -> tuple[float, float]:
        return _added([_timed(*each) for each in members])

    def turn_together() -> tuple[float, float]:
        return _timed(passes, step)

    found: dict[str, list[tuple[float, float]]] = {"alone": [], "together": []}
    for number in range(turns + 3):
        for key, turn in (("alone", turn_alone), ("together", turn_together)):
            measured = turn()
            if number >= 3:
                found[key].append(measured)
    return {
        key: {"step_ms": statistics.median(whole for whole, _ in each) * 1e3,
              "optimizer_ms": statistics.median(part for _, part in each) * 1e3}
        for key, each in found.items()
    }  # fmt: skip


def _timed(passes: Step, step: Step) -> tuple[float, float]:
    started = time.perf_counter()
    passes()
    between = time.perf_counter()
    step()
    ended = time.perf_counter()
    return ended - started, ended - between


def _added(parts: list[tuple[float, float]]) -> tuple[float, float]:
    return sum(whole for whole, _ in parts), sum(part for _, part in parts)
