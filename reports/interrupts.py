"""Interrupts: what Ctrl-C does while a report is made, and while it is written."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator


def heard() -> contextlib.AbstractContextManager[None]:
    """Ctrl-C ends what is inside, at the latest when it is done: what Python raises in the midst of a finalizer, it
    prints and forgets."""
    return _listening(at_once=True)


def uninterrupted(said: str) -> contextlib.AbstractContextManager[None]:
    """Ctrl-C waits until what is inside is done, and then says what became of it."""
    return _listening(at_once=False, said=said)


@contextlib.contextmanager
def _listening(*, at_once: bool, said: str = "") -> Iterator[None]:
    """Where nobody else listens for Ctrl-C. Signals reach the main thread alone."""
    came: list[int] = []

    def interrupt(number: int, _: object) -> None:
        came.append(number)
        if at_once:
            raise KeyboardInterrupt(said)

    of_python = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if not of_python or threading.current_thread() is not threading.main_thread():
        yield
        return
    signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if came:
        raise KeyboardInterrupt(said)
