"""A worker's life: take what is due of a study, run it, tell the queue, until nothing is due.

One worker a study for now: it holds the study's lock, so whatever it finds half done was left by a dead one.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from algos.finding import InputError
from experiments.plan import plan
from experiments.progress import Listener, StudyPlanned, silent
from experiments.queue import Queue
from experiments.ranges import Dimension, Options
from experiments.stopping import Stop
from experiments.store.home import Home
from experiments.store.locks import Held, Lock
from experiments.store.schema import FINISHED, RunRecord
from experiments.study import Job, StudyConfig, difference, due
from experiments.training import Finished, resume, train

if TYPE_CHECKING:
    from collections.abc import Iterator

    import optuna


@dataclass(frozen=True)
class SweepResult:
    """records: every run of the study so far. complete: whether nothing is left to do."""

    records: list[RunRecord]
    complete: bool


def sweep(
    study: StudyConfig, *, home: Home | None = None, listener: Listener = silent, stop: Stop | None = None
) -> SweepResult:
    """Run what is due of the study, to its end or until stopped; called again, it goes on.

    Raises InputError where another process runs the study, or a study of this name was defined otherwise before.
    """
    home, stop = (home or Home.default()).prepare(), stop or Stop()
    with _owned(home, study):
        queue = Queue(home.path)
        held = {record.labels.trial: record for record in study_records(home, study.name)}
        queue.release(study.name, held.values())
        done = sum(record.status in FINISHED for record in held.values())
        while not stop.requested:
            jobs = due(study, list(held.values()))
            if not jobs:
                break
            listener(StudyPlanned(study.name, plan(study, list(held.values())).left, done))
            job, trial = _take(queue, study, jobs)
            finished = _run(study, job, home, listener, stop)
            queue.tell(trial, job.labels.number, finished.record)
            held[job.labels.trial] = finished.record
            if isinstance(finished.error, InputError):
                raise finished.error  # the next one would end like it
        return SweepResult(list(held.values()), complete=not due(study, list(held.values())))


def study_records(home: Home, name: str) -> list[RunRecord]:
    """The study's runs that our runner made, oldest first: those recorded from other loops take no place in it."""
    own = (record for record in home.records() if record.labels.study == name)
    return [record for record in own if not record.file.facts.get("recorded")]


def stored_study(home: Home, name: str) -> StudyConfig | None:
    """The study as it was last run in this home, or None."""
    path = _folder(home, name) / "study.json"
    return StudyConfig.of(json.loads(path.read_text())["study"]) if path.exists() else None


def _run(study: StudyConfig, job: Job, home: Home, listener: Listener, stop: Stop) -> Finished:
    if job.resume:
        return resume(home.folder(job.resume), listener=listener, stop=stop)
    assert job.config is not None
    return train(job.config, home=home, labels=job.labels, study=job.facts(study), listener=listener, stop=stop)


def _take(queue: Queue, study: StudyConfig, jobs: Sequence[Job]) -> tuple[Job, optuna.Study]:
    """The first job, taken from the queue; where its sampler is to be asked, with what that says."""
    job = jobs[0]
    trials = queue.study(job.labels, _mode(study, job), study.tune.sampler if study.tune else "random", _seed(study))
    distributions = {place: _distribution(dimension) for place, dimension in job.space.dimensions.items()}
    tuning = job.labels.phase == "tune"
    params = queue.take(
        trials,
        job.labels.number,
        None if job.ask else dict(job.params) if tuning else {},
        distributions if tuning else {},
    )
    return (job.asked(study, params) if job.ask else job), trials


def _mode(study: StudyConfig, job: Job) -> str:
    from experiments.tasks import catalogue as tasks

    config = job.config or study.run_config(job.labels.task, job.labels.arm, study.seeds[0])
    return config.mode or tasks.describe(config.task).mode


def _seed(study: StudyConfig) -> int:
    return study.tune.seed if study.tune else 0


def _distribution(dimension: Dimension) -> optuna.distributions.BaseDistribution:
    import optuna

    if isinstance(dimension, Options):
        return optuna.distributions.CategoricalDistribution(dimension.values)
    if dimension.whole:
        return optuna.distributions.IntDistribution(int(dimension.low), int(dimension.high), log=dimension.log)
    return optuna.distributions.FloatDistribution(dimension.low, dimension.high, log=dimension.log)


def _folder(home: Home, name: str) -> Path:
    return home.path / "studies" / name


@contextmanager
def _owned(home: Home, study: StudyConfig) -> Iterator[None]:
    """Hold the study's lock, and its definition to what it was."""
    folder = _folder(home, study.name)
    folder.mkdir(parents=True, exist_ok=True)
    try:
        lock = Lock(folder / "lock").take()
    except Held as held:
        who = f"pid {held.owner['pid']}" if "pid" in held.owner else "another process"
        raise InputError(
            f"study {study.name} is being run by {who}", "wait for it, or stop it", rule="already-running"
        ) from None
    with lock:
        _keep_definition(folder / "study.json", study, has_runs=bool(study_records(home, study.name)))
        yield


def _keep_definition(path: Path, study: StudyConfig, has_runs: bool) -> None:
    definition = study.definition()
    if has_runs and path.exists():
        changes = difference(json.loads(path.read_text())["definition"], definition)
        if changes:
            shown = "; ".join(changes[:3]) + (f"; and {len(changes) - 3} more" if len(changes) > 3 else "")
            raise InputError(
                f"study {study.name} was defined otherwise before ({shown})",
                "give the changed study a new name, or change it back",
                rule="study-changed",
            )
    kept: dict[str, Any] = {"schema": 1, "study": study.to_json(), "definition": definition}
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.write_text(json.dumps(kept, indent=1))
    os.replace(temporary, path)
