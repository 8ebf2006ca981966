"""What an optimizer's docstring says of its memory is what a step takes: `Memory: 2 numbers of state and 3 of work per
weight.`, which ends in `of a square matrix` where other shapes take another number.

A number is a float32. State is what stays between steps; work is the most that one step has alive beyond parameters,
gradients and state. Both are of the loop form on one square matrix, after the first step, with work that is done now
and then due at every second step.
"""

import re
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from algos import catalogue, observe

WIDTH = 256
STEPS, STEPS_OF_CLOSURES = 4, 15  # L-BFGS has filled its history then
LINE = re.compile(
    r"^Memory: (?:(?=1 number )|(?!1 ))([\d.]+) numbers? of state and ([\d.]+) of work per weight"
    r"(?: of a square matrix)?\.$",
    re.MULTILINE,
)


def step_for(optimizer: Any, weight: nn.Parameter) -> float:
    """One step on a new gradient; the work of it, in numbers per weight."""
    weight.grad = torch.randn(weight.shape)
    assert weight.grad is not None
    if getattr(optimizer, "wants_curvature", False):
        optimizer.observe_curvature({weight: torch.rand(weight.shape)})

    def closure() -> Tensor:
        curvature = torch.logspace(0, 4, weight.numel()).view_as(weight)  # hard enough for a history of 100
        weight.grad.copy_(curvature * weight)
        return (curvature * weight.detach().square()).sum() / 2

    closures = [closure] if "closure" in getattr(optimizer, "needs", ()) else []
    return observe.peak_memory(lambda: optimizer.step(*closures)) / (4 * weight.numel())


def measured(name: str) -> tuple[float, float]:
    build = catalogue.load("optimizers", name).build
    torch.manual_seed(1)
    weight = nn.Parameter(torch.randn(WIDTH, WIDTH))
    period = getattr(build, "period", "")
    form = {"form": "loop"} if hasattr(build, "direction") else {}
    optimizer = build([weight], **form, **({period: 2} if period else {}))
    step_for(optimizer, weight)
    closures = "closure" in getattr(build, "needs", ())
    works = [step_for(optimizer, weight) for _ in range(STEPS_OF_CLOSURES if closures else STEPS)]
    work = works[-1] if closures else max(works)
    held = [value for state in optimizer.state.values() for value in torch.utils._pytree.tree_leaves(dict(state))]
    state = sum(value.numel() * value.element_size() for value in held if isinstance(value, Tensor))
    return state / (4 * weight.numel()), work


@pytest.mark.parametrize("name", catalogue.paths("optimizers"))
def test_memory_is_what_the_docstring_says(name: str) -> None:
    found = LINE.search(catalogue.describe("optimizers", name).doc)
    assert found, "the module's docstring has no line 'Memory: 2 numbers of state and 3 of work per weight.'"
    for kind, stated, number in zip(("state", "work"), map(float, found.groups()), measured(name), strict=True):
        single = 0.01  # the step, say, and other single numbers
        assert number <= stated + single, f"{kind}: {number:.2f} numbers per weight"
        assert stated <= number * 1.1 + 0.5, f"{kind}: {number:.2f} numbers per weight"


def test_temporaries_count_until_they_are_gone() -> None:
    x = torch.ones(100)

    def work() -> Tensor:
        y = x * 2 * 3  # two at once, then one
        return y.add_(1).view(10, 10).sum()

    assert observe.peak_memory(work) == 4 * 200


def test_what_was_there_before_counts_when_it_goes() -> None:
    held = [torch.ones(100)]

    def replaced() -> None:
        held[0] = held[0] + 1  # both alive for a moment
        held[0] = held[0] + 1  # again: the first has gone

    assert observe.peak_memory(replaced) == 4 * 100


def test_bytes_are_read_and_written() -> None:
    x, y = torch.ones(100), torch.ones(100)
    assert observe.bytes_moved(lambda: torch.add(x, y)) == 400 * 3
    assert observe.bytes_moved(lambda: x.copy_(y)) == 400 * 2
    assert observe.bytes_moved(lambda: x.zero_()) == 400
    assert observe.bytes_moved(lambda: torch.add(x, y, out=x)) == 400 * 3
    assert observe.bytes_moved(lambda: x.view(10, 10).t()) == 0
    assert observe.bytes_moved(lambda: torch.ones(1).expand(100) + x) == 4 + 4 + 400 * 2  # ones, expanded, x, sum
