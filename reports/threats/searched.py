"""Threats from what was searched: arms of one task that did not tune the same hyperparameters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from algos.finding import Finding
from reports.arms import configs, has, is_recorded, searched
from reports.table import Cell, StudyTable
from reports.threats.found import caution, listed


def unequal_search(study: StudyTable) -> list[Finding]:
    """Tuned arms of a task of which one searched a hyperparameter that another has too and left fixed. What an arm
    alone has it may tune. The words of recorded arms are their maker's, and may not tell what was fixed: those are
    compared among themselves, by all that they searched."""
    found = []
    for task in study.tasks.values():
        for theirs in (False, True):
            cells = [cell for cell in study.of(task.name) if cell.tunes and is_recorded(cell) == theirs]
            told = {cell.arm: tuple(searched(cell)) for cell in cells}
            if any(_left(cell, told, theirs) for cell in cells):
                shown = "; ".join(f"{arm}: {listed(places) if places else 'not known'}" for arm, places in told.items())
                said = f"arms tuned different hyperparameters ({shown})"
                cure = "tune the same ones for every arm, the learning rate at least: what is fixed may be a bad value"
                found.append(caution("unequal-search", said, cure, task.name))
    return found


def _left(cell: Cell, told: Mapping[str, Sequence[str]], theirs: bool) -> list[str]:
    """What other arms searched and this one, which has it too, did not."""
    others = dict.fromkeys(key for places in told.values() for key in places)
    return [key for key in others if key not in told[cell.arm] and (theirs or has(configs(cell), key))]
