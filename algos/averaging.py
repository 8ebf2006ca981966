"""Weights that stand in for a model's while it is evaluated, kept by name: what averaging wrappers share.

Trained parameters are kept, and so are the floating-point buffers that a checkpoint would hold (BatchNorm's
statistics), which belong to the weights; integer and boolean buffers go with them. What is averaged is in the tensor's
own dtype, or in float32 where that is a half precision.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import ClassVar

import torch
from torch import Tensor, nn

from algos.contracts import Component, Oracle

Named = dict[str, Tensor]


class StandsIn(Component):
    """A component that evaluates at `weights()`; a subclass keeps them in `updated`."""

    replaces_weights: ClassVar[bool] = True
    names: frozenset[str] = frozenset()
    _evaluating = _finished = False

    @abstractmethod
    def weights(self) -> Named:
        """What stands in for the tensors of `names`; empty while nothing does."""
        raise NotImplementedError

    def prepare(self, model: nn.Module) -> None:
        self.names = frozenset(averaged(model))

    def live(self, model: nn.Module) -> Named:
        """The model's tensors of `names`."""
        live: Named = {name: weight for name, weight in model.named_parameters() if name in self.names}
        return live | {name: buffer for name, buffer in model.named_buffers() if name in self.names}

    @contextmanager
    def evaluating(self, oracle: Oracle) -> Iterator[None]:
        """Within it the model holds `weights()`; then its own come back bit for bit, in the same memory."""
        live = self.live(oracle.model)
        trained = {name: tensor.detach().clone() for name, tensor in live.items()}
        self._evaluating, self._finished = True, False
        write(live, self.weights())
        try:
            yield
        finally:
            if not self._finished:
                write(self.live(oracle.model), trained)
            self._evaluating = False

    def finalize(self, model: nn.Module) -> None:
        """What stands in stays in the model: the end of `evaluating` around this brings nothing back.

        Within `evaluating` the model holds it already, perhaps pruned by now, so it is not written again.
        """
        if not self._evaluating:
            write(self.live(model), self.weights())
        self._finished = True


def averaged(model: nn.Module, *, buffers: bool = True) -> Named:
    """The tensors of a model that an average is of: trained parameters, and buffers that a checkpoint would hold."""
    found: Named = {name: weight for name, weight in model.named_parameters() if weight.requires_grad}
    if buffers:
        kept = set(model.state_dict())
        found |= {name: buffer for name, buffer in model.named_buffers() if name in kept}
    return found


@torch.no_grad()
def snapshot(tensors: Mapping[str, Tensor]) -> Named:
    """Copies that can be averaged."""
    return {name: _widened(tensor.detach()).clone() for name, tensor in tensors.items()}


@torch.no_grad()
def move_towards(averages: Named, latest: Mapping[str, Tensor], share: float) -> None:
    """average <- average + share*(latest - average), in place; what is no floating-point number is replaced."""
    moved, targets = [], []
    for name, tensor in latest.items():
        average = averages[name]
        if average.is_floating_point():
            moved.append(average)
            targets.append(tensor.detach().to(average.dtype))
        else:
            average.copy_(tensor)
    torch._foreach_lerp_(moved, targets, share)


@torch.no_grad()
def write(into: Named, values: Mapping[str, Tensor]) -> None:
    """Copy what `values` has of these tensors."""
    for name, tensor in into.items():
        if name in values:
            tensor.copy_(values[name])


def _widened(tensor: Tensor) -> Tensor:
    return tensor.float() if tensor.dtype in (torch.bfloat16, torch.float16) else tensor
