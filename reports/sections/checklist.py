"""The checklist of a paper, answered from the runs: yes, no or not recorded, each with its evidence.

After the checklists of NeurIPS and of Pineau et al. 2021; in our own words, and only what runs can tell.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from experiments.store.queries import flatten
from experiments.store.schema import RunRecord
from reports.arms import configs, differing, has, is_recorded, searched
from reports.clocks import budget, readings, unequal, used
from reports.comparison import MINIMUM_SEEDS
from reports.document import Block, Column, Heading, Parts, Table
from reports.sections import numbers
from reports.sections.tuning import tuned
from reports.table import Cell, StudyTable
from reports.threats.checks import threats
from reports.threats.environment import codes, packages
from reports.threats.found import counted, listed

Answer = tuple[str, Parts]
YES, NO, PART, UNKNOWN, NONE = "yes", "no", "in part", "not recorded", "does not apply"


def checklist(study: StudyTable) -> list[Block]:
    rows: list[tuple[Parts, ...]] = []
    for item, check in ITEMS.items():
        word, evidence = check(study)
        rows.append(((item,), (word,), evidence))
    return [
        Heading(level=2, text="Checklist", anchor="checklist"),
        Table(
            caption=("What a paper's checklist asks, as far as the runs can answer it.",),
            columns=(Column(head="Asked"), Column(head="Answer"), Column(head="Evidence")),
            rows=tuple(rows),
        ),
    ]


def _told(study: StudyTable, has: Callable[[RunRecord], bool], what: str) -> Answer:
    """Whether every run tells something."""
    known = [record for record in study.runs if has(record)]
    count = numbers.count(known, f"tell {what}") if known else "none"
    if len(known) == len(study.runs):
        return YES, ("all ", count, f" runs tell {what}")
    return UNKNOWN, (count, f" of {len(study.runs)} runs tell {what}")


def _seeds(study: StudyTable) -> Answer:
    cells = [cell for cell in study.cells.values() if cell.finals]
    if not cells:
        return NO, ("there are no final runs",)
    fewest = min(cells, key=lambda cell: cell.outcomes().n)
    ended = [r for cell in cells for r in cell.ended]
    n = fewest.outcomes().n
    word = YES if n >= MINIMUM_SEEDS else NO
    return word, (
        numbers.count(ended, "outcomes of final runs"),
        f" runs with an outcome, at least {n} seeds an arm and task",
    )


def _intervals(study: StudyTable) -> Answer:
    pairs = [pair for task in study.tasks for reading in readings(study, task) for pair in reading.pairs]
    given = [p for p in pairs if p.estimate is not None and p.estimate.low is not None]
    if not pairs:
        return NO, ("no two arms could be compared",)
    said = (
        f"95 % t intervals over seeds for {len(given)} of {len(pairs)} comparisons; the rest by ranks, or too few seeds"
    )
    return (YES, (said,)) if given else (NO, ("there were too few seeds for intervals, or runs diverged",))


def _family(study: StudyTable) -> Answer:
    sizes = {p.comparisons for task in study.tasks for r in readings(study, task) for p in r.pairs if p.comparisons}
    if not sizes:
        return NONE, ("no test was made",)
    low, high = min(sizes), max(sizes)
    return YES, (f"Holm, among {low if low == high else f'{low} to {high}'} comparisons of a task",)


def _ranges(study: StudyTable) -> Answer:
    arms = [one for of_task in tuned(study).values() for one in of_task]
    if not arms:
        recorded = any(is_recorded(cell) for cell in study.cells.values())
        return (UNKNOWN, ("how settings were found is not recorded",)) if recorded else (NONE, ("nothing was tuned",))
    blind = [one for one in arms if not one.spans and not one.options]
    unsaid = list(dict.fromkeys(one.cell.arm for one in arms if not one.sampler))
    trials = [r for one in arms for r in one.trials]
    told = "ranges and chosen values" if unsaid else "ranges, sampler and chosen values"
    said = f"{told} of {len(arms) - len(blind)} of {len(arms)} arms, from "
    count = numbers.count(trials, "tuning runs")
    lacking = f"; the sampler of {listed(unsaid)} is not recorded" if unsaid else ""
    return (UNKNOWN if blind or unsaid else YES), (said, count, f" trials{lacking}")


def _equal_tuning(study: StudyTable) -> Answer:
    if not any(cell.tunes for cell in study.cells.values()):
        return NONE, ("nothing was tuned",)
    if len(study.arms) == 1:
        return NONE, ("there is one arm",)
    rules = ("unequal-tuning", "unequal-tuning-budgets", "unequal-search", "not-tuned")
    if found := [f for f in threats(study) if f.rule in rules]:
        return NO, ("; ".join(dict.fromkeys(f.said for f in found)),)
    said = [text for cells in _tuned_together(study) for text in (*_untuned(cells), *_own(cells))]
    word = PART if any(_untuned(cells) for cells in _tuned_together(study)) else YES
    unstated = dict.fromkeys(cell.arm for cell in study.cells.values() if not all(map(budget, cell.tunes)))
    if unstated:
        told = f"as many trials for every arm; the budget of a trial is not stated for {listed(unstated)}"
        return UNKNOWN, ("; ".join((told, *dict.fromkeys(said))),)
    told = "as many trials, with the same budget, for every arm"
    return word, ("; ".join((told, *dict.fromkeys(said))),)


def _tuned_together(study: StudyTable) -> list[list[Cell]]:
    """The tuned arms of each task whose configs speak one language."""
    found = [[cell for cell in study.of(task) if cell.tunes and is_recorded(cell) == theirs]
             for task in study.tasks for theirs in (False, True)]  # fmt: skip
    return [cells for cells in found if len(cells) > 1]


def _untuned(cells: Sequence[Cell]) -> list[str]:
    """Hyperparameters that several arms have, that no arm tuned, and that stand at unlike values."""
    known = {cell.arm: configs(cell) for cell in cells}
    told = []
    for key in differing(cells):
        values = {arm: config[key] for arm, config in known.items() if _is_number(config.get(key))}
        if key.startswith("optimizer.") and len({repr(value) for value in values.values()}) > 1:
            shown = ", ".join(f"{arm} {value:.4g}" for arm, value in values.items())
            told.append(f"not tuned, and unlike: {key} ({shown})")
    return told


def _own(cells: Sequence[Cell]) -> list[str]:
    """Hyperparameters that an arm tuned and that no other arm has."""
    told = []
    for cell in cells:
        others = [configs(other) for other in cells if other is not cell]
        mine = [key for key in searched(cell) if not any(has(config, key) for config in others)]
        if mine:
            told.append(f"{cell.arm} also tuned what it alone has ({listed(mine)})")
    return told


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _equal_budgets(study: StudyTable) -> Answer:
    finals = [r for cell in study.cells.values() for r in cell.finals]
    if not finals:
        return NONE, ("there are no final runs",)
    found = [f for f in threats(study) if f.rule in ("unequal-budgets", "stopped-early", "budgets-not-given")]
    if found:
        return NO, (found[0].said,)
    if unequal(study.cells.values()) or not all(map(budget, finals)):
        return UNKNOWN, ("not every run was held to a budget",)
    if early := [r for r in finals if r.status != "completed"]:
        count = numbers.count(early, "final runs that did not complete")
        return YES, ("all final runs of a task had one budget, and used it but for ", count, " that did not complete")
    return YES, ("all final runs of a task had one budget, and used it",)


def _test_once(study: StudyTable) -> Answer:
    rules = ("selected-on-test", "test-split-in-tuning")
    found = [f for f in threats(study) if f.rule in rules]
    if found:
        return NO, (found[0].said,)
    if any(task.split == "validation" for task in study.tasks.values()):
        return NO, ("no test split was read on every task: arms are compared by validation",)
    return YES, ("no tuning run has a test value, and no run was selected by one",)


def _data(study: StudyTable) -> Answer:
    return _told(
        study, lambda r: bool(r.task.get("digest")) and bool(r.task.get("sizes")), "their data's digest and sizes"
    )


def _settings(study: StudyTable) -> Answer:
    return _told(study, lambda r: bool(flatten(r.config)) and not r.file.facts.get("recorded"), "their whole config")


def _code(study: StudyTable) -> Answer:
    """Of trainlab's own checkout and of the folder that runs were started in, as far as they are repositories."""
    word, parts = _told(study, lambda r: any(code.commit for code in codes(r)), "their commit")
    found = list(dict.fromkeys(code for record in study.runs for code in codes(record)))
    dirty = [code for code in found if code.dirty]
    shown = (*dirty, *(code for code in found if not code.dirty))
    said = "; ".join(map(str, shown[:4])) + ("; and more" if len(shown) > 4 else "")
    if dirty:
        return NO, (f"{said} (", *parts, ")")
    return word, (*parts, f" ({said})" if said else "")


def _versions(study: StudyTable) -> Answer:
    return _told(study, lambda r: bool(packages(r)), "versions of packages")


def _device(study: StudyTable) -> Answer:
    return _told(study, lambda r: bool(r.file.provenance.get("device")), "their device")


def _compute(study: StudyTable) -> Answer:
    seconds = [used(study, r, "seconds") for r in study.runs]
    known = [s for s in seconds if not math.isnan(s)]
    if not known:
        return UNKNOWN, ("no run tells its time",)
    runs = [r.run_id for r in study.runs]
    total = numbers.value(sum(known), "", "sum", runs, clock="seconds", arm="all", phase="all")  # a cell shows no unit
    word = YES if len(known) == len(seconds) else UNKNOWN
    return word, (total, f" s of training in all, told by {len(known)} of {len(seconds)} runs, failed ones too")


def _failures(study: StudyTable) -> Answer:
    failed = [r for r in study.runs if r.status != "completed"]
    if not failed:
        return YES, ("every run that was started completed",)
    return YES, (numbers.count(failed, "did not complete"), " runs did not complete; they stand under Failures")


def _limits(study: StudyTable) -> Answer:
    found = threats(study)
    return YES, (f"{counted(len(found), 'threat')} to validity found in the data",)


def _credit(study: StudyTable) -> Answer:
    def cited(record: RunRecord) -> bool:
        entries = record.file.facts.get("entries") or {}
        own = [entry for entry in entries.values() if isinstance(entry, dict)]
        return bool(own) and all(entry.get("cite") for entry in own)

    return _told(study, cited, "whom to cite for all that they used")


ITEMS: dict[str, Callable[[StudyTable], Answer]] = {
    "Are results of several seeds reported?": _seeds,
    "Are intervals given, and is it said of what?": _intervals,
    "Are p-values corrected for the number of comparisons?": _family,
    "Are ranges, ways of choosing and chosen values of hyperparameters given?": _ranges,
    "Was every arm tuned equally?": _equal_tuning,
    "Had every arm the same budget?": _equal_budgets,
    "Was the test split read only once, at the end?": _test_once,
    "Are data and splits stated, so that others can have the same?": _data,
    "Are all training settings stored?": _settings,
    "Is the code's version known, without uncommitted changes?": _code,
    "Are versions of packages stored?": _versions,
    "Is the device stated?": _device,
    "Is the compute stated, failed and preliminary runs too?": _compute,
    "Are failed runs reported?": _failures,
    "Are limitations stated?": _limits,
    "Are the makers of methods and data cited?": _credit,
}
