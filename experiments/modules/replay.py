"""Replay: a user's own DataLoaders, gone on with in the middle of an epoch with the batches that would have come next.

Lightning goes on with a fresh iterator, which is other data without a word. Here every epoch's random states are kept
from where its iterator was made; on resume they are put back and the epoch is gone through again to where it stood.
Where fetching itself draws (augmentation in this process), the states before each fetch are kept too. What is gone
through must be what was trained on: a fingerprint runs along, and the next batch has one of its own, all of it. A
loader whose order hangs on anything else is found by it, and refused.

Loaders with a `state_dict` of their own (torchdata's StatefulDataLoader) are restored by Lightning; of them the next
batch is checked.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import lightning.pytorch as pl
import numpy
import torch
from lightning.fabric.utilities.data import _set_sampler_epoch, sized_len
from lightning.pytorch.trainer.connectors.data_connector import _DataLoaderSource
from lightning.pytorch.utilities import CombinedLoader
from torch import Tensor

from algos.finding import InputError
from experiments import checkpoint
from experiments.modules.state import random_generators

#: Asked before each batch is fetched; where a checkpoint is to be written then, what writes it: told the position.
Boundary = Callable[["ReplayedLoader"], Callable[[Mapping[str, Any]], None] | None]
States = Mapping[str, Any]
#: Fetches of an epoch that are watched for drawing random numbers; the first always does, for the order.
_WATCHED = (1, 2)
#: Numbers of a tensor that the fingerprint that runs along looks at.
_SAMPLED = 64


class ReplayedSource(_DataLoaderSource):
    """Where Lightning gets its training loaders from: the user's, replayed."""

    def __init__(self, theirs: _DataLoaderSource, boundary: Boundary, position: States | None):
        super().__init__(theirs.instance, theirs.name)
        self._boundary, self._position = boundary, position

    def dataloader(self) -> Any:
        loaders = super().dataloader()
        position, self._position = self._position, None
        mode = "max_size_cycle"
        if isinstance(loaders, CombinedLoader):
            loaders, mode = loaders.iterables, loaders._mode
        return ReplayedLoader(loaders, mode, self._boundary, position)


class RemadeSource(_DataLoaderSource):
    """Where Lightning gets its validation loaders from: the user's, made under the same random states when a run goes
    on (they may split or shuffle at random). made: the states of the last time."""

    def __init__(self, theirs: _DataLoaderSource, made: States | None):
        super().__init__(theirs.instance, theirs.name)
        self.made, self._again = made, made is not None

    def dataloader(self) -> Any:
        if not self._again:
            self.made = checkpoint.random_states()
            return super().dataloader()
        assert self.made is not None
        self._again = False
        with checkpoint.preserved_random():
            checkpoint.restore_random_states(dict(self.made))
            return super().dataloader()


class ReplayedLoader(CombinedLoader):
    """The user's loaders, their epoch's beginning remembered. position: where a checkpoint left them, or None.

    Lightning fetches one batch ahead where the length is unknown; then the random states before each fetch are kept.
    """

    def __init__(self, loaders: Any, mode: Any, boundary: Boundary, position: States | None = None):
        super().__init__(loaders, mode)
        self.fetched = self.iterations = 0
        self._boundary, self._resumed = boundary, position
        self._awaited: States | None = None
        self._settled: States = {}  # after the run's very first iterator was made: what the user's hooks then find
        self._began: States = {}
        self._first: States = {}
        self._before: list[States] = []  # of the fetches after the first, where they draw
        self._chain = ""
        self._draws: tuple[str, ...] = ()
        self._ahead = False
        self._after: States = {}
        self._last: tuple[States, Any] | None = None

    @property
    def stateful(self) -> bool:
        """Whether every loader says itself where it stands."""
        return all(hasattr(loader, "state_dict") and hasattr(loader, "load_state_dict") for loader in self.flattened)

    def __iter__(self) -> ReplayedLoader:
        if self._resumed is not None:
            return self._iterate_again()
        self.iterations += 1
        self._began = self._random_states()
        super().__iter__()
        self._begin()
        if not self._settled:
            self._settled = self._random_states()
        return self

    def _begin(self) -> None:
        self._ahead, self.fetched, self._last = sized_len(self) is None, 0, None
        self._first, self._before, self._chain, self._draws = {}, [], "", ()

    def _iterate_again(self) -> ReplayedLoader:
        """The iterator of the epoch that was interrupted, gone through to where it stood."""
        resumed, self._resumed = self._resumed, None
        assert resumed is not None
        for loader in self.flattened:
            _set_sampler_epoch(loader, resumed["epoch"])
            if resumed["iterations"] > 1:
                start_persistent_workers(loader)
        self._restore(resumed["began"])
        super().__iter__()
        self._begin()
        self.iterations, self._settled, self._began = resumed["iterations"], resumed["settled"], resumed["began"]
        if self.stateful:
            self._chain = resumed["chain"]
        else:
            self._skip(resumed)
        self.fetched, self._first, self._before = resumed["batches"], resumed["first"], list(resumed["before"])
        self._draws, self._awaited = tuple(resumed["draws"]), resumed
        self._restore(self._settled)
        return self

    def _skip(self, resumed: States) -> None:
        for index in range(resumed["batches"]):
            if index == 0:
                self._restore(resumed["first"])
            elif index <= len(resumed["before"]):
                _set_states(resumed["before"][index - 1])
            try:
                self._follow(super().__next__()[0])
            except StopIteration:
                raise _other_data(self.flattened) from None
        if self._chain != resumed["chain"]:
            raise _other_data(self.flattened)

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
            found = self._fetched()
        except StopIteration:
            if write and last:
                write(self._position(last, now))
            raise
        if write:
            write(self._position(last, now) if last else self._position((now, found[0]), {}))
        if last:
            self._follow(last[1])
        if self._ahead:
            self._last = (now, found[0])
        else:
            self._follow(found[0])
        self.fetched += 1
        return found

    def _fetched(self) -> Any:
        """The next batch; what fetching draws from is watched, and then kept."""
        watched = self.fetched in _WATCHED
        kinds = _KINDS if watched else self._draws
        if not kinds:
            return super().__next__()
        before = _states(kinds)
        found = super().__next__()
        if watched:
            drawn = tuple(kind for kind in _KINDS if not _same(before[kind], _states((kind,))[kind]))
            self._draws = tuple(dict.fromkeys((*self._draws, *drawn)))
        self._before.append(before)
        return found

    def _position(self, upcoming: tuple[States, Any], after: States) -> dict[str, Any]:
        """Where the loaders stand between two trained batches. upcoming: the next batch to be trained and the random
        states it is fetched under. after: those of now, where it was fetched before now."""
        states, batch = upcoming
        batches = self.fetched - bool(after)
        return {
            "batches": batches, "iterations": self.iterations, "settled": self._settled, "began": self._began,
            "first": self._first, "before": self._before[: max(0, batches - 1)], "draws": list(self._draws),
            "chain": self._chain, "fetch": states, "after": after, "next": fingerprint(batch),
        }  # fmt: skip

    def _resumed_batch(self, resumed: States) -> Any:
        """The first batch after a resume: it must be the one that would have come."""
        self._awaited = None
        self._restore(resumed["fetch"])
        try:
            found = self._fetched()
        except StopIteration:
            raise _other_data(self.flattened) from None
        if fingerprint(found[0]) != resumed["next"]:
            raise _other_data(self.flattened)
        if self._ahead:
            self._last = (resumed["fetch"], found[0])
            self._after = resumed["after"] or self._random_states()
        else:
            self._follow(found[0])
        self.fetched += 1
        return found

    def _follow(self, batch: Any) -> None:
        self._chain = hashlib.blake2b((self._chain + _sample(batch)).encode(), digest_size=16).hexdigest()

    def _random_states(self) -> dict[str, Any]:
        generators = random_generators(self.flattened)
        return {"global": checkpoint.random_states(), "generators": [each.get_state() for each in generators]}

    def _restore(self, states: States) -> None:
        checkpoint.restore_random_states(states["global"])
        for generator, state in zip(random_generators(self.flattened), states["generators"], strict=True):
            generator.set_state(state)


def start_persistent_workers(loader: Any) -> None:
    """A loader whose workers stay makes them once, and draws then: not again where a run goes on."""
    if getattr(loader, "persistent_workers", False) and getattr(loader, "_iterator", None) is None:
        with checkpoint.preserved_random():
            iter(loader)


def _validation_loaders(trainer: pl.Trainer) -> list[Any]:
    combined = trainer.fit_loop.epoch_loop.val_loop._combined_loader
    return [] if combined is None else combined.flattened


def validation_states(trainer: pl.Trainer) -> dict[str, Any]:
    """The generators of the validation loaders, and which of them have workers that stay."""
    loaders = _validation_loaders(trainer)
    return {
        "generators": [generator.get_state() for generator in random_generators(loaders)],
        "started": [getattr(loader, "_iterator", None) is not None for loader in loaders],
    }


def give_validation_states(trainer: pl.Trainer, states: Mapping[str, Any]) -> None:
    loaders = _validation_loaders(trainer)
    for loader, started in zip(loaders, states["started"], strict=False):
        if started:
            start_persistent_workers(loader)
    for generator, state in zip(random_generators(loaders), states["generators"], strict=False):
        generator.set_state(state)


def drawing_workers(trainer: pl.Trainer) -> list[str]:
    """Loaders whose worker processes would go on with random states that nobody can read, for a warning."""
    training: Any = trainer.fit_loop._combined_loader
    found = [loader for loader in training.flattened if training.stateful]
    found += [loader for loader in _validation_loaders(trainer) if getattr(loader, "persistent_workers", False)]
    names = dict.fromkeys(type(loader).__name__ for loader in found if getattr(loader, "num_workers", 0))
    return [f"what the workers of a {name} draw at random" for name in names]


_KINDS = ("torch", "numpy", "python")


def _states(kinds: Iterable[str]) -> dict[str, Any]:
    read: dict[str, Callable[[], Any]] = {
        "torch": torch.get_rng_state, "numpy": numpy.random.get_state, "python": random.getstate,
    }  # fmt: skip
    return {kind: read[kind]() for kind in kinds}


def _set_states(states: States) -> None:
    write: dict[str, Callable[[Any], Any]] = {
        "torch": torch.set_rng_state, "numpy": numpy.random.set_state, "python": random.setstate,
    }  # fmt: skip
    for kind, state in states.items():
        write[kind](state)


def _same(before: Any, after: Any) -> bool:
    if isinstance(before, Tensor):
        return torch.equal(before, after)
    if len(before) == 5:  # numpy's: kind, keys, position and what is left of a pair of normals
        return bool(before[2:] == after[2:] and numpy.array_equal(before[1], after[1]))
    return bool(before == after)


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


def _sample(batch: Any) -> str:
    """What the fingerprint that runs along sees of a batch: types, shapes, and some numbers of every tensor."""
    parts = []
    for leaf in _leaves(batch, depth=0):
        if isinstance(leaf, Tensor) and leaf.layout == torch.strided:
            flat = leaf.detach().reshape(-1)
            parts.append(f"{leaf.dtype}{tuple(leaf.shape)}{flat[:: max(1, flat.numel() // _SAMPLED)].tolist()}")
        else:
            parts.append(repr(leaf)[:256])
    return "|".join(parts)


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
