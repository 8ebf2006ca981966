"""The board: what the events of runs and studies add up to, as rows. Shows nothing itself; `display` draws it.

Events may come from several threads, in any order that several workers make: a run may end that was never seen to
start. What is over is counted and only the newest of it kept, so a sweep of ten thousand runs costs no more than one.
"""

from __future__ import annotations

import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from experiments.progress import Event, Notice, RunEnded, RunNotice, RunProgress, RunStarted, StudyPlanned
from experiments.store.schema import Labels
from trainlab.plain import duration, text

#: Rows kept of runs that are over.
KEPT = 50


@dataclass
class Row:
    """One run, or several that are told of together. fraction: of its budget. seconds: since this attempt started.
    group: what it is one of several of, "digits adamw tune". since: the fraction that this attempt started with."""

    name: str
    status: str = "running"
    update: int = 0
    fraction: float = 0.0
    seconds: float = 0.0
    metrics: Mapping[str, float] = field(default_factory=dict)
    reason: str = ""
    notice: str = ""
    group: str = ""
    since: float | None = None

    def measured(self) -> str:
        """The values worth a glance: the test's at the end, validation's and the loss before.

        >>> Row("a", metrics={"train/loss": 0.31234, "val/loss": 0.4, "val/accuracy": 0.9}).measured()
        'train/loss 0.3123, val/accuracy 0.9'
        """
        return ", ".join(f"{name} {text(float(self.metrics[name]))}" for name in self.telling() if name in self.metrics)

    def telling(self) -> list[str]:
        """The metrics that are worth a glance."""
        for start in ("test/", "val/"):
            found = [name for name in self.metrics if name.startswith(start)]
            if found:
                told = [name for name in found if name != f"{start}loss"] or found
                return ["train/loss", *told] if start == "val/" else told
        return ["train/loss", "objective"]

    def line(self) -> str:
        """The run in one line of a log."""
        if self.status == "running":
            told = ", ".join(part for part in (self.notice, self.measured()) if part)
            return f"{self.name}: {self.fraction:.0%}, update {self.update}, {told}".rstrip(", ")
        why = f" ({self.reason})" if self.reason and self.status != "completed" else ""
        told = f"; {self.measured()}" if self.metrics and self.status == "completed" else ""
        return f"{self.name}: {self.status} in {duration(self.seconds)}{why}{told}"


@dataclass
class Several(Row):
    """Runs that train at once, as one row: their mean progress and the ends of what they measured."""

    rows: Sequence[Row] = ()

    @classmethod
    def of(cls, rows: Sequence[Row]) -> Several:
        """
        >>> rows = [Row("a 1", metrics={"val/accuracy": value}, group="digits a") for value in (0.5, 0.9)]
        >>> Several.of(rows).line()
        'digits a, 2 runs at once: 0%, update 0, val/accuracy 0.5 to 0.9'
        """
        return cls(
            f"{rows[0].group}, {len(rows)} runs at once",
            update=min(row.update for row in rows),
            fraction=sum(row.fraction for row in rows) / len(rows),
            seconds=max(row.seconds for row in rows),
            notice=next((row.notice for row in rows if row.notice), ""),
            rows=rows,
        )

    def measured(self) -> str:
        told = []
        for name in dict.fromkeys(name for row in self.rows for name in row.telling()):
            values = [float(row.metrics[name]) for row in self.rows if name in row.metrics]
            if values:
                low, high = text(min(values)), text(max(values))
                told.append(f"{name} {low}" if low == high else f"{name} {low} to {high}")
        return ", ".join(told)


class Board:
    """Running rows by run id, the newest of the others, and how many runs of the study are over."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.running: dict[str, Row] = {}
        self.ended: deque[Row] = deque(maxlen=KEPT)
        self.statuses: Counter[str] = Counter()
        self.study = ""
        self.total = 0
        self.over = 0
        self.said = ""
        self._clock = clock
        self._began: float | None = None
        self._lock = threading.Lock()

    def take(self, event: Event) -> Row | None:
        """The row that the event is of, if it is of one."""
        with self._lock:
            return self._take(event)

    def _take(self, event: Event) -> Row | None:
        match event:
            case StudyPlanned(study, due, done):
                self._began = self._clock() if self._began is None else self._began
                self.over = max(self.over, done) if study == self.study else done
                self.study, self.total = study, done + due
                return None
            case Notice(said):
                self.said = said
                return None
            case RunStarted(run_id, name, labels, resumed_from):
                row = Row(name, update=resumed_from, group=_group(labels), since=None if resumed_from else 0.0)
                self.running[run_id] = row
                return row
        row = self.running.setdefault(event.run_id, Row(event.run_id))
        match event:
            case RunProgress(_, update, fraction, seconds, metrics):
                row.update, row.fraction, row.seconds, row.metrics = update, fraction, seconds, metrics
                row.since = fraction if row.since is None else row.since
                row.notice = ""
            case RunNotice(_, said):
                row.notice = said
            case RunEnded(run_id, status, reason, seconds, metrics):
                row.status, row.reason, row.seconds, row.metrics = status, reason, seconds, metrics or row.metrics
                row.fraction = 1.0 if status == "completed" else row.fraction
                self.over += status not in ("interrupted", "lost")
                self.statuses[status] += 1
                self.ended.append(self.running.pop(run_id))
        return row

    def counted(self) -> str:
        """ "study demo: 12 of 38 runs done, about 1:20 left"; "" outside a study."""
        with self._lock:
            if not self.total:
                return ""
            left = max(self.total - self.over, 0)
            rest = self._left_s(left) if left else None
        about = "" if rest is None else f", about {duration(rest)} left"
        return f"study {self.study}: {self.over} of {max(self.total, self.over)} runs done{about}"

    def _left_s(self, left: int) -> float | None:
        """Seconds that the rest takes at the pace so far, of all workers together; None before one run is over."""
        over = sum(count for status, count in self.statuses.items() if status not in ("interrupted", "lost"))
        if not over or self._began is None:
            return None
        under_way = sum(row.fraction for row in self.running.values())
        gained = sum(row.fraction - (row.since or 0.0) for row in self.running.values())
        return (self._clock() - self._began) / (over + gained) * max(left - under_way, 0.0)

    def shown(self, most: int) -> list[Row]:
        """The running rows, and as many of the newest others as there is room for. Where more run than fit, those of
        one arm are one row."""
        with self._lock:
            running, ended = list(self.running.values()), list(self.ended)
        if len(running) > most:
            running = _together(running)
        if len(running) > most:
            running = [*running[: most - 1], _rest(running[most - 1 :])]
        room = most - len(running)
        return (ended[-room:] if room else []) + running


def _together(rows: Sequence[Row]) -> list[Row]:
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(row.group, []).append(row)
    return [Several.of(found) if len(found) > 1 else found[0] for found in groups.values()]


def _rest(rows: Sequence[Row]) -> Row:
    count = sum(len(row.rows) if isinstance(row, Several) else 1 for row in rows)
    fraction = sum(row.fraction for row in rows) / len(rows)
    return Row(f"and {count} more", fraction=fraction, seconds=max(row.seconds for row in rows))


def _group(labels: Labels) -> str:
    phase = "" if labels.phase == "single" else labels.phase
    return " ".join(part for part in (labels.task, labels.arm, phase) if part)
