"""Time to target: when each arm first met it, what never did counted as later than the budget."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from reports.clocks import paces, step_names
from reports.comparison import MINIMUM_SEEDS, reachable
from reports.document import Column, Heading, Parts, Table, Term
from reports.evaluations import Counted, counted
from reports.judged import TaskFacts
from reports.seconds import incomparable
from reports.sections import numbers, timed
from reports.sections.drawn import Piece
from reports.sections.timed import Times
from reports.statistics.multiple import holm
from reports.table import Cell, StudyTable

#: The clocks beside updates, and what many of each are called.
_UNITS = {"gradients": "gradient evaluations", "seconds": "seconds"}
#: The clocks on which arms are told apart by how many times as long they take.
_RATIOS = ("updates", "seconds")


@dataclass(frozen=True)
class _Known:
    """What is known of a task's times. cells: fastest first. clocks: those with columns, and what many of each are
    called. found: clock -> arm -> times. horizon: of updates. machine: why seconds do not tell arms apart."""

    cells: list[Cell]
    clocks: Mapping[str, str]
    found: Mapping[str, Mapping[str, Times]]
    horizon: float
    machine: str

    @property
    def updates(self) -> Mapping[str, Times]:
        return self.found["updates"]


def targets(study: StudyTable) -> list[Piece]:
    """Nothing where no task has a target."""
    tables = [
        _table(study, task)
        for task in study.tasks.values()
        if task.target is not None and any(cell.ended for cell in study.of(task.name))
    ]
    return [Heading(level=2, text="Time to target", anchor="targets"), *tables] if tables else []


def _known(study: StudyTable, task: TaskFacts) -> _Known:
    cells = [cell for cell in study.of(task.name) if cell.ended]
    counts = counted(study, task.name)
    names = {"updates": step_names(r for cell in cells for r in cell.ended)[1], **_UNITS}
    each = {clock: {cell.arm: timed.times(study, cell, clock, counts.on) for cell in cells} for clock in names}
    found = {clock: {arm: t for arm, t in of.items() if t is not None} for clock, of in each.items()}
    clocks = {clock: many for clock, many in names.items() if clock != "gradients" or _apart(found)}
    horizon = _horizon(found["updates"])
    if counts.comparable:
        cells = _fastest(cells, found["updates"], horizon)
    else:
        horizon = math.nan
    return _Known(cells, clocks, found, horizon, incomparable(cells, paces(study, cells)))


def _fastest(cells: Sequence[Cell], known: Mapping[str, Times], horizon: float) -> list[Cell]:
    """Those that are tested come first: of arms with fewer runs nothing is said."""
    ordered = sorted(cells, key=lambda cell: _merit(known.get(cell.arm), horizon))
    return sorted(ordered, key=lambda cell: len(cell.ended) < MINIMUM_SEEDS)


def _table(study: StudyTable, task: TaskFacts) -> Table:
    known, counts = _known(study, task), counted(study, task.name)
    many, first = known.clocks["updates"], known.cells[0]
    tests = _tests(known.cells, known.updates) if counts.comparable else {}
    missed = any(len(t.gaps) for t in known.updates.values())
    columns = [Column(head="Arm"), Column(head="Reached", unit="of runs that ended", number=True)]
    columns += [Column(head="Median", unit=f"{c} [between evaluations]", number=True) for c in known.clocks.values()]
    columns.append(Column(head="Mean to the horizon", unit=many, number=True))
    columns.append(Column(head="p", unit=f"log-rank by {many}, against the first row", number=True))
    columns += [Column(head="Slower by a factor of", unit=f"in {known.clocks[clock]}, than the first row [95 %]",
                       number=True) for clock in _RATIOS]  # fmt: skip
    columns += [Column(head="Fell short by", unit="median of those that missed", number=True)] if missed else []
    rows: list[tuple[Parts, ...]] = []
    for cell in known.cells:
        mine = known.updates.get(cell.arm)
        row: list[Parts] = [(Term(term=cell.arm),), _reached(cell, mine)]
        for clock in known.clocks:
            t = known.found[clock].get(cell.arm)
            row.append((timed.crossed(cell, t),) if t is not None else ("not recorded",))
        row.append((timed.restricted(cell, mine, known.horizon),) if mine and known.horizon > 0 else ("-",))
        row.append(_p(cell, first, known.updates, tests) if counts.comparable else ("-",))
        row += [_factor(cell, first, known, clock) if counts.comparable else ("-",) for clock in _RATIOS]
        row += [_short(cell, mine)] if missed else []
        rows.append(tuple(row))
    reached = any(t.reached.any() for t in known.updates.values())
    ordered = f", fastest first by {many}" if reached else ", which none did; the nearest first"
    return Table(
        caption=(
            f"{task.name}: when validation {task.words} first came to {task.target:g}"
            f"{ordered if counts.comparable else ''}.",
        ),
        columns=tuple(columns),
        rows=tuple(rows),
        notes=tuple(_notes(task, known, counts, tests)),
    )


def _grid_note(counts: Counted, many: str) -> str:
    if not counts.comparable:
        return (
            f"Runs were evaluated at different {many} and have too few in common: whoever is evaluated more often is "
            "seen to reach sooner, so no means, p or factors are given."
        )
    if counts.on is None:
        return ""
    return (
        f"Runs were evaluated at different {many}: only the {len(counts.on):,} that they have in common count here, so "
        "that no arm seems sooner for being evaluated more often."
    )


def _notes(task: TaskFacts, known: _Known, counts: Counted, tests: Mapping[str, Tested]) -> list[Parts]:
    many = known.clocks["updates"]
    notes: list[Parts] = [(f"The target: {task.target_source}.",)] if task.target_source else []
    notes += [(grid,)] if (grid := _grid_note(counts, many)) else []
    notes.append(
        ("All times lie on the line between two evaluations; in brackets are the medians of the one before and the one "
         "that showed it. Runs that never met the target, or diverged, are later than all others.",)
    )  # fmt: skip
    if known.horizon > 0:
        said = f"Means are restricted: what had not reached by {known.horizon:,.4g} {many}, where the arm watched for "
        notes.append((f"{said}the shortest ended, counts as that. An interval takes 10 runs.",))
    if tests:
        n = next(iter(tests.values())).comparisons
        pairs = f"all {n} pairs of arms, since the first row is what the runs made it" if n > 1 else "the one pair"
        notes.append((f"p: after Holm over {pairs}.",))
    if counts.comparable and known.machine:
        notes.append((f"No factors are given in seconds: {known.machine}.",))
    elif counts.comparable:
        notes += _by_seconds(known)
    return notes


def _by_seconds(known: _Known) -> list[Parts]:
    """The order per second, where it is another than the table's; () where nothing was reached, or not all tell."""
    timed_ones = known.found["seconds"]
    if set(timed_ones) != {cell.arm for cell in known.cells} or not any(t.reached.any() for t in timed_ones.values()):
        return []
    order = [cell.arm for cell in _fastest(known.cells, timed_ones, _horizon(timed_ones))]
    if order == [cell.arm for cell in known.cells]:
        return [("Per second of training the order is the same.",)]
    return [("Per second of training the order is another: ", *numbers.names(order), ". A factor below 1 is faster.")]


def _apart(known: Mapping[str, Mapping[str, Times]]) -> bool:
    """Whether any arm spends other than one gradient an update."""
    updates, gradients = known["updates"], known["gradients"]
    return any(arm in updates and abs(t.horizon - updates[arm].horizon) > 0.5 for arm, t in gradients.items())


def _horizon(known: Mapping[str, Times]) -> float:
    ends = [t.horizon for t in known.values() if not math.isnan(t.horizon)]
    return min(ends, default=math.nan)


def _merit(found: Times | None, horizon: float) -> tuple[float, float]:
    """The mean time to the horizon; where that is the same, by how much those that missed fell short."""
    if found is None:
        return math.inf, math.inf
    short = math.inf if not len(found.gaps) else float(np.median(found.gaps))
    if math.isnan(horizon):
        return math.inf, short
    mean = float(np.minimum(np.where(found.reached, found.at, math.inf), horizon).mean())
    return mean, 0.0 if found.reached.all() else short


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


def _p(cell: Cell, first: Cell, known: Mapping[str, Times], tests: Mapping[str, Tested]) -> Parts:
    if cell is first or cell.arm not in tests or cell.arm not in known or first.arm not in known:
        return ("-",)
    mine, test = known[cell.arm], tests[cell.arm]
    runs = (*mine.run_ids, *known[first.arm].run_ids)
    where = {**numbers.of_cell(cell), "against": first.arm, "target": cell.task.target, "clock": "updates"}
    where.update(mine.told)
    p: Parts = (numbers.value(test.p, "p", "survival.log_rank", runs, **where, comparisons=test.comparisons),)
    return p if test.able else (*p, f" (cannot reach significance with n = {min(len(cell.ended), len(first.ended))})")


def _factor(cell: Cell, first: Cell, known: _Known, clock: str) -> Parts:
    """How many times as long as the first row's arm; nothing in seconds that do not compare."""
    found = known.found[clock]
    if cell is first or not {cell.arm, first.arm} <= set(found) or (clock == "seconds" and known.machine):
        return ("-",)
    return (timed.ratio(cell, found[cell.arm], first, found[first.arm]),)


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
