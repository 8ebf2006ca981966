"""Threats from what arms used of one budget: equal in updates can be unequal in gradients and seconds."""

from __future__ import annotations

import math

from algos.finding import Finding
from reports.clocks import NAMES, SAME, agree, readings, stopped
from reports.table import StudyTable
from reports.threats.found import caution, note


def clocks_disagree(study: StudyTable) -> list[Finding]:
    """Tasks on which the best arm is another one on another clock."""
    found = []
    for task in study.tasks.values():
        cells = [cell for cell in study.of(task.name) if cell.finals]
        if not cells or stopped(cells):
            continue
        read = readings(study, task.name)
        if not agree(read):
            told = "; ".join(f"per {NAMES[r.clock][0]} {r.ranking[0]} leads" for r in read if r.ranking)
            cure = "say which clock matters to you and why, and tune every arm for that budget"
            said = f"which arm is best depends on the clock ({told})"
            found.append(caution("clocks-disagree", said, cure, task.name))
    return found


def unequal_use(study: StudyTable) -> list[Finding]:
    """Arms that used different amounts of updates, gradients or seconds: how much, on each clock."""
    found = []
    for task in study.tasks.values():
        cells = [cell for cell in study.of(task.name) if cell.finals]
        if not cells or stopped(cells):
            continue
        told = []
        for reading in readings(study, task.name):
            spent = {arm: amount for arm, amount in reading.spent.items() if not math.isnan(amount)}
            if reading.clock in NAMES and len(spent) > 1 and max(spent.values()) > min(spent.values()) * (1 + SAME):
                amounts = ", ".join(f"{arm} {amount:,.4g}" for arm, amount in spent.items())
                told.append(f"{NAMES[reading.clock][1]}: {amounts}")
        if told:
            said = f"arms used different amounts, by the median of their runs ({'; '.join(told)})"
            cure = "the answer compares them where the cheapest ended too"
            found.append(note("unequal-use", said, cure, task.name))
    return found
