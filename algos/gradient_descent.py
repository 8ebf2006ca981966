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
from algos.curvature import signs
from algos.finding import InputError


class GradientDescent:
    """A `TrainingAlgorithm`: gradient through the components, schedule on the rate, one step of the optimizer.

    optimizer: any torch optimizer; each group's `initial_lr` times the schedule's factor is its rate. components:
    innermost first. Components that change directions need an optimizer that shows them (`algos.per_tensor`).

    An optimizer that `wants_curvature` is given an estimate of its matrix's diagonal from the same batch, at the
    weights and with the gradient's own buffers; components do not change it. One that needs a closure (L-BFGS)
    evaluates the whole batch as often as it asks; buffers move at its first question.
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
        replace_rules(optimizer, self.components)
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
        loss = self._closed_step(oracle, batch) if self.needs_closure else self._plain_step(oracle, batch)
        values = {"loss": loss}
        for component in self._after_update:
            values |= component.updated(oracle, Progress(progress.update + 1, progress.fraction))
        return values

    def _plain_step(self, oracle: Oracle, batch: Any) -> Tensor:
        if self._in_gradient:
            result = nested(self._in_gradient, oracle)(batch)
            for name, parameter in oracle.named_parameters():
                parameter.grad = result.grads.get(name)
        else:
            result = oracle.gradient(batch)
        finite = result.finite
        if getattr(self.optimizer, "wants_curvature", False):
            finite = observe(self.optimizer, oracle, batch, finite)
        oracle.update(self._apply, finite)
        return result.loss

    def _closed_step(self, oracle: Oracle, batch: Any) -> Tensor:
        losses: list[Tensor] = []

        def closure() -> Any:
            result = oracle.gradient(batch, buffers="keep" if losses else "update")
            if result.finite is not None:
                raise scaled_closure(self.optimizer)
            losses.append(result.loss)
            return result.loss

        def apply() -> None:
            self.optimizer.step(closure)

        oracle.update(apply)
        return losses[0]

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

    @property
    def needs_closure(self) -> bool:
        """Whether the optimizer asks for several gradients of a batch in one step (L-BFGS)."""
        return needs_closure(self.optimizer)

    @property
    def recollects(self) -> bool:
        """Whether BatchNorm's statistics are to be collected anew at the weights to evaluate."""
        return self.has_evaluation_weights or any(component.recollects for component in self.components)

    def state_dict(self) -> dict[str, Any]:
        return {
            "form": getattr(self.optimizer, "form", ""),
            "optimizer": self.optimizer.state_dict(),
            "components": [component.state_dict() for component in self.components],
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        if state.get("form"):  # forms agree to rounding only: a run goes on in the one it began in
            self.optimizer.use_form(state["form"])  # type: ignore[attr-defined]
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
        check_replacing(self.components)
        if self._in_gradient and self.needs_closure:
            said = f"changes the gradient, and {name} asks its closure for several in one update"
            raise _unfit(self._in_gradient[0], said)
        if self._in_direction and not hasattr(self.optimizer, "directing"):
            raise _unfit(self._in_direction[0], f"changes the directions of steps, and {name} does not show them")
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


def needs_closure(optimizer: torch.optim.Optimizer) -> bool:
    """Whether a step takes a closure, and cannot do without."""
    return isinstance(optimizer, torch.optim.LBFGS) or "closure" in getattr(optimizer, "needs", ())


def scaled_closure(optimizer: torch.optim.Optimizer) -> InputError:
    """For whoever scales losses for an optimizer that needs a closure: its line search would step between gradients
    that are not finite."""
    return InputError(
        f"{type(optimizer).__name__} asks for several gradients in one update, and fp16's scaling may make any of them "
        "infinite", "give precision=bf16 or fp32, or another optimizer", rule="scaled-closure", place="precision",
    )  # fmt: skip


def observe(optimizer: Any, oracle: Oracle, batch: Any, finite: Tensor | None = None) -> Tensor | None:
    """Give an optimizer that wants it an estimate of the curvature's diagonal, by one product with random signs.

    finite: whether the gradient is, where losses are scaled; returns whether the estimate is, too.
    """
    named = dict(oracle.named_parameters())
    probes = {name: signs(parameter) for name, parameter in named.items()}
    products = oracle.product(batch, probes, matrix=getattr(optimizer, "curvature_matrix", "hessian"))
    optimizer.observe_curvature({named[name]: probe * products[name] for name, probe in probes.items()})
    if finite is not None:
        finite = torch.stack([finite, *(product.isfinite().all() for product in products.values())]).all()
    return finite


def _unfit(component: Component, said: str) -> InputError:
    cure = "give another optimizer, or leave the wrapper out"
    return InputError(f"{type(component).__name__} {said}", cure, rule="unfit-component", place="wrappers")


def replace_rules(optimizer: Any, components: Sequence[Component]) -> None:
    """Put the components' rules in the place of the optimizer's own, innermost first, where a component has one.

    Raises InputError for an optimizer that has no rule.
    """
    having = [component for component in components if overrides(component, "rule")]
    if not having:
        return
    if not hasattr(optimizer, "replace_rule"):
        raise _unfit(having[0], f"changes an optimizer's rule, and {type(optimizer).__name__} has none to change")
    optimizer.replace_rule(functools.partial(_replaced, [component.rule for component in having]))
    for component in having:
        component.check_rules(optimizer)


def _replaced(rules: Sequence[Any], rule: type[Any], param: Tensor, shape: Sequence[int]) -> type[Any]:
    for each in rules:
        rule = each(rule, param, shape)
    return rule


def check_replacing(components: Sequence[Component]) -> None:
    """Raises InputError where two components put other weights in the place of those that are trained: only one of
    them would be evaluated."""
    names = [type(component).__name__ for component in components if component.replaces_weights]
    if len(names) > 1:
        raise InputError(
            f"{' and '.join(names)} each evaluate at weights of their own, and only one can be evaluated",
            "leave the others out", rule="unfit-component", place="wrappers",
        )  # fmt: skip


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
