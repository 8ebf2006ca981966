"""Companions: which of the jobs that are due train beside another, as one population."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from experiments.store.home import Home
from experiments.study import Job, StudyConfig

if TYPE_CHECKING:
    from experiments.sweeps.worker import Assignment

#: The most that train together, unless a number is given.
MOST = 32


def companions(
    first: Job, jobs: Sequence[Job], study: StudyConfig, home: Home, assignment: Assignment
) -> Sequence[Job]:
    """The jobs to take beside `first`, at most a fair share of those that are due. Empty where none may, or where a
    population does not pay."""
    asked = assignment.population or str(study.population)
    if asked == "off" or first.config is None:
        return ()
    from experiments import calibrate, population

    shape = population.shape(first.config)
    if not shape:
        return ()
    if first.resume:
        return _members(jobs, home) if population.was_member(home.folder(first.resume)) else ()
    if first.labels.phase == "tune" and study.tune is not None and _asks(study):
        return _asked(first, jobs, int(asked) - 1) if asked.isdigit() else ()
    alike = [job for job in jobs if job.config is not None and not job.resume]
    alike = [job for job in alike if job.config is not None and population.shape(job.config) == shape]
    fair = math.ceil((1 + len(alike)) / assignment.workers)
    if fair < 2:
        return ()
    path = home.path / "studies" / study.name / "population.json"
    size = calibrate.decided(path, first.config, most=min(fair, MOST), asked=asked).size
    return alike[: min(size, fair) - 1] if size > 1 else ()


def _asks(study: StudyConfig) -> bool:
    """Whether parameters are asked of a sampler, one trial after another."""
    from experiments.tuning import samplers
    from experiments.tuning.drawing import DRAWN

    return study.tune is not None and samplers.name(study.tune) not in DRAWN


def _asked(first: Job, jobs: Sequence[Job], most: int) -> Sequence[Job]:
    """The next jobs of the same arm and task; what the sampler says decides whether they fit."""
    place = (first.labels.task, first.labels.arm, first.labels.phase)
    same = [job for job in jobs if (job.labels.task, job.labels.arm, job.labels.phase) == place and not job.resume]
    return same[:most]


def _members(jobs: Sequence[Job], home: Home) -> Sequence[Job]:
    """The jobs that go on with a run that was a member."""
    from experiments import population

    return [job for job in jobs if job.resume and population.was_member(home.folder(job.resume))]
