"""The expected best of n trials: what fewer trials would have found, where the sampler allows to say it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from reports.document import Block, Column, Paragraph, Parts, Table, Term
from reports.judged import Array
from reports.sections import numbers
from reports.statistics import best_of_n
from reports.tuning import Tuning

#: Fewer trials than this say nothing of how the best grows.
FEWEST = 4


def expected_best(found: Mapping[str, Sequence[Tuning]]) -> list[Block]:
    """A table of all tasks, and why arms are not in it."""
    rows: list[tuple[Parts, ...]] = []
    refused: dict[str, dict[str, list[str]]] = {}
    usable = [one for arms in found.values() for one in arms]
    why = {id(one): _refusal(one) for one in usable}
    for one in usable:
        if said := why[id(one)]:
            refused.setdefault(said, {}).setdefault(one.cell.arm, []).append(one.cell.task.name)
    usable = [one for one in usable if not why[id(one)]]
    sizes = _sizes([len(_values(one)) for one in usable])
    rows = [_row(one, sizes) for one in usable]
    blocks: list[Block] = []
    if rows:
        blocks.append(
            Table(
                caption=("Expected best objective of n trials: what as many draws would have found on average.",),
                columns=(
                    Column(head="Task"),
                    Column(head="Arm"),
                    *(Column(head=f"n = {n}", number=True) for n in sizes),
                ),
                rows=tuple(rows),
                notes=(
                    ("Unbiased, from the trials that were drawn at random from the ranges first searched; a diverged "
                     "one counts as the worst. Dodge et al. 2019. It has no interval: none is known that holds for "
                     "so few trials.",),
                ),
            )
        )  # fmt: skip
    for said, arms in refused.items():
        for tasks in dict.fromkeys(map(tuple, arms.values())):
            told = numbers.names(arm for arm in arms if tuple(arms[arm]) == tasks)
            on: Parts = (" on ", *numbers.names(tasks)) if len(found) > 1 else ()
            blocks.append(
                Paragraph(parts=("The expected best of n trials is not given for ", *told, *on, f": {said}."))
            )
    return blocks


def _refusal(one: Tuning) -> str:
    """Why the expected best of n cannot be told; "" where it can."""
    if one.sampler not in best_of_n.INDEPENDENT:
        if not one.sampler:
            return "which sampler drew their trials is not recorded"
        return f"trials of the {one.sampler} sampler are not independent draws"
    if any(record.status == "pruned" for record in one.alike()):
        return "pruned trials have no final objective"
    ended = [record for record in one.alike() if record.status in ("completed", "diverged")]
    if ended and all(record.status == "diverged" for record in ended):
        return "all trials diverged"
    if len(_values(one)) < FEWEST:
        return f"fewer than {FEWEST} trials came from one range"
    return ""


def _values(one: Tuning) -> Array:
    """The objective of every trial of the first range that ended; a diverged one is worth the worst there is."""
    records = [r for r in one.alike() if r.status in ("completed", "diverged")]
    scores = [one.objective(r) for r in records]
    known = [score for score in scores if score is not None and math.isfinite(score)]
    if not known:
        return np.empty(0)
    worst = max(known) if one.mode == "min" else min(known)
    given = one.cell.task.worst
    if math.isfinite(given) and not one.objectives:
        worst = max(worst, given) if one.mode == "min" else min(worst, given)
    return np.array([worst if score is None or not math.isfinite(score) else score for score in scores], float)


def _sizes(trials: Sequence[int]) -> list[int]:
    """1, 2, 4, ... and the largest number of trials that all arms have, so that they can be compared."""
    if not trials:
        return []
    most = min(trials)
    doubled = [2**power for power in range(12) if 2**power < most]
    return [*doubled[-5:], most]


def _row(one: Tuning, sizes: Sequence[int]) -> tuple[Parts, ...]:
    values, runs = _values(one), [r.run_id for r in one.alike() if r.status in ("completed", "diverged")]
    curve = best_of_n.curve(values, one.mode, one.sampler)
    cells: list[Parts] = []
    for n in sizes:
        where = {**numbers.of_cell(one.cell), "n": n, "kind": "U", "metric": one.metric}
        cells.append((numbers.value(float(curve.expected[n - 1]), "", "best_of_n.expected_best", runs, **where),))
    return (one.cell.task.name,), (Term(term=one.cell.arm),), *cells
