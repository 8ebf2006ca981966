"""Uncached: a home read from its files alone. `record.json` keeps what a run's spools add up to for as long as they
have the same sizes; who asks whether the evidence is what it was must not take its word."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from experiments.store import pins, records
from experiments.store.home import Home
from experiments.store.locks import is_held
from experiments.store.queries import parse
from experiments.store.schema import RunRecord
from experiments.store.sources import Series


class UncachedHome:
    """A home as a Source, every line of it read anew."""

    def __init__(self, home: Home):
        self.home = home

    def runs(self, query: str = "") -> list[RunRecord]:
        """The runs that `query` selects, oldest first. InputError where one cannot be read."""
        found = pins.marked([self._record(run_id) for run_id in self.home.run_ids()], self.home.path)
        wanted = parse(query, found)
        return [record for record in found if wanted(record)]

    def series(self, run_ids: Iterable[str], metrics: Sequence[str] | None = None) -> list[Series]:
        """Every point of the runs' metrics, run by run in the order given."""
        return self.home.series(run_ids, metrics)

    def _record(self, run_id: str) -> RunRecord:
        folder = self.home.run_folder / run_id
        file = records.read_file(folder)
        return records.fold(folder).record(file, alive=is_held(folder / "owner.lock"))
