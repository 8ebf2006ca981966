"""Numbers: the statistics that a claim can name, computed from a study's table. A number that cannot be formed (a run
diverged, a target was never reached) is a Quantity without a value, which says why.

    number(study, Named("time_ratio", task="digits", arm="muon", than="adamw", clock="updates"))
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from algos.finding import InputError, unknown
from reports.clocks import NAMES, READ, Reading, opposed, readings
from reports.comparison import MINIMUM_SEEDS, Pair
from reports.quantity import Quantity
from reports.statistics.result import Estimate
from reports.table import ENDED, Cell, StudyTable


@dataclass(frozen=True)
class Named:
    """A number by its statistic. task: "" where the study has one. than: the other arm, of those that compare two.
    clock: of those that ask for a time, updates where it is ""; of a difference, where the arms are compared, as the
    report does it: the study's own where it is ""."""

    statistic: str
    task: str = ""
    arm: str = ""
    than: str = ""
    clock: str = ""

    def __str__(self) -> str:
        pair = f"{self.arm} against {self.than}" if self.than else self.arm
        per = self.time if self.statistic in TIMED else self.clock
        told = [pair, f"on {self.task}" if self.task else "", f"per {NAMES[per][0]}" if per else ""]
        return " ".join([self.statistic.replace("_", " "), "of", *(word for word in told if word)])

    @property
    def time(self) -> str:
        """The clock of a statistic that asks for a time."""
        return self.clock or READ[0]


@dataclass(frozen=True)
class Found:
    """A number of a claim. n: how many runs, or pairs of runs, it was computed from. p: of the test behind it, as the
    report corrects it; None where there is no test. family: the runs that this correction rests on, of all arms that
    are ruled together. at: where the arms were compared, in words, if not at their end."""

    quantity: Quantity
    n: int
    p: float | None = None
    family: tuple[str, ...] = ()
    at: str = ""


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
    if named.clock and named.statistic not in CLOCKED:
        said = f"{named.statistic} is of the final runs, whatever the clock"
        raise InputError(said, "leave `clock:` out", rule="needless", place="clock")
    _check_clock(named.clock)
    cells = [cell, _cell(study, task, named.than, "than")[1]] if needs_two else [cell]
    return compute(study, cells, named)


def _check_clock(clock: str) -> None:
    if clock and clock not in READ:
        raise unknown("clock", clock, READ, place="clock")


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
    """By how much the arm is better, where the report compares them: positive where it is, whichever way the metric
    runs."""
    if why := _no_mean(cells):
        return _absent(named, why, _all_runs(cells))
    reading, pair = _compared(study, cells[0].task.name, named.arm, named.than, named.clock)
    if pair is None or pair.estimate is None:
        why = f"no difference is formed of fewer than {MINIMUM_SEEDS} seeds" if pair else _lacking(reading)
        return _absent(named, why, pair.runs if pair else _all_runs(cells))
    found = _of_pair(named, reading, pair, pair.runs, cells[0].task.metric_unit)
    return replace(found, family=_ruled_together(readings(study, cells[0].task.name)))


def _time_ratio(study: StudyTable, cells: Sequence[Cell], named: Named) -> Found:
    """The arm's time to target over the other's, of the same seeds; below 1: faster."""
    from reports.statistics.survival import time_ratio

    times, runs = _times_by_seed(study, cells, named.time)
    if why := _no_times(cells, times, named.time):
        return _absent(named, why, runs)
    return _found(named, time_ratio(times[0], times[1]), runs)


def _median_time(study: StudyTable, cells: Sequence[Cell], named: Named) -> Found:
    """When half of the runs had reached the target."""
    from reports.statistics.survival import median

    cell, outcomes = cells[0], cells[0].outcomes()
    times = np.array(study.times_to_target(cell, outcomes, named.time), float)
    if cell.task.target is None or np.isnan(times).any() or not len(times):
        return _absent(named, _no_times(cells, [times], named.time) or "no run has ended", outcomes.run_ids)
    estimate = median(times, np.isfinite(times))
    if not math.isfinite(estimate.value):
        said = f"fewer than half reached it ({int(np.isfinite(times).sum())} of {len(times)})"
        return _absent(named, said, outcomes.run_ids)
    return _found(named, estimate, outcomes.run_ids, named.time)


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
    share = wilson(sum(record.status == "diverged" for record in ended), len(ended))
    return _found(named, share, runs, fewest=1)  # exact enough at any n


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
CLOCKED = ("difference", *TIMED)


def ruling(study: StudyTable, task: str, arm: str, than: str, clock: str = "") -> tuple[str, Found]:
    """What is shown of one arm against another, as the report rules it: "better", "worse", or in other words that
    nothing is; and the difference behind it. clock: the study's own where none is named, and then "depends on the
    clock" where the report says so of the two: another clock shows the opposite, or unseats the one that leads."""
    task, cell = _cell(study, task, arm)
    _cell(study, task, than, "than")
    _check_clock(clock)
    reading, pair = _compared(study, task, arm, than, clock)
    named = Named("difference", task, arm, than, reading.clock)
    runs = _ruled_together(readings(study, task))
    if pair is None:
        return "cannot be told", _absent(named, _lacking(reading), runs)
    word = pair.ruling if clock or not _depends(readings(study, task), arm, than) else "depends on the clock"
    return word, _of_pair(named, reading, pair, runs, cell.task.metric_unit)


def _compared(study: StudyTable, task: str, arm: str, than: str, clock: str) -> tuple[Reading, Pair | None]:
    """Two arms as the report compares them, `arm` first: on the clock, or on the study's own."""
    read = readings(study, task)
    chosen = next((each for each in read if each.clock == clock), read[0])
    return chosen, next((p.seen_from(arm) for p in chosen.pairs if {p.first, p.second} == {arm, than}), None)


def _ruled_together(read: Sequence[Reading]) -> tuple[str, ...]:
    """The runs of all arms, on all clocks: what is ruled of a task is one family."""
    told = (run for reading in read for outcomes in reading.outcomes.values() for run in outcomes.run_ids)
    return tuple(dict.fromkeys(told))


def _depends(read: Sequence[Reading], arm: str, than: str) -> bool:
    """Whether clocks disagree on two arms: as the report has it where one of them leads; behind the leaders, of which
    the report says less, where they show opposite things."""
    for a, b in itertools.combinations(read, 2):
        if {arm, than} in map(set, opposed(a, b)):
            return True
        shown = {each.rulings.get((arm, than)) or _turned(each.rulings.get((than, arm), "")) for each in (a, b)}
        leads = {arm, than} & {each.ranking[0] for each in (a, b) if each.ranking}
        if not leads and shown == {"better", "worse"}:
            return True
    return False


def _turned(ruling: str) -> str:
    return {"better": "worse", "worse": "better"}.get(ruling, ruling)


def _of_pair(named: Named, reading: Reading, pair: Pair, runs: Sequence[str], unit: str) -> Found:
    """The difference of a pair, with the p-value of its test and where the two were compared."""
    found = _absent(named, pair.ruling if pair.n < MINIMUM_SEEDS else f"by ranks: {pair.ruling}", runs)
    if pair.estimate:
        found = _found(named, pair.estimate, runs, unit, n=pair.n)
    at = "" if reading.budget is None else f"compared at {reading.budget:,.4g} {reading.many}, by validation"
    return replace(found, n=pair.n, p=None if math.isnan(pair.adjusted) else pair.adjusted, at=at)


def _lacking(reading: Reading) -> str:
    return reading.lacking or "one of the arms has no outcome"


# What they have in common


def _found(
    named: Named,
    estimate: Estimate,
    runs: Sequence[str],
    unit: str = "",
    n: int | None = None,
    fewest: int = MINIMUM_SEEDS,
) -> Found:
    """fewest: below so many runs, or pairs of them, there is no interval."""
    n = estimate.n if n is None else n
    low, high = (estimate.low, estimate.high) if n >= fewest else (None, None)
    given = {"task": named.task, "arm": named.arm, "than": named.than}
    arguments = {key: value for key, value in given.items() if value} | {"confidence": estimate.confidence}
    quantity = Quantity(
        value=estimate.value,
        low=low,
        high=high,
        unit=unit,
        statistic=named.statistic,
        arguments=arguments,
        runs=tuple(runs),
    )
    return Found(quantity, n)


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
