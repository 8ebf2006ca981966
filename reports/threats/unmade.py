"""The checks that could not be made: what was not recorded cannot be found, and its absence shows nothing."""

from __future__ import annotations

from collections.abc import Iterable

from experiments.store.queries import flatten
from experiments.store.schema import RunRecord
from reports.clocks import step_names
from reports.statistics.curves import last_trend
from reports.table import Cell, StudyTable
from reports.threats.completeness import planned
from reports.threats.found import listed
from reports.tuning import tuning

#: What a run's provenance must tell -> the check that needs it.
_PROVENANCE = {
    "device": "devices",
    "threads": "threads",
    "commit": "commits",
    "packages": "versions of packages",
    "dirty": "uncommitted changes",
}


def unmade(study: StudyTable) -> list[str]:
    """Each check that lacked data, with what it lacked. What does not apply (no target, nothing tuned) is no lack."""
    return [*_environment(study), *_tasks(study), *_curves(study), *_tuning(study)]


def _environment(study: StudyTable) -> list[str]:
    found = []
    for key, words in _PROVENANCE.items():
        without = sum(not _tells(record, key) for record in study.runs)
        if without:
            found.append(f"{words} ({without} of {len(study.runs)} runs do not tell)")
    without = sum(not record.file.facts.get("parameters") for record in study.runs)
    if without:
        found.append(f"the models' sizes ({without} of {len(study.runs)} runs do not tell)")
    return found


def _tells(record: RunRecord, key: str) -> bool:
    told = flatten(record.file.provenance)
    return any(key in place.split(".") and value not in (None, "", {}) for place, value in told.items())


def _tasks(study: StudyTable) -> list[str]:
    found = []
    for task in study.tasks.values():
        runs = [record for record in study.runs if record.labels.task == task.name]
        without = sum(not record.task.get("digest") for record in runs)
        if without:
            found.append(f"whether runs of {task.name} read the same data ({without} of {len(runs)} do not tell)")
        if "accuracy" in task.metric and task.split == "test" and not task.sizes.get("test"):
            found.append(f"what the size of the test split of {task.name} allows (not recorded)")
    return found


def _curves(study: StudyTable) -> list[str]:
    found = []
    cells = [cell for cell in study.cells.values() if cell.completed]
    short = [cell for cell in cells if not _trend(study, cell)]
    if short:
        found.append(f"whether a longer budget would help {_arms(short)} (no curve, or too few evaluations)")
    lacking = [cell for cell in cells if any(r.run_id not in study.curves for r in cell.completed)]
    aimed = [cell for cell in lacking if cell.task.target is not None]
    if aimed:
        found.append(f"whether {_arms(aimed)} reached the target (a run has no curve)")
    if lacking:
        many = step_names(record for cell in lacking for record in cell.completed)[1]
        found.append(f"the {many} that {_arms(lacking)} made (a run has no curve)")
    return found


def _trend(study: StudyTable, cell: Cell) -> bool:
    curves = [study.curves[r.run_id] for r in cell.completed if r.run_id in study.curves]
    return bool(curves) and last_trend([c.updates for c in curves], [c.values for c in curves], "max") is not None


def _tuning(study: StudyTable) -> list[str]:
    found = []
    cells = list(study.cells.values())
    blind = [cell for cell in cells if (told := tuning(cell)) and set(told.hypers) - set(told.spans)]
    if blind:
        found.append(f"how near {_arms(blind)} came to the edge of a range (the range is not recorded)")
    silent = [cell for cell in cells if planned(cell, "final") is None or planned(cell, "tune") is None]
    if silent:
        found.append(f"whether {_arms(silent)} ran all that was planned (the plan is not recorded)")
    return found


def _arms(cells: Iterable[Cell]) -> str:
    return listed(dict.fromkeys(cell.arm for cell in cells))
