"""Slices: every trial's objective against one hyperparameter, winners ringed, the ranges that were searched below."""

from __future__ import annotations

from typing import TYPE_CHECKING

from experiments.store.schema import RunRecord
from reports.document import Parts, Picture
from reports.figures.drawing import Drawing, Value
from reports.figures.slices import Slice, trials
from reports.figures.style import COLUMN, Mark, label, marks
from reports.judged import TaskFacts
from reports.sections.drawn import Drawn, file_name, full_names
from reports.table import StudyTable
from reports.tuning import OWN, Tuning

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def slices(study: StudyTable, task: TaskFacts, arms: list[Tuning], hyper: str, index: str) -> Drawn:
    """Arms that tuned one hyperparameter, in one picture."""
    looks = marks(study.arms)
    pieces = [_slice(one, hyper, looks[one.cell.arm]) for one in arms]
    objective = f"validation {task.words}" if arms[0].metric == OWN else arms[0].metric
    columns = 4 if sum(len(label(one.name)) for one in pieces) < 34 else 2

    def draw(figure: Figure) -> None:
        axis = figure.add_subplot()
        trials(axis, pieces, y=objective, better="up" if arms[0].mode == "max" else "down")
        figure.legend(loc="outside upper left", ncols=columns)

    rows: list[tuple[Value, ...]] = []
    for one, piece in zip(arms, pieces):
        for place, (record, x, y) in enumerate(zip(_placed(one, hyper), piece.x, piece.y)):
            rows.append(
                (
                    one.cell.arm,
                    record.labels.number,
                    record.run_id,
                    piece.hyper,
                    x,
                    y,
                    record.status,
                    int(place == piece.winner),
                )
            )
    drawing = Drawing(
        name=file_name("tuning", index, task.name, hyper),
        size=(COLUMN, 2.5 + 0.16 * ((len(pieces) - 1) // columns)),
        draw=draw,
        header=("arm", "trial", "run_id", "hyper", "value", "objective", "status", "winner"),
        rows=tuple(rows),
    )
    bad = sum(y is None for piece in pieces for y in piece.y)
    caption: Parts = (
        f"{task.name}: every trial's objective; rings mark the chosen ones"
        + (", lines what was searched" if any(piece.ranges for piece in pieces) else "")
        + (" (dashed: widened)" if any(len(piece.ranges) > 1 for piece in pieces) else "")
        + (f", crosses the {bad} {'trial' if bad == 1 else 'trials'} that gave none" if bad else "")
        + ".",
        *full_names([one.cell.arm for one in arms]),
    )
    return Drawn(
        Picture(
            name=drawing.name,
            title=f"Tuning on {task.name}",
            caption=caption,
            alt=_alt(task, arms, pieces),
            runs=tuple(r.run_id for one in arms for r in one.trials),
        ),
        drawing,
    )


def _slice(one: Tuning, hyper: str, look: Mark) -> Slice:
    spans = one.spans.get(hyper, ())
    placed = _placed(one, hyper)
    at = [x for r in placed if (x := one.value(r, hyper)) is not None]
    log = spans[0].log if spans else _spread(at)
    winner = next((place for place, r in enumerate(placed) if r is one.winner), None)
    return Slice(
        one.cell.arm,
        hyper,
        at,
        [one.objective(r) for r in placed],
        winner,
        [(s.low, s.high) for s in spans],
        log,
        look,
    )


def _placed(one: Tuning, hyper: str) -> list[RunRecord]:
    """The trials that have the hyperparameter."""
    return [record for record in one.trials if one.value(record, hyper) is not None]


def _spread(values: list[float]) -> bool:
    return bool(values) and min(values) > 0 and max(values) > 20 * min(values)


def _alt(task: TaskFacts, arms: list[Tuning], pieces: list[Slice]) -> str:
    said = []
    for one, piece in zip(arms, pieces):
        best = f"chosen {piece.hyper} {piece.x[piece.winner]:g}" if piece.winner is not None else "none chosen"
        said.append(
            f"{one.cell.arm}: {len(piece.x)} trials, {best}"
            + (f", at the {edge} edge" if (edge := one.edge(piece.hyper)) else "")
        )
    return f"Objective against {pieces[0].hyper} on {task.name}. {'; '.join(said)}."
