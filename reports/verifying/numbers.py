"""Numbers: the statistics that a claim can name, computed from a study's table. A number that cannot be formed (a run
diverged, a target was never reached) is a Quantity without a value, which says why.

    number(study, Named("time_ratio", task="digits", arm="muon", than="adamw", clock="updates"))
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from algos.finding import InputError, unknown
from reports.clocks import NAMES, READ, readings
from reports.quantity import Quantity
from reports.statistics.result import Estimate
from reports.table import ENDED, Cell, Outcomes, StudyTable


@dataclass(frozen=True)
class Named:
    """A number by its statistic. task: "" where the study has one. than: the other arm, of those that compare two.
    clock: of those that ask for a time."""

    statistic: str
    task: str = ""
    arm: str = ""
    than: str = ""
    clock: str = "updates"

    def __str__(self) -> str:
        pair = f"{self.arm} against {self.than}" if self.than else self.arm
        told = [pair, f"on {self.task}" if self.task else "", f"per {NAMES[self.clock][0]}" if self._timed else ""]
        return " ".join([self.statistic.replace("_", " "), "of", *(word for word in told if word)])

    @property
    def _timed(self) -> bool:
        return self.statistic in TIMED


@dataclass(frozen=True)
class Found:
    """A number of a claim. n: how many runs, or pairs of runs, it was computed from."""

    quantity: Quantity
    n: int


def number(study: StudyTable, named: Named) -> Found:
    """The number. InputError, with the closest, for a statistic, task, arm or clock that there is not."""
    if named.statistic not in STATISTICS:
        raise unknown("statistic", named.statistic, STATISTICS, place="number")
    task, cell = _cell(study, named.task, named.arm)
    compute, needs_two = STATISTICS[named.statistic], named.statistic in OF_TWO
    if needs_two and not named.than:
        raise InputError(
            f"{named.statistic} compares two arms", "add `than:`, the other arm", rule="incomplete", place="than"
        )
    if named.than and not needs_two:
        raise InputError(f"{named.statistic} is of one arm", "leave `than:` out", rule="needless", place="than")
    if named.clock not in READ:
        raise unknown("clock", named.clock, READ, place="clock")
    cells = [cell, _cell(study, task, named.than, "than")[1]] if needs_two else [cell]
    return compute(study, cells, named)


def _cell(study: StudyTable, task: str, arm: str, place: str = "arm") -> tuple[str, Cell]:
    if not task and len(study.tasks) == 1:
        task = next(iter(study.tasks))
    if task not in study.tasks:
        if not task:
            said = f"study '{study.name}' has {len(study.tasks)} tasks"
            raise InputError(said, f"add `task:` ({', '.join(study.tasks)})", rule="incomplete", place="task")
        raise unknown("task", task, study.tasks, place="task")
    arms = [each.arm for each in study.of(task)]
    if arm not in arms:
        if not arm:
            raise InputError("no arm is named", f"add `{place}:` ({', '.join(arms)})", rule="incomplete", place=place)
        raise unknown("arm", arm, arms, place=place)
    return task, study.cells[task, arm]


# The statistics. Each takes one cell, or the two that are compared.


def _mean(study: StudyTable, cells: Sequence[Cell], named: Named) -> Found:
    """Of the final runs' outcomes, with its t interval."""
    from reports.statistics.student import mean_interval

    outcomes = cells[0].outcomes()
    if why := _no_mean(cells):
        return _absent(named, why, outcomes.run_ids)
    return _found(named, mean_interval(outcomes.values), outcomes.run_ids, cells[0].task.metric_unit)


def _difference(study: StudyTable, cells: Sequence[Cell], named: Named) -> Found:
    """By how much the arm is better: positive where it is, whichever way the metric runs."""
    from reports.statistics.student import paired, welch

    task = cells[0].task
    if why := _no_mean(cells):
        return _absent(named, why, _all_runs(cells))
    first, second, runs, together = _paired(cells)
    x, y = task.sign * first, task.sign * second
    if together:
        return _found(named, paired(x - y)[0], runs, task.metric_unit)
    estimate = welch(x, y)[0]
    return _found(named, estimate, runs, task.metric_unit, n=min(len(x), len(y)))


def _time_ratio(study: StudyTable, cells: Sequence[Cell], named: Named) -> Found:
    """The arm's time to target over the other's, of the same seeds; below 1: faster."""
    from reports.statistics.survival import time_ratio

    times, runs = _times_by_seed(study, cells, named.clock)
    if why := _no_times(cells, times, named.clock):
        return _absent(named, why, runs)
    return _found(named, time_ratio(times[0], times[1]), runs)


def _median_time(study: StudyTable, cells: Sequence[Cell], named: Named) -> Found:
    """When half of the runs had reached the target."""
    from reports.statistics.survival import median

    cell, outcomes = cells[0], cells[0].outcomes()
    times = np.array(study.times_to_target(cell, outcomes, named.clock), float)
    if cell.task.target is None or np.isnan(times).any() or not len(times):
        return _absent(named, _no_times(cells, [times], named.clock) or "no run has ended", outcomes.run_ids)
    estimate = median(times, np.isfinite(times))
    if not math.isfinite(estimate.value):
        said = f"fewer than half reached it ({int(np.isfinite(times).sum())} of {len(times)})"
        return _absent(named, said, outcomes.run_ids)
    return _found(named, estimate, outcomes.run_ids, named.clock)


def _probability_better(study: StudyTable, cells: Sequence[Cell], named: Named) -> Found:
    """P(a run of the arm is better than one of the other), ties half; what diverged is worse than what did not."""
    from reports.statistics.ranks import probability_better

    a, b = (cell.outcomes() for cell in cells)
    if not a.n or not b.n or np.isnan(a.values).any() or np.isnan(b.values).any():
        return _absent(named, "some runs have no outcome to compare", _all_runs(cells))
    sign = cells[0].task.sign
    estimate = probability_better(sign * a.values, sign * b.values)
    return _found(named, estimate, (*a.run_ids, *b.run_ids), n=min(a.n, b.n))


def _share_diverged(study: StudyTable, cells: Sequence[Cell], named: Named) -> Found:
    """Of the final runs that ended, with Wilson's interval; as a share."""
    from reports.statistics.proportion import wilson

    ended = [record for record in cells[0].by_seed.values() if record.status in ENDED]
    runs = tuple(record.run_id for record in ended)
    if not ended:
        return _absent(named, "no run has ended", ())
    return _found(named, wilson(sum(record.status == "diverged" for record in ended), len(ended)), runs)


Statistic = Callable[[StudyTable, Sequence[Cell], Named], Found]
STATISTICS: dict[str, Statistic] = {
    "mean": _mean,
    "difference": _difference,
    "time_ratio": _time_ratio,
    "median_time": _median_time,
    "probability_better": _probability_better,
    "share_diverged": _share_diverged,
}
OF_TWO = ("difference", "time_ratio", "probability_better")
TIMED = ("time_ratio", "median_time")


def ruling(study: StudyTable, task: str, arm: str, than: str, clock: str = "") -> tuple[str, Found]:
    """What is shown of one arm against another, as the report rules it: "better", "worse", or in other words that
    nothing is; and the difference behind it. clock: the study's own where none is named, and then "depends on the
    clock" where another shows the opposite."""
    task, cell = _cell(study, task, arm)
    _cell(study, task, than, "than")
    if clock and clock not in READ:
        raise unknown("clock", clock, READ, place="clock")
    read = readings(study, task)
    chosen = next((each for each in read if each.clock == clock), read[0]) if clock else read[0]
    named = Named("difference", task, arm, than, chosen.clock)
    pair = next((p.seen_from(arm) for p in chosen.pairs if {p.first, p.second} == {arm, than}), None)
    runs = tuple(dict.fromkeys(run for outcomes in chosen.outcomes.values() for run in outcomes.run_ids))
    if pair is None:
        return "cannot be told", _absent(named, chosen.lacking or "one of the arms has no outcome", runs)
    others = {p.seen_from(arm).ruling for each in read for p in each.pairs if {p.first, p.second} == {arm, than}}
    opposed = not clock and {"better", "worse"} <= others
    found = _found(named, pair.estimate, runs, cell.task.metric_unit, n=pair.n) if pair.estimate else None
    return "depends on the clock" if opposed else pair.ruling, found or _absent(named, f"by ranks: {pair.ruling}", runs)


# What they have in common


def _found(named: Named, estimate: Estimate, runs: Sequence[str], unit: str = "", n: int | None = None) -> Found:
    given = {"task": named.task, "arm": named.arm, "than": named.than}
    arguments = {key: value for key, value in given.items() if value} | {"confidence": estimate.confidence}
    quantity = Quantity(
        value=estimate.value,
        low=estimate.low,
        high=estimate.high,
        unit=unit,
        statistic=named.statistic,
        arguments=arguments,
        runs=tuple(runs),
    )
    return Found(quantity, estimate.n if n is None else n)


def _absent(named: Named, why: str, runs: Sequence[str]) -> Found:
    return Found(Quantity(value=None, statistic=named.statistic, runs=tuple(runs), absent=why), 0)


def _all_runs(cells: Sequence[Cell]) -> tuple[str, ...]:
    return tuple(run for cell in cells for run in cell.outcomes().run_ids)


def _no_mean(cells: Sequence[Cell]) -> str:
    """Why no mean can be formed of some arm; "" where it can."""
    for cell in cells:
        outcomes = cell.outcomes()
        if not outcomes.n:
            return f"no run of {cell.arm} has ended"
        if outcomes.diverged:
            return f"no mean: {outcomes.diverged} of {outcomes.n} runs of {cell.arm} diverged"
        if np.isnan(outcomes.values).any():
            return f"no mean: runs of {cell.arm} stopped at their target"
    return ""


def _paired(cells: Sequence[Cell]) -> tuple[np.ndarray, np.ndarray, tuple[str, ...], bool]:
    """Values and runs of two arms: of the seeds that both have, where these are three or more, else all."""
    a, b = (cell.outcomes() for cell in cells)
    shared = [seed for seed in a.seeds if seed in b.seeds]
    if len(shared) < 3:
        return a.values, b.values, (*a.run_ids, *b.run_ids), False
    (x, runs_x), (y, runs_y) = _of_seeds(a, shared), _of_seeds(b, shared)
    return x, y, (*runs_x, *runs_y), True


def _of_seeds(outcomes: Outcomes, seeds: Sequence[int]) -> tuple[np.ndarray, tuple[str, ...]]:
    places = [outcomes.seeds.index(seed) for seed in seeds]
    return outcomes.values[places], tuple(outcomes.run_ids[place] for place in places)


def _times_by_seed(study: StudyTable, cells: Sequence[Cell], clock: str) -> tuple[list[np.ndarray], tuple[str, ...]]:
    """When each run of two arms reached the target, of the seeds that both have."""
    a, b = (cell.outcomes() for cell in cells)
    shared = [seed for seed in a.seeds if seed in b.seeds]
    times, runs = [], []
    for cell, outcomes in zip(cells, (a, b)):
        found = study.times_to_target(cell, outcomes, clock)
        places = [outcomes.seeds.index(seed) for seed in shared]
        times.append(np.array([found[place] for place in places] if found else [], float))
        runs += [outcomes.run_ids[place] for place in places]
    return times, tuple(runs)


def _no_times(cells: Sequence[Cell], times: Sequence[np.ndarray], clock: str) -> str:
    """Why no time can be told; "" where it can."""
    if cells[0].task.target is None:
        return "the task has no target"
    if not all(map(len, times)):
        return "the arms share no seeds"
    for cell, found in zip(cells, times):
        if np.isnan(found).any():
            return f"{NAMES[clock][1]} were not recorded of every run of {cell.arm}"
        if np.isinf(found).any():
            return f"{int(np.isinf(found).sum())} of {len(found)} runs of {cell.arm} never reached the target"
    return ""
