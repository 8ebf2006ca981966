"""Passing troubles: errors of the machine around a run, not of the run: a network or a disk that was away for a while.

A run that meets one is interrupted, not crashed, and goes on from its checkpoint; the third time it has crashed.
"""

from __future__ import annotations

import errno

#: Attempts of a run that may end so.
MOST = 3
_NUMBERS = frozenset(
    (
        errno.EIO, errno.ESTALE, errno.ETIMEDOUT, errno.ECONNRESET, errno.ECONNREFUSED, errno.ECONNABORTED,
        errno.EHOSTUNREACH, errno.ENETUNREACH, errno.ENETDOWN, errno.EBUSY, errno.EREMOTEIO,
    )
)  # fmt: skip


def passes(error: BaseException | None, attempts: int) -> bool:
    """Whether a run that raised this in its so-many-th attempt is to be tried again. What it was raised
    from counts."""
    while error is not None and attempts < MOST:
        if isinstance(error, (ConnectionError, TimeoutError)):
            return True
        if isinstance(error, OSError) and error.errno in _NUMBERS:
            return True
        error = error.__cause__
    return False


def said(last_line: str) -> str:
    """The reason of such an interruption."""
    return f"{last_line} (trouble that may pass: it goes on from its checkpoint)"
