"""The queue: trials up front, taken once, told once, and set right when their worker is gone."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from algos.finding import InputError
from experiments.designs.compare import score
from experiments.store.home import Home
from experiments.store.schema import Labels, RunFile, RunRecord, Status
from experiments.study import Job, StudyConfig, due
from experiments.sweeps.lease import Worker, living
from experiments.sweeps.queue import Queue
from experiments.sweeps.storage import check_storage, open_storage
from experiments.tuning.objectives import objectives


def study(**changes: Any) -> StudyConfig:
    said = {
        "name": "queued", "tasks": ["digits"], "arms": {"adamw": {"optimizer": "adamw"}},
        "tune": {"trials": 6, "sampler": "random", "space": ["optimizer.lr"]}, "seeds": 2,
    }  # fmt: skip
    return StudyConfig.of({**said, **changes})


def ended(
    status: Status, mode: str = "max", worst: float | None = 0.0, value: float = 0.5, labels: Labels | None = None
) -> RunRecord:
    labels = labels or Labels("digits", "queued", "adamw", "tune", 0)
    facts = {"task": {"name": "digits", "mode": mode, "worst": worst, "metric": "accuracy"}}
    file = RunFile(f"r{labels.number}", "", labels, {}, "", facts=facts)
    return RunRecord(file, status, final={"objective": value} if status == "completed" else {})


@pytest.mark.parametrize("mode", ["max", "min"])
def test_a_diverged_run_is_below_every_run_that_ended_where_the_task_names_no_worst(mode: str) -> None:
    diverged = ended("diverged", mode, None)
    awful = ended("completed", mode, None, -1e300 if mode == "max" else 1e300)
    below, above = score(diverged), score(awful)
    assert below is not None
    assert above is not None
    assert below < above
    assert above == -1e300  # nothing is clamped
    assert objectives(diverged, study()) == [float("-inf") if mode == "max" else float("inf")]
    assert objectives(ended("diverged", mode, 7.0), study()) == [7.0]


@pytest.mark.parametrize("url", ["", "sqlite:///{}/queue.db"])
def test_every_trial_stands_there_from_the_start_and_preparing_again_adds_none(tmp_path: Path, url: str) -> None:
    for _ in range(2):
        queue = Queue(Home(tmp_path).prepare(), study(), url.format(tmp_path))
        queue.prepare()
    for labels in queue.all_labels():
        found = queue.study(labels).get_trials(deepcopy=False)
        assert [trial.state.name for trial in found] == ["WAITING"] * (6 if labels.phase == "tune" else 2)
    queue = Queue(Home(tmp_path), study(seeds=4), url.format(tmp_path))
    queue.prepare()
    finals = Labels("digits", "queued", "adamw", "final")
    assert len(queue.study(finals).get_trials(deepcopy=False)) == 4


@pytest.mark.parametrize("url", ["", "sqlite:///{}/queue.db"])
def test_of_many_that_reach_for_a_trial_one_has_it(tmp_path: Path, url: str) -> None:
    home = Home(tmp_path).prepare()
    Queue(home, study(), url.format(tmp_path)).prepare()
    job = due(study(), [])[0]
    together = threading.Barrier(6)

    def reach(worker: Worker) -> bool:
        queue = Queue(home, study(), url.format(tmp_path))
        together.wait()
        return queue.claim(job, worker) is not None

    with living(home, "queued") as worker, ThreadPoolExecutor(6) as pool:
        got = list(pool.map(reach, [worker] * 6))
    assert sum(got) == 1


def _claimed(queue: Queue, job: Job, worker: Worker) -> Any:
    claim = queue.claim(job, worker)
    assert claim is not None
    return claim


def test_a_trial_that_did_not_end_waits_again_with_its_parameters(tmp_path: Path) -> None:
    home = Home(tmp_path).prepare()
    queue = Queue(home, study())
    queue.prepare()
    job = due(study(), [])[3]
    with living(home, "queued") as worker:
        claim = _claimed(queue, job, worker)
        assert queue.tell(claim, ended("interrupted", labels=job.labels))
        trial = queue.study(job.labels).trials[3]
        assert trial.state.name == "WAITING"
        assert trial.params == {"optimizer.lr": job.params["optimizer.lr"]}
        again = _claimed(queue, job, worker)
        assert queue.tell(again, ended("completed", value=0.25, labels=job.labels))
    assert queue.study(job.labels).trials[3].value == 0.25
    with living(home, "queued") as worker:
        assert queue.claim(job, worker) is None, "it is over"


def test_an_asked_trial_that_is_taken_again_keeps_what_the_sampler_said(tmp_path: Path) -> None:
    config = study(tune={"trials": 6, "sampler": "tpe", "space": ["optimizer.lr"]})
    home = Home(tmp_path).prepare()
    queue = Queue(home, config)
    queue.prepare()
    job = due(config, [])[0]
    with living(home, "queued") as worker:
        first = _claimed(queue, job, worker)
        said = dict(first.job.params)
        queue.tell(first, ended("lost", labels=job.labels))
        other = Queue(home, config)
        assert dict(_claimed(other, job, worker).job.params) == said


def test_what_dead_workers_left_is_set_right_once(tmp_path: Path) -> None:
    home = Home(tmp_path).prepare()
    queue = Queue(home, study())
    queue.prepare()
    jobs = due(study(), [])
    with living(home, "queued") as worker:
        for job in jobs[:3]:
            _claimed(queue, job, worker)
        assert queue.release([]) == [], "their worker lives"
    over = ended("completed", labels=jobs[0].labels)
    told = queue.release([over], dry_run=True)
    assert len(told) == 3
    assert [trial.state.name for trial in queue.study(jobs[0].labels).trials[:3]] == ["RUNNING"] * 3
    assert queue.release([over]) == told
    assert [t.state.name for t in queue.study(jobs[0].labels).trials[:3]] == ["COMPLETE", "WAITING", "WAITING"]
    assert queue.release([over]) == []


@pytest.mark.parametrize("sampler", ["tpe", "gp"])
def test_a_sampler_goes_on_after_an_infinitely_bad_run(sampler: str, tmp_path: Path) -> None:
    config = study(tune={"trials": 14, "sampler": sampler, "space": ["optimizer.lr"]})
    home = Home(tmp_path).prepare()
    queue = Queue(home, config)
    queue.prepare()
    runs: list[RunRecord] = []
    with living(home, "queued") as worker:
        for number in range(14):
            job = Job(Labels("digits", "queued", "adamw", "tune", number), None, config.space("digits", "adamw"))
            claim = _claimed(queue, job, worker)
            bad = number == 3
            run = ended("diverged" if bad else "completed", worst=None, value=0.01 * number, labels=job.labels)
            runs.append(run)
            queue.tell(claim, run)
    told = queue.study(runs[0].labels)
    assert told.best_trial.number == 13
    assert told.trials[3].value == float("-inf")


def test_one_seed_reproduces_what_a_sampler_is_asked_whoever_asks(tmp_path: Path) -> None:
    config = study(tune={"trials": 8, "sampler": {"name": "tpe", "n_startup_trials": 2}, "space": ["optimizer.lr"]})

    def asked(home: Home, anew: bool) -> list[float]:
        queue = Queue(home.prepare(), config)
        queue.prepare()
        found = []
        with living(home, "queued") as worker:
            for number in range(8):
                queue = Queue(home, config) if anew else queue  # as a worker that took over from a dead one
                job = Job(Labels("digits", "queued", "adamw", "tune", number), None, config.space("digits", "adamw"))
                claim = _claimed(queue, job, worker)
                found.append(claim.job.params["optimizer.lr"])
                queue.tell(claim, ended("completed", value=-abs(found[-1] - 1e-3), labels=job.labels))
        return found

    one, other = asked(Home(tmp_path / "a"), anew=False), asked(Home(tmp_path / "b"), anew=True)
    assert one == other
    assert len(set(one)) == 8


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("mongodb://host/db", "is no place for a queue.*sqlite:///FILE"),
        ("queue.db", "is no place for a queue"),
        ("sqlite://", "in memory"),
        ("sqlite:////nowhere/at/all/queue.db", "does not exist"),
        ("grpc://localhost", "no host and port"),
        ("grpc://127.0.0.1:1", "does not answer"),
        ("oracle://x", "is no place for a queue"),
    ],
)
def test_a_storage_of_the_wrong_kind_is_one_line(url: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        check_storage(url)


def test_a_database_that_does_not_answer_is_one_line(tmp_path: Path) -> None:
    pytest.importorskip("psycopg")
    with pytest.raises(InputError, match="does not answer"):
        open_storage("postgresql://nobody@127.0.0.1:1/none", tmp_path)


def test_a_file_that_is_no_database_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "queue.db"
    path.write_text("my notes, and more of them")
    with pytest.raises(InputError, match="is not an SQLite database"):
        open_storage(f"sqlite:///{path}", tmp_path)
    assert path.read_text() == "my notes, and more of them"
