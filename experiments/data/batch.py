"""Batch: what one update sees, and how it splits into micro-batches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor


class Batch(NamedTuple):
    """One batch. The model is called as model(*inputs); the loss compares its predictions with targets.

    inputs: tensors; for images ((B, C, H, W),), for text ((B, T) token ids,), for a graph ((N, F), (2, E)) node
    features and edge index. targets: (B,), (B, T), or (M,). where: None, or (M,) the rows of the predictions that are
    scored (the nodes with labels of a full-batch graph).
    """

    inputs: tuple[Tensor, ...]
    targets: Tensor
    where: Tensor | None = None

    @property
    def examples(self) -> int:
        """Examples in the task's unit: images, tokens or labelled nodes, that is, targets."""
        return self.targets.numel()

    def split(self, parts: int) -> Iterator[Batch]:
        """At most `parts` micro-batches, together the batch; the last may be smaller. A graph stays whole, its labelled
        nodes are split."""
        if parts == 1:
            yield self
        elif self.where is not None:
            for where, targets in zip(self.where.chunk(parts), self.targets.chunk(parts), strict=True):
                yield Batch(self.inputs, targets, where)
        else:
            chunks = [tensor.chunk(parts) for tensor in self.inputs]
            for index, targets in enumerate(self.targets.chunk(parts)):
                yield Batch(tuple(chunk[index] for chunk in chunks), targets)

    def to(self, device: torch.device | str) -> Batch:
        move = [tensor.to(device, non_blocking=True) for tensor in self.inputs]
        return Batch(tuple(move), self.targets.to(device), None if self.where is None else self.where.to(device))
