"""Sensitivity to the learning rate, of every arm that tuned one. by: which hyperparameter, else the first that is a
learning rate."""

from __future__ import annotations

import math

import numpy as np

from reports.figures.panel import Ask, Panel, Subject, lacking
from reports.figures.sensitivity import Rates, envelope, good_range, middle_spread, sensitivity
from reports.figures.style import marks
from reports.figures.tuned import arms, judged, objectives, tuned, values

#: How far below its best an arm still counts as good: this share of the way from the best trial to the median one, as
#: in the report's table, of the arm in the middle: one arm that fails makes not every rate of the others good.
TOLERANCE = 0.1


def panel(subject: Subject, ask: Ask) -> Panel:
    task = subject.task(ask.task)
    if not ask.by:
        known = [hyper for one in arms(subject, task, ask) for hyper in one.hypers]
        rates = [hyper for hyper in known if hyper == "lr" or hyper.endswith(".lr")]
        if not rates:
            raise lacking(f"no arm tuned a learning rate on task '{task.name}'", f"take --by {known[0]}")
        ask = Ask(ask.task, rates[0], ask.arm)
    hyper, found = tuned(subject, task, ask)
    looks = marks(subject.table.arms)
    drawn, rows = [], []
    for one in found:
        rate, scores = values(one, one.trials, hyper), objectives(one, one.trials)
        known_rate = np.isfinite(rate) & (rate > 0)
        rate, scores = rate[known_rate], scores[known_rate]
        records = [record for record, kept in zip(one.trials, known_rate) if kept]
        drawn.append(Rates(one.cell.arm, looks[one.cell.arm], rate, scores, alone=len(one.hypers) == 1))
        for record, x, y in zip(records, rate, scores):
            y = float(y) if math.isfinite(y) else None
            rows.append((one.cell.arm, record.labels.number, record.run_id, record.status, float(x), y))
    objective, better = judged(found, task)
    tolerance = TOLERANCE * middle_spread([arm.objective for arm in drawn], better)
    told = []
    for arm in drawn:
        span = good_range(*envelope(arm, better), better, tolerance)
        told.append(f"{arm.name}: " + (f"{span[0]:.3g} to {span[1]:.3g}" if span else "no objective"))
    within = f"{tolerance:.2g} of its best"
    return Panel(
        kind="sensitivity",
        title=f"Sensitivity on {task.name}",
        draw=lambda axis: sensitivity(
            axis,
            drawn,
            x=f"{hyper} (bars: within {within})" if tolerance else hyper,
            y=objective,
            better=better,
            tolerance=tolerance,
        ),
        header=("arm", "trial", "run_id", "status", hyper, "objective"),
        rows=tuple(rows),
        alt=f"Objective by {hyper} on {task.name}. Within {within}: {'; '.join(told)}.",
        caption=f"{task.name}: the best objective at each {hyper}; bars span the values at which an arm stays within "
        f"{within} ({TOLERANCE:.0%} of the way from best to median trial, of the middle arm); crosses gave none.",
        looks={arm.name: arm.look for arm in drawn},
        runs=tuple(record for one in found for record in one.trials),
    )
