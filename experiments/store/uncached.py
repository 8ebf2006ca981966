"""Uncached: a home read from its files alone. `record.json` keeps what a run's spools add up to for as long as they
have the same sizes; who asks whether the evidence is what it was must not take its word."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from algos.finding import InputError
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
        told = [record for run_id in self.home.run_ids() if (record := self._record(run_id)) is not None]
        found = pins.marked(told, self.home.path)
        wanted = parse(query, found)
        return [record for record in found if wanted(record)]

    def series(self, run_ids: Iterable[str], metrics: Sequence[str] | None = None) -> list[Series]:
        """Every point of the runs' metrics, run by run in the order given. InputError where one is no number."""
        found = self.home.series(run_ids, metrics)
        for each in found:
            _check(each.run_id, ((each.metric, value) for value in each.values))
        return found

    def _record(self, run_id: str) -> RunRecord | None:
        """None where the run was deleted while the others were read."""
        folder = self.home.run_folder / run_id
        try:
            file = records.read_file(folder)
            told = records.fold(folder)
        except (InputError, FileNotFoundError):
            if not folder.exists():
                return None
            raise
        records.check_place(folder, file)
        _check(run_id, (*told.last.items(), *told.final.items()))
        return told.record(file, alive=is_held(folder / "owner.lock"))


def _check(run_id: str, values: Iterable[tuple[str, Any]]) -> None:
    """InputError for a value that is no number: an edited line, which nothing can be computed from."""
    for metric, value in values:
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            said = f"run {run_id} has '{value}' for {metric}, which is no number"
            raise InputError(said, "take its lines from a copy, or delete the run", rule="broken-run")
