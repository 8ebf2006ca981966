"""Half the budget: what each arm's validation was at a quarter, a half and all of what its runs used."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from reports.clocks import budget, step_names, stopped, value_by
from reports.comparison import MINIMUM_SEEDS
from reports.document import Column, Parts, Table, Term
from reports.judged import TaskFacts
from reports.sections import numbers
from reports.statistics.result import Estimate
from reports.statistics.student import mean_interval
from reports.table import Cell, StudyTable

_SHARES = (0.25, 0.5, 1.0)


def half_budget(study: StudyTable, task: TaskFacts) -> list[Table]:
    """A table; [] where runs stopped at their target, or fewer than two evaluations say what came before the end."""
    cells = [cell for cell in study.of(task.name) if cell.ended]
    ends = {cell.arm: end for cell in cells if (end := _end(study, cell)) > 0}
    if stopped(cells) or not ends or not any(_early(study, cell, ends) for cell in cells):
        return []
    many = step_names(r for cell in cells for r in cell.ended)[1]
    same = len(set(ends.values())) == 1
    heads = [f"{share:.0%} of it" for share in _SHARES]
    if same:
        heads = [f"{share * next(iter(ends.values())):,.4g} {many}" for share in _SHARES]
    rows: list[tuple[Parts, ...]] = [
        ((Term(term=cell.arm),), *(_value(study, cell, share, ends.get(cell.arm, math.nan)) for share in _SHARES))
        for cell in cells
    ]
    unit = f", {task.metric_unit}," if task.metric_unit not in ("", task.words) else ""
    stated = all(budget(record) for cell in cells for record in cell.ended)
    whole = "budget" if stated else f"{many} that runs made"
    of = f"at a quarter, a half and all of the {whole}" if same else f"by share of the {many} that each arm made"
    interval = " [95 % t interval]" if any(cell.outcomes().n >= MINIMUM_SEEDS for cell in cells) else ""
    return [
        Table(
            caption=(f"{task.name}: validation {task.words} {of}.",),
            columns=(
                Column(head="Arm"),
                *(Column(head=head, unit=f"mean{unit}{interval}".rstrip(","), number=True) for head in heads),
            ),
            rows=tuple(rows),
            notes=(
                ("Linear between evaluations. These runs were on their way to the whole budget: given less from the "
                 "start, their schedules would have been shorter, and they might have done better.",),
            ),
        )
    ]  # fmt: skip


def _end(study: StudyTable, cell: Cell) -> float:
    """The updates after which the first of an arm's completed runs ended; nan where one has no curve."""
    curves = [study.curves.get(r.run_id) for r in cell.ended if r.status == "completed"]
    return min((float(c.updates[-1]) if c is not None else math.nan for c in curves), default=math.nan)


def _early(study: StudyTable, cell: Cell, ends: dict[str, float]) -> bool:
    """Whether some run was evaluated, once trained, in the first half."""
    half = ends.get(cell.arm, math.nan) / 2
    curves = [study.curves[r.run_id] for r in cell.ended if r.run_id in study.curves]
    return any(((c.updates > 0) & (c.updates <= half)).any() for c in curves)


def _value(study: StudyTable, cell: Cell, share: float, end: float) -> Parts:
    """The mean over seeds; none where a run had diverged by then, or was not yet evaluated."""
    at, runs = share * end, [record.run_id for record in cell.ended]
    values, lost = [], 0
    for record in cell.ended:
        curve = study.curves.get(record.run_id)
        if record.status == "diverged" and (curve is None or math.isnan(end) or curve.updates[-1] < at):
            lost += 1
        else:
            values.append(value_by(study, cell, record.run_id, "updates", at) if not math.isnan(at) else math.nan)
    if lost:
        return (f"no mean: {lost} of {len(runs)} diverged",)
    if not _all_known(values):
        return ("-",)
    estimate = mean_interval(np.array(values))
    if len(values) < MINIMUM_SEEDS or not float(np.ptp(values)) > 0:
        estimate = Estimate(estimate.value, None, None, estimate.n)
    where = {**numbers.of_cell(cell), "metric": cell.task.validation, "updates": at}
    return (numbers.estimated(estimate, cell.task.metric_unit, "student.mean_interval", runs, **where),)


def _all_known(values: Sequence[float]) -> bool:
    return bool(values) and not any(map(math.isnan, values))
