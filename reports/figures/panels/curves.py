"""Learning curves of a task: validation (or any logged series) by update, second, gradient evaluation or example."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from experiments.store.schema import RunRecord
from reports.comparison import MINIMUM_SEEDS
from reports.figures.curves import Line, curves, cut
from reports.figures.panel import CLOCKS, Ask, Panel, Subject, clock_words, lacking
from reports.figures.style import Mark, marks
from reports.judged import Array, TaskFacts
from reports.table import ENDED, Cell, Curve

BY = {**CLOCKS, "examples": "examples"}


def panel(subject: Subject, ask: Ask) -> Panel:
    clock = ask.one_of(BY, "updates")
    task = subject.task(ask.task)
    looks = marks(subject.table.arms)
    cells = [cell for cell in subject.cells(task) if cell.finals and ask.arm in ("", cell.arm)]
    words = clock_words(clock, cells)
    runs = {cell.arm: _runs(subject, cell) for cell in cells}
    along = _along(subject, clock, [record for found in runs.values() for record, _ in found])
    lines = [_line(cell, runs[cell.arm], along, looks[cell.arm]) for cell in cells]
    _check(subject, task, words, lines)
    target = task.target if task.target is not None else None
    rows = tuple(
        (cell.arm, record.labels.seed, record.run_id, int(update), _plain(x), float(value))
        for cell in cells
        for record, curve in runs[cell.arm]
        for update, x, value in zip(curve.updates, along[record.run_id], curve.values)
    )
    y = task.metric if "/" in task.metric else task.axis("validation")  # another series has its own name
    diverged = sum(sum(line.diverged) for line in lines)
    banded = any(len(line.ys) >= MINIMUM_SEEDS for line in lines)
    caption = f"{task.name}: {y} by {words}, mean over seeds" + (
        ", band: 95 % t interval at each point" if banded else ""
    )
    caption += f"; crosses end the {diverged} runs that diverged" if diverged else ""
    caption += "; early values beyond the y axis are not shown" if cut(lines, target) else ""
    return Panel(
        kind="curves",
        title=f"{task.name} by {words}",
        draw=lambda axis: curves(axis, lines, x=words, y=y, target=target),
        header=("arm", "seed", "run_id", "updates", clock if clock != "updates" else "x", task.validation),
        rows=rows,
        alt=_alt(task, lines, words),
        caption=f"{caption}.",
        looks={line.name: line.look for line in lines},
        extra=("target",) if target is not None else (),
        runs=tuple(record for found in runs.values() for record, _ in found),
    )


def _runs(subject: Subject, cell: Cell) -> list[tuple[RunRecord, Curve]]:
    found = (record for record in cell.by_seed.values() if record.status in ENDED)
    empty = np.empty(0)
    none = lambda run_id: Curve(run_id, empty, empty, empty, empty)  # noqa: E731
    return [(record, subject.table.curves.get(record.run_id) or none(record.run_id)) for record in found]


def _along(subject: Subject, clock: str, records: list[RunRecord]) -> Mapping[str, Array]:
    """Run -> x at its evaluations."""
    curves = subject.table.curves
    if clock != "examples":
        return {r.run_id: curves[r.run_id].along(clock) if r.run_id in curves else np.empty(0) for r in records}
    if subject.source is None:
        raise lacking("a table holds no examples", "give the study's name, or by='updates'")
    series = subject.source.series([r.run_id for r in records], ["count/examples"])
    seen = {one.run_id: {0: 0.0, **dict(zip(one.updates, one.values))} for one in series}
    return {
        r.run_id: np.array([seen.get(r.run_id, {}).get(int(update), math.nan) for update in curves[r.run_id].updates])
        if r.run_id in curves
        else np.empty(0)
        for r in records
    }


def _line(cell: Cell, runs: list[tuple[RunRecord, Curve]], along: Mapping[str, Array], look: Mark) -> Line:
    """Only where both x and y are known."""
    xs, ys, diverged = [], [], []
    for record, curve in runs:
        x = along[record.run_id]
        known = np.isfinite(x) & np.isfinite(curve.values)
        xs.append(x[known])
        ys.append(curve.values[known])
        diverged.append(record.status == "diverged")
    return Line(cell.arm, look, xs, ys, diverged)


def _check(subject: Subject, task: TaskFacts, words: str, lines: list[Line]) -> None:
    if not lines:
        raise lacking(f"no arm has final runs on task '{task.name}'", "let its sweep come to them")
    if any(len(x) for line in lines for x in line.xs) or not subject.table.curves:
        return
    if any(not all(line.diverged) for line in lines):
        raise lacking(f"the runs on '{task.name}' did not record {words}", "take by=updates")


def _plain(x: float) -> float | None:
    return float(x) if math.isfinite(x) else None


def _alt(task: TaskFacts, lines: list[Line], words: str) -> str:
    told = []
    for line in lines:
        ends = [float(y[-1]) for y in line.ys if len(y)]
        lost = f", {sum(line.diverged)} diverged" if any(line.diverged) else ""
        if ends:
            last = max(float(x[-1]) for x in line.xs if len(x))
            told.append(f"{line.name} ends at {min(ends):.3g} to {max(ends):.3g} after {last:.3g} {words}{lost}")
        else:
            told.append(f"{line.name} has no point{lost}")
    what = task.metric if "/" in task.metric else f"Validation {task.words}"
    return f"{what} by {words}: {'; '.join(told)}."
