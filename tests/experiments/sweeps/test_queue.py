"""The queue: trials up front, taken once, told once, and set right when their worker is gone."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import optuna
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


def test_a_trial_that_was_taken_before_is_looked_at_again_before_it_is_run(tmp_path: Path) -> None:
    """The worker that had it died after its run's last word: what was due by an older look is over."""
    from experiments.progress import silent
    from experiments.stopping import Stop
    from experiments.sweeps.worker import Assignment, _Life

    config = study(tune=None, seeds=2, budget={"updates": 3}, config={"model": {"name": "mlp", "width": 8}})
    home = Home(tmp_path).prepare()
    queue = Queue(home, config)
    queue.prepare()
    old = due(config, [])
    with living(home, "queued") as worker:
        first = _Life(Assignment(config.to_json(), population="off"), home, config, queue, worker, silent, Stop())
        claim = _claimed(queue, old[0], worker)
        first._finished([claim], Stop())  # and dies before it tells
    with living(home, "queued") as worker:
        second = _Life(Assignment(config.to_json(), population="off"), home, config, queue, worker, silent, Stop())
        claims = second._claims(old)
        assert [each.job.labels.number for each in claims] == [1]
        assert queue.study(old[0].labels).trials[0].state.name == "COMPLETE"


def test_a_sampler_killed_between_two_parameters_says_the_same_again(tmp_path: Path) -> None:
    from experiments.tuning import samplers, suggesting

    space = ["optimizer.lr", "optimizer.weight_decay"]
    config = study(tune={"trials": 6, "sampler": "tpe", "space": space})
    said = []
    for name in ("whole", "cut"):
        home = Home(tmp_path / name).prepare()
        queue = Queue(home, config)
        queue.prepare()
        job = Job(Labels("digits", "queued", "adamw", "tune", 0), None, config.space("digits", "adamw"))
        with living(home, "queued") as worker:
            if name == "cut":
                trials = queue.study(job.labels)
                trial = trials.trials[0]
                queue.storage.set_trial_state_values(trial._trial_id, optuna.trial.TrialState.RUNNING)
                assert config.tune is not None
                trials.sampler = samplers.sampler(config.tune, suggesting.seed_of(1, trials.study_name, 0))
                axis = job.space.axes[0]
                asked = optuna.trial.Trial(trials, trial._trial_id)
                asked._suggest(job.space.name(axis), suggesting.distribution(axis.dimension))
            said.append(dict(_claimed(queue, job, worker).job.params))
    assert said[0] == said[1]


def test_turns_in_a_database_are_taken_one_at_a_time_also_past_a_dead_owner(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from experiments.sweeps import storage

    monkeypatch.setattr(storage, "_STALE_S", 3.0)  # a turn takes 0.02 s, and on a busy machine longer
    place = open_storage(f"sqlite:///{tmp_path}/queue.db", tmp_path)
    gate = optuna.create_study(study_name="s/turns", storage=place, load_if_exists=True)
    place.create_new_trial(gate._study_id)  # of one that died in its turn
    inside, most, lock = [0], [0], threading.Lock()

    def turn(_: int) -> None:
        own = open_storage(f"sqlite:///{tmp_path}/queue.db", tmp_path)
        for _ in range(3):
            with storage._turn_in_storage(own, "s"):
                with lock:
                    inside[0] += 1
                    most[0] = max(most[0], inside[0])
                time.sleep(0.02)
                with lock:
                    inside[0] -= 1
        own.remove_session()

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(turn, range(4)))
    assert most[0] == 1


@pytest.mark.parametrize("population", ["off", 3])
def test_a_run_that_cannot_be_built_crashes_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, population: Any
) -> None:
    from experiments import training
    from experiments.sweeps.sweep import sweep

    config = study(
        tune=None, seeds=4, budget={"updates": 3}, config={"model": {"name": "mlp", "width": 8}, "batch_size": 250},
        population=population,
    )  # fmt: skip
    build = training.build

    def broken(config: Any, *more: Any, **named: Any) -> Any:
        if config.seed == 2:
            raise ValueError("no such layer")
        return build(config, *more, **named)

    monkeypatch.setattr(training, "build", broken)
    result = sweep(config, home=Home(tmp_path))
    assert result.complete
    assert {run.labels.seed: run.status for run in result.records} == {
        1: "completed", 2: "crashed", 3: "completed", 4: "completed",
    }  # fmt: skip


def test_a_run_that_cannot_be_gone_on_with_holds_up_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from experiments.stopping import Stop
    from experiments.sweeps.sweep import sweep

    config = study(
        tune=None, seeds=3, budget={"updates": 6}, population="off",
        config={"model": {"name": "mlp", "width": 8}, "batch_size": 250, "evaluate_every": 2},
    )  # fmt: skip
    stop, seen = Stop(), []

    def listen(event: Any) -> None:
        seen.append(event)
        if type(event).__name__ == "RunProgress" and event.update == 2:
            stop.request("enough")

    home = Home(tmp_path)
    (first,) = sweep(config, home=home, listener=listen, stop=stop).records
    assert first.status == "interrupted"
    import torch

    path = home.folder(first.run_id).checkpoints / "last.pt"
    state = torch.load(path, weights_only=True)
    state["model"] = {"another": torch.zeros(3)}
    for each in path.parent.glob("*.pt"):
        torch.save(state, each)
    with pytest.raises(InputError, match="cannot be gone on with"):
        sweep(config, home=home)
    from experiments.store.gathered import Gathered

    runs = {run.labels.number: run for run in Gathered(home, "queued").records()}
    assert [runs[number].status for number in range(3)] == ["interrupted", "completed", "completed"]
    assert runs[0].attempts == 1
