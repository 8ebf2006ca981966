"""Seeds of a task as points, one row an arm, with mean and t interval where no run diverged."""

from __future__ import annotations

import math

from reports.comparison import MINIMUM_SEEDS
from reports.figures.panel import Ask, Panel, Subject, lacking
from reports.figures.points import Row, far, points
from reports.figures.style import marks
from reports.figures.ticks import needs_log
from reports.statistics.student import mean_interval


def panel(subject: Subject, ask: Ask) -> Panel:
    task = subject.task(ask.task)
    looks = marks(subject.table.arms)
    cells = [cell for cell in subject.cells(task) if cell.ended and ask.arm in ("", cell.arm)]
    if not cells:
        raise lacking(f"no final run on task '{task.name}' has an outcome", "let its sweep come to them")
    rows, data, told = [], [], []
    for cell in cells:
        outcomes = cell.outcomes()
        whole = outcomes.diverged == 0 and outcomes.n >= MINIMUM_SEEDS
        estimate = mean_interval(outcomes.values) if whole else None
        rows.append(Row(cell.arm, looks[cell.arm], outcomes.finite, outcomes.diverged, estimate))
        for seed, value, run in zip(outcomes.seeds, outcomes.values, outcomes.run_ids):
            ended = math.isfinite(value)
            data.append((cell.arm, seed, float(value) if ended else None, "" if ended else "diverged", run))
        middle = f"mean {estimate.value:.4g} over {estimate.n} seeds" if estimate else f"{len(outcomes.finite)} points"
        told.append(f"{cell.arm}: {middle}" + (f", {outcomes.diverged} diverged" if outcomes.diverged else ""))
    drawn = any(row.estimate is not None and row.estimate.low is not None for row in rows)
    n = sorted({len(row.values) + row.diverged for row in rows})
    seeds = f"n = {n[0]}" + (f" to {n[-1]}" if len(n) > 1 else "")
    what = f"{task.axis(task.split)}; {seeds}" + (", mean, 95 % t interval" if drawn else "")
    better = "right" if task.mode == "max" else "left"
    return Panel(
        kind="points",
        title=f"Seeds of {task.name}",
        draw=lambda axis: points(axis, rows, x=what, better=better),
        header=("arm", "seed", task.outcome, "note", "run_id"),
        rows=tuple(data),
        alt=f"{task.split.capitalize()} {task.words} by arm. {'; '.join(told)}.",
        caption=f"{task.name}: each seed's {task.split} {task.words} as a point; above, mean and 95 % t interval of "
        f"arms of which no run diverged{_edge(rows, better)}.",
        rows_high=len(rows),
        runs=tuple(record for cell in cells for record in cell.ended),
    )


def _edge(rows: list[Row], better: str) -> str:
    if needs_log(value for row in rows for value in row.values) or far(rows, better) is None:
        return ""
    return "; arrows: seeds that lie far off, as numbers"
