"""Critical difference of a study's arms over its tasks, by the median over seeds on each, a diverged run the worst."""

from __future__ import annotations

import math

import numpy as np

from reports.figures.critical_difference import critical_difference
from reports.figures.panel import Ask, Panel, Subject, lacking
from reports.statistics import friedman

ALPHA = 0.05


def panel(subject: Subject, ask: Ask) -> Panel:
    table = subject.table
    tasks = [task for task in table.tasks.values() if any(cell.ended for cell in table.of(task.name))]
    arms = [arm for arm in table.arms if tasks and all(_has(subject, task.name, arm) for task in tasks)]
    if len(tasks) < 2 or len(arms) < 2:
        raise lacking(
            f"ranks take 2 tasks and 2 arms with outcomes on all of them; there are {len(tasks)} and {len(arms)}",
            "take points for one task",
        )
    scores = np.array(
        [[task.sign * np.median(table.cells[task.name, arm].outcomes().values) for arm in arms] for task in tasks]
    )
    ranks = friedman.mean_ranks(scores, "max")
    found = friedman.friedman(scores, "max")
    difference = friedman.critical_difference(len(arms), len(tasks), ALPHA)
    groups = friedman.cliques(ranks, difference)
    said = f"{len(tasks)} tasks; Friedman p = {found.p:.2g}"
    apart = [arm for arm in table.arms if arm not in arms]
    each = friedman.ranks(scores, "max")
    order = np.argsort(ranks, kind="stable")
    return Panel(
        kind="critical_difference",
        title="Mean ranks",
        draw=lambda axis: critical_difference(axis, arms, [float(r) for r in ranks], groups, difference, said),
        header=("task", "arm", "median", "rank"),
        rows=tuple(
            (task.name, arm, _plain(task.sign * scores[i, j]), float(each[i, j]))
            for i, task in enumerate(tasks)
            for j, arm in enumerate(arms)
        ),
        alt=f"Mean rank over {len(tasks)} tasks: {'; '.join(f'{arms[i]} {ranks[i]:.2f}' for i in order)}. Critical "
        f"difference {difference:.2f}.",
        caption=f"Mean rank over {len(tasks)} tasks of the median over seeds; bars join arms whose ranks differ by "
        f"less than the critical difference {difference:.2f} (Nemenyi, alpha {ALPHA}).",
        rows_high=math.ceil(len(arms) / 2) * 1.05 + len(groups) * 0.5 + 1.9,
        runs=tuple(r for task in tasks for arm in arms for r in table.cells[task.name, arm].ended),
        notes=(f"without outcomes on every task, and left out: {', '.join(apart)}",) if apart else (),
    )


def _has(subject: Subject, task: str, arm: str) -> bool:
    cell = subject.table.cells.get((task, arm))
    return cell is not None and cell.outcomes().n > 0 and not np.isnan(cell.outcomes().values).any()


def _plain(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None
