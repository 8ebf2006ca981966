"""Locks that die with their process: an advisory lock on a file, never inherited by children.

A process that is killed lets go of its locks, so a lock that is free means that its owner is gone. Locks on one file
exclude each other between processes and between two `Lock`s of one process.
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
import time
import weakref
from pathlib import Path
from types import TracebackType
from typing import Any


class Held(Exception):
    """The lock has an owner. owner: what it wrote of itself, or nothing where it wrote nothing."""

    def __init__(self, path: Path, owner: dict[str, Any]):
        self.owner = owner
        who = f"process {owner['pid']} on {owner['host']}" if {"pid", "host"} <= owner.keys() else "another process"
        super().__init__(f"{path} is held by {who}")


class Lock:
    """An exclusive lock on a file, held from `take` to `release`, or to the end of the process."""

    def __init__(self, path: Path):
        self.path = path
        self._file: int | None = None
        self._remove = False

    def take(self, wait_s: float = 1.0, remove: bool = False) -> Lock:
        """Takes the lock, or raises Held after `wait_s` seconds. The short default outlasts those who only look.

        remove: the file goes when the lock is released.
        """
        deadline = time.monotonic() + wait_s
        pause = 0.005
        while (file := self._try()) is None:
            if time.monotonic() >= deadline:
                raise Held(self.path, owner(self.path))
            time.sleep(pause)
            pause = min(2 * pause, 0.1)
        _sign(file)
        self._file, self._remove = file, remove
        _HELD.add(self)
        return self

    def _try(self) -> int | None:
        file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.path.samestat(os.fstat(file), os.stat(self.path)):
                return file
        except (BlockingIOError, FileNotFoundError):
            pass
        os.close(file)  # held, or removed by its last owner in between
        return None

    def release(self) -> None:
        if self._file is not None:
            if self._remove:
                self.path.unlink(missing_ok=True)
            else:
                os.ftruncate(self._file, 0)
            fcntl.flock(self._file, fcntl.LOCK_UN)
            os.close(self._file)
            self.forget()

    def forget(self) -> None:
        self._file = None
        _HELD.discard(self)

    def close_in_child(self) -> None:
        """A forked child closes its copy: the lock then ends with the parent."""
        if self._file is not None:
            os.close(self._file)
            self.forget()

    def __enter__(self) -> Lock:
        return self if self._file is not None else self.take()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.release()


_HELD: weakref.WeakSet[Lock] = weakref.WeakSet()


def _close_all_in_child() -> None:
    for lock in list(_HELD):
        lock.close_in_child()


os.register_at_fork(after_in_child=_close_all_in_child)


def is_held(path: Path) -> bool:
    """Whether some process holds the lock on `path`. Looks for a moment and leaves no trace."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(file)
    return False


def _sign(file: int) -> None:
    """Says who owns the lock; a disk too full for that is no reason not to own it."""
    try:
        os.ftruncate(file, 0)
        os.pwrite(file, json.dumps({"pid": os.getpid(), "host": socket.gethostname()}).encode(), 0)
    except OSError:
        pass


def owner(path: Path) -> dict[str, Any]:
    """What the lock's owner wrote of itself, pid and host; nothing where it wrote nothing. Ask `is_held` first."""
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
