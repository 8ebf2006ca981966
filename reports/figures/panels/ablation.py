"""Ablation on a task: each arm's difference from a reference (`against`, else the first arm), seed by seed."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from algos.finding import unknown
from reports.comparison import MINIMUM_SEEDS
from reports.figures.ablation import Bar, ablation
from reports.figures.panel import Ask, Panel, Subject, lacking
from reports.figures.style import marks
from reports.statistics.result import Estimate
from reports.statistics.student import mean_interval, welch
from reports.table import Outcomes


def panel(subject: Subject, ask: Ask) -> Panel:
    task = subject.task(ask.task)
    looks = marks(subject.table.arms)
    cells = {cell.arm: cell for cell in subject.cells(task) if cell.ended}
    if ask.against and ask.against not in cells:
        raise unknown("arm", ask.against, cells, place="against")
    if len(cells) < 2:
        raise lacking(f"an ablation takes 2 arms with outcomes; task '{task.name}' has {len(cells)}", "take points")
    reference = ask.against or next(iter(cells))
    base = cells[reference].outcomes()
    bars, rows, told = [], [], []
    for arm, cell in cells.items():
        if arm == reference or ask.arm not in ("", arm):
            continue
        mine = cell.outcomes()
        seeds, differences, estimate = _difference(mine, base)
        lost = len({s for o in (mine, base) for s, v in zip(o.seeds, o.values) if math.isinf(v)})
        bars.append(Bar(arm, looks[arm], differences, estimate, lost))
        rows += [(arm, seed, float(value)) for seed, value in zip(seeds, differences)]
        bar = f"{estimate.value:+.3g}" if estimate else "no mean"
        told.append(f"{arm}: {bar}, n = {len(differences)}" + (f", {mine.diverged} diverged" if mine.diverged else ""))
    x = task.axis(task.split)
    return Panel(
        kind="ablation",
        title=f"Ablation on {task.name}",
        draw=lambda axis: ablation(axis, bars, x=x, reference=reference, mode=task.mode),
        header=("arm", "seed", f"difference from {reference}"),
        rows=tuple(rows),
        alt=f"{x.capitalize()} on {task.name}, less that of {reference}. {'; '.join(told)}.",
        caption=f"{task.name}: {x}, less that of {reference} with the same seed; bars: means, lines: 95 % t intervals, "
        "points: seeds. An arm of which a run diverged has no mean.",
        rows_high=len(bars) * 1.4 + 1.2,
        runs=tuple(record for cell in cells.values() for record in cell.ended),
    )


def _difference(mine: Outcomes, base: Outcomes) -> tuple[Sequence[int], np.ndarray, Estimate | None]:
    """Seed by seed; where no seed is shared, from the reference's mean."""
    whole = not mine.diverged and not base.diverged
    if shared := [seed for seed in mine.seeds if seed in base.seeds]:
        x, y = (np.array([o.values[o.seeds.index(seed)] for seed in shared]) for o in (mine, base))
        known = np.isfinite(x) & np.isfinite(y)
        found = x[known] - y[known]
        estimate = mean_interval(found) if whole and len(found) else None
        seeds = [seed for seed, kept in zip(shared, known) if kept]
    else:
        found = mine.finite - (base.finite.mean() if len(base.finite) else math.nan)
        estimate = welch(mine.values, base.values)[0] if whole and min(mine.n, base.n) >= 2 else None
        seeds = [seed for seed, value in zip(mine.seeds, mine.values) if math.isfinite(value)]
    if estimate is not None and len(found) < MINIMUM_SEEDS:
        estimate = Estimate(estimate.value, None, None, len(found))
    return seeds, found, estimate
