"""The uploader as a process: it is ours, it outlives its parent's death, and a server that is away costs no point."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from experiments.store import mirrored, uploads
from experiments.store.locks import is_held
from experiments.store.sources.home import HomeSource
from experiments.store.sources.mlflow import MLflowSource
from experiments.store.tracking import check_tracking
from experiments.store.uploader import Loop
from experiments.store.uploads import start_uploader
from tests.experiments.store.servers import alive, soon

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore:.*noload.*:DeprecationWarning")]

#: A worker: starts the uploader, begins run after run, tells the uploader's pid, and waits to be killed if told so.
WORKER = """
import sys, time
from experiments.store.home import Home
from experiments.store.uploads import start_uploader
home, uri, wait, *run_ids = sys.argv[1:]
home = Home(home)
uploader = start_uploader(home, uri)
for run_id in run_ids:
    attempt = home.folder(run_id).begin()
    for update in range(50):
        attempt.points(update, {"train/loss": 1 / (1 + update)})
    if wait == "wait":
        attempt.flush()
        print(uploader.pid, flush=True)
        time.sleep(120)
    attempt.end("completed")
left = uploader.finish(120)
uploader.stop()
print(left)
"""


def assert_equal(uri, home) -> None:
    theirs, ours = MLflowSource(uri), HomeSource(home)
    assert theirs.runs() == ours.runs()
    assert theirs.series(home.run_ids()) == ours.series(home.run_ids())


def worker(home, uri, *arguments) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", WORKER, str(home.path), uri, *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def test_a_shadowing_package_and_an_inherited_run_id_change_nothing(home, create, tmp_path, monkeypatch):
    shadow = tmp_path / "elsewhere" / "experiments"
    shadow.mkdir(parents=True)
    (shadow / "__init__.py").write_text("raise SystemExit('not ours')")
    monkeypatch.chdir(shadow.parent)
    monkeypatch.setenv("PYTHONPATH", str(shadow.parent))
    monkeypatch.setenv("MLFLOW_RUN_ID", "0" * 32)
    folder = create()
    attempt = folder.begin()
    uploader = start_uploader(home, "sqlite:///mlflow.db")
    assert start_uploader(home, "sqlite:///mlflow.db") is uploader
    attempt.points(1, {"train/loss": 0.5})
    attempt.final({"objective": 0.5})
    attempt.end("completed")
    os.kill(uploader.pid, signal.SIGINT)  # Ctrl-C in the terminal
    waited = []
    left = uploader.finish(120, waited.append)
    uploader.stop()
    assert not left, left
    assert waited
    assert str(waited[0]).startswith("1 run not in MLflow yet")
    assert (shadow.parent / "mlruns").is_dir()  # where MLflow itself would put them
    assert not (shadow.parent / ".mlflow.db.init").exists()
    assert "MLFLOW_RUN_ID" not in os.environ
    assert_equal(f"sqlite:///{shadow.parent}/mlflow.db", home)
    chatter = (home.path / "uploader.log").read_text()
    assert "alembic" not in chatter
    assert "INFO" not in chatter


def test_a_killed_worker_is_failed_in_mlflow_and_its_uploader_ends(home, create, store):
    folder = create()
    with worker(home, store, "wait", folder.run_id) as process:
        assert process.stdout is not None
        uploader = int(process.stdout.readline())
        process.kill()
    assert soon(lambda: not alive(uploader))
    assert not is_held(home.path / "uploader.lock")
    (record,) = MLflowSource(store).runs()
    assert (record.status, record.last) == ("lost", {"train/loss": 1 / 50})
    source = MLflowSource(store)
    source.runs()
    assert source._runs[folder.run_id].info.status == "FAILED"
    assert_equal(store, home)


def test_an_uploader_that_is_killed_again_and_again_loses_and_doubles_nothing(home, create, store):
    for _ in range(12):
        attempt = create().begin()
        for update in range(100):
            attempt.points(update, {"train/loss": 1 / (1 + update)})
        attempt.end("completed")
    deaths = 0
    while mirrored.left(home, store) and deaths < 3:
        uploader = start_uploader(home, store)
        before = len(mirrored.left(home, store).runs)
        assert soon(lambda before=before: len(mirrored.left(home, store).runs) < before)
        time.sleep(0.03 * deaths)
        os.kill(uploader.pid, signal.SIGKILL)
        deaths += 1
        assert soon(lambda uploader=uploader: not uploader.running)
    uploader = start_uploader(home, store)
    assert not uploader.finish(60)
    uploader.stop()
    assert deaths >= 1
    assert len(MLflowSource(store).runs()) == 12
    assert_equal(store, home)


def test_eight_homes_make_one_empty_store_at_once(tmp_path, create, home):
    uri = f"sqlite:///{tmp_path}/new.db"
    from experiments.store.home import Home

    workers = []
    for number in range(8):
        own = Home(tmp_path / f"home{number}")
        folder = own.create(create(name=f"run {number}").file)
        workers.append(worker(own, uri, "end", folder.run_id))
    said = [process.communicate()[0] for process in workers]
    assert said == ["all in MLflow\n"] * 8
    assert len(MLflowSource(uri).runs()) == 8


@contextmanager
def server(port, folder) -> Iterator[str]:
    """A real `mlflow server` on loopback."""
    command = [sys.executable, "-m", "mlflow", "server", "--port", str(port), "--workers", "1"]
    command += [
        "--backend-store-uri",
        f"sqlite:///{folder}/server.db",
        "--artifacts-destination",
        str(folder / "files"),
    ]
    environment = {**os.environ, "MLFLOW_DISABLE_TELEMETRY": "true"}
    with (folder / "server.log").open("wb") as log:
        process = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log, start_new_session=True, env=environment)
    uri = f"http://127.0.0.1:{port}"

    def healthy() -> bool:
        try:
            check_tracking(uri)
        except ValueError:
            return False
        return True

    try:
        assert soon(healthy, 120), (folder / "server.log").read_text()
        yield uri
    finally:
        os.killpg(process.pid, signal.SIGKILL)  # the group that this test started
        process.wait()


def test_a_server_that_is_away_gets_every_point_later_once(home, create, empty_store, tmp_path, monkeypatch):
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    (tmp_path / "server.db").write_bytes(empty_store.read_bytes())
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    uri = f"http://127.0.0.1:{port}"
    folder, other = create(), create(study="s")
    attempt = folder.begin()
    uploader = start_uploader(home, uri)
    attempt.points(1, {"train/loss": 1.0, "mean@1": 0.1 + 0.2})
    attempt.flush()
    left = uploader.finish(0.5)
    assert not left  # the run is being worked on: nothing is waited for
    assert soon(lambda: "away" in mirrored.reason(home, uri), 60)
    with server(port, tmp_path):
        assert soon(lambda: mirrored.load(folder.path, uri).status == "RUNNING", 120)
    attempt.points(2, {"train/loss": 0.5})
    attempt.event("warning", text="é" * 6000)
    attempt.end("crashed", reason="no", traceback="Traceback\n" * 900)
    other.begin().end("completed")
    left = uploader.finish(3)
    assert set(left.runs) == {folder.run_id, other.run_id}
    with server(port, tmp_path):
        assert not uploader.finish(120)
        assert_equal(uri, home)
        source = MLflowSource(uri, study="s")
        assert [record.run_id for record in source.runs()] == [other.run_id]
    uploader.stop()


def test_many_runs_of_others_are_not_waited_for(home, create, monkeypatch):
    """The store is away, so all are left; who has run nothing waits for nothing."""
    monkeypatch.setattr(uploads, "_FEW", 10)
    for _ in range(12):
        create().begin().end("completed")
    uploader = start_uploader(home, "http://127.0.0.1:9")
    began = time.monotonic()
    left = uploader.finish(600, since=time.time() + 60)
    uploader.stop()
    assert time.monotonic() - began < 300
    assert len(left.runs) == 12


def test_new_runs_are_sent_before_those_that_were_there(home, create, monkeypatch):
    sent: list[str] = []
    monkeypatch.setattr(Loop, "_push", lambda self, folder: sent.append(folder.run_id))
    folders = [create() for _ in range(3)]
    for folder in folders:
        folder.begin().end("completed")
    loop = Loop(home, "sqlite:///nowhere.db", os.getpid())
    loop.look()
    new = create()
    new.begin().end("completed")
    loop.look()
    known = sorted(folder.run_id for folder in folders)
    assert sent == [*known[::-1], new.run_id, *known]
