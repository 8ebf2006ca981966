"""A home as a Source: what its spools say."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from experiments.store.home import Home
from experiments.store.schema import RunRecord
from experiments.store.sources import Series


class HomeSource:
    """Reads a home (None: the default one)."""

    def __init__(self, home: Home | None = None):
        self.home = home or Home.default()

    def runs(self, query: str = "") -> list[RunRecord]:
        """The runs that `query` selects, oldest first."""
        return self.home.records(query)

    def series(self, run_ids: Iterable[str], metrics: Sequence[str] | None = None) -> list[Series]:
        """Every point of the runs' metrics, run by run in the order given."""
        return self.home.series(run_ids, metrics)
