"""The spool: what happened in a run, one JSON line an event, written by its owner alone and read by anyone at any time.

`Attempt` is what the training loop holds. A line costs the training thread a few microseconds: it goes to a buffer, and
the buffer to the file when it is half a second old, when it is large, at every event, and when `flush` asks. A process
that dies in mid-write leaves half a line, which readers skip and nobody appends to.
"""

from __future__ import annotations

import contextlib
import errno
import json
import math
import os
import re
import secrets
import socket
import time
import weakref
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from algos.finding import InputError
from experiments.store.locks import Held, Lock
from experiments.store.schema import FINISHED, STATUSES, Status
from experiments.store.troubles import StoreFull as StoreFull
from experiments.store.troubles import clear as clear
from experiments.store.troubles import no_space as no_space

_AGE_S = 0.5
_SIZE_BYTES = 64 * 1024
#: Room kept aside in each live run's folder: even on a full disk there is space for how the attempt ended.
_BALLAST_BYTES = 2 * _SIZE_BYTES
_NAME = re.compile(r"spool\.(\d+)\.jsonl")
_TRACEBACK_BYTES = 60_000
_TAILS_BYTES = (4 * 1024, 256 * 1024)
_encode = json.JSONEncoder(separators=(",", ":")).encode


def now_ms() -> int:
    """The wall clock, in milliseconds since 1970."""
    return time.time_ns() // 1_000_000


def spools(folder: Path) -> list[tuple[int, Path]]:
    """(attempt, path) of a run's spools, oldest first."""
    with os.scandir(folder) as entries:
        found = [(int(match[1]), Path(entry.path)) for entry in entries if (match := _NAME.fullmatch(entry.name))]
    return sorted(found)


def parse(data: bytes) -> Iterator[dict[str, Any]]:
    """The lines of a spool's bytes. Half lines, which a kill in mid-write leaves, are skipped."""
    for line in data.split(b"\n"):
        if not line:
            continue
        try:
            parsed = json.loads(line)
        except ValueError:
            continue
        if isinstance(parsed, dict) and "kind" in parsed:
            yield parsed


def read(path: Path) -> Iterator[dict[str, Any]]:
    """The lines of one spool so far."""
    return parse(path.read_bytes())


class Seen:
    """What earlier attempts of a run have spooled, so that a resumed one writes nothing twice.

    A resumed attempt goes back to its checkpoint and recomputes, bit for bit, what came after it. highest: the highest
    update of each metric. events: (name, update) of those events that say their update.
    """

    def __init__(self, folder: Path):
        self.highest: dict[str, int] = {}
        self.events: set[tuple[str, int]] = set()
        self.update = 0
        for _, path in spools(folder):
            for line in read(path):
                self._add(line)

    def _add(self, line: Mapping[str, Any]) -> None:
        kind = line["kind"]
        if kind == "points":
            for metric in line["values"]:
                self._raise(metric, line["update"])
        elif kind == "nonfinite":
            self._raise(line["metric"], line["update"])
        elif kind == "event" and "update" in line:
            self.events.add((line["name"], line["update"]))

    def _raise(self, metric: str, update: int) -> None:
        self.highest[metric] = max(update, self.highest.get(metric, -1))
        self.update = max(update, self.update)

    def fresh(self, update: int, values: Mapping[str, float]) -> Mapping[str, float]:
        """Those values that no earlier attempt has written."""
        if update > self.update:
            return values
        return {metric: value for metric, value in values.items() if update > self.highest.get(metric, -1)}


class Attempt:
    """One process's turn at a run, from `RunFolder.begin` to `end`. It owns the run's lock for that long.

    number counts from 1. Not for use by several threads at once; a forked child has no part in it.
    """

    def __init__(self, folder: Path, run_id: str, resumed_from: int = 0):
        self.folder, self.run_id, self.token = folder, run_id, secrets.token_hex(8)
        self._file: int | None = None
        self._last_words: dict[str, Any] = {}
        try:
            self._lock = _take(folder, run_id)
        except OSError as error:
            raise clear(error, folder) from error
        try:
            earlier = spools(folder)
            close_lost(folder)
            self._seen = Seen(folder)
            self.number = earlier[-1][0] + 1 if earlier else 1
            self._buffer = bytearray()
            self._written_at = time.monotonic()
            self._update = max(resumed_from, self._seen.update)
            self._begin(resumed_from)
        except BaseException as error:
            self.release()
            if isinstance(error, OSError):
                raise clear(error, folder) from error
            raise

    def _begin(self, resumed_from: int) -> None:
        """The spool with its first line, and the ballast; neither of them where there is no space for both."""
        path, ballast = self.folder / f"spool.{self.number}.jsonl", self.folder / "ballast"
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o644)
        try:
            ballast.write_bytes(bytes(_BALLAST_BYTES))
            _OPEN.add(self)
            began = {"attempt": self.number, "token": self.token, "pid": os.getpid(), "host": socket.gethostname()}
            self._line("began", **began, resumed_from=resumed_from)
            self.flush()
        except BaseException:
            path.unlink()
            ballast.unlink(missing_ok=True)
            raise

    def points(self, update: int, values: Mapping[str, float]) -> None:
        """Values measured after `update` completed updates. One that is not finite becomes an event, never a point."""
        fresh = self._seen.fresh(update, values)
        finite = {}
        for metric, value in fresh.items():
            number = float(value)
            if math.isfinite(number):
                finite[metric] = number
            else:
                self._line("nonfinite", update=update, metric=metric, value=repr(number))
        if finite:
            self._append(f'{{"kind":"points","at":{now_ms()},"update":{update},"values":{_encode(finite)}}}\n')
        if update > self._update:
            self._update = update

    def event(self, name: str, **data: Any) -> None:
        """Something worth telling. One that says its `update` is written once, however often it is recomputed."""
        if "update" in data and (name, data["update"]) in self._seen.events:
            return
        self._line("event", name=name, **{key: _plain(value) for key, value in data.items()})
        self.flush()

    def final(self, values: Mapping[str, float]) -> None:
        """What the run comes to: test metrics and the objective."""
        self._final(values)
        self.flush()

    def _final(self, values: Mapping[str, float]) -> None:
        finite = {metric: float(value) for metric, value in values.items() if math.isfinite(value)}
        for metric in values.keys() - finite.keys():
            self._line("nonfinite", update=self._update, metric=metric, value=repr(float(values[metric])))
        self._line("final", update=self._update, values=finite)

    def flush(self, sync: bool = False) -> None:
        """Hands the buffer to the system: a killed process then loses none of it. sync: also survives a power cut."""
        assert self._file is not None, "the attempt has ended"
        while self._buffer:
            try:
                written = os.write(self._file, self._buffer)
            except OSError as error:
                raise clear(error, self.folder) from error
            del self._buffer[:written]
        self._written_at = time.monotonic()
        if sync:
            try:
                os.fsync(self._file)
            except OSError as error:  # some systems find out only here that there is no space
                raise clear(error, self.folder) from error

    def end(self, status: Status, reason: str = "", traceback: str = "") -> Status:
        """Says how the attempt ended, in its last line, and gives the run back. What it says is returned: a run whose
        last points found no space is not over, but interrupted. StoreFull where there is no room even for that word.
        """
        assert status in STATUSES, status
        assert status != "running"
        (self.folder / "ballast").unlink(missing_ok=True)
        self._last_words = {"at": now_ms(), "status": status, "reason": reason, "traceback": _cut(traceback)}
        self._line("ended", **self._last_words)
        try:
            self.flush(sync=True)
        except StoreFull as full:
            self._last_words |= {"status": "interrupted", "reason": str(full.strerror), "traceback": ""}
            self._buffer.clear()
            append(self.folder / f"spool.{self.number}.jsonl", {"kind": "ended", **self._last_words})
            return "interrupted"
        finally:
            self.release()
        return status

    def amend(self, update: int, values: Mapping[str, float], final: Mapping[str, float]) -> None:
        """What was measured after `end`, in the same process: points, the whole of `final` anew, and the same last
        words again, the time of the end among them. All of it or nothing: a run that is over stays over. InputError
        where another attempt has gone on.
        """
        assert self._last_words, "the attempt goes on"
        path = self.folder / f"spool.{self.number}.jsonl"
        with _again(self.folder, self.run_id, path):
            self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
            size = os.fstat(self._file).st_size
            self._written_at = math.inf  # one write: no line of it goes ahead
            try:
                self.points(update, values)
                self._final(final)
                self._line("ended", **self._last_words)
                self.flush(sync=True)
            except OSError:
                os.ftruncate(self._file, size)
                raise
            finally:
                self._buffer.clear()
                os.close(self._file)
                self._file = None
            os.utime(self.folder)  # a run that was settled is looked at again

    def release(self) -> None:
        """Gives the run back without a last word; it then reads as lost."""
        if self._file is not None:
            os.close(self._file)
            self._file = None
            _OPEN.discard(self)
        self._lock.release()

    def _line(self, kind: str, **data: Any) -> None:
        self._append(_encode({"kind": kind, "at": now_ms(), **data}) + "\n")

    def _append(self, line: str) -> None:
        self._buffer += line.encode()
        if len(self._buffer) > _SIZE_BYTES or time.monotonic() - self._written_at > _AGE_S:
            self.flush()

    def close_in_child(self) -> None:
        """A forked child must neither write the parent's buffer a second time nor keep its file open."""
        if self._file is not None:
            os.close(self._file)
            self._file = None
            self._buffer.clear()


_OPEN: weakref.WeakSet[Attempt] = weakref.WeakSet()


def _close_all_in_child() -> None:
    for attempt in list(_OPEN):
        attempt.close_in_child()


os.register_at_fork(after_in_child=_close_all_in_child)


def ending(folder: Path) -> dict[str, Any] | None:
    """The "ended" line of the newest attempt; None where it runs, is lost, or there is none. Reads the end only."""
    found = spools(folder)
    if not found:
        return None
    line = last_line(found[-1][1])
    return line if line is not None and line["kind"] == "ended" else None


def last_line(path: Path) -> dict[str, Any] | None:
    """The last whole line of a spool, read from its end."""
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        for tail in (*_TAILS_BYTES, size):
            file.seek(start := max(0, size - tail))
            lines = file.read().split(b"\n")
            for line in reversed(lines if start == 0 else lines[1:]):  # the first one may be the end of a line
                for parsed in parse(line):
                    return parsed
            if start == 0:
                break
    return None


def close_lost(folder: Path) -> bool:
    """Writes "lost" under a newest attempt that ended without a word. Only for the owner of the run's lock."""
    found = spools(folder)
    if not found or ending(folder) is not None:
        return False
    (folder / "ballast").unlink(missing_ok=True)  # room for the line
    line = {"kind": "ended", "at": now_ms(), "status": "lost", "reason": "its process vanished", "traceback": ""}
    append(found[-1][1], line)
    return True


def append(path: Path, line: Mapping[str, Any]) -> None:
    """Adds a line to a spool that nobody writes to, whole and synced, or not at all. Half a line that a kill or a full
    disk left is cut off first."""
    with path.open("rb+", buffering=0) as file:
        size = _whole(file)
        data = _encode(line).encode() + b"\n"
        file.truncate(size)
        file.seek(size)
        try:
            if file.write(data) != len(data):
                raise OSError(errno.ENOSPC, "half a line was written")
            os.fsync(file.fileno())
        except OSError as error:
            file.truncate(size)
            raise clear(error, path.parent) from error


def _whole(file: Any) -> int:
    """Bytes of an open spool up to the end of its last line that is whole."""
    size = file.seek(0, os.SEEK_END)
    for tail in (*_TAILS_BYTES, size):
        file.seek(start := max(0, size - tail))
        if (end := file.read(size - start).rfind(b"\n") + 1) or start == 0:
            return int(start + end)
    return 0


def _cut(traceback: str) -> str:
    """The end of a traceback, short enough for the room that is kept aside for it."""
    while len(_encode(traceback)) > _TRACEBACK_BYTES:
        traceback = traceback[len(traceback) // 8 + 1 :]
    return traceback


def _take(folder: Path, run_id: str) -> Lock:
    try:
        lock = Lock(folder / "owner.lock").take()
    except Held as held:
        owner = held.owner
        who = f"pid {owner['pid']} on host {owner['host']}" if {"pid", "host"} <= owner.keys() else "another process"
        raise InputError(
            f"run {run_id} is already running ({who})", "wait for it, or stop it", rule="already-running", source=run_id
        ) from None
    last = ending(folder)
    if last is not None and last["status"] in FINISHED:
        lock.release()
        raise InputError(
            f"run {run_id} is {last['status']}: it is over", "start a new run", rule="already-over", source=run_id
        )
    return lock


def _again(folder: Path, run_id: str, path: Path) -> Lock:
    """The lock of a run that this process has ended, while its newest spool is still `path`."""
    with contextlib.suppress(Held):
        lock = Lock(folder / "owner.lock").take(wait_s=10.0)
        if spools(folder)[-1][1] == path:
            return lock
        lock.release()
    raise InputError(f"run {run_id} has gone on elsewhere", "start a new run", rule="already-running", source=run_id)


def _plain(value: Any) -> Any:
    """JSON knows no nan; numbers of other libraries become Python's."""
    if isinstance(value, (str, bool, int, type(None))):
        return value
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set)):
        return [_plain(item) for item in value]
    if hasattr(value, "item"):
        return _plain(value.item())
    if isinstance(value, float):
        return value if math.isfinite(value) else repr(value)
    return str(value)
