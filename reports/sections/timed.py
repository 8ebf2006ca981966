"""When runs reached their target, arm by arm and on each clock: what the section on times, and the answer, are made
of. A run that diverged never reaches: it counts as watched for the whole budget."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reports.comparison import MINIMUM_SEEDS
from reports.document import Quantity
from reports.judged import Array
from reports.sections import numbers
from reports.statistics import survival
from reports.statistics.censored import median_time
from reports.statistics.result import Estimate, PValue
from reports.table import Cell, StudyTable


@dataclass(frozen=True)
class Times:
    """The runs of one arm on one clock. reached: whether; high: at which evaluation, or until when the run was watched;
    low: the evaluation before it; at: by the line between the two. gaps: how far the best value of each run that ended
    without reaching stayed from the target. horizon: until when the run watched longest was watched. thinned: whether
    only the evaluations that all arms have in common count."""

    clock: str
    seeds: tuple[int, ...]
    run_ids: tuple[str, ...]
    reached: NDArray[np.bool_]
    low: Array
    high: Array
    at: Array
    gaps: Array
    horizon: float
    thinned: bool = False

    @property
    def told(self) -> dict[str, Any]:
        """The arguments that say which evaluations its numbers rest on, where not on all."""
        return {"evaluations": "those that all arms have"} if self.thinned else {}


def times(study: StudyTable, cell: Cell, clock: str, on: Array | None = None) -> Times | None:
    """None without a target, or where not every run that has an outcome tells its curve on this clock. on: the updates
    at which an evaluation counts, all where None: arms that are evaluated more often would else seem to be sooner."""
    target, outcomes = cell.task.target, cell.outcomes()
    if target is None or not outcomes.n:
        return None
    found: list[survival.Crossing] = []
    gaps, ends = [], []
    for run_id, came_to in zip(outcomes.run_ids, outcomes.values):
        if math.isinf(came_to):
            found.append(survival.Crossing(math.inf, math.inf, math.inf))
            continue
        curve = study.curves.get(run_id)
        along = curve.along(clock) if curve is not None else None
        if curve is None or along is None or not len(along) or np.isnan(along).any():
            return None
        counts = np.full(len(along), True) if on is None else np.isin(curve.updates, on)
        along, values = along[counts], curve.values[counts]
        ends.append(float(along[-1]))
        found.append(survival.crossing(along, values, target, cell.task.mode))
        if not math.isfinite(found[-1].high):
            gaps.append(survival.gap(values, target, cell.task.mode))
    reached = np.array([math.isfinite(each.high) for each in found], bool)
    low, high, at = (np.array([getattr(each, name) for each in found], float) for name in ("low", "high", "at"))
    return Times(
        clock,
        outcomes.seeds,
        outcomes.run_ids,
        reached,
        low,
        np.where(reached, high, low),
        np.where(reached, at, low),
        np.array(gaps, float),
        max(ends, default=math.nan),
        thinned=on is not None,
    )


def median(study: StudyTable, cell: Cell, clock: str) -> Quantity:
    """The median over runs of when they met the target, between evaluations; absent where fewer than half reached it,
    or it was not recorded of every run."""
    outcomes = cell.outcomes()
    found = study.times_to_target(cell, outcomes, clock)
    recorded = bool(found) and not any(map(math.isnan, found))
    return numbers.value(
        median_time(found) if recorded else math.inf,
        clock,
        "censored.median_time",
        outcomes.run_ids,
        absent="not reached" if recorded else "not recorded",
        **numbers.of_cell(cell),
        target=cell.task.target,
        clock=clock,
    )


def crossed(cell: Cell, found: Times) -> Quantity:
    """The median of the interpolated times, between the medians of the evaluations before and after. What never reached
    is later than all that did, whenever its run ended."""
    where: dict[str, Any] = {"target": cell.task.target, "clock": found.clock, "over runs": "median"}
    times = (np.where(found.reached, values, math.inf) for values in (found.at, found.low, found.high))
    middle = [survival.median(values, found.reached).value for values in times]
    known = math.isfinite(middle[0])
    at, low, high = middle if known else (None, None, None)
    return Quantity(
        value=at,
        low=low,
        high=high,
        statistic="survival.crossing",
        arguments={**numbers.of_cell(cell), **where, **found.told},
        runs=found.run_ids,
        absent="not reached by half",
    )


def restricted(cell: Cell, found: Times, horizon: float) -> Quantity:
    """The mean time to target where what did not reach counts as the horizon."""
    watched = np.where(np.isinf(found.at), horizon, found.at)
    estimate = survival.restricted_mean(watched, found.reached & (found.at <= horizon), horizon)
    more: dict[str, Any] = {"target": cell.task.target, "clock": found.clock, "horizon": horizon, **found.told}
    name, where = "survival.restricted_mean", numbers.of_cell(cell)
    return numbers.estimated(estimate, "", name, found.run_ids, absent="not known", **where, **more)


def _steady(estimate: Estimate) -> bool:
    """Whether the ratios differ by no more than rounding."""
    return estimate.low is None or estimate.high is None or estimate.high - estimate.low <= 1e-9 * estimate.value


def later(found: Times, than: Times) -> PValue:
    """The log-rank test of one survival curve."""
    end = max(x for x in (found.horizon, than.horizon, 0.0) if not math.isnan(x))
    (a, hit_a), (b, hit_b) = ((np.where(np.isinf(t.at), end, t.at), t.reached) for t in (found, than))
    return survival.log_rank(a, hit_a, b, hit_b)


def ratio(cell: Cell, found: Times, first: Cell, than: Times) -> Quantity:
    """How many times as long as the first arm the arm takes, over the seeds that both ran and that all reached. An
    interval takes MINIMUM_SEEDS of them."""
    shared = [seed for seed in found.seeds if seed in than.seeds]
    mine, other = ([t.seeds.index(seed) for seed in shared] for t in (found, than))
    reached = bool(found.reached[mine].all() and than.reached[other].all()) if shared else False
    estimate = survival.time_ratio(found.at[mine], than.at[other]) if reached else None
    if estimate is not None and (estimate.n < MINIMUM_SEEDS or _steady(estimate)):
        estimate = replace(estimate, low=None, high=None)  # without any spread there is no interval
    return numbers.estimated(
        estimate,
        "",
        "survival.time_ratio",
        (*(found.run_ids[i] for i in mine), *(than.run_ids[i] for i in other)),
        absent="-",
        task=cell.task.name,
        arm=cell.arm,
        over=first.arm,
        target=cell.task.target,
        clock=found.clock,
        **found.told,
    )
