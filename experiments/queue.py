"""The queue: every run of a study is an Optuna trial, in the journal of the home.

What happened is the spools' business; the queue says what is taken, and gives samplers their history. A trial's number
is its run's number. The journal's lock is the kernel's own, so a killed process leaves none behind, and half a line
that a kill left is cut off under the lock, before anything is glued to it.
"""

from __future__ import annotations

import fcntl
import math
import os
import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import optuna
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend
from optuna.storages.journal._file import BaseJournalFileLock
from optuna.trial import TrialState

from algos.finding import unknown
from experiments.store.schema import FINISHED, Labels, RunRecord

JOURNAL = "optuna.journal"
_STATES = {
    "completed": TrialState.COMPLETE,
    "diverged": TrialState.COMPLETE,
    "pruned": TrialState.PRUNED,
    "crashed": TrialState.FAIL,
}
#: random, grid and qmc points are drawn by the design and enqueued, so their sampler is never asked.
_SAMPLERS = {
    "random": "RandomSampler",
    "grid": "RandomSampler",
    "tpe": "TPESampler",
    "gp": "GPSampler",
    "cmaes": "CmaEsSampler",
    "qmc": "RandomSampler",
}


class KernelLock(BaseJournalFileLock):
    """flock on a file beside the journal: released by the kernel when its owner dies."""

    def __init__(self, journal: Path):
        self._journal = journal
        self._path = journal.with_name(journal.name + ".lock")
        self._file = -1

    def acquire(self) -> bool:
        self._file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        fcntl.flock(self._file, fcntl.LOCK_EX)
        cut_half_line(self._journal)
        return True

    def release(self) -> None:
        os.close(self._file)
        self._file = -1


def cut_half_line(journal: Path) -> bool:
    """Drop what a kill left of an unfinished last line. Only under the journal's lock. Whether there was one."""
    if not journal.exists() or journal.stat().st_size == 0:
        return False
    with journal.open("rb+") as file:
        file.seek(-1, os.SEEK_END)
        if file.read(1) == b"\n":
            return False
        whole = journal.read_bytes()
        file.truncate(whole.rfind(b"\n") + 1)
    return True


class Queue:
    """The Optuna side of a home."""

    def __init__(self, home: Path):
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        journal = home / JOURNAL
        lock = KernelLock(journal)
        lock.acquire()
        lock.release()
        self.storage = JournalStorage(JournalFileBackend(str(journal), lock_obj=lock))
        self._studies: dict[str, optuna.Study] = {}

    def study(self, labels: Labels, mode: str, sampler: str = "random", seed: int = 0) -> optuna.Study:
        """The Optuna study of one arm on one task, `STUDY/TASK/ARM`, finals under `/final`."""
        name = study_name(labels)
        if name not in self._studies:
            made = make_sampler(sampler, seed)
            found = optuna.create_study(
                study_name=name,
                storage=self.storage,
                direction="maximize" if mode == "max" else "minimize",
                sampler=made,
                load_if_exists=True,
            )
            if "sampler" not in found.user_attrs:
                found.set_user_attr(
                    "sampler", {"name": type(made).__name__, "seed": seed, "optuna": optuna.__version__}
                )
            self._studies[name] = found
        return self._studies[name]

    def take(
        self,
        study: optuna.Study,
        number: int,
        params: Mapping[str, Any] | None,
        distributions: dict[str, optuna.distributions.BaseDistribution],
    ) -> dict[str, Any]:
        """Take trial `number`: its parameters, as drawn before (`params`), or asked of the sampler where that is
        None."""
        trials = study.get_trials(deepcopy=False)
        if number == len(trials) and params is not None:
            study.enqueue_trial(dict(params))
        if number < len(trials) and trials[number].state != TrialState.WAITING:
            return dict(params or {})  # its run was removed since: it is run again, and the queue keeps what it knows
        with warnings.catch_warnings():  # a run that was infinitely bad is meant to be clipped there
            warnings.filterwarnings("ignore", message="Clip non-finite values")
            trial = study.ask(distributions)
        assert trial.number == number, f"the queue gave trial {trial.number} of {study.study_name}, not {number}"
        return dict(trial.params)

    def release(self, name: str, records: Iterable[RunRecord]) -> None:
        """Trials of a study that a dead process left: told where their run is over, waiting again where it is not. Only
        for whoever holds the study's lock."""
        over = {(study_name(r.labels), r.labels.number): r for r in records if r.status in FINISHED}
        for full_name in optuna.get_all_study_names(self.storage):
            if not full_name.startswith(f"{name}/"):
                continue
            study = optuna.load_study(study_name=full_name, storage=self.storage)
            for trial in study.get_trials(deepcopy=False, states=(TrialState.RUNNING, TrialState.WAITING)):
                record = over.get((full_name, trial.number))
                if record is not None:
                    if trial.state == TrialState.WAITING:
                        self.storage.set_trial_state_values(trial._trial_id, TrialState.RUNNING)
                    self.tell(study, trial.number, record)
                elif trial.state == TrialState.RUNNING:
                    self.storage.set_trial_state_values(trial._trial_id, TrialState.WAITING)

    def tell(self, study: optuna.Study, number: int, record: RunRecord) -> None:
        """How a trial's run ended. A run that did not end goes back to the queue under its number."""
        trial = study.get_trials(deepcopy=False)[number]
        if trial.state.is_finished():
            return
        self.storage.set_trial_user_attr(trial._trial_id, "run_id", record.run_id)
        if record.status not in FINISHED:
            self.storage.set_trial_state_values(trial._trial_id, TrialState.WAITING)
            return
        state = _STATES[record.status]
        value = objective(record) if state == TrialState.COMPLETE else None
        study.tell(number, value, state)


def objective(record: RunRecord) -> float:
    """What a finished run is worth: its objective, or where it diverged the task's worst; infinitely bad where the task
    names none."""
    if record.status == "completed":
        return record.final["objective"]
    worst = record.task.get("worst")
    if worst is None:
        return -math.inf if record.task["mode"] == "max" else math.inf
    return float(worst)


def study_name(labels: Labels) -> str:
    name = f"{labels.study}/{labels.task}/{labels.arm}"
    return f"{name}/final" if labels.phase == "final" else name


def make_sampler(name: str, seed: int) -> optuna.samplers.BaseSampler:
    """Optuna's sampler by its short name, seeded."""
    if name not in _SAMPLERS:
        raise unknown("sampler", name, _SAMPLERS, place="tune.sampler")
    made: optuna.samplers.BaseSampler = getattr(optuna.samplers, _SAMPLERS[name])(seed=seed)
    return made
