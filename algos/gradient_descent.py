"""GradientDescent: the training algorithm of nearly everything: one gradient, one update, and the components around
them."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from algos.contracts import Component, Gradient, InnerGradient, Oracle, Progress, Schedule, overrides
from algos.finding import InputError


class GradientDescent:
    """A `TrainingAlgorithm`: gradient through the components, schedule on the rate, one step of the optimizer.

    optimizer: any torch optimizer; each group's `initial_lr` times the schedule's factor is its rate. components:
    innermost first. Components that change directions need an optimizer that shows them (`algos.per_tensor`).
    """

    def __init__(
        self, optimizer: torch.optim.Optimizer, components: Sequence[Component] = (), schedule: Schedule | None = None
    ):
        self.optimizer = optimizer
        self.components = list(components)
        self._schedule = schedule
        self._progress = Progress(0, 0.0)
        self._in_gradient = [c for c in self.components if overrides(c, "gradient")]
        self._in_direction = [c for c in self.components if overrides(c, "direction")]
        self._after_update = [c for c in self.components if overrides(c, "updated")]
        self._check()
        for group in optimizer.param_groups:
            group.setdefault("initial_lr", group["lr"])
        if self._in_direction:
            optimizer.directing = self._direct  # type: ignore[attr-defined]

    def step(self, oracle: Oracle, batch: Any, progress: Progress) -> dict[str, Tensor]:
        self._progress = progress
        if self._schedule is not None:
            factor = self._schedule(progress)
            for group in self.optimizer.param_groups:
                group["lr"] = _scaled(group["initial_lr"], factor)
        if self._in_gradient:
            result = nested(self._in_gradient, oracle)(batch)
            for name, parameter in oracle.named_parameters():
                parameter.grad = result.grads.get(name)
        else:
            result = oracle.gradient(batch)
        oracle.update(self._apply, result.finite)
        values = {"loss": result.loss}
        for component in self._after_update:
            values |= component.updated(oracle, Progress(progress.update + 1, progress.fraction))
        return values

    @contextmanager
    def evaluating(self, oracle: Oracle) -> Iterator[None]:
        with ExitStack() as stack:
            if self.has_evaluation_weights:
                own: AbstractContextManager[None] = self.optimizer.evaluating()  # type: ignore[attr-defined]
                stack.enter_context(own)
            for component in reversed(self.components):  # outermost first: a mask has the last word on an average
                stack.enter_context(component.evaluating(oracle))
            yield

    def finalize(self, model: nn.Module) -> None:
        """Once, at the end, inside `evaluating`."""
        for component in reversed(self.components):
            component.finalize(model)

    @property
    def has_evaluation_weights(self) -> bool:
        """Whether the optimizer itself evaluates at other weights than it trains (schedule-free)."""
        return bool(getattr(self.optimizer, "has_evaluation_weights", False))

    def state_dict(self) -> dict[str, Any]:
        return {
            "optimizer": self.optimizer.state_dict(),
            "components": [component.state_dict() for component in self.components],
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.optimizer.load_state_dict(state["optimizer"])
        for component, own in zip(self.components, state["components"], strict=True):
            component.load_state_dict(own)

    def _check(self) -> None:
        """Refuse what would silently be something else."""
        name = type(self.optimizer).__name__
        if self.has_evaluation_weights and any(component.replaces_weights for component in self.components):
            raise InputError(
                f"{name} evaluates at weights of its own, and an average of those it trains would take their place",
                "leave the averaging wrapper out",
                place="wrappers",
            )
        if getattr(self.optimizer, "population", None) is not None and (self._in_gradient or self._in_direction):
            raise InputError(
                "these components look across whole tensors, and would mix the members of a population",
                "train the members one by one",
                place="wrappers",
            )

    def _apply(self) -> None:
        self.optimizer.step()

    def _direct(
        self, params: Sequence[Tensor], grads: Sequence[Tensor], directions: Sequence[Tensor]
    ) -> Sequence[Tensor]:
        for component in self._in_direction:
            directions = component.direction(params, grads, directions, self._progress)
        return directions


def _scaled(rate: float | tuple[float, ...], factor: float) -> float | tuple[float, ...]:
    """A rate, or a population's rates, times a factor."""
    return tuple(each * factor for each in rate) if isinstance(rate, tuple) else rate * factor


def nested(components: Sequence[Component], oracle: Oracle) -> InnerGradient:
    """The oracle's gradient through the components, innermost first."""
    inner: InnerGradient = oracle.gradient
    for component in components:
        inner = _around(component, oracle, inner)
    return inner


def _around(component: Component, oracle: Oracle, inner: InnerGradient) -> InnerGradient:
    """The component around `inner`; where it is asked for other weights, it asks `inner` for them unless it names its
    own."""

    def gradient(batch: Any, **where: Any) -> Gradient:
        return component.gradient(oracle, batch, functools.partial(inner, **where))

    return gradient
