"""Replay: after a stop in mid-epoch, the batches that would have come, or a refusal; never others."""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy
import pytest
import torch
from lightning.pytorch.loops.fetchers import _PrefetchDataFetcher
from torch.utils.data import DataLoader, Dataset, IterableDataset, Sampler, WeightedRandomSampler

from algos.finding import InputError
from experiments import checkpoint
from experiments.modules.replay import ReplayedLoader, fingerprint

SIZE = 22


class Augmented(Dataset[Any]):
    """Images that are drawn anew each time: from the process that loads them."""

    def __len__(self) -> int:
        return SIZE

    def __getitem__(self, index: int) -> Any:
        return index + torch.rand(2), random.random(), numpy.random.rand()


class Stream(IterableDataset[Any]):
    """No length; its order is drawn when it begins."""

    def __iter__(self) -> Iterator[Any]:
        yield from (torch.randperm(SIZE) + torch.rand(1)).tolist()


class ShuffledByPython(Sampler[int]):
    def __init__(self, lazily: bool):
        self.lazily = lazily

    def __len__(self) -> int:
        return SIZE

    def __iter__(self) -> Iterator[int]:
        order = list(range(SIZE))
        random.shuffle(order)
        for index in order:
            yield random.choice(order) if self.lazily else index


class Counting(Sampler[int]):
    """Its order hangs on how often it was asked for, which nobody keeps."""

    asked = 0

    def __len__(self) -> int:
        return SIZE

    def __iter__(self) -> Iterator[int]:
        Counting.asked += 1
        yield from torch.randperm(SIZE, generator=torch.Generator().manual_seed(Counting.asked)).tolist()


def generated() -> DataLoader[Any]:
    return DataLoader(Augmented(), batch_size=4, shuffle=True, generator=torch.Generator().manual_seed(5))


def weighted() -> DataLoader[Any]:
    return DataLoader(Augmented(), batch_size=4, sampler=WeightedRandomSampler([1.0] * SIZE, SIZE))


LOADERS: dict[str, Callable[[], Any]] = {
    "in order": lambda: DataLoader(Augmented(), batch_size=4),
    "shuffled": lambda: DataLoader(Augmented(), batch_size=4, shuffle=True),
    "with a generator": generated,
    "weighted": weighted,
    "by Python's random": lambda: DataLoader(Augmented(), batch_size=4, sampler=ShuffledByPython(lazily=False)),
    "drawn as it goes": lambda: DataLoader(Augmented(), batch_size=4, sampler=ShuffledByPython(lazily=True)),
    "a stream": lambda: DataLoader(Stream(), batch_size=4),
    "two at once": lambda: {"a": DataLoader(Augmented(), batch_size=4, shuffle=True), "b": generated()},
}


class Training:
    """Lightning's fetcher over a loader, and training that draws random numbers, as dropout does."""

    def __init__(self, make: Callable[[], Any], stop_at: int | None = None, position: Mapping[str, Any] | None = None):
        self.written: dict[str, Any] | None = None
        self.trained = 0
        self._stop_at = stop_at
        self.loader = ReplayedLoader(make(), "max_size_cycle", self._between, position)

    def _between(self, loader: ReplayedLoader) -> Any:
        return self._write if self.trained == self._stop_at and self.written is None else None

    def _write(self, position: Mapping[str, Any]) -> None:
        self.written = {**position, "epoch": 0}

    def epochs(self, count: int, done: int = 0) -> list[str]:
        """Fingerprints of what was trained on, until a checkpoint is written. done: batches of the first epoch."""
        fetcher = _PrefetchDataFetcher()
        fetcher.setup(self.loader)
        seen: list[str] = []
        self.trained = done
        for _ in range(count):
            iter(fetcher)
            fetcher.fetched += self.trained if not seen else 0
            while not fetcher.done:
                batch = next(fetcher)[0]
                if self.written:
                    return seen
                seen.append(f"{fingerprint(batch)} {torch.rand(1).item()} {random.random()}")
                self.trained += 1
        return seen


@pytest.mark.parametrize("stop_at", [1, 5, 6, 8])
@pytest.mark.parametrize("name", LOADERS)
def test_what_would_have_come_comes(name: str, stop_at: int) -> None:
    checkpoint.seed_everything(3)
    whole = Training(LOADERS[name]).epochs(2)
    assert len(set(whole)) == 12
    checkpoint.seed_everything(3)
    first = Training(LOADERS[name], stop_at)
    before = first.epochs(2)
    assert first.written is not None
    assert before == whole[:stop_at]
    checkpoint.seed_everything(99)
    torch.rand(7)
    position = first.written
    again = Training(LOADERS[name], position=position).epochs(2 - stop_at // 6, done=position["batches"])
    assert again == whole[stop_at:]


def test_other_data_is_refused_by_name() -> None:
    make = lambda: DataLoader(Augmented(), batch_size=4, sampler=Counting())  # noqa: E731
    checkpoint.seed_everything(3)
    first = Training(make, stop_at=3)
    first.epochs(1)
    assert first.written is not None
    with pytest.raises(InputError, match=r"cannot be replayed: gone through again, DataLoader gives other batches"):
        Training(make, position=first.written).epochs(1, done=3)


def test_a_loader_that_says_where_it_stands_is_left_to_lightning() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it looks at everything torch has, the deprecated too
        from torchdata.stateful_dataloader import StatefulDataLoader

        stateful = StatefulDataLoader(Augmented())
    assert ReplayedLoader(stateful, "max_size_cycle", lambda loader: None).stateful
    assert not ReplayedLoader(DataLoader(Augmented()), "max_size_cycle", lambda loader: None).stateful


def test_a_fingerprint_is_of_values_types_and_shapes() -> None:
    batch = {"x": torch.zeros(2, 3), "name": ["a", "b"], "y": numpy.ones(2)}
    assert fingerprint(batch) == fingerprint({"x": torch.zeros(2, 3), "name": ["a", "b"], "y": numpy.ones(2)})
    for other in (
        {"x": torch.zeros(3, 2)},
        {"x": torch.zeros(2, 3).double()},
        {"name": ["a", "c"]},
        {"y": numpy.zeros(2)},
    ):
        assert fingerprint({**batch, **other}) != fingerprint(batch)
