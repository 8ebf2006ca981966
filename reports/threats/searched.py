"""Threats from what was searched: arms of one task that did not tune the same hyperparameters."""

from __future__ import annotations

from algos.finding import Finding
from reports.arms import is_recorded, searched
from reports.table import StudyTable
from reports.threats.found import caution, listed


def unequal_search(study: StudyTable) -> list[Finding]:
    """Tuned arms of a task that searched different hyperparameters, or different numbers of them. The words of recorded
    arms are their maker's, so those are compared among themselves."""
    found = []
    for task in study.tasks.values():
        for theirs in (False, True):
            cells = [cell for cell in study.of(task.name) if cell.tunes and is_recorded(cell) == theirs]
            told = {cell.arm: tuple(searched(cell)) for cell in cells}
            if len({frozenset(places) for places in told.values()}) > 1:
                shown = "; ".join(f"{arm}: {listed(places) if places else 'not known'}" for arm, places in told.items())
                said = f"arms tuned different hyperparameters ({shown})"
                cure = "tune the same ones for every arm, the learning rate at least: what is fixed may be a bad value"
                found.append(caution("unequal-search", said, cure, task.name))
    return found
