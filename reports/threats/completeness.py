"""Threats from what is not as planned: runs that were never made, arms left out, seeds run twice."""

from __future__ import annotations

from collections import Counter

from algos.finding import Finding
from reports.judged import recorded
from reports.table import ENDED, Cell, Phase, StudyTable
from reports.threats.found import caution


def planned(cell: Cell, phase: Phase) -> int | None:
    """How many runs the study asks of an arm on a task, as its runs tell it."""
    told = cell.told.get("trials" if phase == "tune" else "seeds")
    return len(told) if isinstance(told, (list, tuple)) else told


def fewer_than_planned(study: StudyTable) -> list[Finding]:
    """Final seeds or trials that were never started: whoever stops early may have liked what there was."""
    found = []
    for cell in study.cells.values():
        seeds, trials = planned(cell, "final"), planned(cell, "tune")
        short = []
        if cell.finals and seeds and len(cell.by_seed) < seeds:
            short.append(f"{len(cell.by_seed)} of {seeds} seeds")
        if trials and len(cell.tunes) < trials:
            short.append(f"{len(cell.tunes)} of {trials} trials")
        if short:
            said = f"{cell.arm} has run {' and '.join(short)} that were planned"
            found.append(caution("fewer-than-planned", said, "let the sweep run to its end", cell.task.name))
    return found


def arms_left_out(study: StudyTable) -> list[Finding]:
    """Arms without final runs on a task where others have them."""
    found = []
    for task in study.tasks.values():
        cells = {cell.arm: cell for cell in study.of(task.name)}
        if not any(cell.finals for cell in cells.values()):
            continue
        for arm in study.arms:
            if arm not in cells or not cells[arm].finals:
                had = "was tuned but has no final runs" if arm in cells else "has no runs"
                found.append(caution("arm-left-out", f"{arm} {had}", "run its final seeds, or say why not", task.name))
    return found


def repeated_seeds(study: StudyTable) -> list[Finding]:
    """Seeds of an arm with several final runs that ended: the choice between them is a choice of results."""
    found = []
    for cell in study.cells.values():
        counts = Counter(r.labels.seed for r in cell.finals if r.status in ENDED)
        twice = sorted(seed for seed, n in counts.items() if n > 1)
        if twice:
            shown = ", ".join(map(str, twice[:8])) + (", ..." if len(twice) > 8 else "")
            said = f"{cell.arm} has more than one final run that ended for some seeds ({shown})"
            cure = "the first of each is what counts here; see why it was run again"
            if any(map(recorded, cell.finals)):
                cure = "the first of each is what counts here: set a seed for each run, and record it (seed=...)"
            found.append(caution("repeated-seeds", said, cure, cell.task.name))
    return found
