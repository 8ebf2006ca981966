"""Clocks: the same comparison per update, per gradient evaluation and per second of training.

A clock on which all arms spent the same compares the final test metric. On any other, the arms are compared where the
cheapest run ended: by the validation metric there, read from the curves. Such a cut is unkind to an arm whose schedule
would have been shorter, had it been given this budget; the report says so where it cuts."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from experiments.store.schema import RunRecord
from reports.comparison import Pair, compare, order
from reports.statistics.curves import best_so_far, value_at
from reports.table import Cell, Outcomes, StudyTable

#: Clock -> what one of it is called, and many. Those in READ are recorded at every evaluation and can be cut.
NAMES = {
    "updates": ("update", "updates"),
    "gradients": ("gradient evaluation", "gradient evaluations"),
    "seconds": ("second of training", "seconds of training"),
    "epochs": ("epoch", "epochs"),
    "examples": ("example", "examples"),
}
READ = ("updates", "gradients", "seconds")
#: Arms that spent the same to within this are compared by what they ended with.
SAME = 0.01


@dataclass(frozen=True)
class Reading:
    """One task on one clock. budget: where the arms are compared; None: at their ends, by the test metric. spent: the
    mean total of each arm. pairs and ranking (best first) are empty where the clock was not recorded; `lacking` then
    says why."""

    clock: str
    budget: float | None
    spent: Mapping[str, float]
    outcomes: Mapping[str, Outcomes]
    pairs: tuple[Pair, ...]
    ranking: tuple[str, ...]
    lacking: str = ""

    @property
    def rulings(self) -> dict[tuple[str, str], str]:
        """(first, second) -> better, worse or "" where nothing is shown."""
        return {(pair.first, pair.second): pair.ruling if pair.shown else "" for pair in self.pairs}


def readings(study: StudyTable, task: str) -> list[Reading]:
    """The task on every clock. The first is the study's own: the unit of its budget, if that is the same for all
    arms."""
    cells = [cell for cell in study.of(task) if cell.finals]
    own = _own(cells)
    first = own or READ[0]
    return [_reading(study, cells, name, ended_equal=name == own) for name in (first, *(n for n in READ if n != first))]


def agree(read: list[Reading]) -> bool:
    """Whether every clock that could be read says the same of the arms that lead on any of them."""
    known = [reading for reading in read if not reading.lacking]
    leaders = {reading.ranking[0] for reading in known if reading.ranking}
    said = [{pair: ruling for pair, ruling in r.rulings.items() if leaders & set(pair)} for r in known]
    return all(rulings == said[0] for rulings in said[1:])


def _own(cells: list[Cell]) -> str:
    """The unit of the budget that all arms were given, or "" where budgets differ."""
    given = {tuple(sorted(budget(record).items())) for cell in cells for record in cell.finals}
    return next(iter(given))[0][0] if len(given) == 1 and len(next(iter(given))) == 1 else ""


def budget(record: RunRecord) -> dict[str, float]:
    """The budget a run was given: {unit: amount}."""
    return {unit: amount for unit, amount in (record.config.get("budget") or {}).items() if amount is not None}


def text(record: RunRecord) -> str:
    """The budget in words: "2,000 updates"."""
    return ", ".join(f"{amount:,g} {unit}" for unit, amount in budget(record).items()) or "not stated"


def _reading(study: StudyTable, cells: list[Cell], clock: str, ended_equal: bool) -> Reading:
    totals = {cell.arm: [_total(study, run_id, clock) for run_id in _completed(cell)] for cell in cells}
    spent = {arm: float(np.mean(values)) if values else math.nan for arm, values in totals.items()}
    known = [value for values in totals.values() for value in values]
    if not ended_equal and (not known or any(math.isnan(value) for value in known)):
        return Reading(clock, None, spent, {}, (), (), lacking="it was not recorded by every run")
    cut = None
    if ended_equal or max(known) <= min(known) * (1 + SAME):
        outcomes = {cell.arm: cell.outcomes(f"test/{cell.task.metric}") for cell in cells}
    else:
        cut = min(known)
        outcomes = {cell.arm: _cut(study, cell, clock, cut) for cell in cells}
        if any(np.isnan(o.values).any() for o in outcomes.values()):
            return Reading(
                clock, cut, spent, {}, (), (), lacking="the cheapest run ended before another was first evaluated"
            )
    sign = cells[0].task.sign if cells else 1.0
    return Reading(clock, cut, spent, outcomes, tuple(compare(outcomes, sign)), tuple(order(outcomes, sign)))


def _completed(cell: Cell) -> list[str]:
    return [record.run_id for record in cell.by_seed.values() if record.status == "completed"]


def _total(study: StudyTable, run_id: str, clock: str) -> float:
    curve = study.curves.get(run_id)
    return float(curve.along(clock)[-1]) if curve is not None and clock in READ and len(curve.updates) else math.nan


def _cut(study: StudyTable, cell: Cell, clock: str, budget: float) -> Outcomes:
    """The arm's outcomes by the validation metric at the budget. Diverged runs stay the worst, wherever they
    diverged."""
    ends = cell.outcomes(f"test/{cell.task.metric}")
    values = ends.values.copy()
    for place, run_id in enumerate(ends.run_ids):
        if math.isfinite(values[place]):
            values[place] = _value(study, cell, run_id, clock, budget)
    return Outcomes(ends.seeds, values, ends.run_ids, ends.missing)


def _value(study: StudyTable, cell: Cell, run_id: str, clock: str, budget: float) -> float:
    curve = study.curves.get(run_id)
    if curve is None:
        return math.nan
    record = next(r for r in cell.finals if r.run_id == run_id)
    selected = record.config.get("select") == "best"
    y = best_so_far(curve.values, cell.task.mode) if selected else curve.values
    return value_at(curve.along(clock), y, budget)
