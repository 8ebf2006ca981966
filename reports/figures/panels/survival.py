"""Target survival of a task: which share of each arm's runs has not yet reached the target, on a clock."""

from __future__ import annotations

import math

import numpy as np

from reports.figures.panel import CLOCKS, Ask, Panel, Subject, clock_words, lacking
from reports.figures.style import marks
from reports.figures.survival import Watched, survival


def panel(subject: Subject, ask: Ask) -> Panel:
    clock = ask.one_of(CLOCKS, "updates")
    task = subject.task(ask.task)
    if task.target is None:
        raise lacking(f"task '{task.name}' has no target", "take curves, or a task with one")
    looks, table = marks(subject.table.arms, dashed=True), subject.table
    cells = [cell for cell in subject.cells(task) if cell.ended and ask.arm in ("", cell.arm)]
    words = clock_words(clock, cells)
    ends = {
        run_id: float(curve.along(clock)[-1])
        for cell in cells
        for run_id in cell.outcomes().run_ids
        if (curve := table.curves.get(run_id)) is not None and len(curve.updates)
    }
    horizon = max((end for end in ends.values() if math.isfinite(end)), default=math.nan)
    arms, rows, told, unknown = [], [], [], 0
    for cell in cells:
        outcomes = cell.outcomes()
        times, reached = [], []
        for seed, value, run_id, at in zip(
            outcomes.seeds, outcomes.values, outcomes.run_ids, table.times_to_target(cell, outcomes, clock)
        ):
            # what diverged never reaches its target: it counts to the end, not until it diverged
            until = at if math.isfinite(at) else horizon if math.isinf(value) else ends.get(run_id, math.nan)
            if math.isnan(at) or math.isnan(until):
                unknown += 1
                continue
            times.append(until)
            reached.append(math.isfinite(at))
            rows.append((cell.arm, seed, run_id, float(until), int(math.isfinite(at)), int(math.isinf(value))))
        arms.append(Watched(cell.arm, looks[cell.arm], np.array(times, float), np.array(reached, bool)))
        told.append(f"{cell.arm}: {sum(reached)} of {len(reached)} reached it")
    if not rows:
        raise lacking(f"the runs on '{task.name}' did not record {words}", "take by=updates")
    notes = (f"{unknown} runs did not record {words} and are left out",) if unknown else ()
    n = sorted({len(arm.times) for arm in arms})
    seeds = f"n = {n[0]}" + (f" to {n[-1]}" if len(n) > 1 else "")
    return Panel(
        kind="survival",
        title=f"Time to target on {task.name}",
        draw=lambda axis: survival(axis, arms, x=f"{words} ({seeds} an arm)"),
        header=("arm", "seed", "run_id", clock, "reached", "diverged"),
        rows=tuple(rows),
        lift=0.5,
        alt=f"Share of runs not yet at the target {task.target:g} on {task.name}. {'; '.join(told)}.",
        caption=f"{task.name}: share of runs not yet at validation {task.words} {task.target:g} (Kaplan-Meier); "
        "strokes: last seen without it.",
        looks={arm.name: arm.look for arm in arms},
        runs=tuple(record for cell in cells for record in cell.ended),
        notes=notes,
    )
