"""Shuffled: the endless, stateful source of training batches.

The order of epoch e comes from a generator of its own, seeded by (seed, e) alone: no global randomness is touched, and
where a source stands is two whole numbers, epoch and position. A batch costs an index_select; so do a population's,
together.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor

from algos.finding import InputError
from experiments.data.batch import Batch
from experiments.data.together import Stacked, stacked

#: Rows (B,) on the device -> their batch. One that has `together(takes, rows)` gathers a population's in one go:
#: each member's take, and rows (members, B), -> Stacked.
Take = Callable[[Tensor], Batch]


class Shuffled:
    """A BatchSource over `count` examples: each once an epoch, the last batch of an epoch as small as it comes.

    open_epoch: called at an epoch's start with its generator, from which it may draw; returns how rows become a batch.
    """

    def __init__(
        self,
        count: int,
        batch_size: int,
        seed: int,
        device: torch.device,
        open_epoch: Callable[[torch.Generator], Take],
    ):
        if not 1 <= batch_size <= count:
            raise InputError(
                f"batch_size={batch_size} does not fit the {count} training examples",
                f"give a whole number from 1 to {count}", rule="out-of-range", place="batch_size",
            )  # fmt: skip
        self._count, self._batch_size, self._seed, self._device = count, batch_size, seed, device
        self._open_epoch = open_epoch
        self._epoch = self._position = 0
        self._order: Tensor | None = None
        self._take: Take | None = None

    def __len__(self) -> int:
        return math.ceil(self._count / self._batch_size)

    def next(self) -> Batch:
        if self._order is None or self._take is None:
            self._take, self._order = self.opened(self._epoch)
        batch = self._take(self._order[self._position : self._position + self._batch_size])
        self._position += self._batch_size
        if self._position >= self._count:
            self._epoch, self._position, self._order = self._epoch + 1, 0, None
        return batch

    def opened(self, epoch: int) -> tuple[Take, Tensor]:
        """How rows become a batch in an epoch, and the order of its rows, (count,)."""
        generator = torch.Generator().manual_seed(epoch_seed(self._seed, epoch))
        take = self._open_epoch(generator)
        return take, torch.randperm(self._count, generator=generator).to(self._device)

    @property
    def stride(self) -> tuple[int, int]:
        """Examples an epoch, examples a batch."""
        return self._count, self._batch_size

    def state_dict(self) -> dict[str, int]:
        """epoch: which is being read. position: examples of it consumed."""
        return {"epoch": self._epoch, "position": self._position}

    def load_state_dict(self, state: Mapping[str, int]) -> None:
        epoch, position = state["epoch"], state["position"]
        assert epoch >= 0, f"not a state of a source: {state}"
        assert position in range(0, self._count, self._batch_size), f"not a state of this source: {state}"
        self._epoch, self._position, self._order = epoch, position, None


class ShuffledTogether:
    """Several sources that stand at one place, read as one: every member gets the batches of its own."""

    def __init__(self, sources: Sequence[Shuffled]):
        self._sources = sources
        places = [source.state_dict() for source in sources]
        assert all(place == places[0] for place in places), f"the members' sources stand apart: {places}"
        self._epoch, self._position = places[0]["epoch"], places[0]["position"]
        self._count, self._batch_size = sources[0].stride
        self._orders: Tensor | None = None
        self._takes: list[Take] = []

    def next(self) -> Stacked:
        if self._orders is None:
            opened = [source.opened(self._epoch) for source in self._sources]
            self._takes, self._orders = [take for take, _ in opened], torch.stack([order for _, order in opened])
        rows = self._orders[:, self._position : self._position + self._batch_size]
        together = getattr(self._takes[0], "together", None)
        batch: Stacked = (
            stacked([take(own) for take, own in zip(self._takes, rows, strict=True)])
            if together is None
            else together(self._takes, rows)
        )
        self._position += self._batch_size
        if self._position >= self._count:
            self._epoch, self._position, self._orders = self._epoch + 1, 0, None
        return batch

    def settle(self, index: int) -> None:
        """Put a member's own source where the population stands."""
        self._sources[index].load_state_dict({"epoch": self._epoch, "position": self._position})


def epoch_seed(seed: int, epoch: int) -> int:
    """A 32-bit seed for (seed, epoch); torch's CPU generator reads no more than 32 bits of a seed."""
    return int.from_bytes(hashlib.sha256(f"order {seed} {epoch}".encode()).digest()[:4], "big")
