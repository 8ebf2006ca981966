"""Failures: what of each arm did not end well, and how far that could move a comparison. Nothing is dropped."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence

import numpy as np

from experiments.store.schema import RunRecord
from reports.clocks import readings, stopped
from reports.document import Block, Column, Heading, Paragraph, Parts, Table, Term
from reports.judged import SHARES, Array, TaskFacts
from reports.sections import numbers
from reports.statistics import failures as statistics
from reports.table import Cell, Outcomes, StudyTable

_GONE = ("crashed", "interrupted", "lost", "running", "pruned")
#: A finite number that stands by itself, not in a name or a version.
_NUMBER = re.compile(r"(?<![\w.\-/])[-+]?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?(?!\w|\.\w)")
#: A reason is shown up to here.
_LONGEST = 140
#: Between what a share lies: as a fraction or in per cent.
_SHARES = ((0.0, 1.0), (0.0, 100.0))


def failures(study: StudyTable) -> list[Block]:
    blocks: list[Block] = [Heading(level=2, text="Failures", anchor="failures")]
    rows = [_row(cell) for task in study.tasks for cell in study.of(task) if _failed(cell)]
    if not rows:
        said = "Every run that was started completed: none diverged, crashed, was pruned or lost."
        return [*blocks, Paragraph(parts=(said,))]
    blocks.append(
        Table(
            caption=("Runs that did not complete, of all that were started: tuning and final ones.",),
            columns=(
                Column(head="Task"),
                Column(head="Arm"),
                Column(head="Diverged", unit="final, % [95 % Wilson]", number=True),
                Column(head="Diverged", unit="tuning, % [95 % Wilson]", number=True),
                Column(head="No outcome", unit="final", number=True),
                Column(head="No outcome", unit="tuning", number=True),
                Column(head="Why"),
            ),
            rows=tuple(rows),
            notes=(("Diverged runs count as worst in every rank, test and time; what crashed, was pruned or lost says "
                    "nothing of the arm by itself, and counts neither for nor against it.",),),
        )
    )  # fmt: skip
    for task in study.tasks.values():
        blocks += _bounds(study, task)
    return blocks


def _failed(cell: Cell) -> bool:
    return any(record.status != "completed" for record in (*cell.tunes, *cell.finals))


def _row(cell: Cell) -> tuple[Parts, ...]:
    shares, absent = [], []
    for phase, runs in (("final", tuple(cell.by_seed.values())), ("tune", cell.tunes)):
        where = {**numbers.of_cell(cell), "phase": phase}
        ended = [r for r in runs if r.status in ("completed", "diverged")]
        diverged = [r for r in ended if r.status == "diverged"]
        share: Parts = ("-",)
        if ended:
            count = numbers.count(diverged, "diverged", **where) if diverged else "0"
            share = (count, f" of {len(ended)}, ", numbers.share(diverged, ended, "diverged", **where))
        shares.append(share)
        gone = [r for r in runs if r.status in _GONE]
        absent.append((numbers.count(gone, "no outcome", **where), f" of {len(runs)}") if gone else ("0",))
    why = _reasons([r for r in (*cell.finals, *cell.tunes) if r.status != "completed"])
    return (cell.task.name,), (Term(term=cell.arm),), *shares, *absent, (Term(term=why),)


def _reasons(records: Sequence[RunRecord]) -> str:
    """What the runs say of their end, the most frequent first; what differs in its numbers alone is one reason, with
    the least and the greatest of each."""
    groups: dict[str, list[str]] = {}
    for record in records:
        last = record.traceback.strip().splitlines()[-1] if record.traceback.strip() else ""
        said = " ".join((last or record.reason or record.status).split())
        text = said if said.startswith(record.status) else f"{record.status}: {said}"
        groups.setdefault(_NUMBER.sub("#", text), []).append(text)
    told = sorted(groups.values(), key=lambda texts: -len(texts))
    return "; ".join(f"{_one(texts)} ({len(texts)})" for texts in told[:3]) + ("; ..." if len(told) > 3 else "")


def _one(texts: Sequence[str]) -> str:
    """Texts that differ in their numbers alone, as one: "the training loss was 1e+09 to 2e+10 at update 3 to 4".

    >>> _one(["loss 2.5 at update 4", "loss 1e3 at update 3"])
    'loss 2.5 to 1e3 at update 3 to 4'
    """
    columns = iter(zip(*(_NUMBER.findall(text) for text in texts)))

    def between(_: re.Match[str]) -> str:
        found = sorted(next(columns), key=float)
        return found[0] if found[0] == found[-1] else f"{found[0]} to {found[-1]}"

    said = _NUMBER.sub(between, texts[0])
    return said if len(said) <= _LONGEST else f"{said[: _LONGEST - 1]}…"


def _bounds(study: StudyTable, task: TaskFacts) -> list[Block]:
    """The leader against each arm, where a run of either failed: by worst ranks, and between the best and the worst
    that could have been."""
    cells = {cell.arm: cell for cell in study.of(task.name) if cell.ended}
    if len(cells) < 2 or stopped(cells.values()):
        return []
    first = readings(study, task.name)[0]
    ranking = [arm for arm in first.ranking if arm in cells]
    if len(ranking) < 2:
        return []
    limits = limits_of(task, cells.values())
    rows = []
    for arm in ranking[1:]:
        one, other = cells[ranking[0]], cells[arm]
        outcomes = one.outcomes(), other.outcomes()
        if any(o.diverged or o.missing for o in outcomes):
            rows.append(_pair(task, one, other, outcomes, limits))
    if not rows:
        return []
    between = f"between {limits[0]:g} and {limits[1]:g}" if limits else "among the values seen of the two"
    worth = (
        f"; a diverged run is worth {_worth(task, limits)}"
        if any(c.outcomes().diverged for c in cells.values())
        else ""
    )
    return [
        Table(
            caption=(f"{task.name}: the arm that leads, with failures counted, {_word(task)}.",),
            columns=(
                Column(head="Pair"),
                Column(head="Worst-rank p", unit="exact, not corrected", number=True),
                Column(head="Difference of means", unit="at best", number=True),
                Column(head="Difference of means", unit="at worst", number=True),
            ),
            rows=tuple(rows),
            notes=(
                ("Worst rank: what failed for whatever reason ranks below everything that did not (Lachin 1999). At "
                 "best and at worst: what has no outcome filled in for or against the first, "
                 f"{between}{worth}.",),
            ),
        )
    ]  # fmt: skip


def limits_of(task: TaskFacts, cells: Iterable[Cell]) -> tuple[float, float] | None:
    """The least and the greatest value possible of a metric that is a share, on the scale that its values, its target
    and its worst value are on; None: it has none, or its values are no shares."""
    if task.metric.split("/")[-1] not in SHARES:
        return None
    known = [task.worst, *([] if task.target is None else [task.target])]
    values = np.concatenate([known, *(cell.outcomes().finite for cell in cells)])
    values = values[np.isfinite(values)]
    return next((ends for ends in _SHARES if ((ends[0] <= values) & (values <= ends[1])).all()), None)


def _worth(task: TaskFacts, limits: tuple[float, float] | None) -> str:
    """What a diverged run counts as in both cases, in words."""
    if math.isfinite(task.worst):
        return f"the task's worst value, {task.worst:g}, in both, or that of a run that ended still worse"
    if limits:
        return "the worst of these in both"
    return "nothing known, as the task has no worst value, so that there is no difference to give"


def _word(task: TaskFacts) -> str:
    return "positive where the first is better"


def _pair(
    task: TaskFacts, one: Cell, other: Cell, outcomes: tuple[Outcomes, Outcomes], limits: tuple[float, float] | None
) -> tuple[Parts, ...]:
    a, b = (_filled(o) for o in outcomes)
    runs = tuple(r.run_id for cell in (one, other) for r in cell.by_seed.values())
    where = {"task": task.name, "metric": task.outcome, "better": one.arm, "than": other.arm}
    cells: list[Parts] = [(Term(term=one.arm), " \u2212 ", Term(term=other.arm))]
    if min(len(a), len(b)) < 3:
        cells.append(("fewer than 3 seeds",))
    else:
        # seed by seed where both ran the same
        paired = list(one.by_seed) == list(other.by_seed)
        x, y = (_by_seed(cell, o) if paired else v for cell, o, v in zip((one, other), outcomes, (a, b)))
        found = statistics.worst_rank(x, y, task.mode, paired=paired)
        cells.append((numbers.tested(found, "failures.worst_rank", runs, **where, paired=paired),))
    bounds = statistics.bounds(a, b, task.mode, limits, task.worst)
    for side, value in (("best", bounds.best), ("worst", bounds.worst)):
        shown = numbers.value(value, task.metric_unit, "failures.bounds", runs, **where, side=side)
        cells.append((shown,) if math.isfinite(value) else ("-",))
    return tuple(cells)


def _filled(outcomes: Outcomes) -> Array:
    """Every seed's value; nan: no outcome."""
    return np.concatenate([outcomes.values, np.full(len(outcomes.missing), math.nan)])


def _by_seed(cell: Cell, outcomes: Outcomes) -> Array:
    known = dict(zip(outcomes.seeds, outcomes.values))
    return np.array([known.get(seed, math.nan) for seed in cell.by_seed], float)
