"""Compare: tune every arm on every task with the same number of runs, then run each winner on fresh seeds. Torch-free.

The protocol, for each task and arm:

1. The first trials explore the arm's space (`tuning.explored` of them); trial k has the same seed in every arm.
2. If the best of them stands at an edge, the rest is drawn from there outwards (`tuning.widened`), else from the space.
3. The trial with the best objective wins. A diverged run is worth the task's worst, or less than any that ended where
   the task names none; a crashed or pruned one cannot win.
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
from experiments.tuning import DRAWN, Space, draw, explored, joined, unbracketed, value_at, widened

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


def score(run: RunRecord) -> float | None:
    """What a run is worth to the tuner, higher is better; None where it says nothing (crashed, pruned, unfinished)."""
    sign = 1.0 if run.task["mode"] == "max" else -1.0
    worst = -math.inf if run.task.get("worst") is None else sign * float(run.task["worst"])
    if run.status == "diverged":
        return math.nextafter(worst, -math.inf)  # below whatever ran to its end
    if run.status != "completed":
        return None
    return max(sign * run.final["objective"], worst)


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
        first = explored(self.study.tune.sampler, self.trials)
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
        tune = self.study.tune
        assert tune
        for number in numbers:
            labels = self._labels("tune", number)
            if tune.sampler in DRAWN:
                params = draw(space, tune.sampler, tune.seed, self.task, number, self.trials)
                config = self.study.run_config(self.task, self.arm, labels.seed, params)
            else:
                params, config = {}, None
            yield from self._unless_over(Job(labels, config, space, Frozen(params), why))

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
            params = Frozen({axis.place: value_at(run.config, axis.place) for axis in job.space.axes})
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
        scored = [(value, run) for run in runs if (value := score(run)) is not None]
        return max(scored, key=lambda pair: pair[0])[1] if scored else None

    def _tried(self, numbers: range) -> list[dict[str, Any]]:
        """The settings of the trials that have a score."""
        runs = [run for run in map(self._run, numbers) if run is not None and score(run) is not None]
        return [self._params(run) for run in runs]

    def _params(self, run: RunRecord) -> dict[str, Any]:
        return {axis.place: value_at(run.config, axis.place) for axis in self.space.axes}
