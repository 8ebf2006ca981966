"""Threats from the simple models that results are printed beside: an arm that is no better has learned nothing more."""

from __future__ import annotations

from algos.finding import Finding
from reports.clocks import readings
from reports.table import Cell, StudyTable
from reports.threats.found import caution, listed

_NAMES = {"majority": "the majority class"}


def no_better_than_baseline(study: StudyTable) -> list[Finding]:
    """Arms whose mean is no better than a baseline of the task. An error where the leading arm beats none of them."""
    found = []
    for task in study.tasks.values():
        means = {cell.arm: mean for cell in study.of(task.name) if (mean := _mean(cell)) is not None}
        leader = _leader(study, task.name, means)
        for arm, mean in means.items():
            unbeaten = {name: v for name, v in task.baselines.items() if not task.sign * mean > task.sign * v}
            if not unbeaten:
                continue
            names = listed(f"{_words(name)} ({value:.4g})" for name, value in unbeaten.items())
            split = "" if task.split == "test" else "validation "
            said = f"{arm} on {task.name} ({split}{mean:.4g}) is no better than {names}"
            cure = "look for a fault, or too short a budget, before its order among the arms is believed"
            if arm == leader:
                said += ", and it leads"
                cure = "no arm is worth choosing yet: look for a fault, widen the tuning or give a longer budget"
            none = arm == leader and len(unbeaten) == len(task.baselines)
            rule = "no-better-than-baseline"
            found.append(
                Finding(rule, said, cure, task.name, level="error") if none else caution(rule, said, cure, task.name)
            )
    return found


def _mean(cell: Cell) -> float | None:
    """Of the final runs that have a value; None without any. What diverged is said elsewhere."""
    values = cell.outcomes().finite if cell.finals else ()
    return float(sum(values) / len(values)) if len(values) else None


def _leader(study: StudyTable, task: str, means: dict[str, float]) -> str:
    ranking = next((reading.ranking for reading in readings(study, task) if reading.ranking), ()) if means else ()
    sign = study.tasks[task].sign
    return ranking[0] if ranking else max(means, key=lambda arm: sign * means[arm], default="")


def _words(name: str) -> str:
    return _NAMES.get(name, f"the {name.replace('_', ' ')} baseline")
