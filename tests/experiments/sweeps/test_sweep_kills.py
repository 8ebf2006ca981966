"""Sweeps whose workers and starters are really killed: every trial once, none left running, the same numbers."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import optuna
import pytest

from experiments.store import spool
from experiments.store.gathered import Gathered
from experiments.store.home import Home
from experiments.study import StudyConfig
from experiments.sweeps.journal import open_journal
from experiments.sweeps.lease import workers
from experiments.sweeps.sweep import SweepOptions, sweep

#: Runs of the disturbed sweeps; 200 for the whole proof (some minutes).
RUNS = int(os.environ.get("TRAINLAB_KILL_RUNS", "24"))
WORKERS = 4

_STARTER = """
import json, os, signal, sys
from experiments.store.home import Home
from experiments.study import StudyConfig
from experiments.stopping import stopping
from experiments.sweeps.sweep import SweepOptions, sweep
study, home, workers = json.loads(sys.stdin.read())
with stopping() as stop:
    result = sweep(StudyConfig.of(study), home=Home(home), stop=stop, options=SweepOptions(workers=workers))
print(json.dumps(result.complete))
"""


def study(runs: int = RUNS, updates: int = 60) -> dict[str, Any]:
    """One arm with tuning runs, another that runs as it is, together `runs`."""
    trials = runs // 2
    return {
        "name": "killed",
        "tasks": ["digits"],
        "config": {
            "model": {"name": "mlp", "width": 16}, "batch_size": 250, "evaluate_every": 20, "device": "cpu",
            "checkpoint_every": 7,
        },
        "budget": {"updates": updates},
        "arms": {"tuned": {"optimizer": "adamw"}, "plain": {"optimizer": {"name": "lion", "lr": 1e-3}}},
        "tune": {"trials": trials, "sampler": "random", "space": ["optimizer.lr"]},
        "seeds": (runs - 2 * trials) + 2,
        "population": "off",
    }  # fmt: skip


def outcome(home: Home) -> dict[str, Any]:
    records = Gathered(home, "killed").records()
    trials = Counter(record.labels.trial for record in records)
    assert set(trials.values()) == {1}, f"one run a trial: {trials.most_common(3)}"
    return {r.labels.trial: (r.status, r.config["optimizer"], dict(r.final)) for r in records}


def states(home: Home) -> dict[str, Counter[str]]:
    storage = open_journal(home.path)
    return {
        name: Counter(t.state.name for t in optuna.load_study(study_name=name, storage=storage).get_trials(False))
        for name in optuna.get_all_study_names(storage)
    }


def start(definition: dict[str, Any], home: Path, count: int = WORKERS) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", _STARTER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True, env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert process.stdin
    with process.stdin as stdin:
        json.dump([definition, str(home), count], stdin)
    process.stdin = None  # else communicate() flushes it
    return process


def undisturbed(tmp_path: Path, definition: dict[str, Any]) -> dict[str, Any]:
    home = Home(tmp_path / "undisturbed")
    assert sweep(StudyConfig.of(definition), home=home).complete
    return outcome(home)


def wait_for(what: Any, limit_s: float = 120.0) -> Any:
    until = time.monotonic() + limit_s
    while not (found := what()):
        assert time.monotonic() < until, "it never came to it"
        time.sleep(0.05)
    return found


@pytest.mark.slow
@pytest.mark.parametrize(("number", "population"), [(9, "off"), (15, "off"), (9, 4)])
def test_workers_that_are_killed_lose_nothing_and_change_nothing(
    tmp_path: Path, number: int, population: str | int
) -> None:
    """Members, too: whoever trains beside them, they come to the same numbers."""
    definition = {**study(), "population": population}
    home = Home(tmp_path / "home").prepare()
    process = start(definition, home.path)
    chance, asked, over = random.Random(1), set[int](), 0
    while process.poll() is None:
        busy = [worker["pid"] for worker in workers(home) if worker["trials"] and worker["pid"] not in asked]
        ended = sum(spool.ending(home.run_folder / run_id) is not None for run_id in home.run_ids())
        if busy and ended > over and len(asked) < RUNS // 4:  # somebody comes to an end between two kills
            over, pid = ended, chance.choice(busy)
            asked.add(pid)
            with suppress(ProcessLookupError):
                os.kill(pid, number)
        time.sleep(0.02)
    said, errors = process.communicate()
    assert process.returncode == 0, errors
    if number == signal.SIGTERM and json.loads(said) is False:  # every worker was asked to stop: it is called again
        assert sweep(StudyConfig.of(definition), home=home).complete
    assert len(asked) >= 2, "hardly anybody was killed"
    assert outcome(home) == undisturbed(tmp_path, definition)
    budget = definition["tune"]["trials"]
    for name, found in states(home).items():
        assert set(found) <= {"COMPLETE"}, (name, found)
        assert found.total() == (definition["seeds"] if name.endswith("/final") else budget)


@pytest.mark.slow
def test_workers_go_on_when_the_process_that_started_them_is_killed(tmp_path: Path) -> None:
    definition = study(updates=200)
    home = Home(tmp_path / "home").prepare()
    process = start(definition, home.path, 2)
    wait_for(lambda: len([worker for worker in workers(home) if worker["trials"]]) == 2)
    process.kill()
    process.communicate()
    assert len(workers(home)) == 2, "they live on"
    with pytest.raises(Exception, match="workers whose starter is gone"):
        sweep(StudyConfig.of(definition), home=home)
    wait_for(lambda: not workers(home))
    assert sweep(StudyConfig.of(definition), home=home).complete
    assert outcome(home) == undisturbed(tmp_path, definition)
    assert all(set(found) == {"COMPLETE"} for found in states(home).values())


@pytest.mark.slow
def test_a_journal_cut_in_mid_line_under_four_workers_is_read_on(tmp_path: Path) -> None:
    """Half a line is what a kill in mid-write leaves: it is cut before anything is glued to it."""
    definition = study()
    home = Home(tmp_path / "home").prepare()
    process = start(definition, home.path)
    wait_for(lambda: [worker for worker in workers(home) if worker["trials"]])
    torn = threading.Event()

    def tear() -> None:
        from experiments.sweeps.journal import JOURNAL, KernelLock

        journal = home.path / JOURNAL
        for _ in range(5):
            lock = KernelLock(journal)
            lock.acquire()
            with journal.open("ab") as file:
                file.write(b'{"op_code": 6, "worker_id": "torn", "tri')
            lock.release()
            torn.set()
            time.sleep(0.4)

    thread = threading.Thread(target=tear)
    thread.start()
    said, errors = process.communicate(timeout=200)
    thread.join()
    assert torn.is_set()
    assert process.returncode == 0, errors
    assert json.loads(said) is True
    assert outcome(home) == undisturbed(tmp_path, definition)


@pytest.mark.slow
def test_eight_workers_share_one_sqlite_file(tmp_path: Path) -> None:
    definition = study(runs=40, updates=4)
    home = Home(tmp_path / "home").prepare()
    options = SweepOptions(workers=8, threads=1, storage=f"sqlite:///{tmp_path}/queue.db")
    result = sweep(StudyConfig.of(definition), home=home, options=options)
    assert result.complete
    assert result.notes == []
    assert outcome(home) == undisturbed(tmp_path, definition)


def test_a_worker_that_was_asleep_cannot_tell_of_a_trial_that_another_has_taken_over(tmp_path: Path) -> None:
    """Two homes, as on two machines: the beat decides, and the token."""
    from experiments.store.schema import RunFile, RunRecord
    from experiments.study import due
    from experiments.sweeps.lease import living
    from experiments.sweeps.queue import Queue

    config = StudyConfig.of(study(runs=4))
    url = f"sqlite:///{tmp_path}/queue.db"
    asleep = Queue(Home(tmp_path / "a").prepare(), config, url, lease_s=0.2)
    awake = Queue(Home(tmp_path / "b").prepare(), config, url, lease_s=0.2)
    asleep.prepare()
    job = due(config, [])[0]
    with living(asleep.home, "killed") as first, living(awake.home, "killed") as second:
        claim = asleep.claim(job, first)
        assert claim is not None
        assert awake.claim(job, second) is None, "it is held"
        asleep.beat()
        time.sleep(0.15)
        assert awake.claim(job, second) is None, "it beat since"
        time.sleep(0.3)
        taken = awake.claim(job, second)
        assert taken is not None, "stale"
        file = RunFile("r", "r", job.labels, {}, "", facts={"task": {"mode": "max", "worst": 0.0}})
        done = RunRecord(file, "completed", final={"objective": 0.25})
        assert not asleep.tell(claim, done)
        asleep.beat()
        assert awake.storage.get_trial(taken.trial or 0).state.name == "RUNNING"
        assert awake.tell(taken, done)
        assert awake.storage.get_trial(taken.trial or 0).value == 0.25


def test_a_live_worker_of_this_home_is_never_robbed_however_slow(tmp_path: Path) -> None:
    from experiments.study import due
    from experiments.sweeps.lease import living
    from experiments.sweeps.queue import Queue

    config = StudyConfig.of(study(runs=4))
    home = Home(tmp_path).prepare()
    slow, other = Queue(home, config, lease_s=0.01), Queue(home, config, lease_s=0.01)
    slow.prepare()
    job = due(config, [])[0]
    with living(home, "killed") as worker, living(home, "killed") as second:
        assert slow.claim(job, worker) is not None
        other.claim(job, second)
        time.sleep(0.1)
        assert other.claim(job, second) is None
    assert other.claim(job, second) is not None, "its lock is free: it is gone"
