"""Foreign: results that another tool wrote, as a Source. A reader says what the tool says; this makes records of it.

What a tool does not say stays unsaid: a run without times has no start, and a value that is no finite number is told by
`nonfinite`, never a point."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from experiments.store.queries import parse
from experiments.store.schema import Labels, Phase, RunFile, RunRecord, Status
from experiments.store.sources import Series
from experiments.store.sources.labelling import Labelling, labelled

#: (update, value, milliseconds since 1970), in the order in which they were logged.
Point = tuple[int, float, int]
Points = dict[str, list[Point]]


@dataclass
class Told:
    """A run as its tool tells it.

    key: what it is called in its source, once each. said: what labels are looked for in: parameters, columns. config:
    its settings. points: of each metric; last: the last value of each, where the points are asked for later. final:
    what it came to, beside the points. steps: what its steps are (see `steps`), where it is known. created, started,
    ended: milliseconds since 1970, None where that is not said. labels: those that are certain, by name; place: what
    stands for a task where nothing says one. facts: more for a report.
    """

    key: str
    name: str = ""
    said: Mapping[str, Any] = field(default_factory=dict)
    config: Mapping[str, Any] = field(default_factory=dict)
    status: Status = "completed"
    reason: str = ""
    traceback: str = ""
    created: int | None = None
    started: int | None = None
    ended: int | None = None
    points: Points = field(default_factory=dict)
    last: Mapping[str, float] = field(default_factory=dict)
    final: Mapping[str, float] = field(default_factory=dict)
    steps: str = ""
    events: Sequence[Mapping[str, Any]] = ()
    labels: Mapping[str, Any] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)
    provenance: Mapping[str, Any] = field(default_factory=dict)


@dataclass
class Read:
    """What a reader found. notes: what whoever imports it should know. direction: "max" or "min", and metric: by which
    its runs are judged, where the tool says so. written: when, for points that have no time of their own. task, arm:
    what the source calls them where a run says none. searched: keys that are read as labels only where the user names
    them: what a study varied is no label by itself."""

    runs: list[Told]
    notes: list[str] = field(default_factory=list)
    metric: str = ""
    mode: str = ""
    written: int = 0
    task: str = ""
    arm: str = ""
    searched: Collection[str] = ()


class Reader(Protocol):
    """kind: the tool. place: where from, without secrets. `points` is asked for where `read` left them, and what is to
    be told of them is in `late`."""

    kind: str

    @property
    def place(self) -> str: ...

    @property
    def late(self) -> Sequence[str]: ...

    def read(self) -> Read: ...

    def points(self, run: Told) -> Points: ...


class Foreign:
    """A Source of what a reader reads. study: what its runs are labelled with. labelling: how task, arm and seed are
    found."""

    def __init__(self, reader: Reader, study: str = "", labelling: Labelling | None = None):
        self.kind, self.place = reader.kind, reader.place
        self._notes: list[str] = []
        self.metric = self.mode = ""
        self.written = 0
        self._reader, self._study, self._labelling = reader, study, labelling or Labelling()
        self._told: dict[str, Told] = {}
        self._records: list[RunRecord] | None = None
        self._asked: tuple[str, Points] = "", {}

    @property
    def notes(self) -> list[str]:
        """What to know of the runs; after `series`, of their points too."""
        return [*self._notes, *self._reader.late]

    def runs(self, query: str = "") -> list[RunRecord]:
        """The runs that `query` selects, in the order of their source."""
        if self._records is None:
            self._records = self._read()
        wanted = parse(query, self._records)
        return [record for record in self._records if wanted(record)]

    def series(self, run_ids: Iterable[str], metrics: Sequence[str] | None = None) -> list[Series]:
        """The finite values of the runs' metrics, run by run in the order given."""
        return [line for run_id in run_ids for line in self._series(run_id, metrics, finite=True)]

    def nonfinite(self, run_ids: Iterable[str]) -> list[Series]:
        """The values that are not finite, those that a run came to among them."""
        return [
            line
            for run_id in run_ids
            for line in (*self._series(run_id, None, finite=False), *self._ends_badly(run_id))
        ]

    def _series(self, run_id: str, metrics: Sequence[str] | None, finite: bool) -> list[Series]:
        if self._records is None:
            self.runs()
        points = self._points(self._told[run_id])
        found = []
        for metric in sorted(points if metrics is None else points.keys() & set(metrics)):
            some = [point for point in points[metric] if math.isfinite(point[1]) == finite]
            if some:
                found.append(Series(run_id, metric, *zip(*some)))
        if finite and metrics is not None:  # a final value is the one point of a metric that has no other
            final = self._told[run_id].final
            at = self._told[run_id].ended or self.written
            found += [Series(run_id, m, (0,), (final[m],), (at,)) for m in metrics if m in final and m not in points]
        return found

    def _ends_badly(self, run_id: str) -> list[Series]:
        """What a run came to, where that is no finite number: at its last step."""
        run = self._told[run_id]
        bad = {m: v for m, v in run.final.items() if not math.isfinite(v) and m != "objective"}
        points = self._points(run) if bad else {}
        last = max((found[-1][0] for found in points.values() if found), default=0)
        at = run.ended or self.written
        known = {m: found[-1] for m, found in points.items() if found}
        return [
            Series(run_id, metric, (last,), (value,), (at,))
            for metric, value in bad.items()
            if metric not in known or math.isfinite(known[metric][1])
        ]

    def _points(self, run: Told) -> Points:
        if not run.points and run.key != self._asked[0]:
            self._asked = run.key, self._reader.points(run)
        return run.points or self._asked[1]

    def _read(self) -> list[RunRecord]:
        read = self._reader.read()
        self.metric, self.mode, self.written = read.metric, read.mode, read.written
        labels, said = labelled([(run.name, run.said, run.labels) for run in read.runs], self._labelling, read)
        self._notes = [*read.notes, *said]
        self._told = {}
        for run in read.runs:
            key, count = run.key, 1
            while run.key in self._told:  # a run that was gone on with elsewhere, say
                run.key, count = f"{key} ({count + 1})", count + 1
            self._told[run.key] = run
        return [self._record(run, each) for run, each in zip(read.runs, _numbered(labels, read.runs, self._study))]

    def _record(self, run: Told, labels: Labels) -> RunRecord:
        ends = {**run.final, **run.last, **{metric: points[-1][1] for metric, points in run.points.items()}}
        bad = {metric for metric, points in run.points.items() if not all(math.isfinite(point[1]) for point in points)}
        bad |= {metric for metric, value in ends.items() if not math.isfinite(value)}
        said = dict(run.config)
        source = dict(run.facts.get("source") or {}) | ({"steps": run.steps} if run.steps else {})
        file = RunFile(
            run_id=run.key,
            name="".join(c if c.isprintable() else " " for c in run.name),
            labels=labels,
            config=said,
            digest=hashlib.sha256(repr(sorted(said.items(), key=str)).encode(errors="replace")).hexdigest(),
            facts={**run.facts, "source": source} if source else run.facts,
            provenance=run.provenance,
            created=run.created or run.started or self.written,
        )
        return RunRecord(
            file=file,
            status=run.status,
            reason=run.reason,
            traceback=run.traceback,
            attempts=1,
            started=run.started,
            ended=run.ended,
            last={metric: value for metric, value in ends.items() if math.isfinite(value)},
            final={name: value for name, value in run.final.items() if math.isfinite(value)},
            nonfinite=tuple(sorted(bad)),
            events=tuple(run.events),
        )


def in_order(points: Iterable[Point]) -> tuple[list[Point], int]:
    """The points by update, and how many went: of those at one update the last logged is kept.

    >>> in_order([(2, 0.5, 7), (1, 0.1, 5), (2, 0.6, 9)])
    ([(1, 0.1, 5), (2, 0.6, 9)], 1)
    """
    found = list(points)
    kept = {point[0]: point for point in sorted(found, key=lambda point: (point[0], point[2]))}
    return list(kept.values()), len(found) - len(kept)


def stepless(points: Sequence[Point]) -> bool:
    """Whether a metric was logged several times without saying at which step."""
    return len(points) > 1 and all(point[0] == 0 for point in points)


def counted(points: Iterable[Point]) -> list[Point]:
    """Points without steps, counted from 1 in the order of their times."""
    ordered = sorted(points, key=lambda point: point[2])
    return [(update, value, at) for update, (_, value, at) in enumerate(ordered, 1)]


def _numbered(labels: Sequence[Labels], runs: Sequence[Told], study: str) -> list[Labels]:
    """With the study's name, and a number within task, arm and phase where the source gives none."""
    next_number: dict[tuple[str, str, str], int] = {}
    found = []
    for label, run in zip(labels, runs):
        phase: Phase = run.labels.get("phase", "final")
        key = (label.task, label.arm, phase)
        number = int(run.labels.get("number", next_number.get(key, 0)))
        next_number[key] = max(next_number.get(key, 0), number + 1)
        found.append(replace(label, study=study, phase=phase, number=number))
    return found
