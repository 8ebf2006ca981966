"""Parallel coordinates of tuning: each trial a line across all that was tuned, to its objective."""

from __future__ import annotations

import math

import numpy as np

from reports.figures.panel import Ask, Panel, Subject
from reports.figures.parallel import Trials, parallel
from reports.figures.style import marks
from reports.figures.tuned import arms, is_log, judged, objectives, values


def panel(subject: Subject, ask: Ask) -> Panel:
    task = subject.task(ask.task)
    found = arms(subject, task, ask)
    looks = marks(subject.table.arms)
    hypers = list(dict.fromkeys(hyper for one in found for hyper in one.hypers))
    log = [is_log(found, hyper) for hyper in hypers]
    drawn, rows = [], []
    for one in found:
        matrix = np.stack([values(one, one.trials, hyper) for hyper in hypers], axis=1)
        scores = objectives(one, one.trials)
        winner = next((place for place, r in enumerate(one.trials) if r is one.winner), None)
        drawn.append(Trials(one.cell.arm, looks[one.cell.arm], matrix, scores, winner))
        for record, line, score in zip(one.trials, matrix, scores):
            told = [float(v) if math.isfinite(v) else None for v in (*line, score)]
            rows.append((one.cell.arm, record.labels.number, record.run_id, record.status, *told))
    objective, better = judged(found, task)
    lost = int(sum(np.isnan(arm.objective).sum() for arm in drawn))
    said = "; ".join(f"{arm.name}: {len(arm.objective)} trials" for arm in drawn)
    return Panel(
        kind="parallel",
        title=f"Trials on {task.name}",
        draw=lambda axis: parallel(axis, drawn, hypers=hypers, log=log, objective=objective, better=better),
        header=("arm", "trial", "run_id", "status", *hypers, "objective"),
        rows=tuple(rows),
        alt=f"Trials on {task.name} across {', '.join(hypers)} and the objective. {said}; {lost} gave no objective.",
        caption=f"{task.name}: each trial a line; thick: chosen; crosses: no objective"
        + ("; dotted: past what a trial had not." if any(np.isnan(arm.values).any() for arm in drawn) else "."),
        lift=1.3,
        looks={arm.name: arm.look for arm in drawn},
        runs=tuple(record for one in found for record in one.trials),
    )
