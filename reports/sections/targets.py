"""Time to target: when each arm first met it, what never did counted as later than the budget."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from reports.comparison import MINIMUM_SEEDS, reachable
from reports.document import Column, Heading, Parts, Table, Term
from reports.judged import Array, TaskFacts
from reports.sections import numbers, timed
from reports.sections.drawn import Piece
from reports.sections.timed import Times
from reports.statistics.multiple import holm
from reports.table import Cell, StudyTable

_UNITS = {"updates": "updates", "gradients": "gradient evaluations", "seconds": "seconds"}


def targets(study: StudyTable) -> list[Piece]:
    """Nothing where no task has a target."""
    tables = [
        _table(study, task)
        for task in study.tasks.values()
        if task.target is not None and any(cell.ended for cell in study.of(task.name))
    ]
    return [Heading(level=2, text="Time to target", anchor="targets"), *tables] if tables else []


def _table(study: StudyTable, task: TaskFacts) -> Table:
    cells = [cell for cell in study.of(task.name) if cell.ended]
    grids = timed.evaluated(study, cells)
    on = timed.common(grids)
    thinned = on if on is not None and any(not np.isin(grid, on).all() for grid in grids) else None
    found = {clock: {cell.arm: timed.times(study, cell, clock, thinned) for cell in cells} for clock in _UNITS}
    known = {clock: {arm: t for arm, t in of.items() if t is not None} for clock, of in found.items()}
    clocks = [clock for clock in _UNITS if clock != "gradients" or _apart(known)]
    horizons = {clock: _horizon(known[clock]) for clock in clocks}
    horizon = horizons["updates"]
    if on is not None:
        cells = sorted(cells, key=lambda cell: _merit(known["updates"].get(cell.arm), horizon))
        cells = sorted(cells, key=lambda cell: len(cell.ended) < MINIMUM_SEEDS)  # of those nothing is tested
    tests = _tests(cells, known["updates"]) if on is not None else {}
    first, missed = cells[0], any(t is not None and len(t.gaps) for t in found["updates"].values())
    columns = [Column(head="Arm"), Column(head="Reached", unit="of runs that ended", number=True)]
    columns += [Column(head="Median", unit=f"{_UNITS[c]} [between evaluations]", number=True) for c in clocks]
    columns.append(Column(head="Mean to the horizon", unit="updates", number=True))
    columns.append(Column(head="p", unit="log-rank, against the first row", number=True))
    columns.append(Column(head="Slower by a factor of", unit="than the first row [95 %]", number=True))
    columns += [Column(head="Fell short by", unit="median of those that missed", number=True)] if missed else []
    rows: list[tuple[Parts, ...]] = []
    for cell in cells:
        mine = known["updates"].get(cell.arm)
        row: list[Parts] = [(Term(term=cell.arm),), _reached(cell, mine)]
        for clock in clocks:
            t = known[clock].get(cell.arm)
            row.append((timed.crossed(cell, t),) if t is not None else ("not recorded",))
        row.append((timed.restricted(cell, mine, horizon),) if mine and on is not None and horizon > 0 else ("-",))
        row += _against(cell, first, mine, known["updates"], tests) if on is not None else [("-",), ("-",)]
        row += [_short(cell, mine)] if missed else []
        rows.append(tuple(row))
    ordered = ", fastest first" if on is not None else ""
    return Table(
        caption=(f"{task.name}: when validation {task.words} first came to {task.target:g}{ordered}.",),
        columns=tuple(columns),
        rows=tuple(rows),
        notes=tuple(_notes(task, horizon if on is not None else math.nan, _grid_note(on, thinned), tests)),
    )


def _grid_note(on: Array | None, thinned: Array | None) -> str:
    if on is None:
        return (
            "Runs were evaluated at different updates and have too few in common: whoever is evaluated more often is "
            "seen to reach sooner, so no means, p or factors are given."
        )
    if thinned is None:
        return ""
    return (
        f"Runs were evaluated at different updates: only the {len(thinned):,} that they have in common count here, so "
        "that no arm seems sooner for being evaluated more often."
    )


def _notes(task: TaskFacts, horizon: float, grid: str, tests: Mapping[str, Tested]) -> list[Parts]:
    notes: list[Parts] = [(f"The target: {task.target_source}.",)] if task.target_source else []
    notes += [(grid,)] if grid else []
    notes.append(
        ("Medians lie on the line between two evaluations; in brackets the one before and the one that showed it. "
         "Runs that never met the target, or diverged, are later than all others.",)
    )  # fmt: skip
    if horizon > 0:
        said = f"Means are restricted: what had not reached by {horizon:,.4g} updates, where the arm watched for the "
        notes.append((f"{said}shortest ended, counts as that. An interval takes 10 runs.",))
        notes.append(("Means, p and factors are by the evaluation that showed the target, in updates.",))
    if tests:
        n = next(iter(tests.values())).comparisons
        pairs = f"all {n} pairs of arms, since the first row is what the runs made it" if n > 1 else "the one pair"
        notes.append((f"p: after Holm over {pairs}.",))
    return notes


def _apart(known: Mapping[str, Mapping[str, Times]]) -> bool:
    """Whether any arm spends other than one gradient an update."""
    updates, gradients = known["updates"], known["gradients"]
    return any(arm in updates and abs(t.horizon - updates[arm].horizon) > 0.5 for arm, t in gradients.items())


def _horizon(known: Mapping[str, Times]) -> float:
    ends = [t.horizon for t in known.values() if not math.isnan(t.horizon)]
    return min(ends, default=math.nan)


def _merit(found: Times | None, horizon: float) -> float:
    if found is None or math.isnan(horizon):
        return math.inf
    return float(np.minimum(np.where(found.reached, found.high, math.inf), horizon).mean())


@dataclass(frozen=True)
class Tested:
    """A log-rank test after Holm among so many comparisons. able: whether it could have been significant there, the
    others being as they are."""

    p: float
    able: bool
    comparisons: int


def _tests(cells: list[Cell], known: Mapping[str, Times]) -> dict[str, Tested]:
    """The test of each arm against the fastest. Which is the fastest the runs themselves say, so every pair of arms
    belongs to the family."""
    able = [cell.arm for cell in cells if cell.arm in known and len(cell.ended) >= MINIMUM_SEEDS]
    pairs = list(itertools.combinations(able, 2))
    raw = [timed.later(known[b], known[a]) for a, b in pairs]
    p = [test.p for test in raw]
    return {
        b: Tested(adjusted, reachable(test.floor, [*p[:place], *p[place + 1 :]]), len(p))
        for place, ((a, b), test, adjusted) in enumerate(zip(pairs, raw, holm(p) if p else []))
        if a == cells[0].arm
    }


def _against(
    cell: Cell, first: Cell, mine: Times | None, known: Mapping[str, Times], tests: Mapping[str, Tested]
) -> tuple[Parts, Parts]:
    if cell is first or mine is None or first.arm not in known:
        return ("-",), ("-",)
    p: Parts = ("-",)
    if cell.arm in tests:
        runs = (*mine.run_ids, *known[first.arm].run_ids)
        where = {**numbers.of_cell(cell), "against": first.arm, "target": cell.task.target, "clock": "updates"}
        where.update(mine.told)
        test = tests[cell.arm]
        p = (numbers.value(test.p, "p", "survival.log_rank", runs, **where, comparisons=test.comparisons),)
        p = p if test.able else (*p, f" (cannot reach significance with n = {min(len(cell.ended), len(first.ended))})")
    return p, (timed.ratio(cell, mine, first, known[first.arm]),)


def _reached(cell: Cell, mine: Times | None) -> Parts:
    if mine is None:
        return ("not recorded",)
    runs = mine.run_ids
    where = {**numbers.of_cell(cell), "target": cell.task.target, **mine.told}
    return (
        numbers.value(int(mine.reached.sum()), "", "count", runs, of="reached the target", **where),
        f" of {len(runs)}",
    )


def _short(cell: Cell, mine: Times | None) -> Parts:
    """Near misses: how far the runs that ended without reaching stayed away."""
    if mine is None or not len(mine.gaps):
        return ("-",)
    where = {**numbers.of_cell(cell), "target": cell.task.target, "over runs": "median of those that missed"}
    where.update(mine.told)
    return (numbers.value(float(np.median(mine.gaps)), "", "survival.gap", mine.run_ids, **where),)
