"""Whatever happens to MLflow's store in the middle of a sweep, training goes on and everything arrives later, once."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import time

import pytest

from algos.finding import InputError
from experiments.session import session
from experiments.store import mirrored
from experiments.store.sources.mlflow import MLflowSource
from experiments.store.uploads import check_store, start_uploader
from tests.experiments.store.servers import Server, alive, assert_equal, assert_single, soon, worker

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore:.*noload.*:DeprecationWarning")]


def statuses(uri: str) -> set[str]:
    source = MLflowSource(uri)
    source.runs()
    return {run.info.status for run in source._runs.values()}


def test_a_server_killed_while_it_answers_and_stopped_in_mid_sweep_gets_all_once(home, create, empty_store, tmp_path):
    server = Server(tmp_path, empty_store)
    runs = [create(name=f"run {number}") for number in range(8)]
    with server.up() as process:
        working = worker(home, server.uri, 0.002, 1000, *[run.run_id for run in runs])
        assert soon(lambda: mirrored.load(runs[0].path, server.uri).run != "")
        os.killpg(process.pid, signal.SIGSTOP)  # it hangs: whoever asks waits
        time.sleep(6)
        os.killpg(process.pid, signal.SIGCONT)
        assert soon(lambda: "completed" in mirrored.load(runs[1].path, server.uri).told or runs[1].record().ended)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    began = time.monotonic()
    assert soon(lambda: "away" in mirrored.reason(home, server.uri))
    before = sum(run.record().status == "completed" for run in runs)
    assert soon(lambda: sum(run.record().status == "completed" for run in runs) > before)  # training goes on
    time.sleep(max(0.0, 12 - (time.monotonic() - began)))
    with server.up():
        said, errors = working.communicate(timeout=120)
        assert said.splitlines()[-1] == "all in MLflow", (said, errors)
        assert statuses(server.uri) == {"FINISHED"}
        assert_equal(server.uri, home)
    assert_single(server.database)
    assert mirrored.reason(home, server.uri) == ""


def test_a_database_that_another_process_locks_keeps_no_run_back_for_good(home, create, store, tmp_path):
    runs = [create(name=f"run {number}") for number in range(4)]
    locker = sqlite3.connect(tmp_path / "mlflow.db", isolation_level=None)
    locker.execute("BEGIN IMMEDIATE")  # reading goes on, writing waits
    working = worker(home, store, 0.0, 100, *[run.run_id for run in runs])
    assert soon(lambda: all(run.record().status == "completed" for run in runs))
    assert soon(lambda: "locked by another process" in mirrored.reason(home, store))
    locker.execute("ROLLBACK")
    locker.close()
    said, errors = working.communicate(timeout=120)
    assert said.splitlines()[-1] == "all in MLflow", (said, errors)
    assert_equal(store, home)
    assert_single(tmp_path / "mlflow.db")


def test_a_store_whose_disk_is_full_takes_everything_when_there_is_space(home, create, empty_store, small_disk):
    disk = small_disk("16m")
    shutil.copy(empty_store, disk / "mlflow.db")
    uri = f"sqlite:///{disk}/mlflow.db"
    filler = disk / "filler"
    filler.write_bytes(bytes(shutil.disk_usage(disk).free - 64 * 1024))
    runs = [create(name=f"run {number}") for number in range(3)]
    working = worker(home, uri, 0.0, 500, *[run.run_id for run in runs])
    assert soon(lambda: all(run.record().status == "completed" for run in runs))
    assert soon(lambda: "no space left" in mirrored.reason(home, uri)), (home.path / "uploader.log").read_text()
    filler.unlink()
    said, errors = working.communicate(timeout=120)
    assert said.splitlines()[-1] == "all in MLflow", (said, errors)
    assert_equal(uri, home)
    assert_single(disk / "mlflow.db")


def test_an_uploader_that_dies_is_there_again_while_its_worker_lives(home, create, store):
    uploader = start_uploader(home, store)
    first = uploader.pid
    os.kill(first, signal.SIGKILL)
    assert soon(lambda: uploader.pid != first and alive(uploader.pid))
    create().begin().end("completed")
    assert soon(lambda: not mirrored.left(home, store))  # nobody waits for it, nobody asked
    uploader.stop()
    assert not soon(lambda: uploader.running, 3)


def test_after_everything_was_killed_the_next_session_sends_what_is_left(home, create, store, tmp_path):
    run = create()
    working = worker(home, store, 0.01, 100_000, run.run_id)
    assert soon(lambda: mirrored.load(run.path, store).run != "")
    lock = home.path / "uploader.lock"
    uploader = int(lock.read_text().partition('"pid": ')[2].partition(",")[0])
    for pid in (uploader, working.pid):
        os.kill(pid, signal.SIGKILL)
    working.communicate()
    assert soon(lambda: not alive(uploader))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MLFLOW_TRACKING_URI", store)
        with session(home) as opened:
            pass
    assert not opened.left
    assert_equal(store, home)
    assert_single(tmp_path / "mlflow.db")
    assert statuses(store) == {"FAILED"}
    start_uploader(home, store).stop()


def test_a_home_that_knows_the_store_begins_while_it_is_away_and_a_new_one_does_not(home, create, capsys, monkeypatch):
    uri = "http://127.0.0.1:9"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    run = create()
    run.begin().end("completed")
    with pytest.raises(InputError, match="does not answer"), session(home):
        pass
    mirrored.save(run.path, uri, mirrored.Mirrored(uri, "1", 1, "its-run"))
    assert check_store(home, uri) == f"{uri} is away; runs are kept here and sent later"
    with session(home, wait_s=0.0) as opened:
        assert opened.uri == uri
    assert capsys.readouterr().err == f"note: {uri} is away; runs are kept here and sent later\n"
    assert opened.left
    start_uploader(home, uri).stop()
