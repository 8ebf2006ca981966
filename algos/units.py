"""What one step of an optimizer is made of: units, each one gradient, one direction, one update.

A `Lone` unit is one parameter, and is the reference. `stacked` has units of many parameters at once. The optimizer asks
every unit for its direction, lets components change it, and has it applied:

    w <- w - lr*wd*w - lr*direction

A rule is the class whose static functions are the mathematics (`init`, `direction`, perhaps `update`). It computes in
float32, or in float64 for float64 weights; lower-precision weights are widened for it and rounded once, at the end.

What `direction` needs beyond weights, gradient, state and hyperparameters it names in `needs`, and is given by keyword:

    phase       "first", "due" or "between": the parameter's first step, one divisible by the hyperparameter that
                `period` names, or any other. A Python value, so that work done now and then costs nothing between
    curvature   an estimate of the Hessian's diagonal, in the parameter's shape, or None at steps that have none
    shared      0-d tensors that all parameters of the optimizer share (see `shared.py`); `update` is given them too
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import torch
from torch import Tensor

from algos.finding import InputError
from algos.formulas.stochastic_rounding import stochastic_round
from algos.hyper_tensors import HyperTensors, HyperValues

State = dict[str, Tensor]


class Rule(Protocol):
    """The mathematics of one kind of parameter, tensors in and tensors out."""

    elementwise: ClassVar[bool]
    own_update: ClassVar[bool]  # whether `update` is more than the line above
    needs: ClassVar[tuple[str, ...]]

    init: ClassVar[Callable[..., State]]
    direction: ClassVar[Callable[..., tuple[Tensor, State]]]
    update: ClassVar[Callable[..., tuple[Tensor, State]]]
    reduce: ClassVar[Callable[..., tuple[State, State]]]

    @staticmethod
    def evaluate(param: Tensor, state: State, hyper: HyperValues) -> Tensor: ...

    @classmethod
    def phase(cls, steps: int, group: Mapping[str, Any]) -> str: ...


def working_dtype(dtype: torch.dtype) -> torch.dtype:
    """What the mathematics computes in for weights of a dtype."""
    return torch.float64 if dtype == torch.float64 else torch.float32


def widened(tensor: Tensor) -> Tensor:
    """The tensor itself where it is wide enough to compute in, else a float32 copy."""
    dtype = working_dtype(tensor.dtype)
    return tensor if tensor.dtype == dtype else tensor.to(dtype)


def narrow(weights: Tensor, into: Tensor, *, stochastic: bool) -> None:
    """Round float32 weights into lower-precision ones: to nearest, or at random so that the mean is kept."""
    into.copy_(stochastic_round(weights) if stochastic else weights)


@dataclass(frozen=True)
class Member:
    """A parameter of the optimizer, with what a unit must know of it. states: the optimizer's own, by parameter."""

    param: Tensor
    rule: type[Rule]
    hyper: HyperTensors
    states: MutableMapping[Any, Any]
    population: int | None
    stochastic: bool = False  # how lower-precision weights are rounded

    @property
    def state(self) -> State:
        """Empty before the first step."""
        return self.states[self.param]

    @property
    def stayed(self) -> bool:
        """Whether the parameter is still on the device its hyperparameters are on, and computed with in their dtype."""
        return self.param.device == self.hyper.device and working_dtype(self.param.dtype) == self.hyper.dtype


@dataclass(frozen=True)
class Given:
    """What one step gives all units beyond gradients. curvature: by parameter. shared: see `shared.py`."""

    curvature: Mapping[Tensor, Tensor] | None = None
    shared: State | None = None


class Unit(ABC):
    """A part of a step. params: its parameters, of one group, dtype and device."""

    rule: type[Rule]
    hyper: HyperTensors
    params: list[Tensor]
    grads: list[Any]
    population: int | None
    steps: int  # how many its parameters have taken, where the rule does some work now and then
    given: Given
    _new: State  # from `reduce` or `direction` until `apply`

    @abstractmethod
    def intact(self) -> bool:
        """Whether the parameters are where this unit put them."""

    def gather(self) -> int:
        """Fetch the gradients; how many parameters have one."""
        self._new = {}  # of a step that was not finished
        self.grads = [param.grad for param in self.params]
        return len(self.grads) - sum(grad is None for grad in self.grads)

    @property
    def phase(self) -> str:
        """Of the step that is being taken."""
        return self.rule.phase(self.steps, self.hyper.group)

    @property
    def static(self) -> dict[str, Any]:
        """The keywords of `direction` that are no tensors."""
        return {"phase": self.phase} if "phase" in self.rule.needs else {}

    def curvatures(self) -> list[Tensor] | None:
        """Of each parameter, where this step has them and the rule needs them."""
        if self.given.curvature is None or "curvature" not in self.rule.needs:
            return None
        return [self.given.curvature[param] for param in self.params]

    @abstractmethod
    def reduce(self) -> State:
        """The rule's sums over these parameters, 0-d or (members,). Comes before `direction`."""

    @abstractmethod
    def direction(self) -> Tensor:
        """The direction of this step, in the unit's own shape. Keeps the new state until `apply`."""

    @abstractmethod
    def apply(self, direction: Tensor) -> None:
        """Move the weights, and store the new state."""

    def advance(self) -> None:
        """A whole step."""
        self.apply(self.direction())

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
        self.steps, self.given = steps_taken(member), Given()
        self._new: State = {}

    def intact(self) -> bool:
        return self.member.stayed

    def reduce(self) -> State:
        param, grad, state = self._begun()
        assert self.given.shared is not None
        if self.population is None:
            sums, self._new = self.rule.reduce(param, grad, state, self.hyper.alone, self.given.shared)
            return sums
        each = [
            self.rule.reduce(param[i], grad[i], member_state(state, i), hyper, member_state(self.given.shared, i))
            for i, hyper in enumerate(self.hyper.members)
        ]
        self._new = stacked_states([state for _, state in each])
        return stacked_states([sums for sums, _ in each])

    def direction(self) -> Tensor:
        param, grad, state = self._begun()
        state = self._new or state
        curvatures = self.curvatures()
        curvature = None if curvatures is None else widened(curvatures[0])
        if self.population is None:
            direction, self._new = self.rule.direction(
                param, grad, state, self.hyper.alone, **self._needs(curvature, self.given.shared)
            )
            return direction
        each = [
            self.rule.direction(
                param[i], grad[i], member_state(state, i), hyper,
                **self._needs(None if curvature is None else curvature[i], self._shared(i)),
            )
            for i, hyper in enumerate(self.hyper.members)
        ]  # fmt: skip
        self._new = stacked_states([state for _, state in each])
        return torch.stack([direction for direction, _ in each])

    def _begun(self) -> tuple[Tensor, Tensor, State]:
        param, state = widened(self.params[0]), self.member.state
        if not state:
            check_gradient(self.params[0])
            state.update(beginning(self.rule, param, self.hyper))
        return param, widened(self.grads[0]), state

    def _needs(self, curvature: Tensor | None, shared: State | None) -> dict[str, Any]:
        tensors = {"curvature": curvature, "shared": shared}
        return self.static | {name: tensors[name] for name in self.rule.needs if name in tensors}

    def _shared(self, index: int) -> State | None:
        return None if self.given.shared is None else member_state(self.given.shared, index)

    def apply(self, direction: Tensor) -> None:
        param = self.params[0]
        weights = widened(param)
        members = [(weights, direction, self._new, self.hyper.alone, self.given.shared)]
        if self.population is not None:
            members = [
                (weights[i], direction[i], member_state(self._new, i), hyper, self._shared(i))
                for i, hyper in enumerate(self.hyper.members)
            ]
        decays = self.hyper.decays
        states = [move(self.rule, w, d, state, hyper, shared, decays=decays) for w, d, state, hyper, shared in members]
        self.member.state.update(states[0] if self.population is None else stacked_states(states))
        self._new = {}
        self.steps += 1
        if weights is not param:
            narrow(weights, param, stochastic=self.member.stochastic)

    def split(self, direction: Tensor) -> list[Tensor]:
        return [direction]

    def join(self, directions: Sequence[Tensor]) -> Tensor:
        return directions[0]


def steps_taken(member: Member) -> int:
    """How many steps a parameter has taken, where its rule does some work now and then; reads the device once."""
    if not {"phase", "curvature"}.intersection(member.rule.needs) or not member.state:
        return 0
    return int(member.state["step"].reshape(-1)[0])


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

    def steps(self) -> int:
        """The most that any parameter has taken, where rules do some work now and then."""
        return max((unit.steps for unit in self._units), default=0)

    def ready(self) -> Sequence[Unit]:
        """The units that have a gradient."""
        return [unit for unit in self._units if unit.gather()]


def settle(member: Member) -> None:
    """Bring a parameter's state to where the parameter is, in the dtypes that its rule begins with."""
    if not member.state:
        return
    shape = member.param.shape if member.population is None else member.param.shape[1:]
    examples = example_state(member.rule, shape, member.hyper)
    for name, tensor in member.state.items():
        dtype = examples[name].dtype if name in examples else tensor.dtype
        member.state[name] = tensor.to(member.param.device, dtype)


def check_state(member: Member, owner: str) -> None:
    """Raises InputError where a parameter's state, loaded, cannot be what its rule keeps. owner: the optimizer."""
    state = member.state
    if not state:
        return
    members = () if member.population is None else (member.population,)
    needed = example_state(member.rule, member.param.shape[len(members) :], member.hyper)
    if missing := ", ".join(sorted(needed.keys() - state.keys())):
        raise InputError(f"the loaded state lacks {missing}", f"load a state of {owner}")
    for key, tensor in needed.items():
        if state[key].is_floating_point() != tensor.is_floating_point():
            said = f"the loaded {key} is of {state[key].dtype}, and not of {tensor.dtype}"
            raise InputError(said, f"load a state of {owner} with the same wrappers")
        if state[key].shape != (*members, *tensor.shape):
            said = f"the loaded {key} has the shape {tuple(state[key].shape)}, not {(*members, *tensor.shape)}"
            raise InputError(said, f"load a state of {owner} with the same settings")


def beginning(rule: type[Rule], param: Tensor, hyper: HyperTensors) -> State:
    """The state of a parameter before its first step, in memory of its own."""
    if hyper.population is not None:
        return stacked_states([rule.init(*each) for each in zip(param.detach(), hyper.members, strict=True)])
    return {name: tensor.clone() for name, tensor in rule.init(param.detach(), hyper.alone).items()}


def example_state(rule: type[Rule], shape: Sequence[int], hyper: HyperTensors) -> State:
    """The names and shapes of the state of a parameter (of one member), without their memory."""
    values = hyper.alone if hyper.population is None else hyper.members[0]
    return rule.init(torch.empty(tuple(shape), dtype=hyper.dtype, device="meta"), values)


def member_state(state: State, index: int) -> State:
    return {name: tensor[index] for name, tensor in state.items()}


def stacked_states(states: Sequence[State]) -> State:
    return {name: torch.stack([state[name] for state in states]) for name in states[0]}


def move(
    rule: type[Rule], weights: Tensor, direction: Tensor, state: State, hyper: HyperValues, shared: State | None,
    *, decays: bool,
) -> State:  # fmt: skip
    """Apply a direction to the weights, in place, by the rule's own update where it has one. Returns the state."""
    if rule.own_update:
        needs = {"shared": shared} if "shared" in rule.needs else {}
        moved, state = rule.update(weights, direction, state, hyper, **needs)
        weights.copy_(moved)
    else:
        descend(weights, direction, hyper.lr, hyper.weight_decay if decays else None)
    return state


def descend(weights: Tensor, direction: Tensor, lr: Tensor, weight_decay: Tensor | None) -> None:
    """w <- w - lr*wd*w - lr*direction, in place."""
    if weight_decay is not None:
        weights.mul_(1 - lr * weight_decay)
    weights.addcmul_(direction, lr, value=-1)
