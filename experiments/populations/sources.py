"""Sources of a population's batches: every member's own, read at one place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from experiments.data.shuffled import Shuffled, ShuffledTogether
from experiments.data.together import Stacked, stacked
from experiments.task import BatchSource


class StackedSource(Protocol):
    """Endless batches of all members."""

    def next(self) -> Stacked: ...

    def settle(self, index: int) -> None:
        """Put a member's own source where the population stands."""
        ...


class Separately:
    """Sources of a task's own kind: each gives its batch, and they are put together."""

    def __init__(self, sources: Sequence[BatchSource]):
        self._sources = sources

    def next(self) -> Stacked:
        drawn = {id(source): source.next() for source in {id(each): each for each in self._sources}.values()}
        return stacked([drawn[id(source)] for source in self._sources])

    def settle(self, index: int) -> None:
        """It stands there."""


def together(sources: Sequence[BatchSource]) -> StackedSource:
    """The members' sources, which stand at one place, as one. A source may stand for several members."""
    shuffled = [source for source in sources if isinstance(source, Shuffled)]
    return ShuffledTogether(shuffled) if len(shuffled) == len(sources) else Separately(sources)
