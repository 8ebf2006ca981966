"""Together: the batches of a population's members in one, stacked along a first dimension."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from experiments.data.batch import Batch


class Stacked(NamedTuple):
    """A batch a member. inputs: each (members, B, ...), or, where `shared`, one for all (a graph). targets: (members,
    B, ...). where: (members, M) or None, as in `Batch`."""

    inputs: tuple[Tensor, ...]
    targets: Tensor
    where: Tensor | None = None
    shared: bool = False

    @property
    def examples(self) -> int:
        """Examples of one member, in the task's unit."""
        return self.targets[0].numel()


def stacked(batches: Sequence[Batch]) -> Stacked:
    """Batches of one shape, in one. What is the same tensor in all of them is not copied.

    >>> each = [Batch((torch.zeros(2, 3),), torch.tensor([0, label])) for label in (0, 1)]
    >>> stacked(each).inputs[0].shape, stacked(each).targets.tolist()
    (torch.Size([2, 2, 3]), [[0, 0], [0, 1]])
    """
    first = batches[0]
    shared = first.where is not None and all(
        one is other for batch in batches for one, other in zip(batch.inputs, first.inputs, strict=True)
    )
    inputs = first.inputs if shared else tuple(torch.stack(parts) for parts in zip(*(b.inputs for b in batches)))
    where = None if first.where is None else torch.stack([b.where for b in batches if b.where is not None])
    return Stacked(inputs, torch.stack([batch.targets for batch in batches]), where, shared)
