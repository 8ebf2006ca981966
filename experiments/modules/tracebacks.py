"""Tracebacks of faults in users' own code: trimmed to the frames that are theirs. Torch-free."""

from __future__ import annotations

import sys
import sysconfig
import traceback
from pathlib import Path

#: Where code stands that is not the user's: trainlab itself, Python's library, installed packages.
_ROOT = Path(__file__).resolve().parents[2]
_OTHERS = (
    *(str(_ROOT / name) for name in ("algos", "experiments", "reports", "trainlab")),
    *(str(Path(sysconfig.get_path(name)).resolve()) for name in ("stdlib", "platstdlib", "purelib", "platlib")),
    str(Path(sys.prefix).resolve() / "bin"),
)


def trimmed(error: BaseException) -> str:
    """The traceback with the user's frames only; whole where none of them is the user's. So for its causes.

    >>> trimmed(ValueError("no")).strip()
    'ValueError: no'
    """
    told = traceback.TracebackException.from_exception(error)
    link: traceback.TracebackException | None = told
    while link is not None:
        own = [frame for frame in link.stack if is_users(frame.filename)]
        if own:
            link.stack = traceback.StackSummary.from_list(own)
        link = link.__cause__ or (None if link.__suppress_context__ else link.__context__)
    return "".join(told.format())


def last_place(error: BaseException) -> str:
    """Where the user's code raised it, as file:line; "" where none of the frames is theirs."""
    own = [frame for frame in traceback.extract_tb(error.__traceback__) if is_users(frame.filename)]
    return f"{own[-1].filename}:{own[-1].lineno}" if own else ""


def is_users(file: str) -> bool:
    """Whether a frame's file is the user's own code (a notebook's cells are)."""
    if file.startswith("<frozen") or file == "<string>":
        return False
    if file.startswith("<"):
        return True
    place = str(Path(file).resolve())
    return not any(place == other or place.startswith(f"{other}/") for other in _OTHERS)
