"""Local: workers as processes of this machine, started once each, so that imports are paid once.

Each has a session of its own: Ctrl-C in the terminal reaches whoever started them, who passes it on. One that dies is
replaced, until several in a row have died without a run that ended.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from algos.finding import InputError
from experiments.events import from_json
from experiments.progress import Listener, RunEnded

if TYPE_CHECKING:
    from experiments.sweeps.worker import Assignment

_ROOT = str(Path(__file__).resolve().parents[2])
#: The code beside this file, whatever the user's folder or PYTHONPATH call `experiments`.
BOOT = "import sys; sys.path.insert(0, sys.argv[1]); from experiments.sweeps.worker_process import main; main()"
#: So many may die in a row without a run that ended: by themselves, or killed from outside.
_FAILED, _KILLED = 3, 30
_GRACE_S = 10.0


def check(options: Mapping[str, Any]) -> None:
    """Every machine can; there is no other one."""
    if options.get("address"):
        said = f"'{options['address']}' is an address, and the workers run here"
        raise InputError(said, "give it with --launcher ray", rule="needless", place="address")


def launch(assignments: Sequence[Assignment], options: Mapping[str, Any], listener: Listener) -> LocalCrew:
    return LocalCrew(assignments, listener)


class LocalCrew:
    def __init__(self, assignments: Sequence[Assignment], listener: Listener):
        self._listener = listener
        self._telling = threading.Lock()
        self._stopping = False
        self._in_vain = 0
        self._failures: list[str] = []
        self._wrong = ""
        self._processes = [_Process(assignment, self._tell) for assignment in assignments]

    def _tell(self, event: Any) -> None:
        with self._telling:  # each worker has a thread that reads it
            if isinstance(event, RunEnded):
                self._in_vain = 0
            self._listener(event)

    def running(self) -> int:
        for index, process in enumerate(self._processes):
            code = process.ended()
            if code is None or process.counted:
                continue
            process.counted = True
            if code == 2 and not self._wrong:
                self._wrong = process.said()
                self.stop("wrong input")
            elif code not in (0, 2, 130) and not self._stopping:
                self._replace(index, process, code)
        return sum(process.ended() is None for process in self._processes)

    def _replace(self, index: int, process: _Process, code: int) -> None:
        how = f"was killed ({signal.Signals(-code).name})" if code < 0 else f"ended with code {code}"
        said = process.said()
        self._failures.append(f"worker {process.pid} {how}" + (f": {said}" if said and code > 0 else ""))
        self._in_vain += _KILLED // _FAILED if code > 0 else 1
        if self._in_vain <= _KILLED:
            self._processes[index] = _Process(process.assignment, self._tell)

    def stop(self, reason: str) -> None:
        self._stopping = True
        self._signal(signal.SIGTERM)

    def kill(self) -> None:
        self._stopping = True
        self._signal(signal.SIGTERM)
        time.sleep(0.2)  # two that come together are taken for one
        self._signal(signal.SIGTERM)
        until = time.monotonic() + _GRACE_S
        while time.monotonic() < until and any(process.ended() is None for process in self._processes):
            time.sleep(0.05)
        self._signal(signal.SIGKILL)

    def _signal(self, number: int) -> None:
        for process in self._processes:
            if process.ended() is None:
                process.signal(number)

    def failures(self) -> list[str]:
        if self._wrong:
            raise InputError(self._wrong.removeprefix("error: "), rule="refused")
        return self._failures

    def close(self) -> None:
        for process in self._processes:
            process.close()


class _Process:
    """One worker."""

    def __init__(self, assignment: Assignment, tell: Listener):
        self.assignment, self.counted = assignment, False
        self._tell = tell
        self._stderr = tempfile.TemporaryFile("w+")  # noqa: SIM115 (closed with the process)
        self._popen = subprocess.Popen(
            [sys.executable, "-P", "-c", BOOT, _ROOT],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._stderr, text=True,
            env=environment(assignment), start_new_session=True,
        )  # fmt: skip
        assert self._popen.stdin
        with suppress(BrokenPipeError), self._popen.stdin as stdin:
            stdin.write(assignment.to_json())
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        return self._popen.pid

    def _read(self) -> None:
        assert self._popen.stdout
        with self._popen.stdout as lines:
            for line in lines:
                with suppress(ValueError):  # half a line of one that was killed
                    self._tell(from_json(line))

    def ended(self) -> int | None:
        return self._popen.poll()

    def signal(self, number: int) -> None:
        self._popen.send_signal(number)

    def said(self) -> str:
        """The last line of its stderr."""
        self._stderr.seek(0)
        lines = self._stderr.read().strip().splitlines()
        return lines[-1] if lines else ""

    def close(self) -> None:
        self._popen.wait()
        self._reader.join(timeout=5.0)
        self._stderr.close()


def environment(assignment: Assignment) -> dict[str, str]:
    """A worker's environment: its share of threads, its device where several are placed."""
    threads = {"OMP_NUM_THREADS": str(assignment.threads)} if assignment.threads else {}
    return {**os.environ, **threads, **assignment.environment}
