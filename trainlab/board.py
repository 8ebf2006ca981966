"""The board: what the events of runs and studies add up to, as rows. Shows nothing itself; `display` draws it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from experiments.progress import Event, RunEnded, RunNotice, RunProgress, RunStarted, StudyPlanned
from trainlab.plain import duration, text


@dataclass
class Row:
    """One run. fraction: of its budget. seconds: since this attempt started."""

    name: str
    status: str = "running"
    update: int = 0
    fraction: float = 0.0
    seconds: float = 0.0
    metrics: Mapping[str, float] = field(default_factory=dict)
    reason: str = ""
    notice: str = ""

    def measured(self) -> str:
        """The values worth a glance: the test's at the end, validation's and the loss before.

        >>> Row("a", metrics={"train/loss": 0.31234, "val/loss": 0.4, "val/accuracy": 0.9}).measured()
        'train/loss 0.3123, val/accuracy 0.9'
        """
        for start in ("test/", "val/"):
            found = [name for name in self.metrics if name.startswith(start)]
            if found:
                told = [name for name in found if name != f"{start}loss"] or found
                shown = ["train/loss", *told] if start == "val/" else told
                break
        else:
            shown = ["train/loss", "objective"]
        return ", ".join(f"{name} {text(float(self.metrics[name]))}" for name in shown if name in self.metrics)

    def line(self) -> str:
        """The run in one line of a log."""
        if self.status == "running":
            told = ", ".join(part for part in (self.notice, self.measured()) if part)
            return f"{self.name}: {self.fraction:.0%}, update {self.update}, {told}".rstrip(", ")
        why = f" ({self.reason})" if self.reason and self.status != "completed" else ""
        told = f"; {self.measured()}" if self.metrics and self.status == "completed" else ""
        return f"{self.name}: {self.status} in {duration(self.seconds)}{why}{told}"


class Board:
    """Rows by run id, in the order they started; how many runs of the study are over."""

    def __init__(self) -> None:
        self.rows: dict[str, Row] = {}
        self.study = ""
        self.total = 0
        self.over = 0
        self._spent: list[float] = []

    def take(self, event: Event) -> None:
        match event:
            case StudyPlanned(study, due, done):
                self.over = self.over if study == self.study else done
                self.study, self.total = study, self.over + due
            case RunStarted(run_id, name, _, resumed_from):
                self.rows[run_id] = Row(name, update=resumed_from)
            case RunProgress(run_id, update, fraction, seconds, metrics):
                row = self.rows[run_id]
                row.update, row.fraction, row.seconds, row.metrics = update, fraction, seconds, metrics
                row.notice = ""
            case RunNotice(run_id, said):
                self.rows[run_id].notice = said
            case RunEnded(run_id, status, reason, seconds, metrics):
                row = self.rows[run_id]
                row.status, row.reason, row.seconds, row.metrics = status, reason, seconds, metrics or row.metrics
                row.fraction = 1.0 if status == "completed" else row.fraction
                self.over += status not in ("interrupted", "lost")
                self._spent.append(seconds)

    def counted(self) -> str:
        """ "study demo: 12 of 38 runs done, about 1:20 left"; "" outside a study."""
        if not self.total:
            return ""
        left = self.total - self.over
        mean = sum(self._spent) / len(self._spent) if self._spent else 0.0
        rest = f", about {duration(left * mean)} left" if left > 0 and mean else ""
        return f"study {self.study}: {self.over} of {self.total} runs done{rest}"

    def shown(self, most: int) -> list[Row]:
        """The running rows, and as many of the newest others as there is room for."""
        running = [row for row in self.rows.values() if row.status == "running"]
        others = [row for row in self.rows.values() if row.status != "running"]
        room = max(most - len(running), 0)
        return (others[-room:] if room else []) + running[-most:]
