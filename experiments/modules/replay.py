"""Replay: a user's own DataLoaders, gone on with in the middle of an epoch with the batches that would have come next.

Lightning goes on with a fresh iterator, which is other data without a word. Here every epoch's random states are kept
from where its iterator was made; on resume they are put back, the epoch is gone through again to where it stood, and
the random states of that moment follow. The first batch after that must be the very one that would have come: its
fingerprint is in the checkpoint. A loader whose order hangs on anything else is found by it, and refused.

Loaders with a `state_dict` of their own (torchdata's StatefulDataLoader) are restored by Lightning and checked alike.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import torch
from lightning.fabric.utilities.data import sized_len
from lightning.pytorch.trainer.connectors.data_connector import _DataLoaderSource
from lightning.pytorch.utilities import CombinedLoader
from torch import Tensor

from algos.finding import InputError
from experiments import checkpoint

#: Asked before each batch is fetched; where a checkpoint is to be written then, what writes it: told the position.
Boundary = Callable[["ReplayedLoader"], Callable[[Mapping[str, Any]], None] | None]


class ReplayedSource(_DataLoaderSource):
    """Where Lightning gets its training loaders from: the user's, replayed."""

    def __init__(self, theirs: _DataLoaderSource, boundary: Boundary, position: Mapping[str, Any] | None):
        super().__init__(theirs.instance, theirs.name)
        self._boundary, self._position = boundary, position

    def dataloader(self) -> Any:
        loaders = super().dataloader()
        position, self._position = self._position, None
        mode = "max_size_cycle"
        if isinstance(loaders, CombinedLoader):
            loaders, mode = loaders.iterables, loaders._mode
        return ReplayedLoader(loaders, mode, self._boundary, position)


class ReplayedLoader(CombinedLoader):
    """The user's loaders, their epoch's beginning remembered. position: where a checkpoint left them, or None.

    Lightning fetches one batch ahead where the length is unknown; then the random states before each fetch are kept.
    """

    def __init__(self, loaders: Any, mode: Any, boundary: Boundary, position: Mapping[str, Any] | None = None):
        super().__init__(loaders, mode)
        self.fetched = 0
        self._boundary, self._resumed = boundary, position
        self._awaited: Mapping[str, Any] | None = None
        self._began: Mapping[str, Any] = {}
        self._first: Mapping[str, Any] = {}
        self._ahead = False
        self._after: Mapping[str, Any] = {}
        self._last: tuple[Mapping[str, Any], Any] | None = None

    @property
    def stateful(self) -> bool:
        """Whether every loader says itself where it stands."""
        return all(hasattr(loader, "state_dict") and hasattr(loader, "load_state_dict") for loader in self.flattened)

    def __iter__(self) -> ReplayedLoader:
        resumed, self._resumed = self._resumed, None
        if resumed is not None:
            self._restore(resumed["began"])
        self._began = resumed["began"] if resumed else self._random_states()
        super().__iter__()
        self._ahead, self.fetched, self._last = sized_len(self) is None, 0, None
        if resumed is not None:
            self._first, self._awaited = resumed["first"], resumed
            if resumed["batches"] and not self.stateful:
                self._restore(resumed["first"])
                for _ in range(resumed["batches"]):
                    self._skip()
            self.fetched = resumed["batches"]
        return self

    def __next__(self) -> Any:
        if self._awaited is not None:
            return self._resumed_batch(self._awaited)
        if self._after:  # the user's hooks for the start of training have run again, and may have drawn
            self._restore(self._after)
            self._after = {}
        write = self._boundary(self)
        now = self._random_states() if write or self._ahead or not self.fetched else {}
        if not self.fetched:
            self._first = now
        last = self._last
        try:
            found = super().__next__()
        except StopIteration:
            if write and last:
                write(self._position(last, now))
            raise
        if write:
            write(self._position(last, now) if last else self._position((now, found[0]), {}))
        self.fetched += 1
        if self._ahead:
            self._last = (now, found[0])
        return found

    def _position(self, upcoming: tuple[Mapping[str, Any], Any], after: Mapping[str, Any]) -> dict[str, Any]:
        """Where the loaders stand between two trained batches. upcoming: the next batch to be trained and the random
        states it is fetched under. after: those of now, where it was fetched before now."""
        states, batch = upcoming
        return {
            "batches": self.fetched - bool(after),
            "began": self._began, "first": self._first, "fetch": states, "after": after, "next": fingerprint(batch),
        }  # fmt: skip

    def _resumed_batch(self, resumed: Mapping[str, Any]) -> Any:
        """The first batch after a resume: it must be the one that would have come."""
        self._awaited = None
        self._restore(resumed["fetch"])
        try:
            found = super().__next__()
        except StopIteration:
            raise _other_data(self.flattened) from None
        if fingerprint(found[0]) != resumed["next"]:
            raise _other_data(self.flattened)
        self.fetched += 1
        if self._ahead:
            self._last = (resumed["fetch"], found[0])
            self._after = resumed["after"] or self._random_states()
        return found

    def _skip(self) -> None:
        try:
            super().__next__()
        except StopIteration:
            raise _other_data(self.flattened) from None

    def _random_states(self) -> dict[str, Any]:
        return {
            "global": checkpoint.random_states(),
            "generators": [generator.get_state() for generator in self._generators()],
        }

    def _restore(self, states: Mapping[str, Any]) -> None:
        checkpoint.restore_random_states(states["global"])
        for generator, state in zip(self._generators(), states["generators"], strict=True):
            generator.set_state(state)

    def _generators(self) -> list[torch.Generator]:
        """The loaders' own generators, each once."""
        found: dict[int, torch.Generator] = {}
        for loader in self.flattened:
            owners = [loader, getattr(loader, "sampler", None), getattr(loader, "batch_sampler", None)]
            owners.append(getattr(owners[2], "sampler", None))
            for owner in owners:
                generator = getattr(owner, "generator", None)
                if isinstance(generator, torch.Generator):
                    found.setdefault(id(generator), generator)
        return list(found.values())


def _other_data(loaders: Iterable[Any]) -> InputError:
    names = ", ".join(type(loader).__name__ for loader in loaders)
    return InputError(
        f"the training data cannot be replayed: gone through again, {names} gives other batches (their order hangs on"
        " more than torch's, numpy's and Python's random states)",
        "start a new run, or give the loader a generator, or state_dict and load_state_dict",
        rule="data-not-replayed",
    )


def fingerprint(batch: Any) -> str:
    """A hash of every tensor, array, number and text in a batch, in order."""
    digest = hashlib.blake2b(digest_size=16)
    for leaf in _leaves(batch, depth=0):
        if isinstance(leaf, Tensor):
            dense = leaf.detach().cpu()
            dense = dense.to_dense() if dense.layout != torch.strided else dense
            digest.update(f"{dense.dtype}{tuple(dense.shape)}".encode())
            digest.update(dense.contiguous().view(-1).view(torch.uint8).numpy().tobytes() if dense.numel() else b"")
        else:
            digest.update(leaf if isinstance(leaf, bytes) else repr(leaf).encode())
    return digest.hexdigest()


def _leaves(value: Any, depth: int) -> Iterator[Any]:
    """The plain parts of a batch, through mappings, lists and objects. What is none of these counts by its type."""
    if isinstance(value, (Tensor, str, bytes, int, float, bool, type(None))):
        yield value
    elif hasattr(value, "tobytes") and hasattr(value, "dtype"):
        yield f"{value.dtype}{value.shape}"
        yield value.tobytes()
    elif isinstance(value, Mapping):
        for key in value:
            yield str(key)
            yield from _leaves(value[key], depth + 1)
    elif isinstance(value, (list, tuple)):
        for part in value:
            yield from _leaves(part, depth + 1)
    elif hasattr(value, "to_dict") and callable(value.to_dict):  # torch-geometric's Data
        yield from _leaves(value.to_dict(), depth + 1)
    elif hasattr(value, "__dict__") and depth < 8:
        yield type(value).__name__
        yield from _leaves(vars(value), depth + 1)
    else:
        yield type(value).__name__
