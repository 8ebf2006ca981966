"""A small training problem: a quadratic with noise, over weights of every rank.

Weights are pulled to ones by gradients that depend on the weights and on the step, under a rate that changes at every
step. The numbers are the same at every call and in every dtype, and one noise serves all members of a population.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any, Literal

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


def curvature(param: Tensor, index: int, step: int, population: int | None = None) -> Tensor:
    """A noisy estimate of the Hessian's diagonal, the same at every call: 1 and noise, sometimes negative."""
    random = torch.Generator().manual_seed(7_000_000 + 1000 * step + index)
    shape = param.shape if population is None else param.shape[1:]
    return (1 + torch.randn(shape, generator=random, dtype=torch.float64).to(param)).expand(param.shape)


def train(
    optimizer: torch.optim.Optimizer, params: Tensors, steps: Sequence[int], having: Sequence[int] = (),
    *, curved: Literal["always", "wanted"] = "always",
) -> None:  # fmt: skip
    """Take these steps under a changing rate. having: which parameters get gradients; all, if empty. curved: when an
    optimizer that needs curvature is given an estimate."""
    for step in steps:
        for param in params:
            param.grad = None
        take_step(
            optimizer, [each for each in enumerate(params) if not having or each[0] in having], step, curved=curved
        )


def take_step(
    optimizer: torch.optim.Optimizer, numbered: Sequence[tuple[int, nn.Parameter]], step: int,
    *, curved: Literal["always", "wanted"] = "always",
) -> None:  # fmt: skip
    """One step of parameters with these numbers, which say their noise."""
    population = getattr(optimizer, "population", None)
    for group in optimizer.param_groups:
        if "lr" in group:
            group["lr"] = rate(group.setdefault("initial_lr", group["lr"]), step)
    asked: Any = optimizer
    if "curvature" in getattr(asked, "needs", ()) and (curved == "always" or asked.wants_curvature):
        gauss_newton = getattr(asked, "curvature_matrix", "hessian") == "ggn"
        factor = 2 if gauss_newton else 1  # so that one is not the other
        asked.observe_curvature({param: factor * curvature(param, i, step, population) for i, param in numbered})

    def closure() -> Tensor:
        for index, param in numbered:
            give_gradient(param, index, step, population)
        grads = [param.grad for _, param in numbered if param.grad is not None]
        return torch.stack([grad.detach().double().square().sum() / 2 for grad in grads]).sum()

    if needs_closure(type(optimizer)):
        asked.step(closure)
    else:
        closure()
        optimizer.step()


def needs_closure(kind: type[torch.optim.Optimizer]) -> bool:
    """Whether a step takes a closure, and cannot do without.

    >>> needs_closure(torch.optim.LBFGS), needs_closure(torch.optim.Adam)
    (True, False)
    """
    _, *arguments = inspect.signature(kind.step).parameters.values()
    return any(each.default is each.empty and each.kind is each.POSITIONAL_OR_KEYWORD for each in arguments)


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
