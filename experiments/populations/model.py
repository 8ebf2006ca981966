"""StackedModel: models of one architecture as one, every tensor with the members along its first dimension.

It is a copy of the first model whose parameters and buffers were replaced by the stacks: names, ties and modules are
the model's own. torch.vmap runs its forward pass once for all members; one ordinary backward pass then serves all.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.attention import SDPBackend, sdpa_kernel

from experiments.data.batch import Batch
from experiments.data.together import Stacked

#: Of one member and batch: predictions, targets -> tensors.
Told = Callable[[Tensor, Tensor], Any]


class StackedModel:
    """models: at least two, of one architecture."""

    def __init__(self, models: Sequence[nn.Module]):
        self.size = len(models)
        self.module = copy.deepcopy(models[0])
        with torch.no_grad():
            for tensors in (self._tensors(self.module), *map(self._tensors, models)):
                assert tensors.keys() == self._tensors(models[0]).keys(), "members of one population have one model"
            each = [self._tensors(model) for model in models]
            for name, tensor in self._tensors(self.module).items():
                tensor.data = torch.stack([own[name].detach() for own in each])

    @property
    def tensors(self) -> dict[str, Tensor]:
        """Parameters and buffers."""
        return self._tensors(self.module)

    def told(self, batch: Stacked, tell: Told, tensors: Mapping[str, Tensor] | None = None) -> Any:
        """What `tell` says of each member's predictions on its own batch, each tensor with the members first. tensors:
        in the places of the model's own."""
        inputs = None if batch.shared else 0

        def one(tensors: dict[str, Tensor], inputs: Any, targets: Tensor, where: Tensor | None) -> Any:
            predictions = functional_call(self.module, tensors, inputs)
            return tell(predictions if where is None else predictions[where], targets)

        mapped = torch.vmap(one, in_dims=(0, inputs, 0, None if batch.where is None else 0))
        with sdpa_kernel(SDPBackend.MATH):  # torch.vmap takes the fused kernel member by member
            return mapped(dict(tensors or self.tensors), batch.inputs, batch.targets, batch.where)

    def told_of(self, batch: Batch, tell: Told, members: slice) -> Any:
        """What `tell` says of the predictions of some members, all on the same batch."""
        tensors = {name: tensor[members] for name, tensor in self._tensors(self.module).items()}

        def one(tensors: dict[str, Tensor]) -> Any:
            predictions = functional_call(self.module, tensors, batch.inputs)
            return tell(predictions if batch.where is None else predictions[batch.where], batch.targets)

        with sdpa_kernel(SDPBackend.MATH):
            return torch.vmap(one)(tensors)

    def finite(self) -> list[bool]:
        """Of each member, whether all its weights are finite."""
        sums = [param.detach().reshape(self.size, -1).abs().amax(1) for param in self.module.parameters()]
        return [bool(each) for each in torch.stack(sums).isfinite().all(0).tolist()]

    def weights(self, index: int) -> dict[str, Tensor]:
        """A member's state_dict, copied."""
        return {name: tensor[index].detach().clone() for name, tensor in self.module.state_dict().items()}

    @staticmethod
    def _tensors(module: nn.Module) -> dict[str, Tensor]:
        return dict(module.named_parameters()) | dict(module.named_buffers())
