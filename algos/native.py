"""torch's own version of an optimizer, at work on our groups and our state."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch import Tensor

from algos.units import Member, beginning, check_gradient, settle


class Native:
    """Steps of torch's version.

    theirs: made over the same parameters, group by group. groups, members, state: ours, which it reads and writes.
    told: the hyperparameters it is told before each step. decays: whether it applies the decoupled decay itself.
    """

    def __init__(
        self,
        theirs: torch.optim.Optimizer,
        groups: Sequence[dict[str, Any]],
        members: Sequence[Member],
        state: Any,
        told: Iterable[str],
        *,
        decays: bool,
    ):
        self._theirs, self._decays = theirs, decays
        self._told = sorted(name for name in told if name in theirs.defaults and (decays or name != "weight_decay"))
        self._pairs = list(zip(groups, theirs.param_groups, strict=True))
        self._stateless = [member for member in members if not state.get(member.param)]
        self._layouts = [(member.param, member.param.stride(), member.param.dtype) for member in members]
        for member in members:
            settle(member)
            _lay_out(member)
        theirs.state = state
        # Without hooks and profiling, which our own step has already.
        step: Callable[[Any], Any] = type(theirs).step
        self._step = getattr(step, "__wrapped__", step)

    def intact(self) -> bool:
        """Whether the parameters lie in memory as they did. torch's fused kernels walk it number by number, through
        weights, gradient and state alike."""
        return all(p.stride() == stride and p.dtype == dtype for p, stride, dtype in self._layouts)

    def step(self) -> None:
        for param, stride, _ in self._layouts:
            if param.grad is not None and param.grad.stride() != stride and param.grad.layout == torch.strided:
                param.grad = torch.empty_like(param).copy_(param.grad)
        if self._stateless:
            self._begin()
        for ours, theirs in self._pairs:
            for name in self._told:
                theirs[name] = ours[name]
            if not self._decays and ours["weight_decay"] != 0:
                _shrink(ours["params"], 1 - ours["lr"] * ours["weight_decay"])
        self._step(self._theirs)

    def _begin(self) -> None:
        """State for parameters at their first gradient: torch's SGD cannot begin one while others have begun."""
        for member in self._stateless:
            if member.param.grad is not None:
                check_gradient(member.param)
                member.states[member.param] = beginning(member.rule, member.param, member.hyper)
        self._stateless = [member for member in self._stateless if member.param.grad is None]


def _lay_out(member: Member) -> None:
    """State of the parameter's shape, in its memory format."""
    for name, tensor in member.state.items():
        if tensor.shape == member.param.shape and tensor.stride() != member.param.stride():
            member.state[name] = torch.empty_like(member.param, dtype=tensor.dtype).copy_(tensor)


def dense(tensor: Tensor) -> bool:
    """Whether its numbers fill a piece of memory, in some order of the dimensions.

    >>> dense(torch.ones(3, 2).t()), dense(torch.ones(4, 4)[:, :2]), dense(torch.ones(1).expand(3))
    (True, False, False)
    """
    expected = 1
    for stride, size in sorted((stride, size) for stride, size in zip(tensor.stride(), tensor.shape) if size > 1):
        if stride != expected:
            return False
        expected *= size
    return True


def _shrink(params: Sequence[Tensor], factor: float) -> None:
    having = [param for param in params if param.grad is not None]
    if having:
        torch._foreach_mul_(having, factor)
