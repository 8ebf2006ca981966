"""Records: what a run's spools add up to, and the cache that makes a home of a thousand runs quick to list."""

from __future__ import annotations

import contextlib
import json
import os
import socket
from collections.abc import Iterable, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from algos.finding import InputError
from experiments.store import spool
from experiments.store.locks import is_held
from experiments.store.schema import RunFile, RunRecord
from experiments.store.sources import Series

#: So long a run that was created and has not begun is believed to be about to, in milliseconds.
GRACE_MS = 5000
#: Raised when `fold` changes what it makes of the same lines, so that old caches are not believed.
FOLD = 2


class Fold:
    """What a run's lines add up to, taken in order."""

    def __init__(self) -> None:
        self.status = "running"
        self.reason = ""
        self.traceback = ""
        self.attempts = 0
        self.update = 0
        self.started: int | None = None
        self.ended: int | None = None
        self.last: dict[str, float] = {}
        self.final: dict[str, float] = {}
        self.final_at: tuple[int, int] = (0, 0)
        self.nonfinite: list[str] = []
        self.reached: dict[str, float] | None = None
        self.events: list[dict[str, Any]] = []

    def add(self, line: Mapping[str, Any]) -> None:
        """One line of a spool."""
        getattr(self, f"_add_{line['kind']}", self._add_other)(line)

    def _add_other(self, line: Mapping[str, Any]) -> None:
        """A kind that a newer version writes."""

    def _add_began(self, line: Mapping[str, Any]) -> None:
        self.attempts += 1
        self.status, self.reason, self.traceback, self.ended = "running", "", "", None
        if self.started is None:
            self.started = line["at"]

    def _add_points(self, line: Mapping[str, Any]) -> None:
        self.last.update(line["values"])
        self.update = max(self.update, line["update"])

    def _add_nonfinite(self, line: Mapping[str, Any]) -> None:
        if line["metric"] not in self.nonfinite:
            self.nonfinite.append(line["metric"])
        self.last.pop(line["metric"], None)  # an older value is not the last one

    def _add_event(self, line: Mapping[str, Any]) -> None:
        event = {key: value for key, value in line.items() if key != "kind"}
        self.events.append(event)
        if line["name"] == "reached_target" and self.reached is None:
            self.reached = {key: value for key, value in event.items() if key not in ("name", "at")}

    def _add_final(self, line: Mapping[str, Any]) -> None:
        self.final = dict(line["values"])
        self.final_at = (line.get("update", self.update), line["at"])

    def _add_ended(self, line: Mapping[str, Any]) -> None:
        self.status, self.reason, self.traceback = line["status"], line["reason"], line["traceback"]
        self.ended = line["at"]

    def record(self, file: RunFile, alive: bool) -> RunRecord:
        """alive: whether a process holds the run's lock. A running run that no process holds is lost."""
        lost = self.status == "running" and not alive
        return RunRecord(
            file=file,
            status="lost" if lost else self.status,  # type: ignore[arg-type]
            reason=("its process vanished" if self.attempts else "it never began") if lost else self.reason,
            traceback=self.traceback,
            attempts=self.attempts,
            started=self.started,
            ended=self.ended,
            last={**self.final, **self.last},
            final=self.final,
            nonfinite=tuple(self.nonfinite),
            reached=self.reached,
            events=tuple(self.events),
        )


def fold(folder: Path) -> Fold:
    """A run's spools, added up."""
    total = Fold()
    for _, path in spool.spools(folder):
        for line in spool.read(path):
            total.add(line)
    return total


def series(folder: Path, run_id: str, metrics: Iterable[str] | None = None) -> list[Series]:
    """The run's metrics, each in order of update. A final value is the one point of a metric that has no other."""
    wanted = None if metrics is None else set(metrics)
    columns: dict[str, list[tuple[int, float, int]]] = {}
    finals: dict[str, tuple[int, float, int]] = {}
    for _, path in spool.spools(folder):
        for line in spool.read(path):
            if line["kind"] == "points":
                update, at = line["update"], line["at"]
                for metric, value in line["values"].items():
                    if wanted is None or metric in wanted:
                        columns.setdefault(metric, []).append((update, value, at))
            elif line["kind"] == "final":
                finals = {
                    metric: (line["update"], value, line["at"])
                    for metric, value in line["values"].items()
                    if wanted is None or metric in wanted
                }
    for metric, point in finals.items():
        columns.setdefault(metric, [point])
    return [_series(run_id, metric, points) for metric, points in sorted(columns.items())]


def _series(run_id: str, metric: str, points: list[tuple[int, float, int]]) -> Series:
    updates, values, at = zip(*sorted(points))
    return Series(run_id, metric, updates, values, at)


def load(folder: Path, file: RunFile | None = None, keep: bool = True) -> RunRecord:
    """The run's record: from the cache where the spools have not grown since, else from the spools. keep: caches what
    was made of them."""
    sizes = [[number, path.stat().st_size] for number, path in spool.spools(folder)]
    cached = _cached(folder, sizes)
    if cached is not None:
        return cached
    file = file or read_file(folder)
    total = fold(folder)
    alive = is_held(folder / "owner.lock") or (not sizes and 0 <= spool.now_ms() - file.created < GRACE_MS)
    if total.status == "running" and not alive:
        total = fold(folder)  # it may have ended between the two looks
    record = total.record(file, alive)
    if keep and total.ended is not None:
        _cache(folder, sizes, record)
    return record


def read_file(folder: Path) -> RunFile:
    """A run's run.json."""
    try:
        return RunFile.from_json(json.loads((folder / "run.json").read_bytes()))
    except (OSError, ValueError, KeyError, TypeError) as error:
        path = folder / "run.json"
        raise InputError(f"{path} cannot be read ({error})", "move its folder away", rule="broken-run") from error


def check_place(folder: Path, file: RunFile) -> None:
    """InputError where a run's folder is a copy of another's, which would count twice, or the two were exchanged."""
    if file.run_id != folder.name:
        said = f"{folder} holds run {file.run_id}, by its own word: a copy, or somebody exchanged the two"
        raise InputError(said, "move its folder away", rule="broken-run")


def to_json(record: RunRecord) -> dict[str, Any]:
    return asdict(record)


def from_json(data: Mapping[str, Any]) -> RunRecord:
    return RunRecord(
        **{
            **data,
            "file": RunFile.from_json(data["file"]),
            "nonfinite": tuple(data["nonfinite"]),
            "events": tuple(data["events"]),
            "pinned_by": tuple(data["pinned_by"]),
        }
    )


def _cached(folder: Path, sizes: list[list[int]]) -> RunRecord | None:
    try:
        data = json.loads((folder / "record.json").read_bytes())
        return from_json(data["record"]) if (data["fold"], data["sizes"]) == (FOLD, sizes) else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def disagrees(folder: Path) -> bool:
    """Whether the cache would be believed, and says other than the run's files."""
    cached = _cached(folder, [[number, path.stat().st_size] for number, path in spool.spools(folder)])
    if cached is None:
        return False
    true = from_json(json.loads(json.dumps(to_json(fold(folder).record(read_file(folder), alive=False)))))
    return replace(cached, pinned_by=(), visibility=true.visibility) != true


def _cache(folder: Path, sizes: list[list[int]], record: RunRecord) -> None:
    with contextlib.suppress(OSError):
        write_json(folder / "record.json", {"fold": FOLD, "sizes": sizes, "record": to_json(record)})


def write_json(path: Path, data: Any) -> None:
    write_whole(path, json.dumps(data).encode())


def write_whole(path: Path, content: bytes) -> None:
    """Whole or not at all: readers never see half a file."""
    temporary = path.with_name(temporary_name(path.name))
    try:
        temporary.write_bytes(content)
        temporary.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise


def temporary_name(name: str) -> str:
    """What a file is called while it is written: by it `trainlab doctor` knows whose it was, should that one die.

    >>> temporary_name("record.json")
    '.record.json.new-...@...'
    """
    return f".{name}.new-{os.getpid()}@{socket.gethostname()}"
