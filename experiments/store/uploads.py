"""Uploads, seen from the worker: start the uploader, and at the end wait until everything is in MLflow."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from experiments.store import mirrored
from experiments.store.home import Home
from experiments.store.locks import is_held
from experiments.store.mirrored import Left
from experiments.store.tracking import absolute

#: The uploader is the one beside this file, whatever the user's folder or PYTHONPATH call `experiments`.
_ROOT = str(Path(__file__).resolve().parents[2])
_BOOT = "import sys; sys.path.insert(0, sys.argv[1]); from experiments.store.uploader import main; main(*sys.argv[2:])"
_INHERITED = ("MLFLOW_RUN_ID", "MLFLOW_EXPERIMENT_ID", "MLFLOW_NESTED_RUN", "MLFLOW_PARENT_RUN_ID")
_STARTS = 3
_LOOK_S = 0.1

_started: dict[tuple[int, Path, str], Uploader] = {}


class Uploader:
    """The process that mirrors a home to MLflow, as its parent sees it. Made by `start_uploader`."""

    def __init__(self, home: Home, uri: str):
        self.home, self.uri = home, uri
        self._starts = 0
        self._process = self._start()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    def _start(self) -> subprocess.Popen[bytes]:
        self._starts += 1
        environment = {key: value for key, value in os.environ.items() if key not in _INHERITED}
        environment["MLFLOW_TRACKING_URI"] = self.uri
        command = [sys.executable, "-P", "-c", _BOOT, _ROOT, str(self.home.path), str(os.getpid())]
        with (self.home.path / "uploader.log").open("ab") as log:
            return subprocess.Popen(
                command, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )

    def finish(self, timeout_s: float = 60.0, on_wait: Callable[[Left], None] | None = None) -> Left:
        """Waits until every run that nobody works on is in MLflow; returns what is not, and why.

        on_wait is told what is still left, about every half second. What is left at the end is sent the next time.
        """
        deadline = time.monotonic() + timeout_s
        told_at = time.monotonic()
        waiting = self._left(self.home.run_ids())
        while waiting and time.monotonic() < deadline and self._lives():
            time.sleep(_LOOK_S)
            waiting = self._left(waiting.runs)
            if on_wait is not None and waiting and time.monotonic() - told_at > 0.5:
                told_at = time.monotonic()
                on_wait(waiting)
        return waiting

    def _left(self, run_ids: tuple[str, ...] | list[str]) -> Left:
        still = [run_id for run_id in run_ids if not is_held(self.home.run_folder / run_id / "owner.lock")]
        return mirrored.left(self.home, self.uri, still)

    def _lives(self) -> bool:
        """Starts the process again where it died; False once that has no more sense."""
        if not self.running:
            if self._starts >= _STARTS:
                mirrored.complain(self.home, self.uri, f"the uploader died; see {self.home.path / 'uploader.log'}")
                return False
            self._process = self._start()
        return True

    def stop(self, timeout_s: float = 10.0) -> None:
        """Ends the process after the batch it is at. It would end by itself after this one."""
        self._process.terminate()
        try:
            self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        _started.pop((os.getpid(), self.home.path, self.uri), None)


def start_uploader(home: Home, tracking_uri: str) -> Uploader:
    """The uploader of a home: started now, or the one this process started before.

    Ask `tracking.check_tracking` first. An inherited MLFLOW_RUN_ID is dropped: our runs are our own.
    """
    home.prepare()
    uri = absolute(tracking_uri)
    os.environ.pop("MLFLOW_RUN_ID", None)
    key = (os.getpid(), home.path, uri)
    if key not in _started or not _started[key].running:
        _started[key] = Uploader(home, uri)
    return _started[key]
