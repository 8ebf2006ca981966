"""Troubles: a full disk under a run, and what keeps runs out of MLflow, in words. Imports no mlflow.

A store that is locked, full or away takes nothing for a while, whichever run is sent; a run that is refused while the
store takes others waits by itself.
"""

from __future__ import annotations

import errno
import shutil
from collections.abc import Iterator
from pathlib import Path

#: What databases, disks and servers say, also through MLflow's own errors, and what it means.
_MEANS = {
    "is locked": "is locked by another process",
    "disk is full": "has no space left",
    "no space left": "has no space left",
    "quota exceeded": "has no space left",
    "readonly database": "cannot be written",
    "read-only file system": "cannot be written",
    "unable to open database": "cannot be opened",
    "disk i/o error": "cannot be read or written",
}
#: How the reason begins of a run that a full disk stopped.
NO_SPACE = "no space left for run"
_ROOM_BYTES = 64 * 1024


class StoreFull(OSError):
    """The run's disk is full, or its quota used up. What was spooled before stays; the run can go on later."""

    def __str__(self) -> str:
        return str(self.strerror)


def of_store(error: BaseException) -> str:
    """What the error says of the whole store; "" where it may be about one run.

    >>> of_store(ValueError("(sqlite3.OperationalError) database is locked [SQL: ...]"))
    'is locked by another process'
    >>> of_store(ValueError("the metric's name is too long"))
    ''
    """
    for cause in _chain(error):
        said = str(cause).lower()
        for words, meaning in _MEANS.items():
            if words in said:
                return meaning
        if getattr(cause, "error_code", "") == "TEMPORARILY_UNAVAILABLE":
            return "is away"
    return ""


def is_full(error: BaseException) -> bool:
    """Whether a disk without space is behind the error, whatever library raised it."""
    return any(_says_full(cause) for cause in _chain(error))


def has_room(folder: Path) -> bool:
    """Whether a disk takes a little more."""
    try:
        return shutil.disk_usage(folder).free > _ROOM_BYTES
    except OSError:
        return False


def _says_full(error: BaseException) -> bool:
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return True
    said = str(error).lower()
    return "no space left" in said or "quota exceeded" in said


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """The error and what led to it."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__


def clear(error: OSError, folder: Path) -> OSError:
    """The error as a user should see it: StoreFull where there is no space left."""
    return no_space(folder, error.errno) if error.errno in (errno.ENOSPC, errno.EDQUOT) else error


def no_space(folder: Path, number: int = errno.ENOSPC) -> StoreFull:
    """A full disk, in one line."""
    return StoreFull(number, f"{NO_SPACE} {folder.name}; free some, then run the same command again")
