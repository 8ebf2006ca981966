"""Answering: a store that others keep, whose every failure is said in one line: a server that is slow or goes away in
the middle, a database that is damaged, a run whose tags somebody edited."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from algos.finding import InputError
from experiments.store.schema import RunRecord
from experiments.store.sources import Series, Source

#: The rule of such a failure: nothing is known of the evidence.
AWAY = "store-away"
_T = TypeVar("_T")


class Answering:
    """A Source, read through another one. place: what people call it."""

    def __init__(self, source: Source, place: str):
        self.source = source
        self.place = place

    def runs(self, query: str = "") -> list[RunRecord]:
        """The runs that `query` selects. InputError where the store does not give them."""
        return self._asked(lambda: self.source.runs(query))

    def series(self, run_ids: Iterable[str], metrics: Sequence[str] | None = None) -> list[Series]:
        """Every point of the runs' metrics. InputError where the store does not give them."""
        return self._asked(lambda: self.source.series(run_ids, metrics))

    def _asked(self, ask: Callable[[], _T]) -> _T:
        try:
            return ask()
        except InputError:
            raise
        except Exception as error:  # of MLflow, its database, the network, or of what somebody wrote there
            why = " ".join(f"{type(error).__name__}: {error}".split())[:200]
            said = f"{self.place} could not be read ({why})"
            raise InputError(said, "mend it, or read elsewhere: --source home", rule=AWAY) from error
