"""Performance profiles of a study. by a clock: time to target as a multiple of the fastest arm's, over all pairs of
task and seed that every arm ran; by "score": the share of runs above each value of the metric."""

from __future__ import annotations

import math

import numpy as np

from reports.figures.panel import CLOCKS, Ask, Panel, Subject, clock_words, lacking
from reports.figures.profiles import Steps, profiles
from reports.figures.style import Mark, marks
from reports.judged import TaskFacts
from reports.statistics.profiles import performance_profile, time_profile, time_ratios

_POINTS = 101


def panel(subject: Subject, ask: Ask) -> Panel:
    table = subject.table
    tasks = [table.tasks[ask.task]] if ask.task in table.tasks else list(table.tasks.values())
    if ask.task and ask.task not in table.tasks:
        subject.task(ask.task)
    targets = [task for task in tasks if task.target is not None]
    measure = ask.one_of({**CLOCKS, "score": "score"}, "updates" if targets else "score")
    arms = [arm for arm in table.arms if all((t.name, arm) in table.cells for t in tasks) and ask.arm in ("", arm)]
    looks = marks(table.arms, dashed=True)
    if measure == "score":
        return _scores(subject, tasks, arms, looks)
    if not targets:
        raise lacking("no task of the study has a target", "take --by score")
    return _times(subject, targets, arms, looks, measure)


def _times(subject: Subject, tasks: list[TaskFacts], arms: list[str], looks: dict[str, Mark], clock: str) -> Panel:
    table = subject.table
    words = clock_words(clock, [table.cells[task.name, arm] for task in tasks for arm in arms])
    problems: list[tuple[str, int]] = []
    rows_of: list[list[float]] = []
    for task in tasks:
        cells = [table.cells[task.name, arm] for arm in arms]
        found = [cell.outcomes() for cell in cells]
        times = [dict(zip(o.seeds, table.times_to_target(c, o, clock))) for c, o in zip(cells, found)]
        for seed in sorted(set.intersection(*(set(each) for each in times)) if times else ()):
            if not any(math.isnan(each[seed]) for each in times):
                problems.append((task.name, seed))
                rows_of.append([each[seed] for each in times])
    if not problems:
        raise lacking(f"no task and seed has {words} of every arm", "give the arms the same seeds, or --by score")
    matrix = np.maximum(np.array(rows_of, float), 1e-12)
    ratios = time_ratios(matrix)
    known = np.unique(ratios[np.isfinite(ratios)])
    last = max(2.0, float(known[-1]) * 1.15 if len(known) else 2.0)
    at = np.unique(np.concatenate([[1.0], known, [last]]))
    shares = time_profile(matrix, at)
    steps = [Steps(arm, looks[arm], at, shares[:, place]) for place, arm in enumerate(arms)]
    end = "; ".join(f"{arm}: fastest on {shares[0, i]:.0%}, solves {shares[-1, i]:.0%}" for i, arm in enumerate(arms))
    what = f"{len(problems)} problems (task and seed)"
    return Panel(
        kind="profiles",
        title="Performance profile",
        draw=lambda axis: profiles(
            axis,
            steps,
            x=f"{words} to target, times the fastest",
            y=f"share of {len(problems)} problem{'s' * (len(problems) > 1)}",
            log=True,
        ),
        header=("task", "seed", "arm", clock, "ratio"),
        rows=tuple(
            (task, seed, arm, _plain(matrix[i, j]), _plain(ratios[i, j]))
            for i, (task, seed) in enumerate(problems)
            for j, arm in enumerate(arms)
        ),
        lift=0.5,
        alt=f"Share of {what} solved within a multiple of the fastest arm's {words}. {end}.",
        caption=f"Share of {what} on which an arm reached the target within that multiple of the fastest arm's "
        f"{words} (Dolan and More); what diverged never does.",
        looks={arm: looks[arm] for arm in arms},
        runs=tuple(r for task in tasks for arm in arms for r in table.cells[task.name, arm].ended),
    )


def _scores(subject: Subject, tasks: list[TaskFacts], arms: list[str], looks: dict[str, Mark]) -> Panel:
    table, first = subject.table, tasks[0]
    if len({(task.metric, task.mode) for task in tasks}) > 1:
        raise lacking("the tasks of the study have different metrics", "say --task, or --by updates")
    values = {arm: [table.cells[task.name, arm].outcomes() for task in tasks] for arm in arms}
    seen = np.concatenate([o.finite for found in values.values() for o in found] or [np.empty(0)])
    if not len(seen):
        raise lacking("no final run has an outcome", "let its sweep come to them")
    margin = 0.04 * float(np.ptp(seen)) or 0.05 * max(abs(float(seen[0])), 1e-3)
    at = np.linspace(float(seen.min()) - margin, float(seen.max()) + margin, _POINTS)
    steps, told = [], []
    for arm, found in values.items():
        if any(o.n == 0 for o in found):
            continue
        matrix = np.full((max(o.n for o in found), len(tasks)), np.nan)
        for place, outcomes in enumerate(found):
            matrix[: outcomes.n, place] = outcomes.values
        profile = performance_profile(matrix, at, first.mode)
        steps.append(Steps(arm, looks[arm], at, profile.share, profile.low, profile.high))
        told.append(f"{arm}: {int(np.isfinite(matrix).sum())} runs, {sum(o.diverged for o in found)} diverged")
    side = "above" if first.mode == "max" else "below"
    banded = any(step.low is not None and np.isfinite(step.low).any() for step in steps)
    return Panel(
        kind="profiles",
        title="Run-score distribution",
        draw=lambda axis: profiles(axis, steps, x=first.axis(first.split), y=f"share of runs {side}", log=False),
        header=("task", "arm", "seed", "run_id", first.outcome),
        rows=tuple(
            (task.name, arm, seed, run_id, _plain(value))
            for arm, found in values.items()
            for task, outcomes in zip(tasks, found)
            for seed, run_id, value in zip(outcomes.seeds, outcomes.run_ids, outcomes.values)
        ),
        lift=0.5,
        alt=f"Share of runs {side} each {first.words}. {'; '.join(told)}.",
        caption=f"Share of runs {side} each {first.split} {first.words}"
        + (", band: 95 % bootstrap interval at each threshold" if banded else "")
        + "; what diverged is in no share.",
        looks={step.name: step.look for step in steps},
        runs=tuple(r for task in tasks for arm in arms for r in table.cells[task.name, arm].ended),
    )


def _plain(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None
