"""The tuning picture: what was tried for each arm, what won, and how near the edge of its range."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reports import tuning as told
from reports.document import Column, Heading, Part, Parts, Picture, Table, Term
from reports.figures.drawing import Drawing, Value
from reports.figures.slices import Slice, trials
from reports.figures.style import COLUMN, Mark, label, marks
from reports.judged import TaskFacts
from reports.sections import numbers
from reports.sections.drawn import Drawn, Piece, file_name, full_names
from reports.table import StudyTable

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def tuning(study: StudyTable) -> list[Piece]:
    found = {name: [one for cell in study.of(name) if (one := told.tuning(cell)) is not None] for name in study.tasks}
    if not any(found.values()):
        return []
    pieces: list[Piece] = [
        Heading(level=2, text="Tuning", anchor="tuning"),
        _table([one for arms in found.values() for one in arms]),
    ]
    for index, (name, arms) in enumerate(found.items(), start=1):
        for number, hyper in enumerate(dict.fromkeys(one.hypers[0] for one in arms if one.hypers)):
            those = [one for one in arms if one.hypers and one.hypers[0] == hyper]
            pieces.append(_figure(study, study.tasks[name], those, f"{index}-{number}" if number else f"{index}"))
    return pieces


def _table(arms: list[told.Tuning]) -> Table:
    return Table(
        caption=("What tuning chose, by validation.",),
        columns=(
            Column(head="Task"),
            Column(head="Arm"),
            Column(head="Trials", number=True),
            Column(head="Diverged", number=True),
            Column(head="Chosen"),
            Column(head="Searched"),
            Column(head="Objective", unit="of the chosen trial", number=True),
        ),
        rows=tuple(_row(one) for one in arms),
    )


def _row(one: told.Tuning) -> tuple[Parts, ...]:
    chosen: list[Part] = []
    for hyper in one.hypers if one.winner is not None else ():
        value = one.value(one.winner, hyper)  # type: ignore[arg-type]
        edge = one.edge(hyper)
        shown = f"{value:g}" if value is not None else "-"
        chosen.append(f"{'; ' if chosen else ''}{hyper}\u00a0{shown}" + (f" ({edge} edge)" if edge else ""))
    ranges = [", then ".join(map(_range, spans)) for spans in one.spans.values()]
    if len(ranges) > 1:
        ranges = [f"{hyper} {text}" for hyper, text in zip(one.spans, ranges)]
    diverged = [r for r in one.trials if r.status == "diverged"]
    objective = one.objective(one.winner) if one.winner else None
    score: Parts = ("none",)
    if one.winner is not None and objective is not None:
        score = (
            numbers.value(objective, one.cell.task.metric_unit, "value", (one.winner.run_id,), metric="objective"),
        )
    return (
        (one.cell.task.name,),
        (Term(term=one.cell.arm),),
        (numbers.count(one.trials, "tuning runs"),),
        (numbers.count(diverged, "diverged") if diverged else "0",),
        tuple(chosen) or ("-",),
        ("; ".join(ranges) or "not recorded",),
        score,
    )


def _range(span: told.Span) -> str:
    return f"{span.low:g} to {span.high:g}" + (" (log)" if span.log else "")


def _figure(study: StudyTable, task: TaskFacts, arms: list[told.Tuning], index: str) -> Drawn:
    """Arms that tuned one hyperparameter, in one picture."""
    looks = marks(study.arms)
    slices = [_slice(one, looks[one.cell.arm]) for one in arms]
    columns = 4 if sum(len(label(one.name)) for one in slices) < 34 else 2

    def draw(figure: Figure) -> None:
        axis = figure.add_subplot()
        trials(axis, slices, y=f"validation {task.words}", better="up" if task.mode == "max" else "down")
        figure.legend(loc="outside upper left", ncols=columns)

    rows: list[tuple[Value, ...]] = []
    for one, piece in zip(arms, slices):
        for place, (record, x, y) in enumerate(zip(one.trials, piece.x, piece.y)):
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
        name=file_name("tuning", index, task.name, slices[0].hyper),
        size=(COLUMN, 2.5 + 0.16 * ((len(slices) - 1) // columns)),
        draw=draw,
        header=("arm", "trial", "run_id", "hyper", "value", "objective", "status", "winner"),
        rows=tuple(rows),
    )
    bad = sum(y is None for piece in slices for y in piece.y)
    caption: Parts = (
        f"{task.name}: every trial's objective; rings mark the chosen ones"
        + (", lines what was searched" if any(piece.ranges for piece in slices) else "")
        + (" (dashed: widened)" if any(len(piece.ranges) > 1 for piece in slices) else "")
        + (f", crosses the {bad} trials that gave none" if bad else "")
        + ".",
        *full_names([one.cell.arm for one in arms]),
    )
    return Drawn(
        Picture(
            name=drawing.name,
            title=f"Tuning on {task.name}",
            caption=caption,
            alt=_alt(task, arms, slices),
            runs=tuple(r.run_id for one in arms for r in one.trials),
        ),
        drawing,
    )


def _slice(one: told.Tuning, look: Mark) -> Slice:
    hyper = one.hypers[0]
    spans = one.spans.get(hyper, ())
    placed = [(r, x) for r in one.trials if (x := one.value(r, hyper)) is not None]
    log = spans[0].log if spans else _spread([x for _, x in placed])
    winner = next((place for place, (r, _) in enumerate(placed) if r is one.winner), None)
    return Slice(
        one.cell.arm,
        hyper,
        [x for _, x in placed],
        [one.objective(r) for r, _ in placed],
        winner,
        [(s.low, s.high) for s in spans],
        log,
        look,
    )


def _spread(values: list[float]) -> bool:
    return bool(values) and min(values) > 0 and max(values) > 20 * min(values)


def _alt(task: TaskFacts, arms: list[told.Tuning], slices: list[Slice]) -> str:
    said = []
    for one, piece in zip(arms, slices):
        best = f"chosen {piece.hyper} {piece.x[piece.winner]:g}" if piece.winner is not None else "none chosen"
        said.append(
            f"{one.cell.arm}: {len(piece.x)} trials, {best}"
            + (f", at the {edge} edge" if (edge := one.edge(piece.hyper)) else "")
        )
    return f"Objective against the first tuned hyperparameter on {task.name}. {'; '.join(said)}."
