"""A worker's life: take what is due of a study, run it, tell the queue, until nothing is due.

Any number of workers share a study, in processes of their own, on one machine or many, and none of them needs the one
that started them. Whatever a dead one left half done is taken over by the next that looks for work.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import Any

from algos.finding import InputError
from experiments.designs.compare import by_trial
from experiments.plan import expected
from experiments.progress import Listener, StudyPlanned, silent
from experiments.stopping import Stop
from experiments.store.gathered import Gathered
from experiments.store.home import Home
from experiments.store.schema import FINISHED, RunRecord
from experiments.store.troubles import NO_SPACE, StoreFull
from experiments.study import Job, StudyConfig, due
from experiments.sweeps.lease import LEASE_S, Heart, Worker, living
from experiments.sweeps.queue import Claim, Queue
from experiments.training import Finished, NotResumable, resume, train

#: How long a worker that finds nothing to take waits before it looks again.
LOOK_S = 0.3


@dataclass(frozen=True)
class Assignment:
    """All that a worker needs to know, as plain JSON. home: "" for the default of where it runs. storage: the queue's
    URL, "" for the journal in the home. worker: its number, from 0, of `workers`. population: "" as the study says.
    own_session: whether it mirrors its runs to MLflow itself, because nobody else does."""

    study: Mapping[str, Any]
    home: str = ""
    storage: str = ""
    worker: int = 0
    workers: int = 1
    threads: int | None = None
    population: str = ""
    lease_s: float = LEASE_S
    own_session: bool = False
    environment: Mapping[str, str] = field(default_factory=dict)

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def of(cls, text: str) -> Assignment:
        return cls(**json.loads(text))


def work(
    assignment: Assignment, *, listener: Listener = silent, stop: Stop | None = None, study: StudyConfig | None = None
) -> None:
    """Run what is due of the study, to its end or until stopped. study: where this process has it made already.

    Raises InputError where what it runs turns out to be wrong input: the next run would end like it.
    """
    stop = stop or Stop()
    home = Home(assignment.home) if assignment.home else Home.default()
    home.prepare()
    study = study or StudyConfig.of(assignment.study)
    if assignment.threads:
        import torch

        torch.set_num_threads(assignment.threads)
    queue = Queue(home, study, assignment.storage, assignment.lease_s)
    with living(home, study.name) as worker:
        life = _Life(assignment, home, study, queue, worker, listener, stop)
        heart = Heart(life.beat, assignment.lease_s)
        heart.start()
        try:
            life.live()
        finally:
            heart.stop()


class _Life:
    def __init__(
        self, assignment: Assignment, home: Home, study: StudyConfig, queue: Queue, worker: Worker, listener: Listener,
        stop: Stop,
    ):  # fmt: skip
        self.assignment, self.home, self.study, self.queue = assignment, home, study, queue
        self.worker, self.listener, self.stop = worker, listener, stop
        self._gathered = Gathered(home, study.name)
        self._current: list[tuple[Claim, Stop]] = []
        self._refused: dict[str, InputError] = {}

    def live(self) -> None:
        while not self.stop.requested:
            records = self.records()
            jobs = [job for job in due(self.study, records) if job.labels.trial not in self._refused]
            in_progress = any(record.status == "running" for record in records)
            claims = self._claims(jobs)
            if claims:
                self._tell_plan(records)
                self._run(claims)
            elif jobs or in_progress or self.queue.busy():
                self._wait()
            else:
                break
        for error in self._refused.values():
            raise error

    def records(self) -> list[RunRecord]:
        """The study's runs, those in other homes too."""
        return self.queue.everywhere(self._gathered.records())

    def _tell_plan(self, records: Sequence[RunRecord]) -> None:
        over = sum(record.status in FINISHED for record in by_trial(self.study, records).values())
        self.listener(StudyPlanned(self.study.name, expected(self.study) - over, over))

    def _wait(self) -> None:
        until = time.monotonic() + LOOK_S
        while not self.stop.requested and time.monotonic() < until:
            time.sleep(0.02)

    # Taking

    def _claims(self, jobs: Sequence[Job]) -> list[Claim]:
        """The first job that can be had; with those that may train beside it, where a population pays."""
        for index, job in enumerate(jobs):
            claim = self._claim(job) or self._again(job)
            if claim is not None:
                return [claim, *self._beside(claim, jobs[index + 1 :])]
        return []

    def _claim(self, job: Job) -> Claim | None:
        """The job's trial, if it can be had. Where it was taken before, what became of that is looked at now: a run may
        be there to go on with, or over, and only its worker could not tell."""
        claim = self.queue.claim(job, self.worker)
        if claim is None or not claim.again:
            return claim
        records = self.records()
        now = {each.labels.trial: each for each in due(self.study, records)}.get(job.labels.trial)
        if now is not None:
            claim.job = now.asked(self.study, claim.job.params) if now.ask else now
            return claim
        run = by_trial(self.study, records).get(job.labels.trial)
        if run is not None and run.status in FINISHED:
            self.queue.tell(claim, run)
        else:
            self.queue.let_go(claim)
        return None

    def _again(self, job: Job) -> Claim | None:
        """A job whose trial the queue has as over, while its run was removed: it is run again, by one worker."""
        if not self.queue.over(job.labels):
            return None
        fresh = by_trial(self.study, self.records()).get(job.labels.trial)
        there = fresh is not None and (fresh.status in FINISHED or fresh.status == "running")
        return None if there else self.queue.unqueued(job)

    def _beside(self, first: Claim, jobs: Sequence[Job]) -> list[Claim]:
        from experiments.sweeps.companions import companions

        wanted = companions(first.job, jobs, self.study, self.home, self.assignment)
        claims = []
        for job in wanted:
            claim = self._claim(job)
            if claim is not None:
                claims.append(claim)
        return claims

    # Running

    def _run(self, claims: Sequence[Claim]) -> None:
        stop = Stop(outer=self.stop)
        self._current = [(claim, stop) for claim in claims]
        self.worker.works_on([claim.job.labels.trial for claim in claims])
        try:
            finished = self._finished(claims, stop)
        except BaseException as error:
            self._current = []
            with suppress(OSError):  # no space for that word either: whoever goes on sees that this worker is gone
                for claim in claims:
                    self.queue.let_go(claim)
            if isinstance(error, StoreFull):
                self.stop.request(str(error))
            elif isinstance(error, NotResumable) and len(claims) == 1:
                self._refused[claims[0].job.labels.trial] = error
            else:
                raise
            return
        self._current = []
        for claim, one in zip(claims, finished, strict=True):
            self.queue.tell(claim, one.record)
        for one in finished:
            if one.record.status == "interrupted" and one.record.reason.startswith(NO_SPACE):
                self.stop.request(one.record.reason)  # the next run would end like it
        self.worker.works_on([])
        for claim, one in zip(claims, finished, strict=True):
            if isinstance(one.error, NotResumable):  # it stays as it was; the others are not to wait for it
                self._refused[claim.job.labels.trial] = one.error
            elif isinstance(one.error, InputError):
                raise one.error

    def _finished(self, claims: Sequence[Claim], stop: Stop) -> list[Finished]:
        if len(claims) > 1 or self._together(claims[0].job):
            from experiments.population import Member, train_together

            members = [
                Member(
                    claim.job.config, claim.job.labels, self._facts(claim),
                    self.home.folder(claim.job.resume) if claim.job.resume else None, claim.judge,
                )
                for claim in claims
            ]  # fmt: skip
            return train_together(members, home=self.home, listener=self.listener, stop=stop)
        (claim,) = claims
        job = claim.job
        if job.resume:
            return [resume(self.home.folder(job.resume), listener=self.listener, stop=stop, judge=claim.judge)]
        assert job.config is not None
        return [
            train(
                job.config, home=self.home, labels=job.labels, study=self._facts(claims[0]), listener=self.listener,
                stop=stop, judge=claim.judge,
            )
        ]  # fmt: skip

    def _facts(self, claim: Claim) -> dict[str, Any]:
        """What a new run's record keeps of its study, and of the home that had its trial before."""
        return {**claim.job.facts(self.study), **({"taken_over": claim.taken_over} if claim.taken_over else {})}

    def _together(self, job: Job) -> bool:
        """Whether a run is trained as a member of a population, though there be no other: which form a run has is the
        study's, and not a matter of who was due beside it."""
        from experiments.sweeps.companions import is_member

        return is_member(job, self.study, self.home, self.assignment)

    def beat(self) -> None:
        """Called by the heart: keep what is held, and stop what another worker has taken over."""
        self.queue.beat()
        for claim, stop in self._current:
            if claim.lost:
                stop.request("another worker has taken this trial over")
