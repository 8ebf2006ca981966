"""Gathered: a study's runs, read again and again at the cost of what is new. Of a run that is over, the record stays.

Not for who may have removed runs: ask anew then.
"""

from __future__ import annotations

import json

from algos.finding import InputError
from experiments.store import records
from experiments.store.home import Home
from experiments.store.schema import FINISHED, RunRecord


class Gathered:
    """The runs that our runner made for a study, in one home."""

    def __init__(self, home: Home, study: str):
        self._home, self._study = home, study
        self._over: dict[str, RunRecord] = {}
        self._others: set[str] = set()
        self._mark = f'"study": {json.dumps(study)}'.encode()

    def records(self) -> list[RunRecord]:
        """All of them now, oldest first. Runs recorded from other loops take no place in a study's design."""
        found = []
        ids = self._home.run_ids()
        for run_id in ids:
            if run_id in self._others:
                continue
            record = self._over.get(run_id) or self._read(run_id)
            if record is not None:
                found.append(record)
        present = set(ids)
        self._over = {run_id: record for run_id, record in self._over.items() if run_id in present}
        return sorted(found, key=lambda record: record.file.created)

    def _read(self, run_id: str) -> RunRecord | None:
        folder = self._home.run_folder / run_id
        try:
            if self._mark not in (folder / "run.json").read_bytes():
                self._others.add(run_id)
                return None
            record = records.load(folder)
        except (FileNotFoundError, InputError):  # removed since, or broken: `trainlab doctor` says so
            return None
        if record.labels.study != self._study or record.file.facts.get("recorded"):
            self._others.add(run_id)
            return None
        if record.status in FINISHED:
            self._over[run_id] = record
        return record
