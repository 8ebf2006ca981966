"""Stopping: a flag that asks a run to stop after its update, and the signals that raise it. Torch-free."""

from __future__ import annotations

import _thread
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


class Stop:
    """Ask a run to stop after the update it is in, resumable. May be requested from any thread or a signal handler.

    outer: one that stops this one too, and is not stopped by it. reason: of the first request. planned: it was asked
    for beforehand (a time to stop at), so nothing is interrupted. signals: how often Ctrl-C or SIGTERM came.
    """

    def __init__(self, outer: Stop | None = None) -> None:
        self.signals = 0
        self._outer = outer
        self._requested = False
        self._reason = ""
        self._planned = False

    @property
    def requested(self) -> bool:
        return self._requested or (self._outer is not None and self._outer.requested)

    @property
    def reason(self) -> str:
        return self._reason if self._requested or self._outer is None else self._outer.reason

    @property
    def planned(self) -> bool:
        return self._planned if self._requested or self._outer is None else self._outer.planned

    def request(self, reason: str = "asked to stop", *, planned: bool = False) -> None:
        if not self._requested:
            self._reason, self._planned = reason, planned
            self._requested = True
        elif not planned:
            self._planned = False


class StopNow(BaseException):
    """A second Ctrl-C or SIGTERM: stop here; the run resumes from its last checkpoint. (Not KeyboardInterrupt:
    Lightning answers that one by ending the process.)"""


class Interrupted(BaseException):
    """A run was asked to stop, and has: it can be resumed. (Not an Exception: nothing may take it for a fault.)"""


@contextmanager
def stopping(tell: Callable[[str], None] | None = None) -> Iterator[Stop]:
    """A Stop that Ctrl-C and SIGTERM request; the second signal raises StopNow. Handlers are put back after. Outside
    the main thread no signal is touched, and forked children are left to their parent.

    tell: told once, in a thread of its own, what the first signal does and what a second would.
    """
    stop = Stop()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    owner = os.getpid()

    def handle(number: int, frame: FrameType | None) -> None:
        if os.getpid() != owner:
            if number == signal.SIGTERM:
                signal.signal(number, signal.SIG_DFL)
                os.kill(os.getpid(), number)
            return
        name = "Ctrl-C" if number == signal.SIGINT else signal.Signals(number).name
        stop.signals += 1
        stop.request(name)
        if stop.signals > 1:
            raise StopNow(name)
        if tell is not None:  # a handler may hold no lock, so it prints nothing itself
            _thread.start_new_thread(tell, (f"{name}: stopping after this update; {name} again stops now",))

    before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
