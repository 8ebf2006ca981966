"""Summary: a study as plain rows, one a task and arm, for DataFrames and terminals."""

from __future__ import annotations

import math
from typing import Any

from experiments.store.sources import Source
from reports.clocks import readings, stopped
from reports.comparison import MINIMUM_SEEDS
from reports.statistics.censored import median_time
from reports.statistics.student import mean_interval
from reports.table import Cell, StudyTable, read


def summarise(source: Source, study: str) -> list[dict[str, Any]]:
    """Rows with task, arm, metric, unit, n, mean, low, high, diverged, crashed, missing, target_updates,
    target_seconds, reached, trials; best arm of each task first.

    mean, low and high: the test metric with its 95 % t interval; None where a run diverged (no mean of survivors) and,
    for the interval, below three seeds. target_*: median time to target, None where fewer than half reached it."""
    table = read(source, study)
    rows = []
    for task in table.tasks:
        cells = {cell.arm: cell for cell in table.of(task)}
        ranking = readings(table, task)[0].ranking
        rows += [_row(table, cells[arm]) for arm in (*ranking, *(arm for arm in cells if arm not in ranking))]
    return rows


def _row(table: StudyTable, cell: Cell) -> dict[str, Any]:
    task = cell.task
    outcomes = cell.outcomes()
    whole = outcomes.n > 0 and outcomes.diverged == 0 and not stopped([cell])
    estimate = mean_interval(outcomes.values) if whole else None
    given = estimate is not None and estimate.n >= MINIMUM_SEEDS and bool(estimate.half_width)
    return {
        "task": task.name,
        "arm": cell.arm,
        "metric": task.outcome,
        "unit": task.metric_unit,
        "n": outcomes.n,
        "mean": estimate.value if estimate else None,
        "low": estimate.low if estimate and given else None,
        "high": estimate.high if estimate and given else None,
        "diverged": outcomes.diverged,
        "crashed": cell.status("final")["crashed"],
        "missing": len(outcomes.missing),
        "target_updates": _known(table.times_to_target(cell, outcomes, "updates")),
        "target_seconds": _known(table.times_to_target(cell, outcomes, "seconds")),
        "reached": sum(math.isfinite(time) for time in table.times_to_target(cell, outcomes, "updates")),
        "trials": len(cell.tunes),
    }


def _known(times: list[float]) -> float | None:
    median = median_time(times) if times and not any(map(math.isnan, times)) else math.inf
    return median if math.isfinite(median) else None
