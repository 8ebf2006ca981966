"""Threats from runs that our runner did not execute: what it sees to in its own runs is only stated of these."""

from __future__ import annotations

from collections.abc import Sequence

from algos.finding import Finding
from reports.arms import is_recorded
from reports.clocks import NAMES, READ, SAME, budget, step_names, used
from reports.judged import maker, recorded
from reports.table import Cell, StudyTable
from reports.threats.found import caution, counted, listed


def other_loops(study: StudyTable) -> list[Finding]:
    """Runs of code that nobody here saw: their seeds, data and settings are what its maker says they are."""
    theirs = [record for record in study.runs if recorded(record)]
    if not theirs:
        return []
    found = []
    for imported in (False, True):
        runs = [record for record in theirs if (recorded(record) == "imported") == imported]
        if not runs:
            continue
        makers = listed(dict.fromkeys(map(maker, runs)))
        said = f"{len(runs)} of {len(study.runs)} runs were "
        if imported:
            said += f"imported from {makers}: seeds, data and settings are as stated there"
            cure = "keep what they were imported from with the report, and say what code made those runs"
        else:
            said += f"recorded from {makers}, not run by trainlab's runner: "
            said += "seeds, data and settings are as stated by whoever ran them"
            cure = "keep that code with the report; a LightningModule can be run as a task (task=FILE.py:CLASS) instead"
        found.append(caution("recorded-runs", said, cure))
    return found


def not_tuned(study: StudyTable) -> list[Finding]:
    """Arms of recorded runs: how their settings were found, and with how many tries, is not in the records."""
    found = []
    for task in study.tasks.values():
        arms = [cell.arm for cell in study.of(task.name) if is_recorded(cell) and not cell.tunes]
        if arms:
            said = f"{listed(arms)} {'was' if len(arms) == 1 else 'were'} not tuned under a stated budget"
            cure = "say how the settings were found and with how many tries: more tries find better values"
            found.append(caution("not-tuned", said, cure, task.name))
    return found


def budgets_not_given(study: StudyTable) -> list[Finding]:
    """What the loops of recorded runs used, since nothing held them to a budget: known, equal, or not."""
    found = []
    for task in study.tasks.values():
        cells = [cell for cell in study.of(task.name) if is_recorded(cell) and cell.completed]
        if cells and (told := _spent(study, study.of(task.name), cells)):
            cure = "give all arms one budget, and log updates and time at the end"
            found.append(caution("budgets-not-given", told, cure, task.name))
    return found


def mixed_runners(study: StudyTable) -> list[Finding]:
    """Arms of our runner beside recorded ones: only what both logged can be compared."""
    found = []
    for task in study.tasks.values():
        cells = [cell for cell in study.of(task.name) if cell.finals]
        theirs = [cell.arm for cell in cells if is_recorded(cell)]
        if not theirs or len(theirs) == len(cells):
            continue
        ours = [cell.arm for cell in cells if cell.arm not in theirs]
        lacking = [cell.arm for cell in cells if cell.completed and not cell.ended]
        compared = [cell.arm for cell in cells if cell.ended]
        said = f"{listed(ours)} came from trainlab's runner and {listed(theirs)} from other loops"
        said += (
            f"; compared by {task.outcome} {'are' if len(compared) > 1 else 'is'} {listed(compared)}"
            if compared
            else ""
        )
        said += f", not {listed(lacking)}, without it" if lacking else ""
        cure = "nothing shows that both read the same data with the same tuning: run the baseline as a task too"
        found.append(caution("mixed-runners", said, cure, task.name))
    return found


def metric_not_logged(study: StudyTable) -> list[Finding]:
    """Completed runs without the value that their task is judged by."""
    found = []
    for cell in study.cells.values():
        lacking = [record for record in cell.by_seed.values() if cell.lacks(record)]
        if lacking:
            has = sorted({name for r in lacking for name in r.last if not name.startswith(("count/", "time/"))})
            logged = f"; they logged {', '.join(has[:6])}" if has else ""
            said = f"{counted(len(lacking), 'completed run')} of {cell.arm} logged no {cell.task.outcome}{logged}"
            cure = "they are not compared: log it under the name and direction of the other arms"
            found.append(caution("metric-not-logged", said, cure, cell.task.name))
    return found


def metric_assumed(study: StudyTable) -> list[Finding]:
    """Tasks whose runs do not say by what they are judged."""
    found = []
    for task in study.tasks.values():
        if task.assumed:
            more = "more" if task.mode == "max" else "less"
            said = (
                f"no run says by what it is judged: {task.validation} is the one validation metric logged, and by its "
            )
            said += f"name {more} is better"
            cure = "state metric and mode where you record, or give --metric and --mode to the report"
            found.append(caution("metric-assumed", said, cure, task.name))
    return found


def no_test_split(study: StudyTable) -> list[Finding]:
    """Final runs judged by the very values that tuning, early stopping and the choice of settings could see."""
    found = []
    for task in study.tasks.values():
        if task.split == "test" or not any(cell.completed for cell in study.of(task.name)):
            continue
        read = [cell.arm for cell in study.of(task.name) if any(f"test/{task.metric}" in r.final for r in cell.finals)]
        said = "no test split was read: arms are compared by validation, which tuning and stopping may have seen"
        if read:
            said = f"only {listed(read)} read a test split, so arms are compared by validation"
        cure = f"log test/{task.metric} once, at the end of each final run (a module: give it test_dataloader)"
        found.append(caution("no-test-split", said, cure, task.name))
    return found


def _spent(study: StudyTable, cells: Sequence[Cell], theirs: Sequence[Cell]) -> str:
    """What is not known of the budgets, or not equal; "" where the runs used the same."""
    runs = [record for cell in cells for record in cell.completed]
    totals = {clock: [used(study, record, clock) for record in runs] for clock in READ}
    known = {clock: values for clock, values in totals.items() if not any(value != value for value in values)}
    many = step_names(runs)[1]
    unknown = [
        many if clock == "updates" else NAMES[clock][1] for clock in ("updates", "seconds") if clock not in known
    ]
    stated = [cell.arm for cell in theirs if not all(map(budget, cell.completed))]
    parts = [f"{listed(stated)} {'states' if len(stated) == 1 else 'state'} no budget"] if stated else []
    if unknown:
        parts.append(f"not every run says how many {' and '.join(unknown)} it used")
    uneven = [clock for clock, values in known.items() if max(values) > min(values) * (1 + SAME)]
    if "updates" in known:
        low, high = min(known["updates"]), max(known["updates"])
        made = f"{low:,.0f}" if low == high else f"{low:,.0f} to {high:,.0f}"
        parts.append(f"runs made {made} {many}")
    if "seconds" in uneven:
        parts.append(f"runs took {min(known['seconds']):,.3g} to {max(known['seconds']):,.3g} s of training")
    return "; ".join(parts) if unknown or stated or "updates" in uneven else ""
