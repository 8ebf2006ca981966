"""Attending: what a command that trains keeps up: progress where people look, a stop that Ctrl-C, SIGTERM and the
clock ask for, and a log for when nobody looks any more.

    with attended(home, study="demo") as watch:
        with watch.showing():
            sweep(study, listener=watch.take, stop=watch.stop)
"""

from __future__ import annotations

import _thread
import os
import signal
import sys
import threading
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from experiments.events import to_json
from experiments.progress import Event, Listener, Notice, RunEnded, RunStarted, StudyPlanned
from experiments.stopping import Stop, stopping
from experiments.store.home import Home
from experiments.until import Until, stopping_at
from trainlab.board import Board
from trainlab.detached import Output, Screen, discard
from trainlab.display import Log, in_notebook, watching

#: The stops of commands whose runs are all over, and that only wait for MLflow.
_OUTSTANDING: weakref.WeakSet[Stop] = weakref.WeakSet()


class Watch:
    """stop: asks what runs to stop. begun: whether a run or study has begun, so that nothing is refused any more.
    alone: whether nobody reads along any more, and the log has what is said. halted: the ids of runs that were
    interrupted."""

    def __init__(self, home: Home, study: str = "", events: bool = False):
        self.stop = Stop()
        self.begun = False
        self.alone = False
        self.halted: list[str] = []
        self.study = study
        self._output = Output(home, study)
        self._owner = os.getpid()
        self._events = events
        self._board = Board()
        self._show: Listener | None = None
        self._log: Log | None = None
        self._screen: Screen | None = None
        self._streams = sys.stdout, sys.stderr
        self._lock = threading.RLock()

    @contextmanager
    def showing(self) -> Iterator[Listener]:
        """Within it progress is shown."""
        try:
            if self._events:
                self._show = self._print
                yield self.take
                return
            self._streams = sys.stdout, sys.stderr  # while a table is live, rich has others in their places
            self._screen = Screen(sys.stderr, self._lose, drawn=sys.stderr.isatty() and not in_notebook())
            stream: Any = self._screen
            with watching(stream, self._board) as self._show:
                yield self.take
        finally:
            if self._log is not None:
                self._log.close()
            self._show = self._screen = self._log = None

    def take(self, event: Event) -> None:
        """Tell an event to whoever looks. Never raises for a terminal, a pipe or a disk that has gone."""
        if not self.begun and isinstance(event, StudyPlanned | RunStarted):
            self.begun = True
            if self._output.leaves:
                self._output.move({2} if self._events else {1, 2})
                note(f"{_now()} process {os.getpid()}")
        if isinstance(event, RunEnded) and event.status == "interrupted":
            self.halted.append(event.run_id)
        show = self._show
        if show is not None:
            show(event)

    def tell(self, line: str) -> None:
        """Say a line, beside what is shown. May be called in any thread."""
        if self.stop in _OUTSTANDING and line.partition(": ")[2].startswith("stopping after this update"):
            line = f"{line.partition(':')[0]}: all runs are done; MLflow gets the rest with the next command"
        if self._show is not None:
            self.take(Notice(line))
        else:
            note(line)

    def hung_up(self, number: int, frame: FrameType | None) -> None:
        """SIGHUP: the terminal has closed. What is said goes to the log; nothing else changes."""
        if self.alone or os.getpid() != self._owner:
            return
        if self._screen is not None:
            self._screen.gone = True
        self._output.move()
        _thread.start_new_thread(self._go_on_alone, ("the terminal closed",))

    def _lose(self) -> None:
        """Writing has failed: whoever read along is gone."""
        discard(self._streams[1], 2)
        self._output.move({2})
        self._go_on_alone("nobody reads this any more")

    def _go_on_alone(self, why: str) -> None:
        with self._lock:
            if self.alone:
                return
            self.alone = True
        if self._screen is not None:
            self._screen.gone = True
        sys.stdout, sys.stderr = self._streams
        shows = f"trainlab status {self.study}" if self.study else "trainlab runs"
        note(f"{_now()} {why}; process {os.getpid()} goes on and says it here")
        note(f"how it stands: {shows}    stop it, resumable: kill {os.getpid()}")
        if self._show is not None:
            self._log = Log(sys.stderr, board=self._board)
            self._show = self._log.take

    def _print(self, event: Event) -> None:
        self._board.take(event)
        try:
            with self._lock:
                print(to_json(event), flush=True)
        except OSError:  # whoever watched is gone; the runs go on, and what they say goes where stderr goes
            discard(sys.stdout, 1)
            os.dup2(2, 1)
            self._go_on_alone("whoever started this is gone")


@contextmanager
def attended(home: Home, *, study: str = "", until: Until | None = None, events: bool = False) -> Iterator[Watch]:
    """A Watch. events: progress is JSON on stdout, an event a line. Signals' handlers are put back after."""
    watch = Watch(home, study, events)
    with stopping(watch.tell) as watch.stop, _hanging_up(watch), stopping_at(until, watch.stop, watch.tell):
        yield watch


@contextmanager
def _hanging_up(watch: Watch) -> Iterator[None]:
    """SIGHUP is the watch's, where it was not ignored (nohup) and signals can be had at all."""
    usable = threading.current_thread() is threading.main_thread() and hasattr(signal, "SIGHUP")
    if not usable or signal.getsignal(signal.SIGHUP) is not signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGHUP, watch.hung_up)
    try:
        yield
    finally:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)


def outstanding(stop: Stop) -> None:
    """From now on only MLflow is waited for: who asks to stop is told so."""
    _OUTSTANDING.add(stop)


def note(line: str) -> None:
    """A line beside the answer: on stderr, in a notebook in the cell. Never in anybody's way."""
    try:
        print(line, file=sys.stdout if in_notebook() else sys.stderr, flush=True)
    except OSError:
        return


def _now() -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S")
