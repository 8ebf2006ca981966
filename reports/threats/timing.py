"""Threats to what is said per second: the machine, not the algorithm, may have made the difference."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from algos.finding import Finding
from reports import seconds
from reports.clocks import paces, readings, stopped
from reports.table import Cell, StudyTable
from reports.threats.found import caution, note

_ONE_MACHINE = "run all arms on one machine, by turns, with nothing else on it"


def scattered_seconds(study: StudyTable) -> list[Finding]:
    """Arms whose runs took very different times for the same work."""
    cure = f"something else was at work on the machine: {_ONE_MACHINE}"
    return _found(study, "scattered-seconds", lambda cells: seconds.scattered(paces(study, cells)), cure)


def shared_clock(study: StudyTable) -> list[Finding]:
    """Runs that trained together: their seconds are shares of one clock."""
    cure = "seeds say nothing of how their seconds vary: for a claim per second train them one by one (population: off)"
    return _found(study, "shared-clock", seconds.shared, cure)


def short_runs(study: StudyTable) -> list[Finding]:
    """Runs that ended before their seconds said anything."""
    cure = "give a longer budget before anything is said per second"
    return _found(study, "short-runs", lambda cells: seconds.short(paces(study, cells)), cure)


def unlike_machines(study: StudyTable) -> list[Finding]:
    """Arms that trained on machines which are not known to be alike."""
    cure = f"before anything is said per second {_ONE_MACHINE}"
    return _found(study, "unlike-machines", seconds.unlike, cure)


def _found(study: StudyTable, rule: str, of: Callable[[list[Cell]], str], cure: str) -> list[Finding]:
    """One finding a task: a caution where something is said per second, a note where nothing is."""
    found = []
    for task, cells in _timed(study):
        if said := of(cells):
            read = readings(study, task)
            compared = read[0].clock == "seconds" or any(r.clock == "seconds" and r.budget is not None for r in read)
            found.append((caution if compared else note)(rule, said, cure, task))
    return found


def _timed(study: StudyTable) -> Iterator[tuple[str, list[Cell]]]:
    """The tasks on which two arms or more tell the seconds of their final runs."""
    for task in study.tasks:
        cells = [cell for cell in study.of(task) if cell.ended]
        if sum(map(bool, paces(study, cells).values())) > 1 and not stopped(cells):
            yield task, cells
