"""The results: for each task a table of the arms, and their seeds as points."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from reports.clocks import readings, stopped
from reports.comparison import MINIMUM_SEEDS
from reports.document import Column, Heading, Paragraph, Part, Parts, Picture, Table, Term
from reports.figures.drawing import Drawing
from reports.figures.points import Row, points
from reports.figures.style import COLUMN, marks
from reports.judged import TaskFacts
from reports.sections import numbers
from reports.sections.drawn import Drawn, Piece, file_name, full_names
from reports.sections.failures import limits_of
from reports.sections.pairs import pairs
from reports.statistics.student import mean_interval
from reports.table import ENDED, Cell, StudyTable


def results(study: StudyTable) -> list[Piece]:
    ranked = {name: cells for name in study.tasks if (cells := _ranked(study, name))}
    pieces: list[Piece] = [Heading(level=2, text="Results", anchor="results")]
    if not ranked:
        return [*pieces, Paragraph(parts=("There are no final runs yet; what tuning found stands below.",))]
    places = {name: index for index, name in enumerate(study.tasks, start=1)}
    tested = {name: cells for name, cells in ranked.items() if not stopped(cells) and any(c.ended for c in cells)}
    pieces += [_points(study, study.tasks[name], cells, places[name]) for name, cells in tested.items()]
    for name, cells in ranked.items():
        task = study.tasks[name]
        pieces.append(Heading(level=3, text=task.name, anchor=f"results-{places[name]}"))
        pieces.append(_table(study, task, cells))
        read = [reading for reading in readings(study, name) if reading.pairs]
        if read:
            pieces.append(pairs(task, read))
    return pieces


def _ranked(study: StudyTable, task: str) -> list[Cell]:
    """The cells that have final runs, best first, those without an outcome last."""
    cells = {cell.arm: cell for cell in study.of(task) if cell.finals}
    if not cells:
        return []
    ranking = readings(study, task)[0].ranking
    return [*(cells[arm] for arm in ranking), *(cell for arm, cell in cells.items() if arm not in ranking)]


def _table(study: StudyTable, task: TaskFacts, cells: list[Cell]) -> Table:
    unit = f", {task.metric_unit}," if task.metric_unit not in ("", task.words) else ""
    interval = " [95 % t interval]" if any(cell.outcomes().n >= MINIMUM_SEEDS for cell in cells) else ""
    best = f"{'higher' if task.mode == 'max' else 'lower'} is better"
    return Table(
        caption=(f"{task.name}: final runs, best first ({best}).",),
        columns=(
            Column(head="Arm"),
            Column(
                head=f"{task.split.capitalize()} {task.words}", unit=f"mean{unit}{interval}".rstrip(","), number=True
            ),
            Column(head="Seeds", number=True),
            Column(head="Diverged", unit="of runs that ended, % [95 % Wilson]", number=True),
        ),
        rows=tuple(((Term(term=cell.arm),), _value(cell), (_seeds(cell),), _failures(cell)) for cell in cells),
        notes=tuple(_notes(task, cells)),
    )


def _seeds(cell: Cell) -> Part:
    counted = [r for r in cell.by_seed.values() if r.run_id in set(cell.outcomes().run_ids)]
    return numbers.count(counted, "outcomes", **numbers.of_cell(cell)) if counted else "0"


def _value(cell: Cell) -> Parts:
    """The mean, if every run counts in it."""
    outcomes = cell.outcomes()
    if outcomes.n == 0:
        return ("not logged" if any(map(cell.lacks, cell.completed)) else "none yet",)
    if stopped([cell]):
        return ("not compared: stopped at target",)
    if outcomes.diverged:
        return (f"no mean: {outcomes.diverged} of {outcomes.n} diverged",)
    interval = outcomes.n >= MINIMUM_SEEDS
    return (numbers.mean(cell.task, cell.arm, outcomes, cell.task.outcome, interval=interval),)


def _failures(cell: Cell) -> Parts:
    """Of the runs that ended, how many diverged; what crashed is counted beside them."""
    ended = [record for record in cell.by_seed.values() if record.status in ENDED]
    diverged = [r for r in ended if r.status == "diverged"]
    where = numbers.of_cell(cell)
    parts: list[Part] = ["none ended"]
    if ended:
        counted = numbers.count(diverged, "diverged final runs that count", **where) if diverged else "0"
        parts = [counted, f" of {len(ended)}, ", numbers.share(diverged, ended, "diverged", **where)]
    crashed = [r for r in cell.finals if r.status == "crashed"]
    if crashed:
        parts += ["; ", numbers.count(crashed, "crashed final runs", **where), " crashed"]
    return tuple(parts)


def _notes(task: TaskFacts, cells: list[Cell]) -> list[Parts]:
    notes: list[Parts] = []
    if task.baselines:
        told = ", ".join(f"{name.replace('_', ' ')} {value:.4g}" for name, value in task.baselines.items())
        notes.append((f"For scale, {task.words} of simple models: {told}.",))
    notes += _beyond(task, cells)
    for cell in cells:
        outcomes = cell.outcomes()
        if outcomes.diverged and len(outcomes.finite):
            survivors = tuple(run for run, v in zip(outcomes.run_ids, outcomes.values) if math.isfinite(v))
            mean = numbers.value(
                float(outcomes.finite.mean()),
                task.metric_unit,
                "mean of survivors",
                survivors,
                metric=task.outcome,
                **numbers.of_cell(cell),
            )
            said = f" {len(survivors)} of {outcomes.n} runs ended; their mean, "
            notes.append(
                ("Of ", Term(term=cell.arm), said, mean, ", says nothing of the arm and enters no comparison.")
            )
        if outcomes.missing:
            logged = sum(map(cell.lacks, outcomes.missing))
            why = [f"seed {r.labels.seed} {r.status}" for r in outcomes.missing if not cell.lacks(r)]
            why += [f"{logged} completed without {task.outcome}"] if logged else []
            lacking = f" lacks {len(outcomes.missing)} outcomes ({', '.join(why[:8])}{', ...' if len(why) > 8 else ''})"
            notes.append((Term(term=cell.arm), f"{lacking}, which count neither for nor against it."))
    return notes


def _beyond(task: TaskFacts, cells: list[Cell]) -> list[Parts]:
    """Where t intervals of a share leave what a share can be. The mean cannot be there, so that cutting them changes
    nothing of how often they hold it."""
    ends = limits_of(task, cells)
    if ends is None:
        return []
    found: dict[float, list[str]] = {}
    for cell in cells:
        outcomes = cell.outcomes()
        if outcomes.n >= MINIMUM_SEEDS and not outcomes.diverged and not stopped([cell]):
            interval = mean_interval(outcomes.values)
            if interval.low is not None and interval.low < ends[0]:
                found.setdefault(ends[0], []).append(cell.arm)
            if interval.high is not None and interval.high > ends[1]:
                found.setdefault(ends[1], []).append(cell.arm)
    return [
        ("The t interval of ", *numbers.names(arms), f" goes beyond {end:g}, where no {task.words} can be: read it as "
         f"cut at {end:g}.")
        for end, arms in found.items()
    ]  # fmt: skip


def _points(study: StudyTable, task: TaskFacts, cells: list[Cell], index: int) -> Drawn:
    rows, data, told = [], [], []
    metric, looks = task.outcome, marks(study.arms)
    cells = [cell for cell in cells if cell.ended or not any(map(cell.lacks, cell.completed))]
    for cell in cells:
        outcomes = cell.outcomes()
        whole = outcomes.diverged == 0 and outcomes.n >= MINIMUM_SEEDS
        estimate = mean_interval(outcomes.values) if whole else None
        if estimate is not None and not float(np.ptp(outcomes.values)) > 0:
            estimate = replace(estimate, low=None, high=None)  # without any spread there is no interval
        rows.append(Row(cell.arm, looks[cell.arm], outcomes.finite, outcomes.diverged, estimate))
        for seed, value, run in zip(outcomes.seeds, outcomes.values, outcomes.run_ids):
            ended = math.isfinite(value)
            data.append((cell.arm, seed, float(value) if ended else None, "" if ended else "diverged", run))
        middle = f"{len(outcomes.finite)} points"
        if estimate is not None:
            middle = f"mean {estimate.value:.4g} over {estimate.n} seeds"
        told.append(f"{cell.arm}: {middle}" + (f", {outcomes.diverged} diverged" if outcomes.diverged else ""))
    better = "right" if task.mode == "max" else "left"
    drawing = Drawing(
        name=file_name("points", str(index), task.name),
        size=(COLUMN, 0.75 + 0.36 * len(rows)),
        draw=lambda figure: points(figure.add_subplot(), rows, x=task.axis(task.split), better=better),
        header=("arm", "seed", metric, "note", "run_id"),
        rows=tuple(data),
    )
    drawn = any(row.estimate is not None and row.estimate.low is not None for row in rows)
    few = f"; an interval takes at least {MINIMUM_SEEDS} seeds, none of them diverged"
    caption: Parts = (
        f"{task.name}: each seed's {task.split} {task.words} as a point"
        f"{'; above them mean and 95 % t interval' if drawn else few}.",
        *full_names([c.arm for c in cells]),
    )
    return Drawn(
        Picture(
            name=drawing.name,
            title=f"Seeds of {task.name}",
            caption=caption,
            alt=f"{task.split.capitalize()} {task.words} by arm. {'; '.join(told)}.",
            runs=tuple(r.run_id for c in cells for r in c.by_seed.values()),
        ),
        drawing,
    )
