"""Plan: what a study costs, how far it is, and the smallest difference it could see. Torch-free."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from experiments.designs.compare import by_trial
from experiments.store.schema import FINISHED, RunRecord
from experiments.study import StudyConfig, difference, due
from experiments.tuning import samplers
from experiments.tuning.tune import Tune

ALPHA, POWER = 0.05, 0.80


@dataclass(frozen=True)
class Plan:
    """total, done: runs by phase ("tune", "final"). statuses: of the runs there are. budget: what all runs together
    take, by unit. left: runs still to do. seconds_left: from the finished runs' own times; None before each task has
    one. detectable: the smallest difference between two arms that the final runs would show, in standard deviations
    of their paired differences (two-sided paired t test, 5 %, power 80 %); None with one seed. notes: what a reader
    should know."""

    study: str
    total: Mapping[str, int]
    done: Mapping[str, int]
    statuses: Mapping[str, int]
    budget: Mapping[str, float]
    due_now: int
    seconds_left: float | None
    detectable: float | None
    notes: tuple[str, ...] = ()

    @property
    def left(self) -> int:
        return sum(self.total.values()) - sum(self.done.values())

    def lines(self) -> list[str]:
        """The plan in words, a line each."""
        amounts = " and ".join(f"{amount:,.10g} {unit}" for unit, amount in self.budget.items())
        runs = ", ".join(f"{self.total[phase]} {words}" for phase, words in (("tune", "tuning"), ("final", "final")))
        time = "" if self.seconds_left is None else f", about {self.seconds_left:,.0f} s of training at the pace so far"
        said = [
            f"{self.study}: {sum(self.total.values())} runs ({runs}), {amounts} in all",
            f"{self.left} runs left{time}",
        ]
        if self.statuses:
            said.append("so far: " + ", ".join(f"{count} {status}" for status, count in self.statuses.items()))
        if self.detectable is not None:
            said.append(
                f"smallest difference between two arms it would show: {self.detectable:.2g} standard deviations of the "
                "paired differences (paired t, two-sided 5 %, power 80 %)"
            )
        return [*said, *self.notes]


def plan(study: StudyConfig, runs: Sequence[RunRecord]) -> Plan:
    """What the study takes in all, and what is left given its runs."""
    held = by_trial(study, runs)
    over = [run for run in held.values() if run.status in FINISHED]
    total: Counter[str] = Counter({"tune": 0, "final": 0})
    budget: Counter[str] = Counter()
    left_by_task: Counter[str] = Counter()
    for task in study.tasks:
        for arm in study.arms:
            trials = study.tune.trials if study.tune and study.space(task, arm) else 0
            total.update({"tune": trials, "final": len(study.seeds)})
            left_by_task[task] += trials + len(study.seeds)
            allowed = study.run_config(task, arm, study.seeds[0]).budget
            budget[allowed.unit] += allowed.amount * (trials + len(study.seeds))  # type: ignore[assignment]
    left_by_task.subtract(Counter(run.labels.task for run in over))
    done = Counter({"tune": 0, "final": 0})
    done.update(Counter(str(run.labels.phase) for run in over))
    now = due(study, runs)
    statuses = Counter(str(run.status) for run in held.values())
    return Plan(
        study.name, dict(total), dict(done), dict(statuses), dict(budget), len(now), _seconds(left_by_task, over),
        smallest_difference(len(study.seeds)), tuple(_notes(study, held)),
    )  # fmt: skip


def expected(study: StudyConfig) -> int:
    """How many runs the study takes in all."""
    pairs = [(task, arm) for task in study.tasks for arm in study.arms]
    tuned = sum(study.tune.trials for task, arm in pairs if study.tune and study.space(task, arm))
    return tuned + len(pairs) * len(study.seeds)


def smallest_difference(n: int) -> float | None:
    """The effect, in standard deviations of the paired differences, that a two-sided paired t test at 5 % finds with
    80 % power from n pairs. None with fewer than two.

    >>> round(smallest_difference(10), 2)
    1.0
    """
    if n < 2:
        return None
    from scipy import optimize, stats

    critical = stats.t.ppf(1 - ALPHA / 2, n - 1)

    def lacking(effect: float) -> float:
        shifted = stats.nct(n - 1, effect * n**0.5)
        wrong_side = float(shifted.cdf(-critical))  # scipy gives nan where it is too small to compute
        return POWER - float(shifted.sf(critical)) - (0.0 if math.isnan(wrong_side) else wrong_side)

    enough = 0.05
    while lacking(enough) > 0:
        enough *= 1.5
    return float(optimize.brentq(lacking, enough / 1.5, enough))


def _seconds(left: Mapping[str, int], over: Sequence[RunRecord]) -> float | None:
    times: dict[str, list[float]] = {}
    for run in over:
        if run.started is not None and run.ended is not None:
            times.setdefault(run.labels.task, []).append((run.ended - run.started) / 1000)
    wanted = {task: count for task, count in left.items() if count > 0}
    if any(task not in times for task in wanted):
        return None
    return sum(count * sum(times[task]) / len(times[task]) for task, count in wanted.items())


def _notes(study: StudyConfig, held: Mapping[str, RunRecord]) -> list[str]:
    notes = [*samplers.pruning(study.tune), *_drifted(study.tune, held.values())] if study.tune else []
    for task in study.tasks:
        for arm in study.arms:
            if study.tune and not study.space(task, arm):
                notes.append(f"{task}/{arm} has nothing to tune: no tuning runs, its settings as given")
            elif study.tune:
                notes += [f"{task}/{arm}: {said}" for said in samplers.limits(study.tune, study.space(task, arm))]
            runs = [
                run
                for run in held.values()
                if (run.labels.task, run.labels.arm, run.labels.phase) == (task, arm, "tune")
            ]
            trials = study.tune.trials if study.tune else 0
            if trials and len(runs) == trials and all(run.status in ("crashed", "pruned") for run in runs):
                notes.append(
                    f"{task}/{arm}: every tuning run crashed or was pruned, so there is no winner and no final run"
                )
    return notes


def _drifted(tune: Tune, runs: Iterable[RunRecord]) -> list[str]:
    """Where runs were tuned by other arguments than there would be now: Optuna's defaults change."""
    kept = [(run.file.facts.get("study") or {}).get("tuner") for run in runs if run.labels.phase == "tune"]
    told = [each for each in kept if each]
    if not told:
        return []
    now = samplers.told(tune)
    changes = dict.fromkeys(
        change
        for before in told
        for change in difference({"tuner": {key: before.get(key) for key in now}}, {"tuner": now})
    )
    return [f"trials were asked for in other ways than they would be now: {'; '.join(changes)}"] if changes else []
