"""Progress, where people look: a live table in a terminal or a notebook, plain lines in a log.

    with watching() as listener:
        train(config, listener=listener)

A log gets a line when a run ends, and otherwise one every few seconds, so an overnight sweep stays readable.
Everything goes to stderr: a command's stdout is its answer.
"""

from __future__ import annotations

import html
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TextIO

from experiments.progress import Event, Listener, RunEnded, RunNotice, RunProgress, StudyPlanned
from trainlab.board import Board
from trainlab.plain import duration

if TYPE_CHECKING:
    from rich.table import Table

#: Seconds between two lines of a log that tell of a run under way, and between two drawings in a notebook.
LOG_EVERY_S = 5.0
DRAW_EVERY_S = 0.5
#: Rows of a live table.
ROWS = 10
_MARKS = {"running": "cyan", "completed": "green", "interrupted": "yellow", "pruned": "yellow"}


@contextmanager
def watching(stream: TextIO | None = None) -> Iterator[Listener]:
    """The listener that fits where this process runs."""
    stream = stream or sys.stderr
    if in_notebook():
        yield Notebook().take
    elif stream.isatty():
        with live(stream) as listener:
            yield listener
    else:
        yield Log(stream).take


def in_notebook() -> bool:
    """Whether this process is a Jupyter kernel."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    return type(shell).__name__ == "ZMQInteractiveShell"


class Log:
    """Plain lines: one when a run ends, one every few seconds while it trains."""

    def __init__(self, stream: TextIO, clock: Callable[[], float] = time.monotonic):
        self.board = Board()
        self._stream = stream
        self._clock = clock
        self._told = clock()

    def take(self, event: Event) -> None:
        new_study = isinstance(event, StudyPlanned) and self.board.study != event.study
        self.board.take(event)
        if isinstance(event, StudyPlanned):
            if new_study:
                self._say(f"study {event.study}: {event.due} runs to do, {event.done} done before")
        elif isinstance(event, RunEnded | RunNotice) or (isinstance(event, RunProgress) and self._is_time()):
            self._say(self._place() + self.board.rows[event.run_id].line())

    def _is_time(self) -> bool:
        return self._clock() - self._told >= LOG_EVERY_S

    def _place(self) -> str:
        return f"[{self.board.over}/{self.board.total}] " if self.board.total else ""

    def _say(self, line: str) -> None:
        print(line, file=self._stream, flush=True)
        self._told = self._clock()


@contextmanager
def live(stream: TextIO) -> Iterator[Listener]:
    """A table in a terminal that redraws itself; its last state stays."""
    from rich.console import Console
    from rich.live import Live

    board = Board()
    with Live(console=Console(file=stream), get_renderable=lambda: _table(board), refresh_per_second=4) as view:
        yield board.take
        view.refresh()


def _table(board: Board) -> Table:
    from rich.markup import escape
    from rich.progress_bar import ProgressBar
    from rich.table import Table

    table = Table(box=None, pad_edge=False, caption=escape(board.counted()) or None, caption_justify="left")
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

    def __init__(self, clock: Callable[[], float] = time.monotonic):
        self.board = Board()
        self._clock = clock
        self._drawn = -DRAW_EVERY_S
        self._handle: Any = None

    def take(self, event: Event) -> None:
        self.board.take(event)
        if isinstance(event, RunEnded) or self._clock() - self._drawn >= DRAW_EVERY_S:
            self._drawn = self._clock()
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
        return "\n".join([*lines, *filter(None, [self.board.counted()])])

    def as_html(self) -> str:
        rows = "".join(
            f"<tr><td>{html.escape(row.name)}</td><td>{row.status}</td>"
            f"<td><progress max='1' value='{row.fraction:.3f}'></progress></td><td>{row.update}</td>"
            f"<td>{duration(row.seconds)}</td><td>{html.escape(row.measured() or row.reason)}</td></tr>"
            for row in self.board.shown(ROWS)
        )
        head = "".join(f"<th>{name}</th>" for name in ("run", "status", "", "update", "time", "measured"))
        told = f"<p>{html.escape(self.board.counted())}</p>" if self.board.counted() else ""
        return f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>{told}"
