"""The run flow: what was planned and started, and how it ended, for every arm and phase."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Any

from experiments.store.module_files import SHORT, sources
from experiments.store.schema import STATUSES, RunRecord
from reports.document import Block, Column, Heading, Parts, Table, Term
from reports.sections import numbers
from reports.table import Cell, Phase, StudyTable
from reports.threats.completeness import planned as planned_runs

_ROLES = {"module": "module", "data": "data module"}
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
        *_own_code(study),
    ]


def _own_code(study: StudyTable) -> list[Block]:
    """The users' own classes that the runs trained, each version of a file by itself."""
    found: dict[tuple[str, ...], list[RunRecord]] = {}
    for record in study.runs:
        for role, facts in sources(record).items():
            key = (record.labels.task, _ROLES[role], _file(facts), str(facts.get("class") or ""), _short(facts))
            found.setdefault(key, []).append(record)
    if not found:
        return []
    heads = ("Task", "What", "File", "Class", "sha256 of the file")
    rows: tuple[tuple[Parts, ...], ...] = tuple(
        (*((text,) for text in key), (numbers.count(runs, f"{key[2]}:{key[3]} {key[4]}", task=key[0], what=key[1]),))
        for key, runs in found.items()
    )
    return [
        Table(
            caption=("The users' own code that was run.",),
            columns=(*(Column(head=head) for head in heads), Column(head="Runs", number=True)),
            rows=rows,
            notes=(("The whole sha256 of these files, and of what they import beside them, is under Provenance.",),),
        )
    ]


def _file(facts: Mapping[str, Any]) -> str:
    """The file as the user named it, else its name: folders are nobody's business outside."""
    named = str(facts.get("reference") or "").rpartition(":")[0]
    inside = named.endswith(".py") and not PurePath(named).is_absolute()
    return named if inside else PurePath(str(facts.get("file") or "")).name or named


def _short(facts: Mapping[str, Any]) -> str:
    return str(facts.get("sha256") or "not recorded")[:SHORT]


def _row(cell: Cell, phase: Phase, shown: Sequence[str], planned: bool) -> tuple[Parts, ...]:
    runs = cell.runs(phase)
    parts: list[Parts] = [(cell.task.name,), (Term(term=cell.arm),), (_PHASES[phase],)]
    if planned:
        due = planned_runs(cell, phase)
        parts.append((str(due) if due is not None else "-",))
    where = {**numbers.of_cell(cell), "phase": phase}
    parts.append((numbers.count(runs, "started", **where),))
    for status in shown:
        those = [record for record in runs if record.status == status]
        parts.append((numbers.count(those, status, **where),) if those else ("0",))
    return tuple(parts)
