"""A small training problem: a quadratic with noise, over weights of every rank.

Weights are pulled to ones by gradients that depend on the weights and on the step, under a rate that changes at every
step. The numbers are the same at every call and in every dtype, and one noise serves all members of a population.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

Tensors = list[nn.Parameter]

#: Ranks 2, 4, 2 (the shape of the first), 1, 0, and an empty one.
SHAPES = ((6, 4), (5, 3, 2, 2), (6, 4), (7,), (), (0, 4))


def weights(
    dtype: torch.dtype = torch.float64, shapes: Sequence[tuple[int, ...]] = SHAPES, population: int | None = None
) -> Tensors:
    """The same numbers at every call; in a population, the same for every member."""
    random = torch.Generator().manual_seed(1)
    alone = [torch.randn(shape, generator=random, dtype=torch.float64).to(dtype) for shape in shapes]
    if population is not None:
        alone = [tensor.expand(population, *tensor.shape).clone() for tensor in alone]
    return [nn.Parameter(tensor) for tensor in alone]


def give_gradient(param: Tensor, index: int, step: int, population: int | None = None) -> None:
    """Noise on the gradient of |w - 1|^2 / 2; one noise for all members, as they would see one batch."""
    random = torch.Generator().manual_seed(1000 * step + index)
    shape = param.shape if population is None else param.shape[1:]
    noise = torch.randn(shape, generator=random, dtype=torch.float64)
    param.grad = (param.detach() - 1 + noise.to(param)).to(param.dtype)


def train(optimizer: torch.optim.Optimizer, params: Tensors, steps: Sequence[int], having: Sequence[int] = ()) -> None:
    """Take these steps under a changing rate. having: which parameters get gradients; all, if empty."""
    population = getattr(optimizer, "population", None)
    for step in steps:
        for group in optimizer.param_groups:
            group["lr"] = rate(group.setdefault("initial_lr", group["lr"]), step)
        for index, param in enumerate(params):
            param.grad = None
            if not having or index in having:
                give_gradient(param, index, step, population)
        optimizer.step()


def rate(initial: Any, step: int) -> Any:
    """The rate of a step: 0.1 to 0.91 of the initial one, in no order; of every member's in a population."""
    factor = 0.1 + 0.9 * ((step * 7) % 10) / 10
    return tuple(each * factor for each in initial) if isinstance(initial, tuple) else initial * factor


def difference(ours: Sequence[Tensor], theirs: Sequence[Tensor]) -> float:
    """The largest difference, relative to the largest number."""
    a, b = (torch.cat([tensor.detach().double().reshape(-1) for tensor in each]) for each in (ours, theirs))
    return float((a - b).abs().max() / b.abs().max().clamp(min=1e-300))


def same(ours: Sequence[Tensor], theirs: Sequence[Tensor]) -> bool:
    return all(torch.equal(a.detach(), b.detach()) for a, b in zip(ours, theirs, strict=True))
