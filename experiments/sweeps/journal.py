"""The journal: a home's queue as Optuna's append-only file, whose lock dies with its owner.

Half a line that a kill or a full disk left is cut off under the lock, before anything is glued to it.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend
from optuna.storages.journal._file import BaseJournalFileLock

JOURNAL = "optuna.journal"


class KernelLock(BaseJournalFileLock):
    """flock on a file beside the journal: released by the kernel when its owner dies."""

    def __init__(self, journal: Path):
        self._journal = journal
        self._path = journal.with_name(journal.name + ".lock")
        self._file = -1

    def acquire(self) -> bool:
        self._file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        fcntl.flock(self._file, fcntl.LOCK_EX)
        try:
            cut_half_line(self._journal)
        except BaseException:
            self.release()
            raise
        return True

    def release(self) -> None:
        os.close(self._file)
        self._file = -1


def cut_half_line(journal: Path) -> bool:
    """Drop what a kill left of an unfinished last line. Only under the journal's lock. Whether there was one."""
    if not journal.exists() or journal.stat().st_size == 0:
        return False
    with journal.open("rb+") as file:
        file.seek(-1, os.SEEK_END)
        if file.read(1) == b"\n":
            return False
        whole = journal.read_bytes()
        file.truncate(whole.rfind(b"\n") + 1)
    return True


def mended(home: Path) -> bool:
    """Cut the half line of a home's journal, if there is one, under its lock. Whether there was one."""
    journal = home / JOURNAL
    lock = KernelLock(journal)
    before = journal.stat().st_size if journal.exists() else 0
    lock.acquire()
    lock.release()
    return journal.exists() and journal.stat().st_size < before


class Journal(JournalFileBackend):
    """Optuna's backend, but for reading under the lock too: a reader beside somebody who cuts half a line and writes
    another in its place could take the two for one."""

    def __init__(self, path: Path):
        self._alone = KernelLock(path)
        super().__init__(str(path), lock_obj=self._alone)

    def read_logs(self, log_number_from: int) -> Iterator[dict[str, Any]]:  # type: ignore[override]
        self._alone.acquire()
        try:
            return iter(list(super().read_logs(log_number_from)))
        finally:
            self._alone.release()


def open_journal(home: Path) -> JournalStorage:
    """The queue of a home; made where there is none."""
    mended(home)
    return JournalStorage(Journal(home / JOURNAL))
