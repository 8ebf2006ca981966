"""Convergence: noiseless problems are solved, by the best of some rates that fall to zero."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from algos.checks.subject import Subject
from algos.checks.wording import by_rate

#: One of these must solve it, the entry's own default first.
RATES = (0.1, 0.01, 1.0, 0.03, 0.3, 0.001, 0.0001, 0.003, 0.005)


def converges_on_a_quadratic(subject: Subject) -> None:
    """|w - 1|^2 over tensors of every rank falls to a hundredth of where it began."""
    _solved(subject, subject.weights, _quadratic, 400, 0.01)


def converges_on_rosenbrock(subject: Subject) -> None:
    """Three of Rosenbrock's valleys, side by side in one matrix, are followed down to 5 percent of where they began
    (their floors begin at 8)."""
    matrix = (6, 4) in subject.shapes
    _solved(subject, lambda: [_valleys(matrix=matrix)], _rosenbrock, 1500, 0.05)


def _quadratic(params: Sequence[Tensor]) -> Tensor:
    return torch.stack([(param - 1).square().sum() for param in params]).sum()


def _valleys(*, matrix: bool) -> nn.Parameter:
    """(2, 3), or six numbers in a row: the classic start and two more, x above y."""
    start = torch.tensor([[-1.2, -0.5, 0.3], [1.0, 0.8, -0.4]], dtype=torch.float64)
    return nn.Parameter(start if matrix else start.flatten())


def _rosenbrock(params: Sequence[Tensor]) -> Tensor:
    x, y = params[0].reshape(2, 3)
    return ((1 - x).square() + 100 * (y - x.square()).square()).sum()


def _solved(
    subject: Subject, start: Callable[[], list[Any]], problem: Callable[[Sequence[Tensor]], Tensor], steps: int,
    fraction: float,
) -> None:  # fmt: skip
    """One of the rates brings the problem down to a fraction of its first value."""
    reached = {}
    for rate in _rates(subject):
        params = start()
        before = float(problem(params).detach())
        optimizer = subject.build(params, subject.reference, **dict.fromkeys(subject.rates, rate))
        after = _after(subject, optimizer, params, problem, steps, goal=fraction * before)
        if after < fraction * before:
            return
        reached[rate] = after
    goal = f"never below {fraction * before:.2g} (rates that fall to zero over {steps} steps)"
    raise AssertionError(f"{before:.3g} became {by_rate(reached, before)}, {goal}")


def _rates(subject: Subject) -> Iterator[float]:
    own = subject.hyper["lr"].default if "lr" in subject.hyper else None
    if own in RATES or own is None:
        yield from sorted(RATES, key=lambda rate: rate != own)
    else:
        yield from (own, *RATES)


def _after(
    subject: Subject, optimizer: Any, params: list[nn.Parameter], problem: Callable[[Sequence[Tensor]], Tensor],
    steps: int, goal: float,
) -> float:  # fmt: skip
    """The value at the evaluation weights, at the end or once it is far below the goal."""
    initial = [group.get("lr") for group in optimizer.param_groups]

    def closure() -> Tensor:
        loss = problem(params)
        graph = bool(getattr(optimizer, "wants_curvature", False))
        grads = torch.autograd.grad(loss, params, create_graph=graph)
        for param, grad in zip(params, grads, strict=True):
            param.grad = grad
        return loss.detach()

    for step in range(steps):
        for group, lr in zip(optimizer.param_groups, initial, strict=True):
            if lr is not None:
                group["lr"] = lr * (1 - step / steps)
        if subject.closure:
            optimizer.step(closure)
        else:
            loss = closure()
            if not torch.isfinite(loss):
                return float("inf")
            optimizer.step()
            if loss < 1e-3 * goal and not getattr(optimizer, "has_evaluation_weights", False):
                break
    with subject.evaluating(optimizer), torch.no_grad():
        after = float(problem(params))
    return after if after == after else float("inf")
