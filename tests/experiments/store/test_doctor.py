"""The doctor finds and mends what kills leave, says what it did, and changes nothing else."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time
import zipfile
from contextlib import closing
from pathlib import Path

import pytest

from experiments.store import mirrored, records, spool
from experiments.store.checks.lines import cleaned
from experiments.store.checks.mirrors import Waiting
from experiments.store.checks.visit import Visit
from experiments.store.doctor import examine_home, examine_mlflow
from experiments.store.locks import Lock
from experiments.store.mirror import Mirror
from experiments.store.sources.home import HomeSource
from experiments.store.sources.mlflow import MLflowSource

#: A worker that says it has begun, and waits to be killed.
WORKER = """
import sys, time
from experiments.store.home import Home
attempt = Home(sys.argv[1]).folder(sys.argv[2]).begin()
attempt.points(7, {"train/loss": 0.5})
attempt.flush()
print("began", flush=True)
time.sleep(120)
"""


def begin(folder) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", WORKER, str(folder.path.parent.parent), folder.run_id]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "began\n"
    return process


def vanish(folder) -> None:
    """The run's process is killed, and leaves what that leaves."""
    with begin(folder) as process:
        process.send_signal(signal.SIGKILL)


def state(*roots: Path) -> dict[str, str]:
    """Every file below some folders, by its content."""
    return {
        str(path): hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "folder"
        for root in roots
        for path in sorted(root.rglob("*"))
    }


def visited(home, uri: str = "sqlite:////nowhere/mlflow.db", dry_run: bool = False) -> Visit:
    visit = Visit(home, uri, dry_run)
    examine_home(visit)
    return visit


def rules(visit: Visit) -> list[str]:
    return sorted(finding.rule for finding in visit.found)


def dead_pid() -> int:
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        pass
    return process.pid


def checkpoint(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("archive/data.pkl", bytes(range(256)) * 40)


def test_all_that_kills_leave_in_a_home_is_found_mended_and_not_found_again(home, create):
    pid = dead_pid()
    lost, half, middle, broken, stale, damaged, over = (create(name=f"run {number}") for number in range(7))
    for folder in (lost, half):
        vanish(folder)
    with (half.path / "spool.1.jsonl").open("ab") as file:
        file.write(b'{"kind":"points","at":1,"upda')
    for folder in (middle, stale, over):
        attempt = folder.begin()
        attempt.points(1, {"train/loss": 0.5})
        attempt.end("completed")
        assert folder.record().status == "completed"
    lines = (middle.path / "spool.1.jsonl").read_bytes().splitlines(keepends=True)
    (middle.path / "spool.1.jsonl").write_bytes(b"".join([*lines[:1], b'{"kind":"points","a', *lines[1:]]))
    (broken.path / "run.json").write_text('{"run_id": ')
    told = json.loads((stale.path / "record.json").read_text())
    told["record"]["status"] = "crashed"
    (stale.path / "record.json").write_text(json.dumps(told))
    damaged.begin().end("interrupted")
    checkpoint(damaged.checkpoints / "previous.pt")
    checkpoint(damaged.checkpoints / "last.pt")
    os.truncate(damaged.checkpoints / "last.pt", 700)
    (home.run_folder / f".new-20260101-000000-abcdef-{pid}" / "checkpoints").mkdir(parents=True)
    (home.run_folder / f".probe-{pid}-0a1b2c3d").touch()
    (over.path / f".record.json.{pid}").write_text("{")
    (over.checkpoints / f".last.pt.{pid}.tmp").write_text("half")
    (over.path / "ballast").write_bytes(bytes(100))
    (home.path / "workers").mkdir()
    (home.path / "workers" / "host-1-a.lock").write_text(json.dumps({"pid": pid, "host": "host"}))
    (home.path / "workers" / "host-1-a.json").write_text("{}")
    (home.path / "studies" / "s").mkdir(parents=True)
    (home.path / "studies" / "s" / "lock").write_text(json.dumps({"pid": pid, "host": "host"}))
    (home.path / "studies" / "s" / f".study.json.{pid}").write_text("{")

    before = state(home.path)
    dry = visited(home, dry_run=True)
    assert state(home.path) == before
    assert not dry.clean
    assert all(finding.level == "caution" and finding.cure.startswith("would be ") for finding in dry.found)
    wanted = ["ballast", "broken-checkpoint", "broken-run", "dead-lock", "dead-worker"]
    wanted += ["half-line"] * 2 + ["leftover"] * 5 + ["lost-run"] * 2 + ["stale-record"]
    assert rules(dry) == sorted(wanted)

    real = visited(home)
    assert real.clean
    assert set(rules(real)) == set(wanted)
    assert {str(finding) for finding in real.found if finding.rule == "lost-run"} == {
        f"run {folder.run_id}: its process vanished and nobody said so; marked as lost" for folder in (lost, half)
    }
    assert {folder.record().status for folder in (lost, half)} == {"lost"}
    assert half.record().last == {"train/loss": 0.5}
    assert middle.record().last == {"train/loss": 0.5}
    assert stale.record().status == "completed"
    assert [path.name for path in damaged.checkpoints.iterdir()] == ["previous.pt"]
    assert (home.run_folder / f".broken-{broken.run_id}" / "run.json").exists()
    assert broken.run_id not in home.run_ids()

    after = state(home.path)
    again = visited(home)
    assert again.found == []
    assert state(home.path) == after


def test_what_a_live_process_owns_is_left_alone(home, create):
    folder, other = create(), create()
    with begin(folder) as process:
        with (folder.path / "spool.1.jsonl").open("ab") as file:
            file.write(b'{"kind":"poi')
        (folder.path / f".record.json.new-{process.pid}@{os.uname().nodename}").touch()
        (folder.checkpoints / f".last.pt.{dead_pid()}.tmp").touch()
        (home.run_folder / f".new-x-{process.pid}").mkdir()
        process.send_signal(signal.SIGSTOP)  # asleep is not dead
        vanish(other)
        mine = (folder.path, home.run_folder / f".new-x-{process.pid}")
        before = state(*mine)
        assert {finding.source for finding in visited(home).found} == {f"run {other.run_id}", "locks"}
        assert state(*mine) == before
        assert folder.record().status == "running"
        process.kill()


def test_a_run_that_was_taken_up_while_it_was_looked_at_is_its_owners(home, create):
    folder = create()
    visit = Visit(home, "sqlite:////nowhere/mlflow.db", dry_run=True)
    with begin(folder) as process:
        visit.mend("lost-run", f"run {folder.run_id}", "seen before it was taken up", "marked", lambda: None)
        process.kill()
    assert visit.found == []


def test_what_a_live_uploader_has_in_hand_is_its_to_send(home, create, store):
    """A run that MLflow has as interrupted and that has gone on since, and one that was never sent."""
    again, fresh = create(name="again"), create(name="fresh")
    mirror = Mirror(store)
    again.begin().end("interrupted")
    mirror.push(again)
    attempt = again.begin()
    attempt.points(1, {"train/loss": 0.5})
    attempt.end("completed")
    fresh.begin().end("completed")

    def send() -> None:
        time.sleep(1.0)
        for folder in (again, fresh):
            Mirror(store).push(folder)

    visit = Visit(home, store, dry_run=True)
    with Lock(home.path / "uploader.lock").take():
        sender = threading.Thread(target=send)
        sender.start()
        examine_mlflow(visit)
        sender.join()
    assert visit.found == []
    visit = Visit(home, store, dry_run=True)
    attempt = create(name="nobody sends it").begin()
    attempt.end("completed")
    examine_mlflow(visit)
    assert rules(visit) == ["not-in-mlflow"]


@pytest.mark.parametrize(
    ("data", "kept"),
    [
        (b'{"kind":"a"}\n{"ki', b'{"kind":"a"}\n'),
        (b'{"kind":"a"}\n{"kin\n{"kind":"b"}\n', b'{"kind":"a"}\n{"kind":"b"}\n'),
        (b'{"kind":"a"}\n{"kind":"x","v{"kind":"b"}\n', b'{"kind":"a"}\n{"kind":"b"}\n'),
        (b'{"kind":"a"}\n\n{"kind":"b"}\n', b'{"kind":"a"}\n\n{"kind":"b"}\n'),
        (b"", b""),
    ],
)
def test_half_lines_go_and_whole_ones_stay(data, kept):
    found = cleaned(data)
    assert found.data == kept
    assert found.moved(len(data)) == (len(kept) if found.saved_at is None else found.saved_at)


def test_a_copy_that_tells_of_an_older_run_file_is_made_anew(home, create):
    folder = create()
    folder.begin().end("completed")
    folder.record()
    assert not records.disagrees(folder.path)
    told = json.loads((folder.path / "run.json").read_text())
    (folder.path / "run.json").write_text(json.dumps({**told, "name": "another"}))
    assert rules(visited(home)) == ["stale-record"]
    assert folder.record().file.name == "another"


# With MLflow


def run_of(source: MLflowSource, run_id: str):
    source.runs()
    return source._runs[run_id].info


@pytest.mark.slow
def test_mlflow_gets_what_it_has_not_or_has_wrongly_and_a_dry_run_only_says_so(home, create, store, tmp_path):
    made = [create(name=f"run {number}") for number in range(7)]
    unsent, running, forgotten, unknown, lacking, doubled, _ = made
    mirror = Mirror(store)
    for folder in made:
        attempt = folder.begin()
        attempt.points(1, {"train/loss": 0.5, "val/loss": 0.25})
        attempt.final({"objective": 0.25})
        attempt.end("completed")
        folder.record()
        if folder is not unsent:
            mirror.push(folder)
    runs = {folder.run_id: mirrored.load(folder.path, store) for folder in home_folders(home)}
    mirror.client.update_run(runs[running.run_id].run, status="RUNNING")
    mirrored.save(unknown.path, store, dataclasses.replace(runs[unknown.run_id], run="0" * 32))
    with closing(sqlite3.connect(tmp_path / "mlflow.db")) as database:
        tables = ("metrics", "latest_metrics", "params", "tags", "runs")
        for table in tables:
            database.execute(f"DELETE FROM {table} WHERE run_uuid = ?", (runs[forgotten.run_id].run,))
        for table in tables[:2]:
            lacks = (runs[lacking.run_id].run, "val/loss")
            database.execute(f"DELETE FROM {table} WHERE run_uuid = ? AND key = ?", lacks)
        database.commit()
    twin = mirror.client.create_run(runs[doubled.run_id].experiment, tags={"trainlab.run_id": doubled.run_id})
    mirrored.complain(home, store, "it was away")

    before = state(tmp_path)
    dry = Visit(home, store, dry_run=True)
    examine_home(dry)
    examine_mlflow(dry)
    assert state(tmp_path) == before
    assert rules(dry) == ["mlflow-differs"] * 4 + ["mlflow-twin", "not-in-mlflow"]

    waiting = Waiting(100)
    real = Visit(home, store)
    examine_home(real)
    examine_mlflow(real, waiting)
    assert real.clean, real.found
    assert rules(real) == rules(dry)
    assert run_of(MLflowSource(store), running.run_id).status == "FINISHED"
    assert mirror.client.get_run(twin.info.run_id).info.lifecycle_stage == "deleted"
    assert MLflowSource(store).runs() == HomeSource(home).runs()
    assert MLflowSource(store).series(home.run_ids()) == HomeSource(home).series(home.run_ids())
    assert mirrored.reason(home, store) == ""

    again = Visit(home, store)
    examine_home(again)
    examine_mlflow(again, waiting)
    assert again.found == []


@pytest.mark.slow
def test_half_lines_taken_out_of_a_spool_leave_mlflow_with_each_point_once(home, create, store):
    folder = create()
    attempt = folder.begin()
    attempt.points(1, {"train/loss": 1.0})
    attempt.flush()
    path = spool.spools(folder.path)[0][1]
    with path.open("ab") as file:
        file.write(b'{"kind":"points","at":5,"upd')  # a full disk, and the next line is glued to it
    attempt.points(2, {"train/loss": 0.5})
    attempt.points(3, {"train/loss": 0.25})
    attempt.end("completed")
    mirror = Mirror(store)
    mirror.push(folder)
    (series,) = MLflowSource(store).series([folder.run_id])
    assert series.updates == (1, 3)
    assert rules(visited(home)) == ["half-line"]
    assert mirrored.pending(folder.path, store)
    mirror.push(folder)
    (series,) = MLflowSource(store).series([folder.run_id])
    assert (series.updates, series.values) == ((1, 2, 3), (1.0, 0.5, 0.25))
    assert not mirrored.pending(folder.path, store)


def home_folders(home):
    return [home.folder(run_id) for run_id in home.run_ids()]


def test_a_copy_of_a_run_is_moved_away(home, create) -> None:
    folder = create()
    folder.begin().end("completed")
    copy = folder.path.with_name("20260101-000000-aaaaaa")
    shutil.copytree(folder.path, copy)
    (found,) = visited(home).found
    assert "its run.json is another run's: a copy" in found.said
    assert home.run_ids() == [folder.run_id]
    assert visited(home).found == []
