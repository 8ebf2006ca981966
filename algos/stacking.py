"""Which parameters of an optimizer stand in which stack, as gradients come and go.

A parameter may get its gradient only later, or miss one: a stack of which only some have a gradient is dissolved, and
its parameters are stacked anew. Parameters may move (model.to): the optimizer sees it by `intact` and begins again.
Whoever keeps an alias of a parameter's memory (`p.data`, a view) loses touch with it when the stack takes it over, at
the first step; and torch.save of a part of the model then writes the whole stack (save clones). Parameters that are not
contiguous (channels_last keeps its format), overlap in memory, are shared between processes or are of a tensor subclass
stay alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from algos.stacked import Flat, Shaped, Stack
from algos.units import Lone, Member, Unit, check_gradient, example_state, settle, steps_taken

#: Where the step is compiled, larger parameters are a vector each: gathering their gradients would cost a pass.
APART_NUMEL = 1 << 14


class Stacks:
    """All units of an optimizer in stacked form, and the parameters that are in none yet."""

    def __init__(self, members: Iterable[Member], *, compiles: bool = False):
        self._loose = list(members)
        self._compiles = compiles
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
                stack: Stack = key[0](members)
                stack.compiles = self._compiles
                unit = stack
            unit.gather()
            self._units.append(unit)

    def _key(self, member: Member) -> tuple[Any, ...]:
        """What the parameters of one stack have in common."""
        param, rule = member.param, member.rule
        check_gradient(param)
        if id(param) in self._together or not _movable(param):
            return (Lone, id(param))
        common = (id(member.hyper), rule, param.dtype, param.device, member.stochastic)
        across_members = "shared" in rule.needs and member.population is not None
        if not rule.elementwise or across_members:
            return (Shaped, *common, param.shape, bool(member.state), steps_taken(member))
        apart = self._compiles and param.numel() > APART_NUMEL
        return (Flat, *common, _history(member), id(param) if apart else None)


def _history(member: Member) -> tuple[Any, ...] | None:
    """The state that is one number for the whole parameter (the step, say): equal for all in one vector."""
    if not member.state:
        return None
    example = example_state(member.rule, (2,), member.hyper)
    return tuple(str(member.state[name].tolist()) for name, tensor in example.items() if tensor.dim() == 0)


def _movable(param: Tensor) -> bool:
    """Whether its memory may be taken over: a plain contiguous tensor (another memory format stays) that no other
    process shares."""
    shared = param.device.type == "cpu" and param.is_shared()
    plain = type(param) in (Tensor, nn.Parameter) and param.layout == torch.strided
    return plain and param.is_contiguous() and not shared


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
