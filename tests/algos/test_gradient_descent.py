"""GradientDescent: how components nest, in which order, and what a schedule scales."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from algos.contracts import Component, Gradient, InnerGradient, Oracle, Progress
from algos.finding import InputError
from algos.gradient_descent import GradientDescent
from algos.optimizers.lion import Lion
from algos.optimizers.sgd import SGD


def mean_loss(predictions: Tensor, targets: Tensor) -> tuple[Tensor, float]:
    return nn.functional.cross_entropy(predictions, targets), float(len(targets))


class Told(Component):
    """Adds its letter to a shared list at each point."""

    def __init__(self, letter: str, heard: list[str]):
        self.letter, self.heard = letter, heard

    def gradient(self, oracle: Oracle, batch: Any, inner: InnerGradient) -> Gradient:
        result = inner(batch)
        self.heard.append(f"gradient {self.letter}")
        return result

    def direction(self, params: Any, grads: Any, directions: Sequence[Tensor], progress: Progress) -> Sequence[Tensor]:
        self.heard.append(f"direction {self.letter}")
        return directions

    def updated(self, oracle: Oracle, progress: Progress) -> dict[str, Tensor]:
        self.heard.append(f"updated {self.letter} {progress.update}")
        return {}

    @contextmanager
    def evaluating(self, oracle: Oracle) -> Iterator[None]:
        self.heard.append(f"enter {self.letter}")
        yield
        self.heard.append(f"leave {self.letter}")

    def finalize(self, model: nn.Module) -> None:
        self.heard.append(f"finalize {self.letter}")


def test_components_nest_innermost_first_and_evaluate_outermost_first(plain_oracle: Any) -> None:
    """So that a mask, which is innermost, has the last word on an average."""
    heard: list[str] = []
    model = nn.Linear(2, 2)
    oracle = plain_oracle(model, mean_loss)
    algorithm = GradientDescent(Lion(model.parameters(), lr=0.1), [Told("a", heard), Told("b", heard)])
    batch = (torch.ones(3, 2), torch.tensor([0, 1, 1]))
    algorithm.step(oracle, batch, Progress(4, 0.5))
    assert heard == ["gradient a", "gradient b", "direction a", "direction b", "updated a 5", "updated b 5"]
    heard.clear()
    with algorithm.evaluating(oracle):
        algorithm.finalize(model)
    assert heard == ["enter b", "enter a", "finalize b", "finalize a", "leave a", "leave b"]


def test_a_component_s_gradient_is_what_the_optimizer_steps_with(plain_oracle: Any) -> None:
    class Doubles(Component):
        def gradient(self, oracle: Oracle, batch: Any, inner: InnerGradient) -> Gradient:
            result = inner(batch)
            return replace(result, grads={name: 2 * grad for name, grad in result.grads.items()})

    torch.manual_seed(0)
    batch = (torch.randn(3, 2), torch.tensor([0, 1, 1]))
    moved = []
    for components in ([], [Doubles()]):
        model = nn.Linear(2, 2)
        nn.init.ones_(model.weight)
        nn.init.zeros_(model.bias)
        algorithm = GradientDescent(SGD(model.parameters(), lr=0.1, momentum=0.0), components)
        algorithm.step(plain_oracle(model, mean_loss), batch, Progress(0, 0.0))
        moved.append(1 - model.weight.detach())
    torch.testing.assert_close(moved[1], 2 * moved[0], rtol=1e-5, atol=1e-7)


def test_a_schedule_scales_every_group_s_own_rate(plain_oracle: Any) -> None:
    model = nn.Linear(2, 2)
    optimizer = torch.optim.SGD([{"params": [model.weight], "lr": 0.1}, {"params": [model.bias], "lr": 0.01}])
    algorithm = GradientDescent(optimizer, [], lambda progress: 1 - progress.fraction)
    batch = (torch.ones(3, 2), torch.tensor([0, 1, 1]))
    for fraction in (0.0, 0.25, 0.75):
        algorithm.step(plain_oracle(model, mean_loss), batch, Progress(0, fraction))
        assert [group["lr"] for group in optimizer.param_groups] == [0.1 * (1 - fraction), 0.01 * (1 - fraction)]


def test_a_population_s_rates_are_scaled_member_by_member(plain_oracle: Any) -> None:
    weights = nn.Parameter(torch.ones(2, 3))
    optimizer = SGD([weights], population=2, lr=(0.1, 0.2), momentum=0.0)
    algorithm = GradientDescent(optimizer, [], lambda progress: 0.5)

    class Oracle_:
        def gradient(self, batch: Any) -> Gradient:
            weights.grad = torch.ones_like(weights)
            return Gradient(torch.tensor(0.0), {"weights": weights.grad})

        def update(self, apply: Any, finite: Any = None) -> None:
            apply()

    algorithm.step(Oracle_(), None, Progress(0, 0.0))  # type: ignore[arg-type]
    torch.testing.assert_close(1 - weights.detach()[:, 0], torch.tensor([0.05, 0.1]))


def test_components_that_would_mix_a_population_s_members_are_refused() -> None:
    optimizer = SGD([nn.Parameter(torch.ones(2, 3))], population=2, lr=(0.1, 0.2))
    with pytest.raises(InputError, match="members of a population"):
        GradientDescent(optimizer, [Told("a", [])])
