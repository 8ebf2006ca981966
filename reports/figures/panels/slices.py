"""Slices of tuning: every trial's objective against one hyperparameter. by: which one, else the first tuned."""

from __future__ import annotations

import math

from reports.figures.panel import Ask, Panel, Subject
from reports.figures.slices import Slice, trials
from reports.figures.style import marks
from reports.figures.tuned import judged, spread, tuned


def panel(subject: Subject, ask: Ask) -> Panel:
    task = subject.task(ask.task)
    hyper, arms = tuned(subject, task, ask)
    looks = marks(subject.table.arms)
    slices, rows, told = [], [], []
    for one in arms:
        spans = one.spans.get(hyper, ())
        placed = [(r, x) for r in one.trials if (x := one.value(r, hyper)) is not None]
        log = spans[0].log if spans else spread([x for _, x in placed])
        winner = next((place for place, (r, _) in enumerate(placed) if r is one.winner), None)
        xs, ys = [x for _, x in placed], [one.objective(r) for r, _ in placed]
        ranges = [(s.low, s.high) for s in spans]
        slices.append(Slice(one.cell.arm, hyper, xs, ys, winner, ranges, log, looks[one.cell.arm]))
        for place, ((record, x), y) in enumerate(zip(placed, ys)):
            kept = y if y is not None and math.isfinite(y) else None
            number = record.labels.number
            rows.append((one.cell.arm, number, record.run_id, hyper, x, kept, record.status, int(place == winner)))
        best = f"chosen {hyper} {xs[winner]:g}" if winner is not None else "none chosen"
        told.append(f"{one.cell.arm}: {len(xs)} trials, {best}")
    objective, better = judged(arms, task)
    return Panel(
        kind="slices",
        title=f"Tuning on {task.name}",
        draw=lambda axis: trials(axis, slices, y=objective, better=better),
        header=("arm", "trial", "run_id", "hyper", "value", "objective", "status", "winner"),
        rows=tuple(rows),
        alt=f"Objective against {hyper} on {task.name}. {'; '.join(told)}.",
        caption=f"{task.name}: every trial's objective against {hyper}; rings mark the chosen, lines what was "
        "searched, crosses what gave none.",
        looks={one.name: one.look for one in slices},
        runs=tuple(record for one in arms for record in one.trials),
    )
