"""What one step of an optimizer is made of: units, each one gradient, one direction, one update.

A `Lone` unit is one parameter, and is the reference. `stacked` has units of many parameters at once. The optimizer asks
every unit for its direction, lets components change it, and has it applied:

    w <- w - lr*wd*w - lr*direction

A rule is the class whose static functions are the mathematics (`init`, `direction`, perhaps `update`). It computes in
float32, or in float64 for float64 weights; lower-precision weights are widened for it and rounded once, at the end.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import torch
from torch import Tensor

from algos.finding import InputError
from algos.hyper_tensors import HyperTensors, HyperValues

State = dict[str, Tensor]


class Rule(Protocol):
    """The mathematics of one kind of parameter, tensors in and tensors out."""

    elementwise: ClassVar[bool]
    own_update: ClassVar[bool]  # whether `update` is more than the line above

    @staticmethod
    def init(param: Tensor) -> State: ...

    @staticmethod
    def direction(param: Tensor, grad: Tensor, state: State, hyper: HyperValues) -> tuple[Tensor, State]: ...

    @staticmethod
    def update(param: Tensor, direction: Tensor, state: State, hyper: HyperValues) -> tuple[Tensor, State]: ...

    @staticmethod
    def evaluate(param: Tensor, state: State, hyper: HyperValues) -> Tensor: ...


def working_dtype(dtype: torch.dtype) -> torch.dtype:
    """What the mathematics computes in for weights of a dtype."""
    return torch.float64 if dtype == torch.float64 else torch.float32


def widened(tensor: Tensor) -> Tensor:
    """The tensor itself where it is wide enough to compute in, else a float32 copy."""
    dtype = working_dtype(tensor.dtype)
    return tensor if tensor.dtype == dtype else tensor.to(dtype)


@dataclass(frozen=True)
class Member:
    """A parameter of the optimizer, with what a unit must know of it. states: the optimizer's own, by parameter."""

    param: Tensor
    rule: type[Rule]
    hyper: HyperTensors
    states: MutableMapping[Any, Any]
    population: int | None

    @property
    def state(self) -> State:
        """Empty before the first step."""
        return self.states[self.param]

    @property
    def stayed(self) -> bool:
        """Whether the parameter is still on the device its hyperparameters are on."""
        return self.param.device == self.hyper.device


class Unit(ABC):
    """A part of a step. params: its parameters, of one group, dtype and device."""

    rule: type[Rule]
    hyper: HyperTensors
    params: list[Tensor]
    grads: list[Any]

    @abstractmethod
    def intact(self) -> bool:
        """Whether the parameters are where this unit put them."""

    def gather(self) -> int:
        """Fetch the gradients; how many parameters have one."""
        self.grads = [param.grad for param in self.params]
        return len(self.grads) - sum(grad is None for grad in self.grads)

    @abstractmethod
    def direction(self) -> Tensor:
        """The direction of this step, in the unit's own shape. Keeps the new state until `apply`."""

    @abstractmethod
    def apply(self, direction: Tensor) -> None:
        """Move the weights, and store the new state."""

    @abstractmethod
    def split(self, direction: Tensor) -> list[Tensor]:
        """A direction, parameter by parameter."""

    @abstractmethod
    def join(self, directions: Sequence[Tensor]) -> Tensor:
        """The inverse of `split`."""


class Lone(Unit):
    """One parameter: the reference that every other form must equal."""

    def __init__(self, member: Member):
        self.member, self.rule, self.hyper, self.population = member, member.rule, member.hyper, member.population
        self.params = [member.param]
        self._new: State = {}

    def intact(self) -> bool:
        return self.member.stayed

    def direction(self) -> Tensor:
        param, grad = widened(self.params[0]), widened(self.grads[0])
        state = self.member.state
        if not state:
            check_gradient(self.params[0])
            state.update(beginning(self.rule, param, self.population))
        if self.population is None:
            direction, self._new = self.rule.direction(param, grad, state, self.hyper.alone)
            return direction
        each = [
            self.rule.direction(param[i], grad[i], member_state(state, i), hyper)
            for i, hyper in enumerate(self.hyper.members)
        ]
        self._new = stacked_states([state for _, state in each])
        return torch.stack([direction for direction, _ in each])

    def apply(self, direction: Tensor) -> None:
        param = self.params[0]
        weights = widened(param)
        members = [(weights, direction, self._new, self.hyper.alone)]
        if self.population is not None:
            members = [
                (weights[i], direction[i], member_state(self._new, i), hyper)
                for i, hyper in enumerate(self.hyper.members)
            ]
        states = [move(self.rule, *member, decays=self.hyper.decays) for member in members]
        self.member.state.update(states[0] if self.population is None else stacked_states(states))
        self._new = {}
        if weights is not param:
            param.copy_(weights)

    def split(self, direction: Tensor) -> list[Tensor]:
        return [direction]

    def join(self, directions: Sequence[Tensor]) -> Tensor:
        return directions[0]


def check_gradient(param: Tensor) -> None:
    """At a parameter's first step. Raises InputError where the mathematics cannot take its gradient."""
    if param.grad is not None and param.grad.layout != torch.strided:
        raise InputError("a sparse gradient cannot be used", "build the embedding with sparse=False")


class Alone:
    """All units of an optimizer in loop form."""

    def __init__(self, members: Iterable[Member]):
        self._units = [Lone(member) for member in members]
        for unit in self._units:
            settle(unit.member)

    def intact(self) -> bool:
        return all(unit.intact() for unit in self._units)

    def ready(self) -> Sequence[Unit]:
        """The units that have a gradient."""
        return [unit for unit in self._units if unit.gather()]


def settle(member: Member) -> None:
    """Bring a parameter's state to where the parameter is."""
    for name, tensor in member.state.items():
        member.state[name] = tensor.to(member.param.device)


def beginning(rule: type[Rule], param: Tensor, population: int | None) -> State:
    """The state of a parameter before its first step, in memory of its own."""
    if population is not None:
        return stacked_states([rule.init(member) for member in param.detach()])
    return {name: tensor.clone() for name, tensor in rule.init(param.detach()).items()}


def member_state(state: State, index: int) -> State:
    return {name: tensor[index] for name, tensor in state.items()}


def stacked_states(states: Sequence[State]) -> State:
    return {name: torch.stack([state[name] for state in states]) for name in states[0]}


def move(
    rule: type[Rule], weights: Tensor, direction: Tensor, state: State, hyper: HyperValues, *, decays: bool
) -> State:
    """Apply a direction to the weights, in place, by the rule's own update where it has one. Returns the state."""
    if rule.own_update:
        moved, state = rule.update(weights, direction, state, hyper)
        weights.copy_(moved)
    else:
        descend(weights, direction, hyper.lr, hyper.weight_decay if decays else None)
    return state


def descend(weights: Tensor, direction: Tensor, lr: Tensor, weight_decay: Tensor | None) -> None:
    """w <- w - lr*wd*w - lr*direction, in place."""
    if weight_decay is not None:
        weights.mul_(1 - lr * weight_decay)
    weights.addcmul_(direction, lr, value=-1)
