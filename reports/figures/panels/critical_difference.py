"""Critical difference of a study's arms over its tasks, by what the report ranks (`reports.several`).
pairs: "holm" (signed ranks, what the report goes by) or "nemenyi" (mean ranks, with the critical difference)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import cast

import numpy as np

from algos.finding import unknown
from reports.figures.critical_difference import critical_difference
from reports.figures.panel import Ask, Panel, Subject, lacking
from reports.several import several
from reports.statistics import friedman

ALPHA = 0.05
PAIRS = ("holm", "nemenyi")


def panel(subject: Subject, ask: Ask) -> Panel:
    table, pairs = subject.table, ask.pairs or "holm"
    if pairs not in PAIRS:
        raise unknown("test of all pairs", pairs, PAIRS, place="pairs")
    found = several(table)
    if found is None:
        raise lacking("ranks take 2 tasks, and 2 arms with outcomes on all of them", "take points for one task")
    tasks, arms, scores = found.tasks, found.arms, found.middle
    ranks = friedman.mean_ranks(scores, "max")
    alike = friedman.friedman(scores, "max")
    nemenyi = pairs == "nemenyi"
    groups = friedman.alike(found.comparable(), "max", cast(friedman.Pairs, pairs), ALPHA)
    # Of two arms Nemenyi's bars go by Friedman's p, which no length shows.
    difference = friedman.critical_difference(len(arms), len(tasks), ALPHA) if nemenyi and len(arms) > 2 else math.nan
    said = f"{len(tasks)} tasks; Friedman p = {alike.p:.2g}"
    apart = [arm for arm in table.arms if arm not in arms]
    each = friedman.ranks(scores, "max")
    order = np.argsort(ranks, kind="stable")
    return Panel(
        kind="critical_difference",
        title="Mean ranks",
        draw=lambda axis: critical_difference(axis, arms, [float(r) for r in ranks], groups, difference, said),
        header=("task", "arm", "outcome", "rank"),
        rows=tuple(
            (task.name, arm, _plain(task.sign * scores[i, j]), float(each[i, j]))
            for i, task in enumerate(tasks)
            for j, arm in enumerate(arms)
        ),
        alt=f"Mean rank over {len(tasks)} tasks: {'; '.join(f'{arms[i]} {ranks[i]:.2f}' for i in order)}. "
        + _joined(arms, groups),
        caption=f"Mean rank over {len(tasks)} tasks of the mean over seeds (the median where one diverged); bars join "
        f"arms that are not shown to differ ({_by(pairs, difference)}, alpha {ALPHA}).",
        rows_high=math.ceil(len(arms) / 2) * 1.05 + len(groups) * 0.5 + 1.9,
        runs=tuple(r for task in tasks for arm in arms for r in table.cells[task.name, arm].ended),
        notes=(
            *((f"without outcomes on every task, and left out: {', '.join(apart)}",) if apart else ()),
            *(() if nemenyi else _able(len(arms), len(tasks))),
        ),
    )


def _by(pairs: str, difference: float) -> str:
    if pairs == "holm":
        return "signed ranks over tasks, in each task's own unit, after Holm"
    return "Nemenyi" + (f", critical difference {difference:.2f}" if math.isfinite(difference) else "")


def _joined(arms: Sequence[str], groups: Sequence[Sequence[int]]) -> str:
    told = "; ".join(", ".join(arms[i] for i in group) for group in groups)
    return f"Not shown to differ: {told}." if told else "Every two are shown to differ."


def _able(arms: int, tasks: int) -> tuple[str, ...]:
    """What to know where signed ranks cannot show anything: their smallest p, times Holm's number of pairs."""
    least = 2.0 ** (1 - tasks) * math.comb(arms, 2)
    if least <= ALPHA:
        return ()
    need = 1 + math.ceil(math.log2(math.comb(arms, 2) / ALPHA))
    return (f"signed ranks over {tasks} tasks cannot show that arms differ; take {need} tasks or more",)


def _plain(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None
