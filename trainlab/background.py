"""Background: a command of trainlab in a process of its own, whose events come back as they happen.

A thread would share Python's and torch's random numbers with the notebook, and the run would not repeat. The process
goes on where the notebook's kernel dies, and is found again by its study's name; what it says is in its log.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from algos.finding import InputError
from experiments.events import from_json
from experiments.progress import Listener, RunStarted, silent
from experiments.store.home import Home
from trainlab.detached import environment, log_path

#: The process that this one started last for a study of a home.
_OF_STUDIES: dict[tuple[Path, str], Background] = {}


def of_study(home: Home, name: str) -> Background | None:
    """The process that was started here for a study, if any; it may be over."""
    return _OF_STUDIES.get((home.path, name))


class Background:
    """A command under way, that was told something on its stdin. run_ids: the runs that it started, in order. log: what
    it says beside its events, once it has begun."""

    def __init__(self, arguments: Sequence[str], told: str, home: Home, listener: Listener = silent, study: str = ""):
        self.log = log_path(home, study)
        self.run_ids: list[str] = []
        self._listener = listener
        self._said = ""
        self._asked = False
        self._news = threading.Condition()
        self._stderr = tempfile.TemporaryFile("w+")  # noqa: SIM115 (closed when the process has ended)
        # -P: what stands in this folder must not shadow what is installed.
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "trainlab", *arguments, "--events"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._stderr, text=True,
            env=environment(home, self.log),
            start_new_session=True,  # Ctrl-C here is not meant for it
        )  # fmt: skip
        assert self._process.stdin
        with suppress(BrokenPipeError), self._process.stdin as stdin:
            stdin.write(told)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        if study:
            _OF_STUDIES[home.path, study] = self

    def _read(self) -> None:
        assert self._process.stdout
        with self._process.stdout as lines:
            for line in lines:
                event = from_json(line)
                with self._news:
                    if isinstance(event, RunStarted):
                        self.run_ids.append(event.run_id)
                    self._news.notify_all()
                self._listener(event)
        self._process.wait()
        with self._stderr as stderr:
            stderr.seek(0)
            self._said = stderr.read()
        with self._news:
            self._news.notify_all()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    def run_id(self, index: int) -> str | None:
        """The id of the command's run number `index`, or None while it has not started."""
        return self.run_ids[index] if index < len(self.run_ids) else None

    def started(self, index: int) -> str:
        """The same, waiting for its start. Raises what the command refused, where it did."""
        with self._news:
            self._news.wait_for(lambda: self.run_id(index) is not None or not self.running)
        run_id = self.run_id(index)
        if run_id is None:
            self.wait()
            raise InputError("the run was not started", "the command was stopped before", rule="not-started")
        return run_id

    def stop(self) -> None:
        """Ask it to stop after the update it is in; its run can be resumed."""
        if self.running:
            self._asked = True
            self._process.send_signal(signal.SIGTERM)

    def wait(self) -> int:
        """The exit code, when it has ended; InputError where the command refused what it was given."""
        code = self._process.wait()
        self._reader.join()
        if code in (0, 1, 130) or (self._asked and code == -signal.SIGTERM):  # stopped while it was still starting
            return code
        said = self.log.read_text() if self.log.exists() else self._said
        lines = said.strip().splitlines() or [f"ended with code {code}"]
        raise InputError(lines[-1].removeprefix("error: "), rule="refused")
