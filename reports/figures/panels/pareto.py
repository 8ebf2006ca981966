"""Pareto front of a task: what runs came to against what they cost. by: seconds of training, updates, gradient
evaluations, or parameters of the model."""

from __future__ import annotations

import math

import numpy as np

from experiments.store.schema import RunRecord
from reports.clocks import used
from reports.figures.panel import CLOCKS, Ask, Panel, Subject, clock_words, lacking
from reports.figures.pareto import Cloud, front, pareto
from reports.figures.style import marks


def panel(subject: Subject, ask: Ask) -> Panel:
    measure = ask.one_of({**CLOCKS, "parameters": "parameters"}, "time")
    task = subject.task(ask.task)
    looks = marks(subject.table.arms)
    cells = [cell for cell in subject.cells(task) if cell.ended and ask.arm in ("", cell.arm)]
    if not cells:
        raise lacking(f"no final run on task '{task.name}' has an outcome", "let its sweep come to them")
    words = clock_words(measure, cells)
    clouds, rows, missing = [], [], 0
    for cell in cells:
        outcomes = cell.outcomes()
        records = {record.run_id: record for record in cell.ended}
        costs, values, lost = [], [], []
        for seed, value, run_id in zip(outcomes.seeds, outcomes.values, outcomes.run_ids):
            cost = _cost(subject, records[run_id], measure)
            told = (_plain(cost), _plain(value), int(math.isinf(value)))
            rows.append((cell.arm, seed, run_id, *told))
            if math.isfinite(value) and math.isfinite(cost):
                costs.append(cost)
                values.append(float(value))
            elif math.isinf(value) and math.isfinite(cost):
                lost.append(cost)
            missing += math.isfinite(value) and not math.isfinite(cost)
        clouds.append(Cloud(cell.arm, looks[cell.arm], np.array(costs), np.array(values), outcomes.diverged, lost))
    if not any(len(cloud.cost) for cloud in clouds) and missing:
        raise lacking(f"the runs on '{task.name}' did not record {words}", "take another --by")
    middles = [cloud.middle(task.sign) for cloud in clouds]
    best = front([c for c, _ in middles], [v for _, v in middles], task.sign)
    costs = [float(cost) for cloud in clouds for cost in (*cloud.cost, *cloud.lost)]
    log = bool(costs) and min(costs) > 0 and max(costs) > 5 * min(costs)
    on = ", ".join(clouds[index].name for index in best) or "none"
    diverged = sum(cloud.diverged for cloud in clouds)
    return Panel(
        kind="pareto",
        title=f"{task.name}: {task.words} against {words}",
        draw=lambda axis: pareto(axis, clouds, x=words, y=task.axis(task.split), mode=task.mode, log=log),
        header=("arm", "seed", "run_id", measure, task.outcome, "diverged"),
        rows=tuple(rows),
        alt=f"{task.split.capitalize()} {task.words} on {task.name} against {words}. On the front: {on}.",
        caption=f"{task.name}: seeds small, medians large; filled: no other arm is both better and cheaper"
        + (f"; crosses: {diverged} runs that diverged, the worst in their medians" if diverged else "")
        + ".",
        looks={cloud.name: cloud.look for cloud in clouds},
        runs=tuple(record for cell in cells for record in cell.ended),
        notes=(f"{missing} runs did not record {words} and are left out",) if missing else (),
    )


def _cost(subject: Subject, record: RunRecord, measure: str) -> float:
    if measure == "parameters":
        return float(record.file.facts.get("parameters") or math.nan)
    return used(subject.table, record, measure)


def _plain(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None
