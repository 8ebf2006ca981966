"""A sweep: a study's queue is made ready, workers are started where the launcher puts them, and watched to their end.

With one worker on this machine, this process is the worker.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from algos.finding import InputError
from experiments import launchers
from experiments.devices import placement
from experiments.plan import expected
from experiments.progress import Listener, StudyPlanned, silent
from experiments.stopping import Stop, StopNow
from experiments.store.gathered import Gathered
from experiments.store.home import Home
from experiments.store.schema import FINISHED, RunRecord
from experiments.study import StudyConfig, due
from experiments.sweeps.definition import owned
from experiments.sweeps.queue import Queue
from experiments.sweeps.storage import check_storage
from experiments.sweeps.worker import Assignment, work

_LOOK_S = 0.1


@dataclass(frozen=True)
class SweepOptions:
    """How a sweep runs; none of it changes what it finds. workers: processes. threads: of each; None: all cores, shared
    between them. launcher: local, ray or slurm; address, launcher_options: the launcher's. storage: the queue's URL,
    "" for the journal in the home. amend: whether the study may have grown since. population: off, auto or a number;
    "" as the study says."""

    workers: int = 1
    threads: int | None = None
    launcher: str = "local"
    address: str = ""
    storage: str = ""
    amend: bool = False
    population: str = ""
    launcher_options: Mapping[str, Any] = field(default_factory=dict)

    def check(self) -> None:
        """InputError for what cannot be, before anything is changed."""
        for name, value in (("workers", self.workers), ("threads", self.threads)):
            if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
                raise InputError(
                    f"{value!r} is out of range", "give a whole number from 1", rule="out-of-range", place=name
                )
        size = str(self.population)
        if size not in ("", "off", "auto") and not (size.isdecimal() and int(size) > 1):
            cure = "give off, auto or a whole number from 2"
            raise InputError(f"'{size}' is no size", cure, rule="out-of-range", place="population")
        if self.launcher == "local" and self.launcher_options:
            said = f"{', '.join(self.launcher_options)}: the local launcher has no options of its own"
            cure = "leave --launcher-option out, or give --launcher ray or slurm"
            raise InputError(said, cure, rule="needless", place="launcher-option")
        launchers.load(self.launcher).check({"address": self.address, **self.launcher_options})
        check_storage(self.storage)


@dataclass(frozen=True)
class SweepResult:
    """records: every run of the study so far. complete: whether nothing is left to do. notes: what went wrong on the
    way, of workers that died."""

    records: list[RunRecord]
    complete: bool
    notes: list[str] = field(default_factory=list)


def sweep(
    study: StudyConfig,
    *,
    home: Home | None = None,
    listener: Listener = silent,
    stop: Stop | None = None,
    options: SweepOptions | None = None,
) -> SweepResult:
    """Run what is due of the study, to its end or until stopped; called again, it goes on.

    Raises InputError where another process runs the study, or a study of this name was defined otherwise before.
    """
    options = options or SweepOptions()
    options.check()
    if options.population:  # so that what a pruner or a sampler makes of it is the study's own
        asked = int(options.population) if options.population.isdigit() else options.population
        study = study.model_copy(update={"population": asked})
    home, stop = (home or Home.default()).prepare(), stop or Stop()
    gathered = Gathered(home, study.name)
    with owned(home, study, amend=options.amend, joined=options.launcher == "slurm"):
        queue = Queue(home, study, options.storage)
        queue.prepare(_source(study, home))
        held = queue.everywhere(gathered.records())
        queue.release(held)
        if _done(study, held, queue):
            return SweepResult(held, complete=True)
        done = sum(record.status in FINISHED for record in held)
        listener(StudyPlanned(study.name, expected(study) - done, done))
        notes = _worked(study, home, listener, stop, options)
        queue.release(queue.everywhere(gathered.records()))
        records = queue.everywhere(gathered.records())
        return SweepResult(records, complete=_done(study, records, queue), notes=notes)


def _worked(study: StudyConfig, home: Home, listener: Listener, stop: Stop, options: SweepOptions) -> list[str]:
    """Workers, to their end; what went wrong with them, in words."""
    first = Assignment(
        study.to_json(), str(home.path), options.storage, workers=options.workers, threads=options.threads,
        population=options.population, own_session=options.launcher != "local",
    )  # fmt: skip
    if options.launcher == "local" and options.workers == 1:
        work(first, listener=listener, stop=stop, study=study)
        return []
    crew = launchers.load(options.launcher).launch(
        _assignments(first, study), {"address": options.address, **options.launcher_options}, listener
    )
    try:
        told = False
        while crew.running():
            if stop.requested and not told:
                told = True
                crew.stop(stop.reason)
            time.sleep(_LOOK_S)
    except StopNow:
        crew.kill()
    finally:
        crew.close()
    return crew.failures()


def _assignments(first: Assignment, study: StudyConfig) -> list[Assignment]:
    """One for each worker: its share of the cores, its device."""
    threads = first.threads or max(1, (os.cpu_count() or 1) // first.workers)
    asked = {study.run_config(task, arm, study.seeds[0]).device for task in study.tasks for arm in study.arms}
    return [
        replace(first, worker=number, threads=threads, environment=placement.environment(asked, number))
        for number in range(first.workers)
    ]


def _done(study: StudyConfig, records: list[RunRecord], queue: Queue) -> bool:
    """Whether nothing is left to do, here or where another worker is still at it."""
    in_progress = any(record.status == "running" for record in records)
    return not due(study, records) and not in_progress and not queue.busy()


def _source(study: StudyConfig, home: Home) -> list[RunRecord]:
    """The runs of the study that samplers are warmed with."""
    name = study.tune.warm_start if study.tune else ""
    return Gathered(home, name).records() if name else []
