"""Many parameters in one step: stacks, whose kernels do not grow in number with the parameters.

A stack owns the memory of its parameters and of their state: each parameter's data, and each tensor of the optimizer's
state, is a view of it. `Flat` puts elementwise mathematics in one vector; `Shaped` runs other mathematics over all
tensors of one shape with torch.vmap. A population only lengthens them: (members, numbers), (tensors, members, *shape).

A parameter may get its gradient only later, or miss one: a stack of which only some have a gradient is dissolved, and
its parameters are stacked anew (`Stacks`). Parameters may move (model.to): the optimizer sees it by `intact` and begins
again. Whoever keeps an alias of a parameter's memory (`p.data`, a view) loses touch with it when the stack takes it
over, at the first step. Parameters that overlap in memory, are shared between processes or are of a tensor subclass
stay alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.graph import increment_version

from algos.units import (
    Lone,
    Member,
    State,
    Unit,
    beginning,
    check_gradient,
    descend,
    member_state,
    move,
    settle,
    stacked_states,
    widened,
)


class Stack(Unit):
    """Parameters in one block of memory. members: of one group, rule, dtype and device."""

    weights: Tensor

    def __init__(self, members: Sequence[Member]):
        first = members[0]
        self.rule, self.hyper, self.population = first.rule, first.hyper, first.population
        self.members = members
        self.params = [member.param for member in members]
        self.weights = self.put_together([param.detach() for param in self.params])
        self.state = self.loaded() if first.state else self.begun()
        self._new: State = {}
        for param, place in zip(self.params, self.take_apart(self.weights), strict=True):
            param.data = place
        self.addresses = [param.data_ptr() for param in self.params]
        views = {name: self.take_apart(tensor, name) for name, tensor in self.state.items()}
        for i, member in enumerate(members):
            member.states[member.param] = {name: parts[i] for name, parts in views.items()}

    def put_together(self, tensors: Sequence[Tensor]) -> Tensor:
        """Tensors of the parameters' shapes, as one."""
        raise NotImplementedError

    def take_apart(self, tensor: Tensor, name: str = "") -> list[Tensor]:
        """The inverse of `put_together`, as views; also for the state called `name`."""
        raise NotImplementedError

    def begun(self) -> State:
        """The state before the first step."""
        raise NotImplementedError

    def loaded(self) -> State:
        """The members' own states, as one."""
        raise NotImplementedError

    def intact(self) -> bool:
        return [param.data_ptr() for param in self.params] == self.addresses

    def direction(self) -> Tensor:
        grads = widened(self.put_together(self.grads))
        direction, self._new = self.directed(widened(self.weights), grads)
        return direction

    def directed(self, weights: Tensor, grads: Tensor) -> tuple[Tensor, State]:
        raise NotImplementedError

    def apply(self, direction: Tensor) -> None:
        weights = widened(self.weights)
        self.moved(weights, direction)
        for name, tensor in self.state.items():
            if self._new[name] is not tensor:
                tensor.copy_(self._new[name])
        self._new = {}
        if weights is not self.weights:
            self.weights.copy_(weights)
        increment_version(self.params)

    def moved(self, weights: Tensor, direction: Tensor) -> None:
        """Move the weights in place; leave the state in _new."""
        raise NotImplementedError

    def split(self, direction: Tensor) -> list[Tensor]:
        return self.take_apart(direction)

    def join(self, directions: Sequence[Tensor]) -> Tensor:
        return self.put_together(directions)


class Flat(Stack):
    """One vector (or (members, numbers)) for elementwise mathematics. Its parameters have taken the same steps."""

    def put_together(self, tensors: Sequence[Tensor]) -> Tensor:
        if self.population is None:
            return torch.cat([tensor.reshape(-1) for tensor in tensors])
        return torch.cat([tensor.reshape(self.population, -1) for tensor in tensors], dim=1)

    def take_apart(self, tensor: Tensor, name: str = "") -> list[Tensor]:
        if name and tensor.shape != self.weights.shape:
            scalar = tensor if self.population is None else tensor.squeeze(-1)
            return [scalar for _ in self.params]
        lead = 0 if self.population is None else 1
        sizes = [param.numel() // (self.population or 1) for param in self.params]
        return [part.view(param.shape) for part, param in zip(tensor.split(sizes, dim=lead), self.params, strict=True)]

    def begun(self) -> State:
        return {name: self._lengthened(tensor) for name, tensor in self.rule.init(widened(self.weights)).items()}

    def _lengthened(self, tensor: Tensor) -> Tensor:
        if self.population is None or tensor.dim() > 0:
            return tensor.clone()
        return tensor.expand(self.population, 1).clone()

    def loaded(self) -> State:
        state: State = {}
        for name, example in self.rule.init(torch.zeros(2, device=self.weights.device)).items():
            own = [member.state[name] for member in self.members]
            if example.dim():
                state[name] = self.put_together(own)
            else:
                state[name] = own[0].clone() if self.population is None else own[0].unsqueeze(-1).clone()
        return state

    def directed(self, weights: Tensor, grads: Tensor) -> tuple[Tensor, State]:
        return self.rule.direction(weights, grads, self.state, self._values)

    def moved(self, weights: Tensor, direction: Tensor) -> None:
        self._new = move(self.rule, weights, direction, self._new, self._values, decays=self.hyper.decays)

    @property
    def _values(self) -> Any:
        return self.hyper.alone if self.population is None else self.hyper.column


class Shaped(Stack):
    """Tensors of one shape, (tensors, [members,] *shape), for mathematics that looks at a tensor as a whole."""

    def put_together(self, tensors: Sequence[Tensor]) -> Tensor:
        return torch.stack(list(tensors))

    def take_apart(self, tensor: Tensor, name: str = "") -> list[Tensor]:
        return list(tensor.unbind())

    def begun(self) -> State:
        return stacked_states([beginning(self.rule, widened(each), self.population) for each in self.weights])

    def loaded(self) -> State:
        return stacked_states([member.state for member in self.members])

    def directed(self, weights: Tensor, grads: Tensor) -> tuple[Tensor, State]:
        return self._mapped(self.rule.direction)(weights, grads, self.state)

    def moved(self, weights: Tensor, direction: Tensor) -> None:
        if self.rule.own_update:
            moved, self._new = self._mapped(self.rule.update)(weights, direction, self._new)
            weights.copy_(moved)
            return
        lr = self._spread(self.hyper.alone.lr, weights)
        decay = self._spread(self.hyper.alone.weight_decay, weights) if self.hyper.decays else None
        descend(weights, direction, lr, decay)

    def _spread(self, values: Tensor, weights: Tensor) -> Tensor:
        """One value a member, in a shape that broadcasts to the weights."""
        return values if self.population is None else values.view(-1, *[1] * (weights.dim() - 2))

    def _mapped(self, function: Callable[..., tuple[Tensor, State]]) -> Callable[..., tuple[Tensor, State]]:
        """The function of one tensor, over all tensors and members."""
        values = self.hyper.alone
        if self.population is None and len(self.params) == 1:
            return lambda a, b, state: _one_more(function(a[0], b[0], member_state(state, 0), values))
        if self.population is None:
            return torch.vmap(lambda a, b, state: function(a, b, state, values))
        rebuilt, by_member = self.hyper.rebuilt, self.hyper.by_member()
        inner = torch.vmap(lambda a, b, state, hyper: function(a, b, state, rebuilt(hyper)))
        outer = torch.vmap(inner, in_dims=(0, 0, 0, None))
        return lambda a, b, state: outer(a, b, state, by_member)


def _one_more(result: tuple[Tensor, State]) -> tuple[Tensor, State]:
    """A result for one tensor, as a stack of one (torch.vmap costs 20 microseconds a kernel)."""
    tensor, state = result
    return tensor.unsqueeze(0), {name: value.unsqueeze(0) for name, value in state.items()}


class Stacks:
    """All units of an optimizer in stacked form, and the parameters that are in none yet."""

    def __init__(self, members: Iterable[Member]):
        self._loose = list(members)
        for member in self._loose:
            settle(member)
        self._units: list[Unit] = []
        self._together = _overlapping([member.param for member in self._loose])

    def intact(self) -> bool:
        """Whether every parameter is where it was put; if not, stack anew."""
        return all(unit.intact() for unit in self._units) and all(member.stayed for member in self._loose)

    def ready(self) -> Sequence[Unit]:
        """The units that have a gradient; all their parameters then have one."""
        broken = [unit for unit in self._units if unit.gather() not in (0, len(unit.params))]
        if broken:
            self._dissolve(broken)
        if self._loose and any(member.param.grad is not None for member in self._loose):
            self._stack()
        return [unit for unit in self._units if unit.grads[0] is not None]

    def _dissolve(self, broken: Sequence[Unit]) -> None:
        self._units = [unit for unit in self._units if unit not in broken]
        for unit in broken:
            assert isinstance(unit, Stack)
            self._loose.extend(unit.members)

    def _stack(self) -> None:
        ready = [member for member in self._loose if member.param.grad is not None]
        self._loose = [member for member in self._loose if member.param.grad is None]
        found: dict[Any, list[Member]] = {}
        for member in ready:
            found.setdefault(self._key(member), []).append(member)
        for key, members in found.items():
            unit: Unit
            if key[0] is Lone:
                (member,) = members
                unit = Lone(member)
            else:
                unit = key[0](members)
            unit.gather()
            self._units.append(unit)

    def _key(self, member: Member) -> tuple[Any, ...]:
        """What the parameters of one stack have in common."""
        param, rule = member.param, member.rule
        check_gradient(param)
        if id(param) in self._together or not _movable(param):
            return (Lone, id(param))
        common = (id(member.hyper), rule, param.dtype, param.device)
        if not rule.elementwise:
            return (Shaped, *common, param.shape, bool(member.state))
        return (Flat, *common, _history(member))


def _history(member: Member) -> tuple[Any, ...] | None:
    """The state that is one number for the whole parameter (the step, say): equal for all in one vector."""
    if not member.state:
        return None
    example = member.rule.init(torch.zeros(2))
    return tuple(str(member.state[name].tolist()) for name, tensor in example.items() if tensor.dim() == 0)


def _movable(param: Tensor) -> bool:
    """Whether its memory may be taken over: a plain dense tensor that no other process shares."""
    shared = param.device.type == "cpu" and param.is_shared()
    return type(param) in (Tensor, nn.Parameter) and param.layout == torch.strided and not shared


def _overlapping(params: Sequence[Tensor]) -> set[int]:
    """The ids of parameters that share memory with another one (two views of one tensor): they stay where they are."""
    ranges = []
    for param in params:
        if param.layout == torch.strided and param.numel():
            length = 1 + sum((size - 1) * stride for size, stride in zip(param.shape, param.stride(), strict=True))
            start = param.data_ptr()
            ranges.append((str(param.device), start, start + length * param.element_size(), id(param)))
    ranges.sort(key=lambda each: each[:3])
    found: set[int] = set()
    for i, (device, _, end, identity) in enumerate(ranges):
        for other_device, other_start, _, other in ranges[i + 1 :]:
            if other_device != device or other_start >= end:
                break
            found |= {identity, other}
    return found
