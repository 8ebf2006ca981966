"""Uploads, seen from the worker: ask whether MLflow's store can be used, start the uploader and keep it alive, and at
the end wait until everything is in MLflow."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

from algos.finding import InputError
from experiments.store import mirrored, spool
from experiments.store.home import Home
from experiments.store.locks import is_held
from experiments.store.mirrored import Left
from experiments.store.tracking import AWAY, absolute, check_tracking, shown

#: The uploader is the one beside this file, whatever the user's folder or PYTHONPATH call `experiments`.
_ROOT = str(Path(__file__).resolve().parents[2])
_BOOT = "import sys; sys.path.insert(0, sys.argv[1]); from experiments.store.uploader import main; main(*sys.argv[2:])"
_INHERITED = ("MLFLOW_RUN_ID", "MLFLOW_EXPERIMENT_ID", "MLFLOW_NESTED_RUN", "MLFLOW_PARENT_RUN_ID")
_DEATHS = 3
_LOOK_S = 0.1
_LONGEST_PAUSE_S = 60.0
#: So long a store may take nothing, at the end, before it is left to the next command.
_AWAY_S = 60.0
#: So many runs that others left are waited for along with one's own; more are sent after the command has ended.
_FEW = 100

_started: dict[tuple[int, Path, str], Uploader] = {}


def check_store(home: Home, uri: str) -> str:
    """InputError unless MLflow's store can be used. Where it is away, and has runs of this home, training need not wait
    for it: a note is returned instead ("" where all is well)."""
    try:
        check_tracking(uri)
    except InputError as error:
        if error.finding.rule != AWAY or not mirrored.known(home, uri):
            raise
        return f"{shown(uri)} is away; runs are kept here and sent later"
    return ""


class Uploader:
    """The process that mirrors a home to MLflow, as its parent sees it. Made by `start_uploader`."""

    def __init__(self, home: Home, uri: str):
        self.home, self.uri = home, uri
        self._deaths = 0
        self._turn = threading.Lock()
        self._over = threading.Event()
        self._process = self._start()
        threading.Thread(target=self._keep_alive, name="uploader", daemon=True).start()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    def _start(self) -> subprocess.Popen[bytes]:
        environment = {key: value for key, value in os.environ.items() if key not in _INHERITED}
        environment["MLFLOW_TRACKING_URI"] = self.uri
        command = [sys.executable, "-P", "-c", _BOOT, _ROOT, str(self.home.path), str(os.getpid())]
        with (self.home.path / "uploader.log").open("ab") as log:
            return subprocess.Popen(
                command, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )

    def _keep_alive(self) -> None:
        """As long as this process lives: starts it again where it died, ever later where it dies again and again."""
        pause = 1.0
        while not self._over.is_set():
            began = time.monotonic()
            self._process.wait()
            pause = 1.0 if time.monotonic() - began > _LONGEST_PAUSE_S else min(2 * pause, _LONGEST_PAUSE_S)
            if self._over.wait(pause) or not self.home.path.is_dir():
                return
            with contextlib.suppress(OSError):  # no space or no process to be had: it is tried again
                self.revive()

    def revive(self) -> None:
        """Starts the process where it died."""
        with self._turn:
            if not self.running and not self._over.is_set():
                self._deaths += 1
                self._process = self._start()

    def finish(
        self, timeout_s: float = 60.0, on_wait: Callable[[Left], object] | None = None, since: float = 0.0
    ) -> Left:
        """Waits until every run that nobody works on is in MLflow; returns what is not, and why.

        on_wait is told what is still left, about every half second; where it returns True, the wait is over. What is
        left at the end is sent the next time. since: where very many are left, only those are waited for that were
        written to since then (Unix time).
        """
        deadline = time.monotonic() + timeout_s
        told_at = moved_at = time.monotonic()
        deaths, waiting = self._deaths, self._left(self.home.run_ids())
        others = [run_id for run_id in waiting.runs if not self._written_since(run_id, since)]
        if len(others) > _FEW:
            waiting = self._left([run_id for run_id in waiting.runs if run_id not in set(others)])
        else:
            others = []
        while waiting and time.monotonic() < deadline and self._lives(deaths):
            time.sleep(_LOOK_S)
            before, waiting = waiting, self._left(waiting.runs)
            if waiting.runs != before.runs or not waiting.reason:
                moved_at = time.monotonic()
            if time.monotonic() - moved_at > _AWAY_S:
                break
            if on_wait is not None and waiting and time.monotonic() - told_at > 0.5:
                told_at = time.monotonic()
                if on_wait(waiting) is True:
                    break
        return self._left([*waiting.runs, *others])

    def _written_since(self, run_id: str, since: float) -> bool:
        with contextlib.suppress(OSError):  # it was deleted meanwhile
            return any(path.stat().st_mtime >= since for _, path in spool.spools(self.home.run_folder / run_id))
        return False

    def _left(self, run_ids: tuple[str, ...] | list[str]) -> Left:
        still = [run_id for run_id in run_ids if not is_held(self.home.run_folder / run_id / "owner.lock")]
        return mirrored.left(self.home, self.uri, still)

    def _lives(self, deaths: int) -> bool:
        """Starts the process again where it died; False once that has no more sense."""
        if not self.running:
            if self._deaths - deaths >= _DEATHS:
                mirrored.complain(self.home, self.uri, f"the uploader died; see {self.home.path / 'uploader.log'}")
                return False
            self.revive()
        return True

    def stop(self, timeout_s: float = 10.0) -> None:
        """Ends the process after the batch it is at. It would end by itself after this one."""
        self._over.set()
        with self._turn:
            self._process.terminate()
        try:
            self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        _started.pop((os.getpid(), self.home.path, self.uri), None)


def is_started(home: Home, tracking_uri: str) -> bool:
    """Whether this process has an uploader of the home already."""
    return (os.getpid(), home.path, absolute(tracking_uri)) in _started


def start_uploader(home: Home, tracking_uri: str) -> Uploader:
    """The uploader of a home: started now, or the one this process started before.

    Ask `check_store` first. An inherited MLFLOW_RUN_ID is dropped: our runs are our own.
    """
    home.prepare()
    uri = absolute(tracking_uri)
    os.environ.pop("MLFLOW_RUN_ID", None)
    key = (os.getpid(), home.path, uri)
    if key not in _started:
        _started[key] = Uploader(home, uri)
    _started[key].revive()
    return _started[key]
