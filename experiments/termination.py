"""Termination: SIGTERM as an exception, so that a block of somebody else's code can say how it ended. Torch-free."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

#: SIGTERMs that came to a handler of ours.
_came: list[int] = []


class Terminated(SystemExit):
    """SIGTERM arrived. Uncaught, the process ends with code 143, as the signal alone would have ended it."""

    def __init__(self) -> None:
        super().__init__(128 + signal.SIGTERM)


@contextmanager
def terminating() -> Iterator[Callable[[], bool]]:
    """Within it SIGTERM raises Terminated in the main thread. Only where the system's own handling stands: a handler
    of the user's, or of a block around this one, is left alone. In other threads no signal is touched. A forked child
    dies of the signal as ever. Gives what tells whether ours came since, also where the block caught the exception."""
    before = len(_came)

    def came() -> bool:
        return len(_came) > before

    if not _in_main_thread() or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield came
        return
    owner = os.getpid()

    def handle(number: int, frame: FrameType | None) -> None:
        if os.getpid() != owner:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
            return
        _came.append(number)
        raise Terminated

    signal.signal(signal.SIGTERM, handle)
    try:
        yield came
    finally:
        if signal.getsignal(signal.SIGTERM) is handle:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)


@contextmanager
def undisturbed() -> Iterator[None]:
    """Ctrl-C and SIGTERM wait until the block is over. For last words, which take milliseconds."""
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    if not _in_main_thread() or None in handlers.values():  # None: handled outside Python
        yield
        return
    waiting: list[int] = []
    for number in handlers:
        signal.signal(number, lambda number, frame: waiting.append(number))
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        for given in dict.fromkeys(waiting):
            os.kill(os.getpid(), given)


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()
