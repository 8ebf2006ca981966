"""Sweeping: a study with what a long night of it needs: workers, a time to stop at, and a command that follows."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING

from algos.finding import InputError
from experiments import until as times
from experiments.progress import Event, Listener, silent
from experiments.until import Until
from trainlab import owners
from trainlab.afterwards import afterwards
from trainlab.attending import Watch, attended, note
from trainlab.running import ready, recorded, refuse_study, refuse_warm_start, tell_changes

if TYPE_CHECKING:
    from experiments.stopping import Stop
    from experiments.store.home import Home
    from experiments.store.schema import RunRecord
    from experiments.study import StudyConfig
    from experiments.sweeps.sweep import SweepOptions, SweepResult


@dataclass(frozen=True)
class Night:
    """until: when to stop, None: at the end. on_done: a shell command that is run when all is over, "" for none."""

    until: Until | None = None
    on_done: str = ""

    @classmethod
    def of(cls, until: str = "", on_done: str | None = None) -> Night:
        """InputError for a time or a command that is none."""
        if on_done is not None and not on_done.strip():
            raise InputError("an empty command", "give a command, or leave it out", place="on_done")
        return cls(times.parse(until) if until else None, on_done or "")

    def flags(self) -> list[str]:
        """The same on the command line."""
        at = [datetime.fromtimestamp(self.until.at).astimezone().isoformat(timespec="seconds")] if self.until else []
        return [*(f"--until={each}" for each in at), *([f"--on-done={self.on_done}"] if self.on_done else [])]


def flags(options: SweepOptions) -> list[str]:
    """A sweep's options on the command line."""
    given = {
        "workers": options.workers,
        "threads": options.threads,
        "launcher": options.launcher,
        "address": options.address,
        "storage": options.storage,
        "population": options.population,
    }
    own = [f"--launcher-option={name}={value}" for name, value in options.launcher_options.items()]
    return [*(f"--{name}={value}" for name, value in given.items() if value), *own, *(["--amend"] * options.amend)]


def shared(options: SweepOptions) -> SweepOptions:
    """The options, with this machine's cores shared between several workers where nothing else is said."""
    if options.threads or options.workers < 2 or options.launcher != "local":
        return options
    return replace(options, threads=max(1, _cores() // options.workers))


def _cores() -> int:
    """Those that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def execute_study(
    study: StudyConfig,
    *,
    home: Home,
    listener: Listener = silent,
    stop: Stop | None = None,
    options: SweepOptions | None = None,
) -> SweepResult:
    """Run what is due of a study. What can be refused is, before the first run."""
    from experiments.store.gathered import Gathered
    from experiments.sweeps.sweep import SweepOptions, sweep

    options = shared(options or SweepOptions())
    options.check()
    ready([study.run_config(task, arm, study.seeds[0]) for task in study.tasks for arm in study.arms])
    refuse_study(study)
    refuse_warm_start(study, home)
    tell_changes(Gathered(home, study.name).records())
    changes = amendments(home, study) if options.amend else []

    def accepted() -> None:
        while changes:
            note(changes.pop(0))

    def heard(event: Event) -> None:
        accepted()  # whatever is told comes after the study was taken as it is
        listener(event)

    with recorded(home, stop):
        result = sweep(study, home=home, listener=heard, stop=stop, options=options)
        accepted()
        return result


def refuse_running(home: Home, name: str, options: SweepOptions) -> None:
    """InputError where a process runs the study already. (Slurm's workers are found again, and hinder nobody.)"""
    place = home.path / "studies" / name / "lock"
    found = owners.of_lock(place) if options.launcher == "slurm" else owners.of_study(home, name)
    if found:
        who = ", ".join(f"pid {each['pid']} on {each['host']}" for each in found)
        cure = f"`trainlab status {name}` shows it; wait for it, or stop it (kill -TERM)"
        raise InputError(f"study {name} is being run by {who}", cure, rule="already-running")


def amendments(home: Home, study: StudyConfig) -> list[str]:
    """What of a study is no longer what it was when it last ran in this home, a line each."""
    from experiments.study import difference
    from experiments.sweeps.definition import folder

    path = folder(home, study.name) / "study.json"
    if not path.exists():
        return []
    changes = difference(json.loads(path.read_text())["definition"], study.definition())
    return [f"study {study.name} is amended:", *(f"  {change}" for change in changes)] if changes else []


@contextmanager
def swept(
    study: StudyConfig, *, home: Home, options: SweepOptions, night: Night, events: bool = False
) -> Iterator[tuple[SweepResult, Watch]]:
    """The study's sweep, over; what is to follow it is run when the block is over."""
    with attended(home, study=study.name, until=night.until, events=events) as watch:
        if night.until:
            watch.tell(f"until {night.until.said}")
        with afterwards(night.on_done, home, watch) as outcome:
            with watch.showing() as listener:
                result = execute_study(study, home=home, listener=listener, stop=watch.stop, options=options)
            outcome.records, outcome.complete = result.records, result.complete
            yield result, watch


def ending(study: StudyConfig, result: SweepResult, stop: Stop) -> list[str]:
    """What to say of a sweep that is over and left something to do."""
    if result.complete:
        return []
    from experiments.plan import plan

    left = f"{plan(study, result.records).left} runs are left"
    further = f"the same command goes on with the study '{study.name}'"
    if stop.planned:
        return [f"stopped as asked, {stop.reason}: the study is incomplete, {left}; {further}"]
    if stop.requested:
        return [f"interrupted ({stop.reason}): {left}; {further}"]
    return [f"the study is incomplete, {left} that no worker did; {further}"]


def sweep_code(records: Iterable[RunRecord], *, complete: bool, stop: Stop) -> int:
    """0 all well or stopped as planned, 1 something crashed or was not done, 130 interrupted. In a study a setting that
    diverges is a result and not a failure."""
    if stop.requested and not stop.planned and not complete:
        return 130
    crashed = any(record.status == "crashed" for record in records)
    return 1 if crashed or not (complete or stop.requested) else 0
