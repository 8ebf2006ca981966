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
    Given,
    Lone,
    Member,
    State,
    Unit,
    beginning,
    check_gradient,
    descend,
    example_state,
    member_state,
    move,
    settle,
    stacked_states,
    steps_taken,
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
        self.steps, self.given = steps_taken(first), Given()
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

    def reduce(self) -> State:
        sums, self._new = self.reduced(widened(self.weights), widened(self.put_together(self.grads)))
        return sums

    def direction(self) -> Tensor:
        grads = widened(self.put_together(self.grads))
        given = self.curvatures()
        curvature = None if given is None else widened(self.put_together(given))
        direction, self._new = self.directed(widened(self.weights), grads, self._new or self.state, curvature)
        return direction

    def reduced(self, weights: Tensor, grads: Tensor) -> tuple[State, State]:
        """The sums over all, and the new state."""
        raise NotImplementedError

    def directed(self, weights: Tensor, grads: Tensor, state: State, curvature: Tensor | None) -> tuple[Tensor, State]:
        raise NotImplementedError

    def apply(self, direction: Tensor) -> None:
        weights = widened(self.weights)
        self.moved(weights, direction)
        for name, tensor in self.state.items():
            if self._new[name] is not tensor:
                tensor.copy_(self._new[name])
        self._new = {}
        self.steps += 1
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
        begun = self.rule.init(widened(self.weights), self._values)
        return {name: self._lengthened(tensor) for name, tensor in begun.items()}

    def _lengthened(self, tensor: Tensor) -> Tensor:
        if self.population is None or tensor.dim() > 0:
            return tensor.clone()
        return tensor.expand(self.population, 1).clone()

    def loaded(self) -> State:
        state: State = {}
        for name, example in example_state(self.rule, (2,), self.hyper).items():
            own = [member.state[name] for member in self.members]
            if example.dim():
                state[name] = self.put_together(own)
            else:
                state[name] = own[0].clone() if self.population is None else own[0].unsqueeze(-1).clone()
        return state

    def reduced(self, weights: Tensor, grads: Tensor) -> tuple[State, State]:
        assert self.given.shared is not None
        return self.rule.reduce(weights, grads, self.state, self.hyper.alone, self.given.shared)

    def directed(self, weights: Tensor, grads: Tensor, state: State, curvature: Tensor | None) -> tuple[Tensor, State]:
        tensors = {"curvature": curvature, "shared": self.given.shared}
        needs = {name: tensors[name] for name in self.rule.needs if name in tensors}
        return self.rule.direction(weights, grads, state, self._values, **self.static, **needs)

    def moved(self, weights: Tensor, direction: Tensor) -> None:
        self._new = move(
            self.rule, weights, direction, self._new, self._values, self.given.shared, decays=self.hyper.decays
        )

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
        return stacked_states([beginning(self.rule, widened(each), self.hyper) for each in self.weights])

    def loaded(self) -> State:
        return stacked_states([member.state for member in self.members])

    def reduced(self, weights: Tensor, grads: Tensor) -> tuple[State, State]:
        reduce = self.rule.reduce
        sums, state = self._mapped(lambda a, b, state, _, hyper, shared: reduce(a, b, state, hyper, shared))(
            weights, grads, self.state, None
        )
        return {name: tensor.sum(0) for name, tensor in sums.items()}, state

    def directed(self, weights: Tensor, grads: Tensor, state: State, curvature: Tensor | None) -> tuple[Tensor, State]:
        rule, static = self.rule, self.static

        def one(a: Tensor, b: Tensor, state: State, curvature: Any, hyper: Any, shared: Any) -> tuple[Tensor, State]:
            tensors = {"curvature": curvature, "shared": shared}
            needs = {name: tensors[name] for name in rule.needs if name in tensors}
            return rule.direction(a, b, state, hyper, **static, **needs)

        return self._mapped(one, curvature is not None)(weights, grads, state, curvature)

    def moved(self, weights: Tensor, direction: Tensor) -> None:
        rule = self.rule
        if rule.own_update:

            def one(a: Tensor, b: Tensor, state: State, _: None, hyper: Any, shared: Any) -> tuple[Tensor, State]:
                return rule.update(a, b, state, hyper, **({"shared": shared} if "shared" in rule.needs else {}))

            moved, self._new = self._mapped(one)(weights, direction, self._new, None)
            weights.copy_(moved)
            return
        lr = self._spread(self.hyper.alone.lr, weights)
        decay = self._spread(self.hyper.alone.weight_decay, weights) if self.hyper.decays else None
        descend(weights, direction, lr, decay)

    def _spread(self, values: Tensor, weights: Tensor) -> Tensor:
        """One value a member, in a shape that broadcasts to the weights."""
        return values if self.population is None else values.view(-1, *[1] * (weights.dim() - 2))

    def _mapped(
        self, function: Callable[..., tuple[Any, State]], curved: bool = False
    ) -> Callable[..., tuple[Any, State]]:
        """The function of one tensor, (a, b, state, c, hyper, shared), as one of all tensors and members, (a, b,
        state, c)."""
        values, shared = self.hyper.alone, self.given.shared
        if self.population is None and len(self.params) == 1:
            return lambda a, b, state, c: _one_more(
                function(a[0], b[0], member_state(state, 0), None if c is None else c[0], values, shared)
            )
        dims: Any = (0, 0, 0, 0 if curved else None)
        if self.population is None:
            return torch.vmap(lambda a, b, state, c: function(a, b, state, c, values, shared), in_dims=dims)
        rebuilt, by_member = self.hyper.rebuilt, self.hyper.by_member()
        inner = torch.vmap(
            lambda a, b, state, c, hyper, shared: function(a, b, state, c, rebuilt(hyper), shared),
            in_dims=(*dims, 0, None if shared is None else 0),
        )
        outer = torch.vmap(inner, in_dims=(*dims, None, None))
        return lambda a, b, state, c: outer(a, b, state, c, by_member, shared)


def _one_more(result: tuple[Any, State]) -> tuple[Any, State]:
    """A result for one tensor, as a stack of one (torch.vmap costs 20 microseconds a kernel)."""
    first, state = result
    if isinstance(first, Tensor):
        return first.unsqueeze(0), _longer(state)
    return _longer(first), _longer(state)


def _longer(state: State) -> State:
    return {name: value.unsqueeze(0) for name, value in state.items()}


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

    def steps(self) -> int:
        """The most that any parameter has taken, where rules do some work now and then."""
        return max([unit.steps for unit in self._units] + [steps_taken(member) for member in self._loose], default=0)

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
        across_members = "shared" in rule.needs and member.population is not None
        if not rule.elementwise or across_members:
            return (Shaped, *common, param.shape, bool(member.state), steps_taken(member))
        return (Flat, *common, _history(member))


def _history(member: Member) -> tuple[Any, ...] | None:
    """The state that is one number for the whole parameter (the step, say): equal for all in one vector."""
    if not member.state:
        return None
    example = example_state(member.rule, (2,), member.hyper)
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
