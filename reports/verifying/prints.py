"""Prints: of each run of a study, fingerprints of all that a report's numbers rest on, part by part.

A part is a piece of the run's record ("status", "final test/accuracy") or one of the series that the table reads
("series val/accuracy"). Its fingerprint is the beginning of the sha256 of canonical JSON, so a run that is read from a
home and from MLflow has the same one, and a run that was edited says in which parts."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from experiments.store.schema import RunRecord
from experiments.store.sources import Source
from reports.document import Basis, Document, RunPrint
from reports.judged import Stated
from reports.table import Curve, StudyTable

#: Hexadecimal digits of a part's fingerprint: a false match is as likely as 1 in 3e14.
_DIGITS = 12
_SERIES = "series of "


@dataclass(frozen=True)
class Difference:
    """How the runs of two readings differ, oldest first. edited: by run, in which parts."""

    deleted: tuple[str, ...] = ()
    added: tuple[str, ...] = ()
    edited: Mapping[str, tuple[str, ...]] | None = None

    @property
    def runs(self) -> set[str]:
        return {*self.deleted, *self.added, *(self.edited or {})}


#: Sources -> what kind they are, for whoever reads there again.
_KINDS = {"HomeSource": "home", "UncachedHome": "home", "MLflowSource": "mlflow"}


def based(document: Document, study: StudyTable, question: str, source: Source) -> Document:
    """A document with what it rests on, as it is written to its file."""
    return document.model_copy(update={"basis": basis(study, question, _KINDS.get(type(source).__name__, ""))})


def basis(study: StudyTable, question: str = "", source: str = "") -> Basis:
    """What a report of the table rests on. question: the reader's, in place of the study's own. source: what kind it
    was read from."""
    stated = stated_of(study)
    return Basis(
        question=question,
        metric=stated.metric,
        mode=stated.mode,
        source=source,
        runs=tuple(run_print(record, study.curves.get(record.run_id)) for record in study.runs),
    )


def stated_of(study: StudyTable) -> Stated:
    """By what its reader said that runs are judged, where they do not say it themselves."""
    told = next((task for task in study.tasks.values() if task.logged and not task.assumed), None)
    return Stated(told.logged, told.mode) if told else Stated()


def run_print(record: RunRecord, curve: Curve | None) -> RunPrint:
    """The fingerprints of one run."""
    told = {part: _digest(value)[:_DIGITS] for part, value in sorted(_parts(record, curve))}
    return RunPrint(run_id=record.run_id, sha256=_digest(told), parts=told)


def adds_up(told: RunPrint) -> bool:
    """Whether a run's fingerprint is that of its parts."""
    return told.sha256 == _digest(told.parts)


def difference(old: Iterable[RunPrint], new: Iterable[RunPrint]) -> Difference:
    """What happened to the runs between two readings."""
    before = {each.run_id: each for each in old}
    after = {each.run_id: each for each in new}
    edited = {
        run_id: changed
        for run_id, was in before.items()
        if run_id in after and (changed := _changed(was.parts, after[run_id].parts))
    }
    return Difference(
        tuple(run_id for run_id in before if run_id not in after),
        tuple(run_id for run_id in after if run_id not in before),
        edited,
    )


def without_series(old: Iterable[RunPrint], records: Iterable[RunRecord]) -> Difference:
    """What happened to the runs, by their records alone: where no table can be made of them that has their series."""
    after = [run_print(record, None) for record in records]
    return difference([_recorded(each) for each in old], [_recorded(each) for each in after])


def _recorded(told: RunPrint) -> RunPrint:
    return told.model_copy(update={"parts": {k: v for k, v in told.parts.items() if not k.startswith(_SERIES)}})


def _changed(old: Mapping[str, str], new: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(sorted(part for part in old.keys() | new.keys() if old.get(part) != new.get(part)))


def _parts(record: RunRecord, curve: Curve | None) -> Iterable[tuple[str, Any]]:
    """(name, plain value) of everything that a number may rest on. Times of day are left out, but for the run's start
    and end: reports tell how long runs took."""
    file = record.file
    yield "labels", asdict(file.labels)
    yield "config", [file.digest, file.config]
    yield "facts", [file.facts, file.parent, file.created]
    yield "provenance", file.provenance
    yield "status", [record.status, record.reason]
    yield "attempts and times", [record.attempts, record.started, record.ended]
    yield "target reached", record.reached
    yield "values that were not finite", sorted(record.nonfinite)
    yield "events", [{key: value for key, value in event.items() if key != "at"} for event in record.events]
    for metric, value in record.final.items():
        yield f"final {metric}", float(value)
    for metric, value in record.last.items():
        yield f"last {metric}", float(value)
    if curve is not None:
        told = {"values": curve.values, "seconds": curve.seconds, "gradients": curve.gradients}
        for name, values in told.items():
            yield f"{_SERIES}{name}", [list(map(float, curve.updates)), list(map(float, np.asarray(values)))]


def _digest(value: Any) -> str:
    text = json.dumps(_canonical(value), sort_keys=True, ensure_ascii=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def _canonical(value: Any) -> Any:
    """1 and 1.0 are one number, nan and inf are words."""
    if isinstance(value, (str, int, type(None))):
        return value
    if isinstance(value, Mapping):
        return {str(key): _canonical(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_canonical(inner) for inner in value]
    if isinstance(value, float):
        return repr(value) if not math.isfinite(value) else int(value) if value.is_integer() else value
    return str(value)
