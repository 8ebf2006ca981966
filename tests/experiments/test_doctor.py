"""After everything of a sweep was killed, the doctor sets home, queue and MLflow right, and the sweep goes on."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from experiments.doctor import examine
from experiments.store.home import Home
from experiments.store.locks import is_held, owner
from experiments.sweeps.lease import workers

STUDY = """
name: killed
tasks: [digits]
budget: {updates: 3000}
seeds: 2
arms:
  adamw: {optimizer: adamw}
tune: {trials: 8, sampler: random}
"""


def command(*arguments: str) -> list[str]:
    return [str(Path(sys.executable).with_name("trainlab")), *arguments]


def said(*arguments: str) -> tuple[int, str]:
    done = subprocess.run(command(*arguments), capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def state(root: Path) -> dict[str, str]:
    return {
        str(path): hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "folder"
        for path in sorted(root.rglob("*"))
    }


def children(pid: int) -> set[int]:
    """A process and all that it started, and they, that are still below it."""
    found = {pid}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(path.read_text().rpartition(")")[2].split()[1])
        except (OSError, IndexError):
            continue
        if parent == pid:
            found |= children(int(path.parent.name))
    return found


def kill(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def soon(holds: Any, timeout_s: float = 200) -> bool:
    deadline = time.monotonic() + timeout_s
    while not holds() and time.monotonic() < deadline:
        time.sleep(0.1)
    return bool(holds())


@pytest.fixture
def home(tmp_path, monkeypatch) -> Home:
    for name in [name for name in os.environ if name.startswith(("TRAINLAB_", "MLFLOW_"))]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    (tmp_path / "study.yaml").write_text(STUDY)
    return Home.default()


@pytest.mark.slow
def test_a_sweep_that_was_killed_whole_is_set_right_and_goes_on(home, tmp_path, request) -> None:
    sweep = command("sweep", "study.yaml", "--workers", "2", "--threads", "1", "--population", "off")
    with (tmp_path / "log").open("wb") as log:
        started = subprocess.Popen(sweep, stdout=log, stderr=log)
    request.addfinalizer(lambda: [kill(pid) for pid in {started.pid, *(each["pid"] for each in workers(home))}])
    over = {"completed", "diverged"}
    assert soon(lambda: sum(r.status in over for r in home.records()) >= 2), (tmp_path / "log").read_text()
    assert soon(lambda: sum(r.status == "running" for r in home.records()) >= 2)
    family = children(started.pid)
    started.kill()  # the one that started them all: its workers go on, and are seen
    started.wait()
    code, text = said("status", "killed")
    assert code == 0
    assert sum(line.startswith("  pid ") for line in text.splitlines()) == 2, text
    trained = "count/updates"  # the first evaluation is before any
    assert soon(lambda: sum(r.status == "running" and r.last.get(trained, 0) > 0 for r in home.records()) == 2)
    os.kill(min(worker["pid"] for worker in workers(home)), signal.SIGSTOP)  # asleep, not dead
    assert len(workers(home)) == 2
    for pid in family.union(*(children(worker["pid"]) for worker in workers(home))) - {started.pid}:
        kill(pid)
    uploading = home.path / "uploader.lock"
    while is_held(uploading):  # one that waited for its turn may have it now
        kill(owner(uploading).get("pid", started.pid))
        time.sleep(0.2)
    assert soon(lambda: not workers(home))
    journal = home.path / "optuna.journal"
    journal.write_bytes(journal.read_bytes() + b'{"op_code":6,"work')

    before = state(tmp_path)
    code, text = said("doctor", "--dry-run")
    assert state(tmp_path) == before
    assert code == 1, text
    code, text = said("doctor", "--json")
    found, _ = json.JSONDecoder().raw_decode(text)
    assert code == 0, text
    assert {finding["level"] for finding in found} == {"note"}
    assert {finding["rule"] for finding in found} >= {"lost-run", "dead-worker", "half-line", "stale-trials"}
    after = state(home.path)
    assert said("doctor") == (0, "nothing to mend\n")
    assert state(home.path) == after
    assert {record.status for record in home.records()} <= {"completed", "diverged", "lost"}

    code, text = said(*sweep[1:])
    assert code == 0, text
    records = home.records()
    assert sorted(record.labels.trial for record in records) == sorted(
        [f"killed/digits/adamw/tune/{number}" for number in range(8)]
        + [f"killed/digits/adamw/final/{number}" for number in range(2)]
    )
    assert {record.status for record in records} <= over
    assert said("doctor") == (0, "nothing to mend\n")


@pytest.mark.slow
def test_trials_that_wait_though_their_runs_are_over_are_told(home, tmp_path) -> None:
    assert said("sweep", "study.yaml", "--population", "off")[0] == 0
    from experiments.sweeps.definition import stored_study
    from experiments.sweeps.queue import Queue

    study = stored_study(home, "killed")
    assert study is not None
    again = Home(tmp_path / "again")
    again.prepare()
    for folder in ("runs", "studies"):
        subprocess.run(["cp", "-r", str(home.path / folder), str(again.path)], check=True)
    Queue(again, study).prepare()  # a queue of trials that wait, whose runs are over
    found = [finding for finding in examine(again).found if finding.rule == "stale-trials"]
    assert [finding.source for finding in found] == ["study killed"]
    assert "trial 0 of killed/digits/adamw was WAITING, and its run is completed" in found[0].said
    queue = Queue(again, study)
    assert all(trial.state.is_finished() for labels in queue.all_labels() for trial in queue.study(labels).trials)
    assert examine(again).found == []


def test_a_home_that_is_not_there_is_not_made_and_a_wrong_store_is_refused(home, monkeypatch) -> None:
    assert examine(home).found == []
    assert not home.path.exists()
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "file:/somewhere")
    with pytest.raises(ValueError, match="refuse file stores"):
        examine(home)


@pytest.mark.slow
def test_a_queue_in_a_database_is_looked_at_where_it_is_given_and_else_told(home, tmp_path) -> None:
    """Two studies, one in the journal and one in a database: each is looked at where it is."""
    small = STUDY.replace("3000", "20").replace("trials: 8", "trials: 2")
    (tmp_path / "study.yaml").write_text(small)
    (tmp_path / "other.yaml").write_text(small.replace("killed", "other"))
    url = f"sqlite:///{tmp_path}/queue.db"
    assert said("sweep", "study.yaml", "--population", "off")[0] == 0
    assert said("sweep", "other.yaml", "--population", "off", "--storage", url)[0] == 0
    told = "study other: its trials are in no queue of this home: not looked at; give --storage URL as to its sweep\n"
    assert said("doctor") == (0, told)
    assert said("doctor", "--storage", url) == (0, "nothing to mend\n")
    from optuna.trial import TrialState

    from experiments.sweeps.definition import stored_study
    from experiments.sweeps.queue import Queue

    for name, storage in (("killed", ""), ("other", url)):
        study = stored_study(home, name)
        assert study is not None
        queue = Queue(home, study, storage)
        labels = next(iter(queue.all_labels()))
        queue.storage.create_new_trial(queue.study(labels)._study_id)  # RUNNING, and no worker has it
        assert queue.study(labels).trials[-1].state == TrialState.RUNNING
    found = examine(home, storage=url, dry_run=True).found
    assert [(finding.rule, finding.source) for finding in found] == [
        ("stale-trials", "study killed"),
        ("stale-trials", "study other"),
    ]
    assert "was RUNNING, and its worker is gone" in found[0].said
    wrong = [finding.rule for finding in examine(home, storage=f"sqlite:///{tmp_path}/empty.db", dry_run=True).found]
    assert wrong == ["stale-trials", "queue-elsewhere"]
    assert not (tmp_path / "empty.db").exists()
