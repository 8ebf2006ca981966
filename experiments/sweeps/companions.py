"""Companions: which runs train as members of a population, and which of those that are due train beside one another.

Whether runs of a shape are members is decided once a study and kept in its population.json, for all of them: members
agree bit for bit in company of any size, and with a lone run only to rounding, which training can amplify. So who was
due beside a run, and how many workers there are, changes no number.
"""

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


def is_member(job: Job, study: StudyConfig, home: Home, assignment: Assignment) -> bool:
    """Whether the run is, or becomes, a member of a population."""
    from experiments import population

    if job.resume:
        return population.was_member(home.folder(job.resume))
    return _size(job, study, home, assignment) > 1


def companions(
    first: Job, jobs: Sequence[Job], study: StudyConfig, home: Home, assignment: Assignment
) -> Sequence[Job]:
    """The jobs to take beside `first`, at most a fair share of those that are due."""
    if not is_member(first, study, home, assignment):
        return ()
    from experiments import population

    if first.resume:
        return [job for job in jobs if job.resume and population.was_member(home.folder(job.resume))]
    size = _size(first, study, home, assignment)
    if first.labels.phase == "tune" and study.tune is not None and study.tune.asks:
        return _asked(first, jobs, size - 1)
    assert first.config is not None
    shape = population.shape(first.config)
    alike = [job for job in jobs if job.config is not None and not job.resume]
    alike = [job for job in alike if job.config is not None and population.shape(job.config) == shape]
    fair = math.ceil((1 + len(alike)) / assignment.workers)
    return alike[: max(0, min(size, fair) - 1)]


def _size(job: Job, study: StudyConfig, home: Home, assignment: Assignment) -> int:
    """How many runs of the job's shape train together, 1 for none: the study's choice."""
    asked = assignment.population or str(study.population)
    if asked == "off" or job.config is None:
        return 1
    apart = study.tune is not None and (study.tune.prunes or study.tune.asks)
    if asked == "auto" and apart and job.labels.phase == "tune":
        return 1  # what is pruned or asked depends on what is known by then
    from experiments import calibrate, population

    if not population.shape(job.config):
        return 1
    planned = len(study.seeds) + (study.tune.trials if study.tune else 0)
    path = home.path / "studies" / study.name / "population.json"
    return calibrate.decided(path, job.config, most=min(planned, MOST), asked=asked).size


def _asked(first: Job, jobs: Sequence[Job], most: int) -> Sequence[Job]:
    """The next jobs of the same arm and task; those whose parameters make another shape train apart."""
    place = (first.labels.task, first.labels.arm, first.labels.phase)
    same = [job for job in jobs if (job.labels.task, job.labels.arm, job.labels.phase) == place and not job.resume]
    return same[:most]
