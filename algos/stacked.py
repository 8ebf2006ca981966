"""Many parameters in one step: stacks, whose kernels do not grow in number with the parameters.

A stack owns the memory of its parameters and of their state: each parameter's data, and each tensor of the optimizer's
state, is a view of it. `Flat` puts elementwise mathematics in one vector; `Shaped` runs other mathematics over all
tensors of one shape with torch.vmap. A population only lengthens them: (members, numbers), (tensors, members, *shape).

A stack's step can be compiled (`compiled.py`). Which parameters stand in which stack: see `stacking.py`.
"""

from __future__ import annotations

import copy
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

import torch
from torch import Tensor
from torch.autograd.graph import increment_version
from torch.utils._pytree import tree_map

from algos import compiled
from algos.units import (
    Given,
    Member,
    State,
    Unit,
    beginning,
    descend,
    example_state,
    member_state,
    move,
    narrow,
    stacked_states,
    steps_taken,
    widened,
)

#: The length of the vectors that elementwise mathematics is traced and checked with: some full registers and a rest.
EXAMPLE = 67


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
        self.compiles, self.stochastic = False, first.stochastic
        self._programs: dict[Any, compiled.Program | None] = {}
        self._named: tuple[list[str], list[str]] | None = None
        self._new: State = {}
        for param, place in zip(self.params, self.take_apart(self.weights), strict=True):
            param.data = place
        self.places = [_place(param) for param in self.params]
        views = {name: self.take_apart(tensor, name) for name, tensor in self.state.items()}
        for i, member in enumerate(members):
            member.states[member.param] = {name: parts[i] for name, parts in views.items()}
        self.views = [list(member.state.values()) for member in members]

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
        placed = all(_place(param) == place for param, place in zip(self.params, self.places, strict=True))
        return placed and all(
            len(views) == len(member.state) and all(map(operator.is_, views, member.state.values()))
            for member, views in zip(self.members, self.views, strict=True)
        )

    def reduce(self) -> State:
        program = self._program("reduce", self._reduction) if self.compiles else None
        if program is None:
            sums, self._new = self.reduced(widened(self.weights), widened(self.put_together(self.grads)))
            return sums
        if self._named is None:
            self._named = self._names_of_reduction()
        summed, changed = self._named
        found = compiled.run(program, _leaves(self._tensors()), self.rule)
        if found is None:
            self.compiles = False
            return self.reduce()
        self._new = self.state | dict(zip(changed, found[len(summed) :], strict=True))
        return dict(zip(summed, found, strict=False))

    def _reduction(self, tensors: dict[str, Any]) -> list[Tensor]:
        """The sums over other tensors, and what changes of their state; nothing is changed in place."""
        unit = self._standing_for(tensors)
        sums, new = unit.reduced(widened(unit.weights), widened(tensors["grads"]))
        return [*sums.values(), *(tensor for name, tensor in new.items() if tensor is not unit.state[name])]

    def _names_of_reduction(self) -> tuple[list[str], list[str]]:
        """Of what `_reduction` returns: the sums, the changed state."""
        unit = self._standing_for(tree_map(self.shortened, self._tensors()))
        sums, new = unit.reduced(widened(unit.weights), torch.zeros_like(widened(unit.weights)))
        return list(sums), [name for name, tensor in new.items() if tensor is not unit.state[name]]

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
        if weights is not self.weights:
            narrow(weights, self.weights, stochastic=self.stochastic)
        self._stepped()

    def _stepped(self) -> None:
        self._new = {}
        self.steps += 1
        increment_version(self.params)

    # The whole step, compiled

    def advance(self) -> None:
        program = self._program("step", self._step) if self.compiles else None
        if program is None:
            self.apply(self.direction())
            return
        numbers = compiled.run(program, _leaves(self._tensors()), self.rule)
        if numbers is None:  # it could not be compiled anew
            self.compiles = False
            self.apply(self.direction())
            return
        if numbers:
            torch._foreach_copy_([tensor for tensor in self.state.values() if self._is_number(tensor)], list(numbers))
        self._stepped()

    def _is_number(self, tensor: Tensor) -> bool:
        """Whether a state is one number a parameter. inductor (torch 2.13) loses writes to some of these on a CPU, so
        a compiled step returns them."""
        return tensor.numel() <= len(self.params) * (self.population or 1) and tensor.shape != self.weights.shape

    def _tensors(self) -> dict[str, Any]:
        """Everything a step depends on that is a tensor."""
        given = self.curvatures()
        return {
            "weights": self.weights, "grads": self.put_together(self.grads), "state": self.state,
            "new": {name: tensor for name, tensor in self._new.items() if tensor is not self.state[name]},
            "curvature": {} if given is None else {"": self.put_together(given)}, "hyper": self.hyper.by_member(),
            "shared": self.given.shared or {},
        }  # fmt: skip

    def _step(self, tensors: dict[str, Any]) -> list[Tensor]:
        """A step of other tensors, in place but for the states that are one number: those are returned."""
        unit = self._standing_for(tensors)
        curvature = widened(tensors["curvature"][""]) if tensors["curvature"] else None
        direction, unit._new = unit.directed(
            widened(unit.weights), widened(tensors["grads"]), unit.state | unit._new, curvature
        )
        weights = widened(unit.weights)
        unit.moved(weights, direction)
        numbers = []
        for name, tensor in unit.state.items():
            if self._is_number(self.state[name]):
                numbers.append(unit._new[name].to(tensor.dtype).expand_as(tensor))
            elif unit._new[name] is not tensor:
                tensor.copy_(unit._new[name])
        if weights is not unit.weights:
            narrow(weights, unit.weights, stochastic=self.stochastic)
        return numbers

    def _standing_for(self, tensors: dict[str, Any]) -> Self:
        """The same unit, of other tensors."""
        unit = copy.copy(self)
        unit.weights, unit.state, unit._new = tensors["weights"], tensors["state"], tensors["new"]
        unit.hyper, unit.given = self.hyper.standing_for(tensors["hyper"]), Given(shared=tensors["shared"])
        return unit

    def _program(self, what: str, step: compiled.Step) -> compiled.Program | None:
        """The compiled `step` of this unit's tensors, called `what`; None where there is none, or nothing in it."""
        if not self.weights.numel() or self.static.get("phase", "between") != "between":
            return None  # what a rule does now and then are decompositions, which a compiler leaves as they are
        curved = self.given.curvature is not None
        situation = (what, self.hyper.structure, *self.static.values(), curved, bool(self._new))
        if situation not in self._programs:
            tensors = self._tensors()
            kinds = tuple((leaf.dtype, leaf.device.type) for leaf in _leaves(tensors))
            key = (self.rule, type(self), self.population, self.stochastic, *situation, kinds, *self.shapes())
            any_length = isinstance(self, Flat)
            example = tree_map(self.shortened, tensors) if any_length else tensors
            self._programs[situation] = compiled.program(key, step, example, any_length=any_length)
        return self._programs[situation]

    def shapes(self) -> tuple[Any, ...]:
        """What the traced mathematics takes for granted of them."""
        return ()

    def shortened(self, tensor: Tensor) -> Tensor:
        """A small example of a tensor."""
        return tensor

    def moved(self, weights: Tensor, direction: Tensor) -> None:
        """Move the weights in place; leave the state in _new."""
        raise NotImplementedError

    def split(self, direction: Tensor) -> list[Tensor]:
        return self.take_apart(direction)

    def join(self, directions: Sequence[Tensor]) -> Tensor:
        return self.put_together(directions)


class Flat(Stack):
    """One vector (or (members, numbers)) for elementwise mathematics. Its parameters have taken the same steps."""

    def shortened(self, tensor: Tensor) -> Tensor:
        if tensor.shape != self.weights.shape:
            return tensor
        values = torch.rand((*tensor.shape[:-1], EXAMPLE), generator=torch.Generator().manual_seed(1))
        return values.to(tensor).add_(0.1)

    def put_together(self, tensors: Sequence[Tensor]) -> Tensor:
        if len(tensors) == 1:
            flat = tensors[0].reshape(-1) if self.population is None else tensors[0].reshape(self.population, -1)
            return flat.contiguous()
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

    def shapes(self) -> tuple[Any, ...]:
        return (self.weights.shape,)

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


def _place(param: Tensor) -> tuple[Any, ...]:
    """Where a parameter's numbers are, and how they lie there."""
    return param.data_ptr(), param.stride(), param.dtype


def _leaves(tensors: Mapping[str, Any]) -> list[Tensor]:
    """As torch's pytree has them, in a fraction of its time."""
    found: list[Tensor] = []
    for part in tensors.values():
        for each in part.values() if isinstance(part, dict) else (part,):
            found.extend(each) if isinstance(each, tuple) else found.append(each)
    return found


def _one_more(result: tuple[Any, State]) -> tuple[Any, State]:
    """A result for one tensor, as a stack of one (torch.vmap costs 20 microseconds a kernel)."""
    first, state = result
    if isinstance(first, Tensor):
        return first.unsqueeze(0), _longer(state)
    return _longer(first), _longer(state)


def _longer(state: State) -> State:
    return {name: value.unsqueeze(0) for name, value in state.items()}
