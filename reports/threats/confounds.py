"""Threats from what else differs: arms that are not one change apart, runs that do not agree on their task."""

from __future__ import annotations

import itertools
from typing import Any

from algos.finding import Finding
from experiments.store.module_files import versions
from experiments.store.queries import flatten
from experiments.store.schema import RunRecord
from reports.arms import configs, differing, is_recorded
from reports.judged import recorded
from reports.table import Cell, StudyTable
from reports.threats.found import caution, listed

#: What changes no result; and what another check says.
_ASIDE = {"log_every", "checkpoint_every", "evaluate_every", "budget", "stop", "metric", "mode", "target", "worst"}
#: Facts of a task that another check compares, or that compare nothing.
_OTHERS = {"digest", "cite", "module", "data", "logged"}
#: All that a recorded run can say of its task.
_STATED = {"metric", "mode", "target"}


def confounded_arms(study: StudyTable) -> list[Finding]:
    """Arms that differ in more than one kind of thing: which of them made the difference cannot be told."""
    found = []
    for task in study.tasks.values():
        cells = [cell for cell in study.of(task.name) if cell.finals or cell.tunes]
        told = []
        for one, other in itertools.combinations(cells, 2):
            if is_recorded(one) != is_recorded(other):
                continue  # their configs do not speak one language; `recorded` says what that means
            kinds = {key.split(".")[0] for key in differing([one, other])} - _ASIDE
            if len(kinds) > 1:
                told.append(f"{one.arm} and {other.arm} in {listed(sorted(kinds))}")
        if told:
            said = f"arms differ in more than one thing ({_pairs(told)})"
            cure = "which of these makes the difference cannot be told: change one at a time"
            found.append(caution("confounded-arms", said, cure, task.name))
    return found


def same_config(study: StudyTable) -> list[Finding]:
    """Arms of one task that are one definition: what they differ in is their seeds' luck."""
    found = []
    for task in study.tasks.values():
        cells = [cell for cell in study.of(task.name) if cell.finals and configs(cell)]
        told = [
            f"{one.arm} and {other.arm}"
            for one, other in itertools.combinations(cells, 2)
            if is_recorded(one) == is_recorded(other) and _code(one) == _code(other) and configs(one) == configs(other)
        ]
        if told:
            said = f"final runs of different arms have one config, the seed aside ({_pairs(told)})"
            cure = "what they differ in is chance, or was not recorded: nothing shown of them is of an algorithm"
            found.append(caution("same-config", said, cure, task.name))
    return found


def _pairs(told: list[str]) -> str:
    """Pairs of arms, the first three of many."""
    return "; ".join(told[:3]) + (f"; and {len(told) - 3} more pairs" if len(told) > 3 else "")


def _code(cell: Cell) -> set[str]:
    """What else makes an arm: the users' files, and the commits, that its runs were made from."""
    return {f"{version.name} {version.sha256}" for record in cell.finals for version in versions(record)} | {
        str(record.file.provenance.get("commit")) for record in cell.finals
    }


def mixed_task(study: StudyTable) -> list[Finding]:
    """Runs that do not say the same of one task: its metric, target or sizes."""
    found = []
    for task in study.tasks.values():
        runs = [r for r in study.runs if r.labels.task == task.name and r.task]
        ours, theirs = [_facts(r) for r in runs if not recorded(r)], [_stated(r) for r in runs if recorded(r)]
        keys = dict.fromkeys(key for told in (*ours, *theirs) for key in told)
        differ = [
            key
            for key in keys
            if len({repr(t.get(key)) for t in ours} | {repr(t[key]) for t in theirs if key in t}) > 1
        ]
        if differ:
            said = f"runs do not agree on the task's {listed(differ[:6])}{' and more' if len(differ) > 6 else ''}"
            cure = "what the oldest run says is used here; run the study again on one definition"
            found.append(caution("mixed-task", said, cure, task.name))
    return found


def _facts(record: RunRecord) -> dict[str, Any]:
    return {key: value for key, value in flatten(record.task).items() if key.split(".")[0] not in _OTHERS}


def _stated(record: RunRecord) -> dict[str, Any]:
    """What a recorded run says of its task. What it leaves blank it does not contradict."""
    return {key: value for key, value in record.task.items() if key in _STATED and value not in (None, "")}
