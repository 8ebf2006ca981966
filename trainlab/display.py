"""Progress, where people look: a live table in a terminal or a notebook, plain lines in a log.

    with watching() as listener:
        train(config, listener=listener)

A log gets a line when a run ends, and otherwise one every few seconds, ever more seldom, so that an overnight sweep of
thousands stays readable. Everything goes to stderr: a command's stdout is its answer.
"""

from __future__ import annotations

import html
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TextIO

from experiments.progress import Event, Listener, Notice, RunEnded, RunNotice, RunProgress, StudyPlanned
from trainlab.board import Board, Row
from trainlab.plain import duration

if TYPE_CHECKING:
    from rich.console import Group
    from rich.table import Table

#: Seconds between two lines of a log that tell of a run under way, and between two drawings in a notebook.
LOG_EVERY_S = 5.0
DRAW_EVERY_S = 0.5
#: Of all that a log has told, one part in so many is told of the time since: its lines grow with the time's logarithm.
LOG_PART = 100
#: So many runs end with a line of their own; then those of a while share one.
LINES = 100
#: Rows of a live table.
ROWS = 10
_MARKS = {"running": "cyan", "completed": "green", "interrupted": "yellow", "pruned": "yellow"}


@contextmanager
def watching(stream: TextIO | None = None, board: Board | None = None) -> Iterator[Listener]:
    """The listener that fits where this process runs. board: what it fills, so that another display may go on."""
    stream, board = stream or sys.stderr, board or Board()
    if not in_notebook() and stream.isatty():
        with live(stream, board) as listener:
            yield listener
        return
    shown = Notebook(board=board) if in_notebook() else Log(stream, board=board)
    try:
        yield shown.take
    finally:
        shown.close()


def in_notebook() -> bool:
    """Whether this process is a Jupyter kernel."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    return type(shell).__name__ == "ZMQInteractiveShell"


class Log:
    """Plain lines: one when a run ends, one every few seconds while it trains. board: what another display knew."""

    def __init__(self, stream: TextIO, clock: Callable[[], float] = time.monotonic, board: Board | None = None):
        self.board = board or Board(clock)
        self._stream = stream
        self._clock = clock
        self._began = self._told = clock()
        self._lines = 0
        self._untold: Counter[str] = Counter()
        self._last = Row("")
        self._lock = threading.Lock()

    def take(self, event: Event) -> None:
        new_study = isinstance(event, StudyPlanned) and self.board.study != event.study
        row = self.board.take(event)
        with self._lock:
            if isinstance(event, StudyPlanned):
                if new_study:
                    self._say(f"study {event.study}: {event.due} runs to do, {event.done} done before")
            elif isinstance(event, Notice):
                self._say(event.text)
            elif isinstance(event, RunEnded) and row is not None:
                self._untold[event.status] += 1
                self._last = row
                if self._lines < LINES or self._is_time():
                    self._tell_ended()
            elif isinstance(event, RunNotice) and row is not None and (self._lines < LINES or self._is_time()):
                self._lines += 1
                self._say(self._place() + row.line())
            elif isinstance(event, RunProgress) and row is not None and self._is_time():
                self._tell_running(row)

    def close(self) -> None:
        """Tells what was kept back."""
        with self._lock:
            self._tell_ended()

    def _tell_running(self, row: Row) -> None:
        if self._untold:
            self._tell_ended()
            return
        at_once = len(self.board.running)
        if at_once == 1:
            self._say(self._place() + row.line())
        else:  # one line for all
            self._say(self._place() + "; ".join(each.line() for each in self.board.shown(2)))

    def _tell_ended(self) -> None:
        count = self._untold.total()
        if not count:
            return
        told = "" if count == 1 else f"{_counts(self._untold)}; the last: "
        self._untold.clear()
        self._lines += 1
        self._say(f"{self._place()}{told}{self._last.line()}")

    def _is_time(self) -> bool:
        now = self._clock()
        return now - self._told >= max(LOG_EVERY_S, (now - self._began) / LOG_PART)

    def _place(self) -> str:
        return f"[{self.board.over}/{max(self.board.total, self.board.over)}] " if self.board.total else ""

    def _say(self, line: str) -> None:
        print(line, file=self._stream, flush=True)
        self._told = self._clock()


def _counts(statuses: Counter[str]) -> str:
    """
    >>> _counts(Counter(completed=35, crashed=2))
    '37 runs: 35 completed, 2 crashed'
    """
    return f"{statuses.total()} runs: " + ", ".join(f"{count} {status}" for status, count in statuses.items())


@contextmanager
def live(stream: TextIO, board: Board | None = None) -> Iterator[Listener]:
    """A table in a terminal that redraws itself; its last state stays."""
    from rich.console import Console
    from rich.live import Live

    board = board or Board()

    def listen(event: Event) -> None:
        board.take(event)

    with Live(console=Console(file=stream), get_renderable=lambda: _drawn(board), refresh_per_second=4) as view:
        yield listen
        view.refresh()


def _drawn(board: Board) -> Group:
    from rich.console import Group
    from rich.text import Text

    told = [Text(line) for line in (board.counted(), board.said) if line]
    return Group(_table(board), *told)


def _table(board: Board) -> Table:
    from rich.markup import escape
    from rich.progress_bar import ProgressBar
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    table.add_column("run", no_wrap=True, overflow="ellipsis", ratio=3, max_width=40)
    table.add_column("status", no_wrap=True)
    table.add_column("", width=16)
    table.add_column("update", justify="right")
    table.add_column("time", justify="right", no_wrap=True)
    table.add_column("measured", ratio=4, overflow="fold")
    for row in board.shown(ROWS):
        colour = _MARKS.get(row.status, "red")
        table.add_row(
            escape(row.name),
            f"[{colour}]{row.status}[/]",
            ProgressBar(total=1.0, completed=row.fraction, width=16),
            str(row.update),
            duration(row.seconds),
            escape(row.reason if row.status in ("crashed", "diverged") else row.measured()),
        )
    return table


class Notebook:
    """A table in the cell's output: one output that is replaced, so there is no widget state to clear, and it needs no
    extension."""

    def __init__(self, clock: Callable[[], float] = time.monotonic, board: Board | None = None):
        self.board = board or Board(clock)
        self._clock = clock
        self._drawn = -DRAW_EVERY_S
        self._handle: Any = None
        self._lock = threading.Lock()

    def take(self, event: Event) -> None:
        self.board.take(event)
        with self._lock:
            if isinstance(event, Notice) or self._clock() - self._drawn >= DRAW_EVERY_S:
                self._drawn = self._clock()
                self._draw()

    def close(self) -> None:
        """Draws how it all stood at the end."""
        with self._lock:
            self._draw()

    def _draw(self) -> None:
        from IPython.display import display

        bundle = {"text/html": self.as_html(), "text/plain": self.as_text()}
        if self._handle is None:
            self._handle = display(bundle, raw=True, display_id=True)
        else:
            self._handle.update(bundle, raw=True)

    def as_text(self) -> str:
        lines = [row.line() for row in self.board.shown(ROWS)]
        return "\n".join([*lines, *self._told()])

    def as_html(self) -> str:
        rows = "".join(
            f"<tr><td>{html.escape(row.name)}</td><td>{row.status}</td>"
            f"<td><progress max='1' value='{row.fraction:.3f}'></progress></td><td>{row.update}</td>"
            f"<td>{duration(row.seconds)}</td><td>{html.escape(row.measured() or row.reason)}</td></tr>"
            for row in self.board.shown(ROWS)
        )
        head = "".join(f"<th>{name}</th>" for name in ("run", "status", "", "update", "time", "measured"))
        told = "".join(f"<p>{html.escape(line)}</p>" for line in self._told())
        return f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>{told}"

    def _told(self) -> list[str]:
        return [line for line in (self.board.counted(), self.board.said) if line]
