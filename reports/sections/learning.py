"""The learning curves: validation by update and by second of training, for each task."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from experiments.store.schema import RunRecord
from reports.clocks import step_names
from reports.comparison import MINIMUM_SEEDS
from reports.document import Heading, Parts, Picture
from reports.figures.curves import Line, curves
from reports.figures.drawing import Drawing, Value
from reports.figures.style import COLUMN, Mark, label, marks
from reports.judged import TaskFacts
from reports.sections.drawn import Drawn, Piece, file_name, full_names
from reports.sections.half_budget import half_budget
from reports.statistics.curves import Array
from reports.table import Cell, Curve, StudyTable

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_X = ("updates", "seconds")


def learning(study: StudyTable) -> list[Piece]:
    pieces: list[Piece] = []
    for index, task in enumerate(study.tasks.values(), start=1):
        for clock in _X:
            cells = [cell for cell in study.of(task.name) if _timed(study, cell, clock)]
            if cells:
                pieces.append(_figure(study, task, cells, clock, index))
        pieces += half_budget(study, task)
    return [Heading(level=2, text="Learning curves", anchor="curves"), *pieces] if pieces else []


def _timed(study: StudyTable, cell: Cell, clock: str) -> list[RunRecord]:
    """The final runs of an arm whose curves tell that clock."""
    runs = [r for r in cell.by_seed.values() if r.run_id in study.curves]
    return [r for r in runs if np.isfinite(study.curves[r.run_id].along(clock)).any()]


def _figure(study: StudyTable, task: TaskFacts, cells: list[Cell], clock: str, index: int) -> Drawn:
    looks = marks(study.arms)
    along = "seconds of training" if clock == "seconds" else step_names(r for c in cells for r in c.ended)[1]
    lines = [_line(study, cell, clock, looks[cell.arm]) for cell in cells]

    def draw(figure: Figure) -> None:
        axis = figure.add_subplot()
        curves(axis, lines, x=along, y=task.axis("validation"), target=task.target)
        figure.legend(loc="outside upper left", ncols=columns)

    columns = 4 if sum(len(label(line.name)) for line in lines) < 28 else 2
    drawing = Drawing(
        name=file_name("curves", clock, str(index), task.name),
        size=(COLUMN, 2.5 + 0.16 * (len(lines) // columns)),
        draw=draw,
        header=("arm", "seed", "run_id", "updates", "train_s", "gradients", task.validation),
        rows=tuple(_rows(study, cells)),
    )
    diverged = sum(sum(line.diverged) for line in lines)
    told = {r.run_id for cell in cells for r in _timed(study, cell, clock)}
    bare = sum(r.run_id not in told for cell in study.of(task.name) for r in cell.ended)
    banded = any(len(line.ys) >= MINIMUM_SEEDS for line in lines)
    few = f"; an interval takes at least {MINIMUM_SEEDS} seeds"
    caption: Parts = (
        f"{task.name} by {along}: mean over seeds, "
        + ("95 % t interval at each point, each seed thin" if banded else f"each seed thin{few}")
        + ("; " + _crosses(diverged) if diverged else "")
        + (f"; without curve by this clock, and in no mean: {bare} of the runs that ended" if bare else "")
        + ".",
        *full_names([cell.arm for cell in cells]),
    )
    return Drawn(
        Picture(
            name=drawing.name,
            title=f"{task.name} by {along}",
            caption=caption,
            alt=_alt(task, lines, along),
            runs=tuple(r.run_id for cell in cells for r in cell.by_seed.values()),
        ),
        drawing,
    )


def _line(study: StudyTable, cell: Cell, clock: str, look: Mark) -> Line:
    runs = [(r, study.curves[r.run_id]) for r in _timed(study, cell, clock) if r.status in ("completed", "diverged")]
    along: Callable[[Curve], Array] = lambda curve: curve.along(clock)  # noqa: E731
    return Line(
        cell.arm,
        look,
        [along(c) for _, c in runs],
        [c.values for _, c in runs],
        [r.status == "diverged" for r, _ in runs],
    )


def _rows(study: StudyTable, cells: list[Cell]) -> list[tuple[Value, ...]]:
    return [
        (cell.arm, seed, record.run_id, int(update), float(seconds), float(gradients), float(value))
        for cell in cells
        for seed, record in cell.by_seed.items()
        if (curve := study.curves.get(record.run_id)) is not None
        for update, seconds, gradients, value in zip(curve.updates, curve.seconds, curve.gradients, curve.values)
    ]


def _crosses(diverged: int) -> str:
    if diverged == 1:
        return "a cross ends the 1 run that diverged, and the mean of its arm ends with it"
    return f"crosses end the {diverged} runs that diverged, and a mean ends with the first of them"


def _alt(task: TaskFacts, lines: list[Line], along: str) -> str:
    """Where each arm's mean starts and ends."""
    told = []
    for line in lines:
        ends = [float(y[-1]) for y in line.ys if len(y)]
        if ends:
            last = max(float(np.nanmax(x)) for x in line.xs if len(x))
            told.append(f"{line.name} ends at {min(ends):.3g} to {max(ends):.3g} after {last:.3g} {along}")
    return f"Validation {task.words} by {along}: {'; '.join(told)}."
