"""The run flow: what was planned and started, and how it ended, for every arm and phase."""

from __future__ import annotations

from collections.abc import Sequence

from experiments.store.schema import STATUSES
from reports.document import Block, Column, Heading, Parts, Table, Term
from reports.sections import numbers
from reports.table import Cell, Phase, StudyTable
from reports.threats.completeness import planned as planned_runs

_PHASES: dict[Phase, str] = {"tune": "tuning", "final": "final"}


def flow(study: StudyTable) -> list[Block]:
    shown = [
        s
        for s in STATUSES
        if any(record.status == s for record in study.runs) or s in ("completed", "diverged", "pruned", "crashed")
    ]
    planned = any(planned_runs(cell, phase) is not None for cell in study.cells.values() for phase in _PHASES)
    rows = [
        _row(cell, phase, shown, planned)
        for task in study.tasks
        for cell in study.of(task)
        for phase in _PHASES
        if cell.runs(phase) or planned_runs(cell, phase)
    ]
    columns = [
        Column(head="Task"),
        Column(head="Arm"),
        Column(head="Phase"),
        *([Column(head="Planned", number=True)] if planned else []),
    ]
    columns += [Column(head=word, number=True) for word in ("Started", *(status.capitalize() for status in shown))]
    return [
        Heading(level=2, text="What was run", anchor="flow"),
        Table(
            caption=("Every run of the study, by how it ended. Nothing is left out.",),
            columns=tuple(columns),
            rows=tuple(rows),
        ),
    ]


def _row(cell: Cell, phase: Phase, shown: Sequence[str], planned: bool) -> tuple[Parts, ...]:
    runs = cell.runs(phase)
    parts: list[Parts] = [(cell.task.name,), (Term(term=cell.arm),), (_PHASES[phase],)]
    if planned:
        due = planned_runs(cell, phase)
        parts.append((str(due) if due is not None else "-",))
    parts.append((numbers.count(runs, "started"),))
    for status in shown:
        those = [record for record in runs if record.status == status]
        parts.append((numbers.count(those, status),) if those else ("0",))
    return tuple(parts)
