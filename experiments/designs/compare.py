"""Compare: tune every arm on every task with the same number of runs, then run each winner on fresh seeds. Torch-free.

The protocol, for each task and arm:

1. The first trials explore the arm's space (`tuning.explored` of them); trial k has the same seed in every arm.
2. If the best of them stands at an edge, the rest is drawn from there outwards (`tuning.widened`), else from the space.
3. The trial with the best objective wins; of several objectives the first decides, among the trials that no other beats
   in all of them (`front`). A diverged run is worth the task's worst, or less than any that ended where the task names
   none; a crashed or pruned one cannot win.
4. The winner's settings are run on the study's seeds, which no tuning run has had. Only those runs are compared.

An arm without a space goes to step 4 as it is. Runs that are over are never repeated, unfinished ones go on.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from experiments.config import Frozen, RunConfig
from experiments.store.schema import FINISHED, RESUMABLE, Labels, Phase, RunRecord
from experiments.study import Job, StudyConfig
from experiments.tuning import objectives
from experiments.tuning.drawing import DRAWN, draw, explored, joined, params_of, unbracketed, widened
from experiments.tuning.spaces import Space

Held = Mapping[str, RunRecord]


def due(study: StudyConfig, runs: Sequence[RunRecord]) -> list[Job]:
    """The runs that can be done now: task by task, tuning before finals, arms in turn, so that what an interruption
    leaves is comparable."""
    held = by_trial(study, runs)
    jobs = []
    for task in study.tasks:
        of_task = [job for arm in study.arms for job in _Arm(study, held, task, arm).due()]
        jobs += sorted(of_task, key=lambda job: (job.labels.phase != "tune", job.labels.number))
    return jobs


def by_trial(study: StudyConfig, runs: Sequence[RunRecord]) -> dict[str, RunRecord]:
    """The study's runs by their trial, but for those recorded from other loops. Of two with one trial, a finished one
    counts, then the newest."""
    own = [run for run in runs if run.labels.study == study.name and not run.file.facts.get("recorded")]
    ordered = sorted(own, key=lambda run: (run.status in FINISHED, run.file.created))
    return {run.labels.trial: run for run in ordered}


def score(run: RunRecord, study: StudyConfig | None = None) -> float | None:
    """What a run is worth to the tuner, higher is better; None where it says nothing (crashed, pruned, unfinished)."""
    asked = study.tune.objectives if study and study.tune else None
    metric, mode = next(iter(asked.items())) if asked else (objectives.OWN, run.task["mode"])
    sign = 1.0 if mode == "max" else -1.0
    if run.status == "diverged":
        return math.nextafter(sign * objectives.value(run, metric, mode), -math.inf)  # below whatever ran to its end
    if run.status != "completed":
        return None
    value = sign * objectives.value(run, metric, mode)
    return max(value, _worst(run, sign)) if metric == objectives.OWN else value


def front(study: StudyConfig, runs: Sequence[RunRecord], task: str, arm: str) -> list[RunRecord]:
    """An arm's completed tuning runs on a task that no other beats: better in one objective, worse in none."""
    held = by_trial(study, runs).values()
    return _front(study, [r for r in held if (r.labels.task, r.labels.arm, r.labels.phase) == (task, arm, "tune")])


def _front(study: StudyConfig, runs: Sequence[RunRecord]) -> list[RunRecord]:
    worth = [(run, objectives.objectives(run, study)) for run in runs if run.status == "completed"]
    worth.sort(key=lambda pair: pair[0].labels.number)
    asked = study.tune.objectives if study.tune else None
    modes = list(asked.values()) if asked else [run.task["mode"] for run, _ in worth[:1]]
    return [run for run, own in worth if not any(objectives.beaten(own, other, modes) for _, other in worth)]


def _worst(run: RunRecord, sign: float) -> float:
    worst = run.task.get("worst")
    return -math.inf if worst is None else sign * float(worst)


class _Arm:
    """One arm on one task."""

    def __init__(self, study: StudyConfig, held: Held, task: str, arm: str):
        self.study, self.held, self.task, self.arm = study, held, task, arm
        self.space = study.space(task, arm)
        self.trials = study.tune.trials if study.tune and self.space else 0

    def due(self) -> Iterator[Job]:
        if not self.trials:
            yield from self._finals({}, Space(), "", "not tuned")
            return
        assert self.study.tune
        first = explored(self.study.tune.sampler.name, self.trials)
        yield from self._tuning(range(first), self.space, "")
        if not self._over(range(first)):
            return
        rest, why = self._rest(first)
        yield from self._tuning(range(first, self.trials), rest, why)
        if self._over(range(self.trials)):
            best = self._best(range(self.trials))
            if best is not None:
                yield from self._finals(self._params(best), joined(self.space, rest), best.run_id, why)

    def _rest(self, first: int) -> tuple[Space, str]:
        best = self._best(range(first))
        if first == self.trials or best is None or best.status == "diverged":
            return self.space, ""
        return widened(self.space, self._params(best), self._tried(range(first)))

    def _tuning(self, numbers: range, space: Space, why: str) -> Iterator[Job]:
        where = f"{self.task} {self.arm} {space.to_json()} {why}"
        for number in numbers:
            labels = self._labels("tune", number)
            run = self.held.get(labels.trial)
            if run is None or run.status in RESUMABLE:  # of a thousand trials few are left in the end
                job = self.study.jobs.get((where, number)) or self._drawn(labels, space, why)
                self.study.jobs[where, number] = job
                yield from self._unless_over(job)

    def _drawn(self, labels: Labels, space: Space, why: str) -> Job:
        tune = self.study.tune
        assert tune
        if tune.sampler.name not in DRAWN:
            return Job(labels, None, space, reason=why)
        params = draw(space, tune.sampler.name, tune.seed, self.task, labels.number, self.trials)
        config = self.study.run_config(self.task, self.arm, labels.seed, params)
        return Job(labels, config, space, Frozen(params), why)

    def _finals(self, params: Mapping[str, Any], space: Space, winner: str, why: str) -> Iterator[Job]:
        still = unbracketed(space, params, self._tried(range(self.trials)))
        reason = "; ".join(part for part in (why, f"in the end, {still}" if still else "") if part)
        for number, seed in enumerate(self.study.seeds):
            config = self.study.run_config(self.task, self.arm, seed, params)
            job = Job(self._labels("final", number), config, space, Frozen(params), reason, winner)
            yield from self._unless_over(job)

    def _unless_over(self, job: Job) -> Iterator[Job]:
        """The job, unless its run is over or in progress; an unfinished run goes on as it was."""
        run = self.held.get(job.labels.trial)
        if run is None:
            yield job
        elif run.status in RESUMABLE:
            config = RunConfig.from_json(run.config)
            params = Frozen(params_of(job.space, run.config, _told(run)))
            yield Job(job.labels, config, job.space, params, job.reason, job.winner, resume=run.run_id)

    def _labels(self, phase: Phase, number: int) -> Labels:
        seed = self.study.tuning_seed(number) if phase == "tune" else self.study.seeds[number]
        return Labels(self.task, self.study.name, self.arm, phase, number, seed)

    def _run(self, number: int) -> RunRecord | None:
        return self.held.get(self._labels("tune", number).trial)

    def _over(self, numbers: range) -> bool:
        runs = [self._run(number) for number in numbers]
        return all(run is not None and run.status in FINISHED for run in runs)

    def _best(self, numbers: range) -> RunRecord | None:
        """The trial with the best score, the first of equals."""
        runs = [run for run in map(self._run, numbers) if run is not None]
        scored = [(value, run) for run in runs if (value := score(run, self.study)) is not None]
        if not scored:
            return None
        best = max(value for value, _ in scored)
        equal = [run for value, run in scored if value == best]
        return next((run for run in equal if run in _front(self.study, [run for _, run in scored])), equal[0])

    def _tried(self, numbers: range) -> list[dict[str, Any]]:
        """The settings of the trials that have a score."""
        runs = [run for run in map(self._run, numbers) if run is not None and score(run, self.study) is not None]
        return [self._params(run) for run in runs]

    def _params(self, run: RunRecord) -> dict[str, Any]:
        return params_of(self.space, run.config, _told(run))


def _told(run: RunRecord) -> Mapping[str, Any]:
    """The parameters that a run's record keeps."""
    told: Mapping[str, Any] = (run.file.facts.get("study") or {}).get("params") or {}
    return told
