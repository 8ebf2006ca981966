"""The queue: every run of a study is an Optuna trial, in one storage for however many workers.

What happened is the spools' business; the queue says what is taken, by whom, and gives samplers their history. A
trial's number is its run's number (less the trials of another study that a sampler was warmed with). All trials of an
arm stand there from the start, WAITING and without parameters; whoever takes one writes them. So the budget is exact
with any number of workers, and which worker took what changes nothing.
"""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import optuna
from optuna.trial import TrialState

from algos.finding import InputError
from experiments.designs.compare import by_trial
from experiments.store.home import Home
from experiments.store.locks import Held, Lock
from experiments.store.schema import FINISHED, Labels, Phase, RunRecord
from experiments.study import Job, StudyConfig
from experiments.sweeps import outcomes, storage
from experiments.sweeps.lease import LEASE_S, Lease, Watch, Worker
from experiments.tuning import samplers, suggesting, warm_start
from experiments.tuning.pruning import Judge

_STATES = {
    "completed": TrialState.COMPLETE,
    "diverged": TrialState.COMPLETE,
    "pruned": TrialState.PRUNED,
    "crashed": TrialState.FAIL,
}

#: What Optuna's study says of the runs that were deleted: their ids. What the queue was told of them counts no more.
DELETED = "deleted"


@dataclass
class Claim:
    """A trial that this process has taken. job: with its parameters. judge: who may prune its run. trial: its id in
    the storage; None where the queue holds it for over, and its run is made again under a lock. lost: another worker
    has taken it over. taken_over: the place of a home, not this one, where a worker had begun it."""

    job: Job
    study: optuna.Study | None = None
    trial: int | None = None
    lease: Lease | None = None
    judge: Judge | None = None
    lost: bool = False
    again: bool = False
    lock: Lock | None = None
    taken_over: str = ""


class Queue:
    """The trials of one study. url: of the storage (see `storage`), "" for the journal in the home."""

    def __init__(self, home: Home, study: StudyConfig, url: str = "", lease_s: float = LEASE_S):
        self.home, self.config, self.url = home, study, url
        self.storage = storage.open_storage(url, home.path)
        self._watch = Watch(home, lease_s)
        self._studies: dict[str, optuna.Study] = {}
        self._ids: dict[str, list[int]] = {}
        self._held: list[Claim] = []

    def exclusive(self) -> Any:
        """A turn alone: for claims, last words and reaping."""
        return storage.exclusive(self.storage, self.url, self.home, self.config.name)

    def prepare(self, records: Iterable[RunRecord] = ()) -> None:
        """Every trial of the study, where it is not there yet; called by whoever starts a sweep. records: of the study
        that samplers are warmed with."""
        with self.exclusive():
            for labels in self.all_labels():
                tuned = labels.phase == "tune" and self.config.tune is not None
                count = self.config.tune.trials if tuned and self.config.tune else len(self.config.seeds)
                self._fill(labels, count, records)

    def _fill(self, labels: Labels, count: int, records: Iterable[RunRecord]) -> None:
        study = self.study(labels)
        if labels.phase == "tune":
            self._warm(study, labels, records)
        for _ in range(len(self._trials(study)), count + self._offset(study)):
            self.storage.create_new_trial(study._study_id, optuna.trial.create_trial(state=TrialState.WAITING))

    def _warm(self, study: optuna.Study, labels: Labels, records: Iterable[RunRecord]) -> None:
        """The finished trials of another study as this one's history, before its own; begun once, and gone on with
        where a kill cut it short."""
        if self.config.tune is None or not self.config.tune.warm_start:
            return
        have = len(self._trials(study))
        if have and have >= self._offset(study):
            return
        trials = suggesting.warm_trials(records, self.config, labels.task, labels.arm)
        chosen = study.user_attrs.get("warmed_by")
        if chosen is None:
            chosen = [trial.user_attrs[warm_start.MARK] for trial in trials]
            study.set_user_attr("warmed_by", chosen)
            study.set_user_attr("warm", len(chosen))
        by_run = {trial.user_attrs[warm_start.MARK]: trial for trial in trials}
        for run_id in chosen[have:]:
            study.add_trial(by_run[run_id])

    def study(self, labels: Labels) -> optuna.Study:
        """The Optuna study of one arm on one task, `STUDY/TASK/ARM`, finals under `/final`."""
        name = study_name(labels)
        if name not in self._studies:
            directions = suggesting.directions(self.config, labels.task, labels.arm)
            tune = self.config.tune if labels.phase == "tune" else None
            found = optuna.create_study(
                study_name=name, storage=self.storage, directions=directions, load_if_exists=True,
                pruner=samplers.pruner(tune) if tune else None,
            )  # fmt: skip
            if tune is not None and "tuning" not in found.user_attrs:
                found.set_user_attr("tuning", samplers.told(tune))
            self._studies[name] = found
        return self._studies[name]

    def _trials(self, study: optuna.Study) -> list[optuna.trial.FrozenTrial]:
        return self.storage.get_all_trials(study._study_id, deepcopy=False)

    def _offset(self, study: optuna.Study) -> int:
        return int(study.user_attrs.get("warm", 0))

    def _id(self, labels: Labels) -> int:
        """A trial's id in the storage. Trials keep their order, so ids are read once."""
        name = study_name(labels)
        study = self.study(labels)
        if name not in self._ids:
            self._ids[name] = [trial._trial_id for trial in self._trials(study)][self._offset(study) :]
        if labels.number >= len(self._ids[name]):
            raise InputError(
                f"trial {labels.number} of {name} is not in the queue", "sweep the study again", rule="queue"
            )
        return self._ids[name][labels.number]

    # Taking a trial

    def claim(self, job: Job, worker: Worker) -> Claim | None:
        """The job's trial for this worker, or None where another has it, or it is over."""
        trial_id = self._id(job.labels)
        if self.storage.get_trial(trial_id).state.is_finished():
            return None
        with self.exclusive():
            frozen = self.storage.get_trial(trial_id)
            if frozen.state.is_finished():
                return None
            if frozen.state == TrialState.RUNNING:
                if not self._watch.dead(_lease(frozen)):
                    return None
                self.storage.set_trial_state_values(trial_id, TrialState.WAITING)
            if not self.storage.set_trial_state_values(trial_id, TrialState.RUNNING):
                return None
            lease = worker.lease()
            self.storage.set_trial_user_attr(trial_id, "lease", lease.to_json())
        before = _lease(frozen)
        claim = Claim(job, self.study(job.labels), trial_id, lease, again=before is not None)
        if before is not None and before.place != lease.place and not job.resume:
            claim.taken_over = before.place
        self._held.append(claim)
        try:
            if job.labels.phase == "tune":
                self._suggest(claim, frozen)
        except BaseException:
            self.let_go(claim)
            raise
        return claim

    def _suggest(self, claim: Claim, frozen: optuna.trial.FrozenTrial) -> None:
        """The trial's parameters: those it was taken with before, those drawn, or those that the sampler says."""
        job, study, trial_id = claim.job, claim.study, claim.trial
        tune = self.config.tune
        assert study is not None
        assert trial_id is not None
        assert tune is not None
        if job.ask and "asked" in frozen.user_attrs:
            claim.job = job.asked(self.config, suggesting.external(job.space, frozen.params))
        elif job.ask:
            seed = suggesting.seed_of(tune.seed, study.study_name, frozen.number)
            sampler = samplers.sampler(tune, seed, self._trials(study)[: self._offset(study)])
            # A study made anew: an old one remembers the trials that its sampler saw last.
            fresh = optuna.load_study(study_name=study.study_name, storage=self.storage, sampler=sampler)
            with warnings.catch_warnings():  # a run that was infinitely bad is meant to be clipped there
                warnings.filterwarnings("ignore", message="Clip non-finite values")
                params = suggesting.suggested(suggesting.Afresh(fresh, trial_id), job.space)
            self.storage.set_trial_user_attr(trial_id, "asked", True)
            claim.job = job.asked(self.config, params)
        else:
            for place, (internal, distribution) in suggesting.stored(job.space, job.params).items():
                if place not in frozen.params:
                    self.storage.set_trial_param(trial_id, place, internal, distribution)
        claim.judge = suggesting.judge_of(study, trial_id, self.config)

    def over(self, labels: Labels) -> bool:
        """Whether the queue holds the trial for over."""
        return self.storage.get_trial(self._id(labels)).state.is_finished()

    def busy(self) -> bool:
        """Whether a trial is taken by a worker that lives."""
        trials = (trial for labels in self.all_labels() for trial in self._trials(self.study(labels)))
        return any(trial.state == TrialState.RUNNING and not self._watch.dead(_lease(trial)) for trial in trials)

    def unqueued(self, job: Job) -> Claim | None:
        """A claim of a trial that is over here while its run was removed; None where another process makes it again.
        The queue keeps what it knows."""
        name = hashlib.sha256(job.labels.trial.encode()).hexdigest()[:16]
        try:
            lock = Lock(self.home.path / "workers" / f"again-{name}").take(wait_s=0.0, remove=True)
        except Held:
            return None
        if job.ask:
            frozen = self.storage.get_trial(self._id(job.labels))
            job = job.asked(self.config, suggesting.external(job.space, frozen.params))
        return Claim(job, lock=lock)

    # Holding it

    def beat(self) -> None:
        """Raise the beats of all that is held. Claims that another worker has taken over are marked as lost."""
        for claim in list(self._held):
            if claim.trial is None or claim.lease is None:
                continue
            if not self._mine(claim):
                claim.lost = True
                continue
            claim.lease = claim.lease.beaten()
            self.storage.set_trial_user_attr(claim.trial, "lease", claim.lease.to_json())

    def _mine(self, claim: Claim) -> bool:
        """Whether this claim is still the trial's: the token is compared with a fresh read."""
        assert claim.trial is not None
        frozen = self.storage.get_trial(claim.trial)
        now = _lease(frozen)
        held = now is not None and claim.lease is not None and now.token == claim.lease.token
        return held and frozen.state == TrialState.RUNNING

    # Last words

    def tell(self, claim: Claim, record: RunRecord) -> bool:
        """How a claimed trial's run ended; one that did not end waits again, under its number. False where another
        worker has taken the trial over: then nothing is written."""
        if claim in self._held:
            self._held.remove(claim)
        if claim.trial is None:
            _release(claim)
            return True
        with self.exclusive():
            if not self._mine(claim):
                return False
            self._tell(claim.trial, record)
        return True

    def _tell(self, trial_id: int, record: RunRecord) -> None:
        self.storage.set_trial_user_attr(trial_id, "run_id", record.run_id)
        if self.url:  # others may not see this home
            self.storage.set_trial_user_attr(trial_id, "outcome", outcomes.to_json(record, self.home))
        if record.status not in FINISHED:
            self.storage.set_trial_state_values(trial_id, TrialState.WAITING)
            return
        state = _STATES[record.status]
        values = (
            [float(v) for v in suggesting.objectives(record, self.config)] if state == TrialState.COMPLETE else None
        )
        self.storage.set_trial_state_values(trial_id, state, values)

    def let_go(self, claim: Claim) -> None:
        """Give a claim back that nothing was done with."""
        if claim in self._held:
            self._held.remove(claim)
        if claim.trial is None:
            _release(claim)
        else:
            with self.exclusive():
                if self._mine(claim):
                    self.storage.set_trial_state_values(claim.trial, TrialState.WAITING)

    # Setting right what dead workers left

    def release(self, records: Iterable[RunRecord], dry_run: bool = False) -> list[str]:
        """Trials that dead workers left: told where their run is over, waiting again where it is not. Returns what was
        wrong, in words."""
        known = {(study_name(r.labels), r.labels.number): r for r in records}
        wrong = []
        with self.exclusive():
            for labels in self.all_labels():
                study = self.study(labels)
                for number, trial in enumerate(self._trials(study)[self._offset(study) :]):
                    record = known.get((study.study_name, number))
                    wrong += self._set_right(study.study_name, trial, record, dry_run)
        return wrong

    def _set_right(
        self, name: str, trial: optuna.trial.FrozenTrial, record: RunRecord | None, dry_run: bool
    ) -> list[str]:
        if trial.state.is_finished():
            return []
        running = trial.state == TrialState.RUNNING
        if running and not self._watch.dead(_lease(trial)):
            return []
        if record is not None and record.status in FINISHED:
            if not dry_run:
                if not running:
                    self.storage.set_trial_state_values(trial._trial_id, TrialState.RUNNING)
                self._tell(trial._trial_id, record)
            return [f"trial {trial.number} of {name} was {trial.state.name}, and its run is {record.status}"]
        if running:
            if not dry_run:
                self.storage.set_trial_state_values(trial._trial_id, TrialState.WAITING)
            return [f"trial {trial.number} of {name} was RUNNING, and its worker is gone"]
        return []

    def everywhere(self, own: Sequence[RunRecord]) -> list[RunRecord]:
        """The study's runs: this home's, and what the queue knows of those in other homes."""
        if not self.url:
            return list(own)
        told = self.elsewhere(by_trial(self.config, own))
        replaced = {record.labels.trial for record in told}
        return [run for run in own if run.labels.trial not in replaced] + told

    def elsewhere(self, seen: Mapping[str, RunRecord]) -> list[RunRecord]:
        """What the queue knows of runs that this home does not hold, or that another home has finished since. What is
        in progress there is `running`; what stopped there starts again here, so it is left out."""
        found = []
        for labels in self.all_labels():
            deleted = self.study(labels).user_attrs.get(DELETED, ())
            for number, trial in enumerate(self._trials(self.study(labels))[self._offset(self.study(labels)) :]):
                record = self._told(replace(labels, number=number), trial)
                if record is None or record.run_id in deleted:
                    continue
                if outcomes.counts(record, seen.get(record.labels.trial)):
                    found.append(record)
        return found

    def _told(self, labels: Labels, trial: optuna.trial.FrozenTrial) -> RunRecord | None:
        if trial.state.is_finished():
            return outcomes.of_json(trial.user_attrs["outcome"]) if "outcome" in trial.user_attrs else None
        lease = _lease(trial)
        if trial.state != TrialState.RUNNING or lease is None or self._watch.dead(lease):
            return None
        return None if self._watch.near(lease) else outcomes.running(labels)

    def all_labels(self) -> list[Labels]:
        """Every arm on every task, tuning and finals; each stands for all its trials."""
        phases: tuple[Phase, ...] = ("tune", "final")
        return [
            Labels(task, self.config.name, arm, phase)
            for task in self.config.tasks
            for arm in self.config.arms
            for phase in phases
            if phase == "final" or (self.config.tune is not None and self.config.space(task, arm))
        ]


def _release(claim: Claim) -> None:
    if claim.lock is not None:
        claim.lock.release()


def _lease(trial: optuna.trial.FrozenTrial) -> Lease | None:
    told = trial.user_attrs.get("lease")
    return Lease.of(told) if told else None


def study_name(labels: Labels) -> str:
    name = f"{labels.study}/{labels.task}/{labels.arm}"
    return f"{name}/final" if labels.phase == "final" else name
