"""Stopping: a flag that asks a run to stop after its update, and the signals that raise it. Torch-free."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Stop:
    """Ask a run to stop after the update it is in, resumable. May be requested from any thread or a signal handler."""

    def __init__(self) -> None:
        self.requested = False
        self.reason = ""

    def request(self, reason: str = "asked to stop") -> None:
        if not self.requested:
            self.reason = reason
            self.requested = True


class StopNow(BaseException):
    """A second Ctrl-C or SIGTERM: stop here; the run resumes from its last checkpoint. (Not KeyboardInterrupt:
    Lightning answers that one by ending the process.)"""


class Interrupted(BaseException):
    """A run was asked to stop, and has: it can be resumed. (Not an Exception: nothing may take it for a fault.)"""


@contextmanager
def stopping() -> Iterator[Stop]:
    """A Stop that Ctrl-C and SIGTERM request; the second signal raises StopNow. Handlers are put back after. Outside
    the main thread no signal is touched."""
    stop = Stop()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return

    def handle(number: int, frame: FrameType | None) -> None:
        name = signal.Signals(number).name
        if stop.requested:
            raise StopNow(name)
        stop.request("Ctrl-C" if name == "SIGINT" else name)

    before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
