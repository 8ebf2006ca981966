"""Threats from what arms used of one budget: equal in updates can be unequal in gradients and seconds."""

from __future__ import annotations

import math

from algos.finding import Finding
from reports.clocks import SAME, Reading, agree, readings, stopped
from reports.table import StudyTable
from reports.threats.found import caution, listed, note


def clocks_disagree(study: StudyTable) -> list[Finding]:
    """Tasks on which one clock shows what another does not."""
    found = []
    for task in study.tasks.values():
        cells = [cell for cell in study.of(task.name) if cell.finals]
        if not cells or stopped(cells):
            continue
        read = readings(study, task.name)
        if not agree(read):
            told = "; ".join(_shown(reading) for reading in read if reading.ranking)
            cure = "say which clock matters to you and why, and tune every arm for that budget"
            said = f"which arm is best depends on the clock ({told})"
            found.append(caution("clocks-disagree", said, cure, task.name))
    return found


def _shown(reading: Reading) -> str:
    """What a clock shows of the arm that leads on it."""
    if not reading.beaten:
        nothing = "no difference is shown" if len(reading.ranking) == 2 else "no arm is shown to be best"
        return f"per {reading.one} {nothing}"
    return f"per {reading.one} {reading.ranking[0]} is better than {listed(reading.beaten)}"


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
            if len(spent) > 1 and max(spent.values()) > min(spent.values()) * (1 + SAME):
                amounts = ", ".join(f"{arm} {amount:,.4g}" for arm, amount in spent.items())
                told.append(f"{reading.many}: {amounts}")
        if told:
            said = f"arms used different amounts, by the median of their runs ({'; '.join(told)})"
            cure = "the answer compares them where the cheapest ended too, as far as that can be told"
            found.append(note("unequal-use", said, cure, task.name))
    return found
