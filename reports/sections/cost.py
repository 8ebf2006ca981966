"""Time and cost: what all runs used, the failed and the tuning ones too, by arm and phase."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from experiments.store.schema import RunRecord
from reports.clocks import step_names, used
from reports.document import Column, Heading, Paragraph, Parts, Quantity, Table, Term
from reports.sections import numbers
from reports.sections.drawn import Piece
from reports.table import StudyTable

_CLOCKS = ("updates", "gradients", "seconds")
_PHASES = {"tune": "tuning", "final": "final"}


def cost(study: StudyTable) -> list[Piece]:
    rows: list[tuple[Parts, ...]] = []
    for arm in study.arms:
        cells = [cell for (_, name), cell in study.cells.items() if name == arm]
        for phase, words in _PHASES.items():
            runs = [r for cell in cells for r in (cell.tunes if phase == "tune" else cell.finals)]
            if runs:
                rows.append(((Term(term=arm),), (words,), *_row(study, runs, arm, phase)))
    if not rows:
        return []
    one, many = step_names(study.runs)
    everything: tuple[Parts, ...] = (("all",), ("all",), *_row(study, list(study.runs), "all", "all"))
    tables = [
        Table(
            caption=("What the runs used in all, whatever became of them.",),
            columns=(
                Column(head="Arm"),
                Column(head="Phase"),
                Column(head="Runs", number=True),
                Column(head=many.capitalize(), number=True),
                Column(head="Gradient evaluations", number=True),
                Column(head="Seconds of training", number=True),
                Column(head="Seconds of evaluation", number=True),
                Column(head="In runs that did not complete", unit="% of seconds of training", number=True),
                Column(head=f"{'An' if one[0] in 'aeiou' else 'A'} {one} takes", unit="ms, median run", number=True),
            ),
            rows=(*rows, everything),
            notes=tuple(_notes(study)),
        )
    ]
    return [Heading(level=2, text="Time and cost", anchor="cost"), *tables, *_share(study)]


def _row(study: StudyTable, runs: Sequence[RunRecord], arm: str, phase: str) -> tuple[Parts, ...]:
    where: dict[str, Any] = {"arm": arm, "phase": phase}
    ids = [r.run_id for r in runs]
    cells: list[Parts] = [(numbers.count(runs, "runs", **where),)]
    cells += [_sum(study, runs, clock, where) for clock in _CLOCKS]
    evaluated = [r.last.get("time/evaluate_s", math.nan) for r in runs]
    known = [seconds for seconds in evaluated if not math.isnan(seconds)]
    cells.append((numbers.value(sum(known), "", "sum", ids, of="time/evaluate_s", **where),) if known else ("-",))
    seconds = {r.run_id: used(study, r, "seconds") for r in runs}
    total = sum(s for s in seconds.values() if not math.isnan(s))
    fell = [seconds[r.run_id] for r in runs if r.status != "completed"]
    lost = sum(s for s in fell if not math.isnan(s))
    unknown = sum(map(math.isnan, fell))
    failed: Parts = ("-",)
    if total:
        share = numbers.value(100 * lost / total, "", "share", ids, of="seconds in runs that did not complete", **where)
        failed = (share, f" and {unknown} unknown") if unknown else (share,)
    cells += [failed, (_pace(study, runs, where),)]
    return tuple(cells)


def _sum(study: StudyTable, runs: Sequence[RunRecord], clock: str, where: dict[str, Any]) -> Parts:
    amounts = [used(study, r, clock) for r in runs]
    known = [amount for amount in amounts if not math.isnan(amount)]
    if not known:
        return ("not recorded",)
    total = numbers.value(sum(known), "", "sum", [r.run_id for r in runs], clock=clock, **where)
    lacking = len(runs) - len(known)
    return (total, f" but for {lacking} that do not tell") if lacking else (total,)


def _pace(study: StudyTable, runs: Sequence[RunRecord], where: dict[str, Any]) -> Quantity:
    paces = []
    for record in runs:
        updates, seconds = used(study, record, "updates"), used(study, record, "seconds")
        if updates > 0 and not math.isnan(seconds):
            paces.append(1000 * seconds / updates)
    middle = float(np.median(paces)) if paces else math.nan
    return numbers.value(middle, "", "median of runs", [r.run_id for r in runs], absent="-", of="ms an update", **where)


def _share(study: StudyTable) -> list[Piece]:
    """What tuning cost beside what is reported."""
    totals = {
        phase: sum(
            s for r in study.runs if (r.labels.phase == "tune") == (phase == "tune") and (s := _seconds(study, r))
        )
        for phase in _PHASES
    }
    if not totals["tune"] or not totals["final"]:
        return []
    ids = [r.run_id for r in study.runs]
    ratio = numbers.value(totals["tune"] / totals["final"], "", "ratio", ids, of="seconds of tuning to final runs")
    return [Paragraph(parts=("Tuning took ", ratio, " times the training time of the final runs."))]


def _ended_unseen(study: StudyTable, record: RunRecord) -> bool:
    """Whether a run that did not complete logged more updates than it tells the use of."""
    counted = used(study, record, "updates")
    ended = [e.get("update") for e in record.events if e.get("name") == "diverged"]
    return any(isinstance(update, (int, float)) and update > counted for update in ended)


def _seconds(study: StudyTable, record: RunRecord) -> float:
    seconds = used(study, record, "seconds")
    return 0.0 if math.isnan(seconds) else seconds


def _notes(study: StudyTable) -> list[Parts]:
    notes: list[Parts] = [
        ("Seconds are of training alone, on the clock that waits for the device; evaluation stands beside them. Runs "
         "that diverged, crashed, were pruned or lost count with what they had used.",)
    ]  # fmt: skip
    if short := [r for r in study.runs if r.status != "completed" and _ended_unseen(study, r)]:
        told = numbers.count(short, "runs told up to their last evaluation")
        notes.append(("Of ", told, " of these only what they had used by their last evaluation is recorded: they used "
                      "more.",))  # fmt: skip
    if any(r.attempts > 1 for r in study.runs):
        again = [r for r in study.runs if r.attempts > 1]
        notes.append((numbers.count(again, "resumed runs"), " runs were resumed; what was lost before is not counted."))
    if any(r.file.facts.get("population") for r in study.runs):
        notes.append(("Some runs trained together as one population: each is told its share of the time.",))
    return notes
