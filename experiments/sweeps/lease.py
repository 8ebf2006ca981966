"""Leases: who works on a trial, and whether that somebody is still there. Torch-free.

A worker is known by a file that it holds locked as long as it lives, `HOME/workers/<name>.json`, so whoever sees the
same home knows at once whether it is dead: the kernel lets go of a dead process's locks, and of no other's. Where the
worker has a home elsewhere, the lease's beat tells: a number in the shared store that the worker raises every few
seconds. A lease whose beat stood still for `lease_s`, by the observer's own monotonic clock, is stale.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from experiments.store.home import Home
from experiments.store.locks import Lock, is_held
from experiments.store.records import write_json
from experiments.store.spool import now_ms

#: How long a beat may stand still, in seconds; it is raised six times as often.
LEASE_S = 60.0


@dataclass(frozen=True)
class Lease:
    """A worker's hold on a trial. token: of this attempt alone."""

    token: str
    worker: str
    host: str
    pid: int
    home: str
    beat: int = 0

    @property
    def place(self) -> str:
        """The worker's home, told apart from those of other machines."""
        return f"{self.host}:{self.home}"

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> Lease:
        return cls(**data)

    def beaten(self) -> Lease:
        return replace(self, beat=self.beat + 1)


@dataclass
class Worker:
    """A worker at its place: its name, and the file that says it lives. Made by `living`."""

    name: str
    home: Home
    study: str
    since: int = field(default_factory=now_ms)

    def lease(self) -> Lease:
        return Lease(secrets.token_hex(8), self.name, socket.gethostname(), os.getpid(), str(self.home.path))

    def works_on(self, trials: list[str]) -> None:
        """Says, for `trainlab status`, which trials it is at."""
        told = {"study": self.study, "pid": os.getpid(), "host": socket.gethostname(), "since": self.since}
        with contextlib.suppress(OSError):
            write_json(_said(self.home, self.name), {**told, "trials": trials, "at": now_ms()})


@contextlib.contextmanager
def living(home: Home, study: str) -> Iterator[Worker]:
    """This process as a worker of a study, until the block ends or the process dies."""
    worker = Worker(f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(3)}", home, study)
    folder = home.path / "workers"
    folder.mkdir(parents=True, exist_ok=True)
    _sweep_away(home)
    with Lock(folder / f"{worker.name}.lock").take(remove=True):
        worker.works_on([])
        try:
            yield worker
        finally:
            _said(home, worker.name).unlink(missing_ok=True)


def workers(home: Home, study: str = "") -> list[dict[str, Any]]:
    """The workers of this home that live, of one study or of all: study, pid, host, since, trials."""
    found = []
    for path in sorted((home.path / "workers").glob("*.json")):
        if is_held(path.with_suffix(".lock")):
            with contextlib.suppress(OSError, ValueError):
                told = json.loads(path.read_bytes())
                if not study or told.get("study") == study:
                    found.append({"name": path.stem, **told})
    return found


def _sweep_away(home: Home) -> None:
    """Files of workers that died."""
    for lock in (home.path / "workers").glob("*.lock"):
        if not is_held(lock):
            lock.unlink(missing_ok=True)
            _said(home, lock.stem).unlink(missing_ok=True)


def _said(home: Home, name: str) -> Path:
    return home.path / "workers" / f"{name}.json"


class Watch:
    """One observer's view of others' leases: which of them are dead."""

    def __init__(self, home: Home, lease_s: float = LEASE_S, clock: Callable[[], float] = time.monotonic):
        self._home, self._lease_s, self._clock = home, lease_s, clock
        self._seen: dict[str, tuple[int, float]] = {}

    def dead(self, lease: Lease | None) -> bool:
        """Whether its worker is gone. One without a lease never had a worker."""
        if lease is None:
            return True
        if self.near(lease):
            return not is_held(self._home.path / "workers" / f"{lease.worker}.lock")
        now = self._clock()
        beat, since = self._seen.get(lease.token, (lease.beat, now))
        if beat != lease.beat:
            since = now
        self._seen[lease.token] = (lease.beat, since)
        return now - since > self._lease_s

    def near(self, lease: Lease) -> bool:
        """Whether the worker is a process of this machine, with this home."""
        return lease.host == socket.gethostname() and lease.home == str(self._home.path)


class Heart(threading.Thread):
    """Beats for whatever a worker holds. beat: raises the beats in the store; it finds out, too, what was lost."""

    def __init__(self, beat: Callable[[], None], lease_s: float = LEASE_S):
        super().__init__(name="heart", daemon=True)
        self._beat, self._every_s = beat, lease_s / 6
        self._over = threading.Event()

    def run(self) -> None:
        while not self._over.wait(self._every_s):
            with contextlib.suppress(Exception):  # a store that is away for a while; the next beat tries again
                self._beat()

    def stop(self) -> None:
        self._over.set()
