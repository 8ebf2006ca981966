"""Real MLflow servers and workers for tests, and what is compared afterwards."""

from __future__ import annotations

import os
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from experiments.store.home import Home
from experiments.store.sources.home import HomeSource
from experiments.store.sources.mlflow import MLflowSource
from experiments.store.tracking import check_tracking

#: A worker as a sweep has one: run after run, a point every few milliseconds, in a session with the store.
WORKER = """
import sys, time
from experiments.session import session
from experiments.store.home import Home
home, pause_s, updates, *run_ids = sys.argv[1:]
with session(Home(home)) as opened:
    for run_id in run_ids:
        attempt = opened.home.folder(run_id).begin()
        for update in range(1, int(updates) + 1):
            attempt.points(update, {"train/loss": 1 / update, "val/accuracy": update / 1e6})
            time.sleep(float(pause_s))
        attempt.final({"objective": 0.5})
        attempt.end("completed")
        print(run_id, flush=True)
print(opened.left, flush=True)
"""


def soon(holds: Callable[[], bool], timeout_s: float = 90) -> bool:
    deadline = time.monotonic() + timeout_s
    while not holds() and time.monotonic() < deadline:
        time.sleep(0.1)
    return holds()


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    with open(f"/proc/{pid}/stat") as file:
        return file.read().rpartition(")")[2].split()[0] != "Z"


def worker(home: Home, uri: str, *arguments: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", WORKER, str(home.path), *map(str, arguments)]
    environment = {**os.environ, "MLFLOW_TRACKING_URI": uri}
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)


class Server:
    """A real `mlflow server` on loopback, at one address however often it is started anew."""

    def __init__(self, folder: Path, empty_store: Path):
        self._folder = folder
        self.database = folder / "server.db"
        self.database.write_bytes(empty_store.read_bytes())
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self._port, self.uri = port, f"http://127.0.0.1:{port}"

    def start(self) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "mlflow", "server", "--port", str(self._port), "--workers", "1"]
        command += ["--backend-store-uri", f"sqlite:///{self.database}"]
        command += ["--artifacts-destination", str(self._folder / "files")]
        environment = {**os.environ, "MLFLOW_DISABLE_TELEMETRY": "true", "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
        with (self._folder / "server.log").open("ab") as log:
            process = subprocess.Popen(
                command, cwd=self._folder, stdout=log, stderr=log, start_new_session=True, env=environment
            )
        assert soon(self.healthy, 120), (self._folder / "server.log").read_text()
        return process

    def healthy(self) -> bool:
        with suppress(ValueError):
            check_tracking(self.uri)
            return True
        return False

    @contextmanager
    def up(self) -> Iterator[subprocess.Popen[bytes]]:
        process = self.start()
        try:
            yield process
        finally:
            os.killpg(process.pid, signal.SIGKILL)  # the group that this test started
            process.wait()


def assert_single(database: Path) -> None:
    """No run of ours and no point of a run is in an MLflow database twice."""
    with closing(sqlite3.connect(database)) as open_database:
        rows = open_database.execute(
            "SELECT COUNT(*) FROM metrics GROUP BY run_uuid, key, step HAVING COUNT(*) > 1"
        ).fetchall()
        runs = open_database.execute(
            "SELECT tags.value FROM tags JOIN runs USING (run_uuid) WHERE tags.key = 'trainlab.run_id' "
            "AND runs.lifecycle_stage = 'active' GROUP BY tags.value HAVING COUNT(*) > 1"
        ).fetchall()
    assert (rows, runs) == ([], [])


def assert_equal(uri: str, home: Home) -> None:
    """MLflow says what the home says: every run, every field, every point, one by one."""
    theirs, ours = MLflowSource(uri), HomeSource(home)
    assert theirs.runs() == ours.runs()
    assert theirs.series(home.run_ids()) == ours.series(home.run_ids())
