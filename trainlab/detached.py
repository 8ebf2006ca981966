"""Detached: a command that goes on where nobody reads what it says, and the log that has it then.

A terminal closes (SIGHUP, or writing fails), a notebook's kernel dies, or the command was started to be left alone:
each time what it says goes to `HOME/studies/NAME/TIME.log` (`HOME/logs/TIME.log` outside a study) from then on.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TextIO

from algos.finding import InputError
from experiments.store.home import Home

#: Names the log to a command that is started to be left alone: it writes there once nothing can be refused any more.
LOG = "TRAINLAB_LOG"
_LOOK_S = 0.05


def log_path(home: Home, study: str = "") -> Path:
    """A new log's path, by the time."""
    folder = home.path / "studies" / study if study else home.path / "logs"
    stem = time.strftime("%Y%m%d-%H%M%S")
    taken = sum(1 for _ in folder.glob(f"{stem}*.log"))
    return folder / f"{stem}{f'-{taken + 1}' if taken else ''}.log"


class Output:
    """What this process says, and where it goes."""

    def __init__(self, home: Home, study: str = ""):
        self.log: Path | None = None
        self._home, self._study = home, study
        self._named = os.environ.pop(LOG, "")
        self._terminals = [number for number in (0, 1, 2) if os.isatty(number)]

    @property
    def leaves(self) -> bool:
        """Whether this command was started to be left alone."""
        return bool(self._named)

    def move(self, also: Collection[int] = ()) -> Path:
        """What goes to a terminal goes to the log from now on, and so do the descriptors `also`. Holds no lock, so a
        signal handler may call it."""
        path = self.log or Path(self._named or log_path(self._home, self._study))
        log = _opened(path)
        for number in {1, 2} & {*self._terminals, *also}:
            os.dup2(log, number)
        os.close(log)
        if 0 in self._terminals:
            null = os.open(os.devnull, os.O_RDONLY)
            os.dup2(null, 0)
            os.close(null)
        self._terminals, self.log = [], path
        return path


def _opened(path: Path) -> int:
    """The log, to be added to; nowhere, where there is no room for it: what is said is not worth what is run."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    except OSError:
        return os.open(os.devnull, os.O_WRONLY)


def discard(stream: TextIO, number: int) -> None:
    """Forgets what a stream holds for a reader who is gone; else it would come first wherever the stream goes next."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, number)
    os.close(nowhere)
    with suppress(OSError, ValueError):
        stream.flush()


class Screen:
    """A stream that may go away while it is written to. lost: told once when it has, and may put another one in its
    place. drawn: it is drawn on, and what is drawn is not for that other one."""

    def __init__(self, stream: TextIO, lost: object, drawn: bool):
        self._stream, self._lost, self._drawn = stream, lost, drawn
        self._unflushed = ""
        self.gone = False

    def write(self, text: str) -> int:
        if self.gone and self._drawn:
            return len(text)
        self._unflushed += text
        try:
            return self._stream.write(text)
        except OSError:
            self._lose()
            return len(text)

    def flush(self) -> None:
        if self.gone and self._drawn:
            return
        try:
            self._stream.flush()
        except OSError:
            self._lose()
        self._unflushed = ""

    def _lose(self) -> None:
        """What was not read goes where the rest goes."""
        if not self.gone:
            self.gone = True
            assert callable(self._lost)
            self._lost()
        unread, self._unflushed = self._unflushed, ""
        if not self._drawn:
            with suppress(OSError):
                self._stream.write(unread)
                self._stream.flush()

    def __getattr__(self, name: str) -> object:
        return getattr(self._stream, name)


@dataclass(frozen=True)
class Detached:
    """A command that goes on by itself."""

    pid: int
    log: Path
    study: str = ""

    def lines(self) -> list[str]:
        """What to know of it."""
        what = f"study {self.study}" if self.study else "it"
        shows = f"trainlab status {self.study}" if self.study else "trainlab runs"
        return [
            f"{what} goes on in process {self.pid}; what it says: {self.log}",
            f"how it stands: {shows}    stop it, resumable: kill {self.pid}",
        ]


def start(arguments: Sequence[str], told: str, home: Home, study: str = "") -> Detached:
    """Start a command of trainlab in a session of its own, told something on its stdin; return once it is under way.

    Raises InputError with what it refused, where it did. Where it was over before anything began (nothing was due),
    says what it said and exits as it did.
    """
    log = log_path(home, study)
    with _scratch() as given, _scratch() as out, _scratch() as err:
        given.write(told)
        given.seek(0)
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "trainlab", *arguments],
            stdin=given, stdout=out, stderr=err, env=environment(home, log), start_new_session=True,
        )  # fmt: skip
        try:
            while process.poll() is None and not log.exists():
                time.sleep(_LOOK_S)
        except BaseException:
            process.terminate()
            raise
        refused = process.returncode == 2 and not log.exists()
        *before, last = ["", *_read(err)]
        for line in before[1:] if refused else [*before, last][1:]:
            print(line, file=sys.stderr)
        for line in _read(out):
            print(line)
    if refused:
        raise InputError(last.removeprefix("error: ") or "it was refused", rule="refused")
    if process.returncode is not None and not log.exists():
        raise SystemExit(process.returncode)
    return Detached(process.pid, log, study)


def environment(home: Home, log: Path) -> dict[str, str]:
    """That of a command which is started to be left alone."""
    return {**os.environ, "TRAINLAB_HOME": str(home.path), LOG: str(log)}


def _scratch() -> IO[str]:
    return tempfile.TemporaryFile("w+")


def _read(file: IO[str]) -> list[str]:
    file.seek(0)
    return file.read().splitlines()


def as_json(detached: Detached) -> str:
    return json.dumps({"pid": detached.pid, "log": str(detached.log), "study": detached.study})
