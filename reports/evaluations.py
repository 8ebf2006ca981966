"""Evaluations: at which updates the runs of a task were evaluated, and at which of them arms can be told apart by time.

An arm that is evaluated more often is seen to reach a target sooner. So where runs were evaluated at different updates,
only those count that all have in common, wherever a time to target is told."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from reports.judged import Array

if TYPE_CHECKING:
    from reports.table import Cell, StudyTable

#: Evaluations in common with which arms that are evaluated at different updates can be told apart by time.
LEAST = 3


@dataclass(frozen=True)
class Counted:
    """The evaluations of a task that count. on: their updates; None: all do. comparable: whether arms can be told apart
    by them; where they cannot, all count."""

    on: Array | None
    comparable: bool


def counted(study: StudyTable, task: str) -> Counted:
    """What counts of a task's final runs that ended."""
    if ("evaluations", task) not in study.kept:
        grids = evaluated(study, [cell for cell in study.of(task) if cell.ended])
        on = common(grids)
        thinned = on if on is not None and any(not np.isin(grid, on).all() for grid in grids) else None
        study.kept["evaluations", task] = Counted(thinned, on is not None)
    found: Counted = study.kept["evaluations", task]
    return found


def evaluated(study: StudyTable, cells: Iterable[Cell]) -> list[Array]:
    """The updates at which each of the runs that tell a curve was evaluated; without those that diverged, which never
    reach at any."""
    found = []
    for cell in cells:
        outcomes = cell.outcomes()
        runs = [run for run, value in zip(outcomes.run_ids, outcomes.values) if not math.isinf(value)]
        curves = [study.curves[run] for run in runs if run in study.curves]
        found += [np.unique(curve.updates) for curve in curves if len(curve.updates)]
    return found


def common(grids: Sequence[Array]) -> Array | None:
    """The updates at which every run was evaluated that was watched for so long. None where runs were evaluated at
    different ones and some have fewer than LEAST of those left: too few to tell times by."""
    if not grids:
        return np.array([])
    points = np.unique(np.concatenate(grids))
    for grid in grids:
        points = points[np.isin(points, grid) | (points > grid[-1])]
    left = [int(np.isin(grid, points).sum()) for grid in grids]
    return points if left == list(map(len, grids)) or min(left) >= LEAST else None
