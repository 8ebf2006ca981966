"""Several tasks taken together: the arms that have outcomes on all of them, what each came to, and on which scale."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from reports.clocks import stopped
from reports.judged import Array, TaskFacts
from reports.table import Cell, StudyTable


@dataclass(frozen=True)
class Several:
    """The tasks on which the same arms all have outcomes. runs: arm -> the outcomes of its runs on each task, signed so
    that more is better, diverged -inf. middle: (tasks, arms), what ranks are taken of. scores: arm -> (runs, tasks) on
    one scale, or None where the tasks have none. scale: what that is."""

    tasks: tuple[TaskFacts, ...]
    arms: tuple[str, ...]
    run_ids: Mapping[str, tuple[str, ...]]
    runs: Mapping[str, list[Array]]
    middle: Array
    scores: Mapping[str, Array] | None
    scale: str

    def comparable(self) -> Array:
        """What ranks are taken of, in each task's own unit, so that differences between arms compare across tasks: from
        the worst value to the target where all tasks have both, else the spread of the arms."""
        if self.scores is not None:
            units = [abs(task.target - task.worst) for task in self.tasks if task.target is not None]
        else:
            units = [float(np.ptp(row[np.isfinite(row)])) if np.isfinite(row).any() else 0.0 for row in self.middle]
        return self.middle / np.array([unit if unit > 0 else 1.0 for unit in units])[:, None]


def several(study: StudyTable) -> Several | None:
    """None where fewer than two tasks have outcomes of the same two arms or more."""
    if ("several", "") not in study.kept:
        study.kept["several", ""] = _several(study)
    found: Several | None = study.kept["several", ""]
    return found


def _several(study: StudyTable) -> Several | None:
    able = comparisons(study)
    arms = tuple(arm for arm in study.arms if all(arm in cells for cells in able.values()))
    if len(able) < 2 or len(arms) < 2:
        return None
    tasks = tuple(study.tasks[name] for name in able)
    runs = {arm: [task.sign * able[task.name][arm].outcomes().values for task in tasks] for arm in arms}
    ids = {arm: tuple(i for task in tasks for i in able[task.name][arm].outcomes().run_ids) for arm in arms}
    scores, scale = _scaled(tasks, runs)
    return Several(tasks, arms, ids, runs, _middle(runs, len(tasks)), scores, scale)


def comparisons(study: StudyTable) -> dict[str, dict[str, Cell]]:
    """The tasks on which two arms or more can be compared -> the arms that have outcomes there."""
    found = {name: {cell.arm: cell for cell in study.of(name) if cell.ended} for name in study.tasks}
    return {name: cells for name, cells in found.items() if len(cells) > 1 and not stopped(cells.values())}


def _middle(runs: Mapping[str, list[Array]], tasks: int) -> Array:
    """Means over seeds; on a task where any run of any arm diverged, medians, with that as the worst."""
    rows = []
    for place in range(tasks):
        whole = all(np.isfinite(values[place]).all() for values in runs.values())
        rows.append([float(np.mean(v[place])) if whole else _median(v[place]) for v in runs.values()])
    return np.array(rows, float)


def _median(values: Array) -> float:
    """The lower of two middle values, which is -inf where half diverged."""
    return float(np.sort(values)[(len(values) - 1) // 2])


def _scaled(tasks: Sequence[TaskFacts], runs: Mapping[str, list[Array]]) -> tuple[dict[str, Array] | None, str]:
    """Scores on one scale: 0 what a diverged run is worth, 1 the target."""
    if not all(t.target is not None and math.isfinite(t.worst) and t.target != t.worst for t in tasks):
        return None, ""
    scores = {}
    for arm, of_tasks in runs.items():
        rows = max(len(values) for values in of_tasks)
        matrix = np.full((rows, len(tasks)), math.nan)
        for place, (task, values) in enumerate(zip(tasks, of_tasks)):
            assert task.target is not None
            raw = np.where(np.isneginf(values), task.sign * task.worst, values)
            low, high = task.sign * task.worst, task.sign * task.target
            matrix[: len(values), place] = np.maximum((raw - low) / (high - low), 0.0)
        scores[arm] = matrix
    return scores, "0 is what a diverged run is worth on its task, 1 the task's target"
