"""AlgoPerf's score: how often, and how far, a submission is behind the fastest to a target.

The official rule (mlcommons/submissions_algorithms, scoring/performance_profile.py; Dahl et al. 2023, section 4.3):

    t(s, w)    median over studies of the time of that trial of the study which met the target in the fewest
               evaluations; a study without one counts as inf; nan without logs
    held-out   t(s, variant) = inf where t(s, base) is not finite; then
    4x         t = inf where t > 4 min_s t(s, w), on base workloads and variants alike; then
    base       t(s, base) = inf where t(s, variant) is not finite
    r(s, w)    t(s, w) / min_s t(s, w) over what is left, w a base workload
    rho(s, x)  the share of all base workloads with r <= x
    score(s)   the integral of rho over 1 <= x <= 4, by 3: trapezoids over 100 equal points

Its quirks, each of which `Scores` shows corrected beside it:

- The trial in the fewest evaluations need not be the fastest: evaluations fall at intervals of about the same time, and
  of two trials that meet the target at the same one the first by name counts. The correction takes the shortest time.
- rho is a step function and trapezoids blur its steps by up to half a grid cell. Its exact integral has a closed form,
  the mean over base workloads of max(0, 4 - r)/3.
- A submission's score depends on who else is there: the fastest of each workload sets the pace of all.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from reports.statistics.result import Estimate
from reports.statistics.student import mean_interval

Array = NDArray[np.float64]
Rule = Literal["evaluations", "seconds"]

#: The profile is integrated up to this multiple of the fastest time, over so many points.
LIMIT, POINTS = 4.0, 100
#: Fewest workloads with an interval over workloads.
LEAST = 3


class Trial(Protocol):
    """evaluation: index of the first that met the target; seconds: of training until then; inf where none did."""

    @property
    def submission(self) -> str: ...
    @property
    def workload(self) -> str: ...
    @property
    def study(self) -> int: ...
    @property
    def evaluation(self) -> float: ...
    @property
    def seconds(self) -> float: ...


@dataclass(frozen=True)
class Times:
    """seconds: to the target, (submissions, workloads): inf where it was not reached, nan where there are no logs."""

    submissions: tuple[str, ...]
    workloads: tuple[str, ...]
    seconds: Array

    def of(self, submission: str, workload: str) -> float:
        return float(self.seconds[self.submissions.index(submission), self.workloads.index(workload)])

    def row(self, submission: str, workloads: Sequence[str]) -> Array:
        """One submission's times on some workloads."""
        return np.array([self.of(submission, workload) for workload in workloads])


@dataclass(frozen=True)
class Scores:
    """All arrays are (submissions,). official: by the rule as it is written. exact: the same trials, integrated
    exactly. corrected: the trials of shortest time, integrated exactly. choices: some of the studies, in every way;
    by_few (choices, submissions): official, from those studies only. times: by the official rule, over base workloads
    and variants; ratios (submissions, base): what is left of them for the profile, to the fastest."""

    submissions: tuple[str, ...]
    official: Array
    exact: Array
    corrected: Array
    choices: tuple[tuple[int, ...], ...]
    by_few: Array
    times: Times
    ratios: Array


def scores(trials: Iterable[Trial], base: Sequence[str], held_out: Sequence[str]) -> Scores:
    """The scores of all submissions in `trials`. base: the workloads that are scored; held_out: their variants that
    count. Trials of other workloads are ignored.

    >>> from types import SimpleNamespace as T
    >>> a = T(submission="a", workload="w", study=0, evaluation=3, seconds=10.0)
    >>> b = T(submission="b", workload="w", study=0, evaluation=6, seconds=25.0)
    >>> scores([a, b], ["w"], []).exact.tolist()
    [1.0, 0.5]
    """
    counted = (*base, *held_out)
    kept = [trial for trial in trials if trial.workload in counted]
    names = tuple(sorted({trial.submission for trial in kept}))
    times = medians(kept, names, counted, "evaluations")
    ratios = profile_ratios(times, base, held_out)
    shortest = profile_ratios(medians(kept, names, counted, "seconds"), base, held_out)
    official = on_grid(ratios)
    few = choices(sorted({trial.study for trial in kept}))
    by_few = np.empty((len(few), len(names)))
    for row, chosen in enumerate(few):
        of_few = medians((t for t in kept if t.study in chosen), names, counted, "evaluations")
        by_few[row] = on_grid(profile_ratios(of_few, base, held_out))
    return Scores(names, official, exact(ratios), exact(shortest), few, by_few, times, ratios)


def choices(studies: Sequence[int]) -> tuple[tuple[int, ...], ...]:
    """Every choice of some of the studies: of so many as is the greatest odd number below all of them, since of an even
    number the median is a miss where only half of them missed. Of one study: it alone.

    >>> choices([0, 1, 2, 3, 4])[0], len(choices([0, 1, 2, 3, 4]))
    ((0, 1, 2), 10)
    """
    size = max(1, len(studies) - 1 - len(studies) % 2)
    return tuple(itertools.combinations(studies, size))


def medians(trials: Iterable[Trial], submissions: Sequence[str], workloads: Sequence[str], rule: Rule) -> Times:
    """Each submission's time on each workload: of each study by its fastest trial, the median over studies. rule: by
    what a study's fastest trial is told; among equals the first counts."""
    best: dict[tuple[str, str], dict[int, tuple[float, float]]] = {}
    for trial in trials:
        rank = trial.evaluation if rule == "evaluations" else trial.seconds
        of_study = best.setdefault((trial.submission, trial.workload), {})
        if trial.study not in of_study or rank < of_study[trial.study][0]:
            of_study[trial.study] = (rank, trial.seconds)
    found = np.full((len(submissions), len(workloads)), np.nan)
    for row, submission in enumerate(submissions):
        for column, workload in enumerate(workloads):
            if (submission, workload) in best:
                found[row, column] = _median([seconds for _, seconds in best[submission, workload].values()])
    return Times(tuple(submissions), tuple(workloads), found)


def profile_ratios(times: Times, base: Sequence[str], held_out: Sequence[str]) -> Array:
    """(submissions, base): time over the fastest of those that are left; inf or nan where a submission is not."""
    seconds = times.seconds.copy()
    place = {workload: column for column, workload in enumerate(times.workloads)}
    pairs = [(place[of_variant(variant, base)], place[variant]) for variant in held_out if of_variant(variant, base)]
    for of_base, variant in pairs:
        seconds[~np.isfinite(seconds[:, of_base]), variant] = np.inf
    seconds[seconds > LIMIT * _fastest(seconds)] = np.inf
    for of_base, variant in pairs:
        seconds[~np.isfinite(seconds[:, variant]), of_base] = np.inf
    left = seconds[:, [place[workload] for workload in base]]
    with np.errstate(invalid="ignore"):
        ratios: Array = left / _fastest(left)
    return ratios


def of_variant(variant: str, base: Sequence[str]) -> str:
    """The base workload of a variant: the first whose name is a part of its own; "" where there is none."""
    return next((name for name in base if name in variant), "")


def profile(ratios: ArrayLike, at: ArrayLike) -> Array:
    """(submissions, points): the share of base workloads whose ratio is at most each of `at`."""
    r, x = np.asarray(ratios, float), np.asarray(at, float)
    return np.asarray((r[:, :, None] <= x).mean(axis=1))


def on_grid(ratios: ArrayLike) -> Array:
    """The score as it is computed officially: trapezoids over 100 points."""
    at = np.linspace(1.0, LIMIT, POINTS)
    return np.asarray(np.trapezoid(profile(ratios, at), at, axis=1) / (LIMIT - 1))


def exact(ratios: ArrayLike) -> Array:
    """The integral of the profile in closed form."""
    r = np.asarray(ratios, float)
    return np.asarray(np.where(np.isfinite(r), np.clip(LIMIT - r, 0, None), 0).mean(axis=1) / (LIMIT - 1))


def time_ratio(times: ArrayLike, reference: ArrayLike, budgets: ArrayLike | None = None) -> Estimate | None:
    """Geometric mean over workloads of times / reference, with a t interval on logs; below 1 is faster.

    All (workloads,). budgets: what stands for a target that was not reached, one second more, as the official speedup
    has it; without them only workloads count where both reached it. n: how many counted. None where none did; without
    an interval below 3 workloads, or where the ratios do not differ.

    >>> round(time_ratio([1.0, 2.0], [2.0, 4.0]).value, 3)
    0.5
    """
    mine, other = np.array(times, float), np.array(reference, float)
    if budgets is not None:
        spent = np.asarray(budgets, float) + 1
        mine, other = np.where(np.isinf(mine), spent, mine), np.where(np.isinf(other), spent, other)
    both = np.isfinite(mine) & np.isfinite(other)
    if not both.any():
        return None
    ratios = np.log(mine[both] / other[both])
    logs = mean_interval(ratios)
    if logs.low is None or logs.high is None or logs.n < LEAST or not float(np.ptp(ratios)) > 1e-12:
        return Estimate(math.exp(logs.value), None, None, logs.n, logs.confidence)
    return Estimate(math.exp(logs.value), math.exp(logs.low), math.exp(logs.high), logs.n, logs.confidence)


def _median(values: Sequence[float]) -> float:
    """Of values of which some may be inf: inf where the middle is."""
    ordered, middle = sorted(values), len(values) // 2
    return ordered[middle] if len(values) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def _fastest(seconds: Array) -> Array:
    """(columns,): the least of each column, nan aside; nan where there is none."""
    least = np.where(np.isnan(seconds), np.inf, seconds).min(axis=0, initial=np.inf)
    return np.where(np.isnan(seconds).all(axis=0), np.nan, least)
