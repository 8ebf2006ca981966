"""`trainlab status` shows one truth, quickly: done of planned, who works, what waits and why, what is to be mended."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import trainlab as tl
from experiments.doctor import examine
from experiments.store import mirrored
from experiments.store.home import Home, new_run_id
from experiments.store.locks import Lock
from experiments.store.schema import Labels, RunFile
from trainlab.standing import standing

#: A worker of a study: it signs, begins a run, and waits.
WORKER = """
import sys, time
from experiments.sweeps.lease import living
from experiments.store.home import Home
home = Home(sys.argv[1])
with living(home, "s"):
    attempt = home.folder(sys.argv[2]).begin()
    attempt.points(30, {"train/loss": 0.5})
    attempt.flush()
    print("began", flush=True)
    time.sleep(120)
"""


@pytest.fixture
def home(tmp_path, monkeypatch) -> Home:
    monkeypatch.chdir(tmp_path)
    for name in ("TRAINLAB_HOME", "MLFLOW_TRACKING_URI"):
        monkeypatch.delenv(name, raising=False)
    return Home.default()


def create(home: Home, number: int, study: str = "s", arm: str = "adamw"):
    labels = Labels("digits", study, arm, "tune", number)
    return home.create(RunFile(new_run_id(), f"digits {arm} {number}", labels, {"budget": {"updates": 60}}, ""))


def plan(home: Home, study: str, expected: int) -> None:
    (home.path / "studies" / study).mkdir(parents=True)
    (home.path / "studies" / study / "study.json").write_text(json.dumps({"study": {}, "expected": expected}))


def test_done_of_planned_who_works_and_what_waits(home) -> None:
    create(home, 0).begin().end("completed")
    create(home, 1).begin().end("interrupted")
    plan(home, "s", 5)
    plan(home, "empty", 3)
    mirrored.complain(home, f"sqlite:///{Path.cwd()}/mlflow.db", "it is locked")
    command = [sys.executable, "-c", WORKER, str(home.path), create(home, 2).run_id]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.send_signal(signal.SIGSTOP)  # asleep is alive
        found = standing(home)
        rows = {row["study"]: row for row in found.rows}
        assert (rows["s"]["done"], rows["s"]["planned"], rows["s"]["left"]) == (1, 5, 4)
        assert (rows["s"]["completed"], rows["s"]["interrupted"], rows["s"]["running"]) == (1, 1, 1)
        assert (rows["empty"]["done"], rows["empty"]["left"], rows["empty"]["runs"]) == (0, 3, 0)
        (worker,) = found.workers
        assert (worker.pid, worker.host, worker.study) == (process.pid, os.uname().nodename, "s")
        assert [(run.update, run.fraction, run.arm) for run in worker.runs] == [(30, 0.5, "adamw")]
        assert str(found.left) == "2 runs not in MLflow yet (it is locked)"
        text = repr(tl.status())
        assert f"pid {process.pid} on" in text
        assert "s: digits adamw 2 at update 30 (50 %)" in text
        arms = tl.status("s").data()
        assert [(row["arm"], row["completed"], len(row["workers"])) for row in arms] == [("adamw", 1, 1)]
        process.kill()
    gone = standing(home)
    assert gone.workers == []
    assert gone.rows[0]["lost"] == 1
    assert gone.to_mend >= 2  # the run that nobody marked, and what nobody sends


def test_a_run_outside_a_study_is_seen_at_work(home) -> None:
    run = create(home, 0, study="", arm="")
    attempt = run.begin()
    attempt.points(6, {"train/loss": 0.5})
    attempt.flush()
    (worker,) = standing(home).workers
    assert (worker.pid, worker.runs[0].run_id, worker.runs[0].fraction) == (os.getpid(), run.run_id, 0.1)
    attempt.end("completed")


def test_a_run_file_that_cannot_be_read_hides_no_other(home) -> None:
    create(home, 0).begin().end("completed")
    (create(home, 1).path / "run.json").write_text("{")
    found = standing(home)
    assert [row["completed"] for row in found.rows] == [1]
    assert found.to_mend >= 1


STUDY = {
    "name": "s",
    "tasks": ["digits"],
    "arms": {"adamw": {"optimizer": "adamw", "optimizer.lr": "1e-4:1e-1:log"}, "sgd": {"optimizer": "sgd"}},
    "tune": {"trials": 4, "space": {"optimizer.momentum": "0:0.9"}},
    "seeds": 2,
}


def test_a_study_is_told_arm_by_arm_with_those_that_have_not_begun(home) -> None:
    create(home, 0).begin().end("completed")
    plan(home, "s", 12)
    kept = {"study": tl.StudyConfig.of(STUDY).to_json(), "expected": 12}
    (home.path / "studies" / "s" / "study.json").write_text(json.dumps(kept))
    rows = {(row["arm"], row["phase"]): (row["done"], row["planned"], row["left"]) for row in standing(home, "s").rows}
    assert rows == {
        ("adamw", "tune"): (1, 4, 3), ("adamw", "final"): (0, 2, 2),
        ("sgd", "tune"): (0, 4, 4), ("sgd", "final"): (0, 2, 2),
    }  # fmt: skip
    assert "1 of 4" in repr(tl.status("s"))
    assert list(tl.study("s").status()["left"]) == [3, 2, 4, 2]
    assert [row["planned"] for row in tl.status("s").data()] == [4, 2, 4, 2]


def test_a_study_without_runs_is_named_with_what_is_left(home) -> None:
    plan(home, "s", 5)
    assert "no study has runs here" not in repr(tl.status())
    assert repr(tl.status("s")).splitlines() == ["s: 0 of 5, 5 left"]
    with Lock(home.path / "studies" / "s" / "lock").take():
        assert repr(tl.status("s")).splitlines()[0] == "s: 0 of 5, 5 left, workers starting"
        assert tl.study("s").pid == os.getpid()
    home.path.joinpath("studies", "s", "study.json").unlink()
    with Lock(home.path / "studies" / "s" / "lock").take():  # it has the lock, and has not written the plan yet
        assert repr(tl.status("s")).splitlines()[0] == "s: no run yet, workers starting"


def test_a_run_made_just_now_is_about_to_begin_and_later_lost(home) -> None:
    def made(ms_ago: int) -> str:
        labels = Labels("digits", "s", "adamw", "tune", ms_ago)
        created = int(1000 * time.time()) - ms_ago
        return home.create(RunFile(new_run_id(), "r", labels, {}, "", created=created)).record().status

    assert made(0) == "running"
    assert made(60_000) == "lost"
    assert examine(home, dry_run=True).found == []


@pytest.mark.slow
def test_a_thousand_runs_take_half_a_second_and_no_torch(home) -> None:
    for number in range(1000):
        attempt = create(home, number).begin()
        attempt.points(60, {"train/loss": 0.5, "val/loss": 0.5})
        attempt.end("completed")
    plan(home, "s", 2000)
    standing(home)  # caches are made
    took = []
    for _ in range(3):
        began = time.process_time()
        assert standing(home).rows[0]["left"] == 1000
        took.append(time.process_time() - began)
    assert min(took) < 0.5
    code = (
        "import sys; from trainlab.cli import main; main(['status']); "
        "print('loaded', [name for name in ('torch', 'optuna', 'mlflow') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "1000 of 2000" in done.stdout
    assert done.stdout.endswith("loaded []\n")


def test_watch_says_it_again_as_plain_lines_where_nobody_looks(home) -> None:
    create(home, 0).begin().end("completed")
    command = [str(Path(sys.executable).with_name("trainlab")), "status", "--watch"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(6)]
        process.send_signal(signal.SIGINT)
        assert process.wait() == 130
    assert lines.count("study  completed\n") == 2
    assert "\x1b" not in "".join(lines)
