"""Threats in the evidence itself: seeds, endings, targets, the test split."""

from __future__ import annotations

import math

from algos.finding import Finding
from reports.clocks import step_names
from reports.comparison import ALPHA, MINIMUM_SEEDS
from reports.judged import stops_at_target
from reports.statistics.curves import last_trend
from reports.statistics.student import mean_interval
from reports.table import Cell, StudyTable
from reports.threats.found import caution, counted, listed, note

#: Below this many seeds a t interval leans on normality that nothing in the data can show.
FEW_SEEDS = 5
#: Models with fewer parameters than this are small.
SMALL_MODEL = 10_000_000


def few_seeds(study: StudyTable) -> list[Finding]:
    counts = {(cell.task.name, cell.arm): len(cell.ended) for cell in study.cells.values() if cell.finals}
    few = {key: n for key, n in counts.items() if n < FEW_SEEDS}
    if not few:
        return []
    least = min(few.values())
    what = "seed" if set(few.values()) == {1} else "seeds"
    said = f"only {_range(few.values())} {what} for {len(few)} of {len(counts)} pairs of task and arm"
    if least < MINIMUM_SEEDS:
        return [
            caution(
                "few-seeds",
                said,
                f"run at least {MINIMUM_SEEDS} seeds, better {FEW_SEEDS} or more; no interval is given below that",
            )
        ]
    floor = 2 / 2**least
    reach = f"a distribution-free test of {least} pairs cannot go below p = {floor:.3g}, so " if floor > ALPHA else ""
    return [
        caution(
            "few-seeds", said, f"{reach}the intervals rest on normality, which so few values cannot show; add seeds"
        )
    ]


def unmatched_seeds(study: StudyTable) -> list[Finding]:
    found = []
    for task in study.tasks.values():
        seeds = {cell.arm: tuple(cell.by_seed) for cell in study.of(task.name) if cell.finals}
        if len(set(seeds.values())) > 1:
            told = "; ".join(f"{arm}: {_seeds(values)}" for arm, values in seeds.items())
            found.append(
                caution(
                    "unmatched-seeds", f"arms ran different seeds ({told})", "give every arm the same seeds", task.name
                )
            )
    return found


def still_improving(study: StudyTable) -> list[Finding]:
    """An arm whose validation curve still rises in the last quarter, beyond its noise: a longer budget could change the
    order."""
    found = []
    for cell in study.cells.values():
        curves = [study.curves[r.run_id] for r in cell.completed if r.run_id in study.curves]
        trend = last_trend([c.updates for c in curves], [c.values for c in curves], cell.task.mode)
        if trend is not None and trend.improving:
            many = step_names(cell.completed)[1]
            said = (
                f"{cell.arm} still improves at the end: validation {cell.task.words} gained {trend.gain:.2g} in the "
                f"last {trend.share:.0%} of its {many} (noise between evaluations {trend.noise:.2g})"
            )
            found.append(
                caution(
                    "still-improving", said, "the ranking holds for this budget only; try a longer one", cell.task.name
                )
            )
    return found


def target_not_reached(study: StudyTable) -> list[Finding]:
    found = []
    for task in study.tasks.values():
        if task.target is None:
            continue
        never = [cell.arm for cell in study.of(task.name) if _never_reached(study, cell)]
        if never:
            said = f"no run of {listed(never)} reached the target of {task.target:g}"
            found.append(
                note("target-not-reached", said, "the time to target is unknown for them, not long", task.name)
            )
    return found


def coarse_test_split(study: StudyTable) -> list[Finding]:
    """Accuracy on few test examples: what one more set of examples would change can exceed what seeds change."""
    found = []
    for task in study.tasks.values():
        size = task.sizes.get("test", 0)
        for cell in study.of(task.name) if "accuracy" in task.metric and size and task.split == "test" else []:
            values = cell.outcomes().finite
            if len(values) < MINIMUM_SEEDS or not 0 < values.mean() < 1:
                continue
            mean, half = float(values.mean()), mean_interval(values).half_width or 0.0
            sampling = 1.96 * math.sqrt(mean * (1 - mean) / size)
            if sampling > half:
                said = (
                    f"the test split has {size:,} {task.unit or 'examples'}, which alone makes accuracy uncertain by "
                    f"±{sampling:.2g}, more than the seeds do (±{half:.2g} for {cell.arm})"
                )
                cure = "intervals here speak of new seeds on this same test split, not of new examples"
                found.append(note("coarse-test-split", said, cure, task.name))
                break
    return found


def selected_on_test(study: StudyTable) -> list[Finding]:
    """Runs whose objective is their test value though validation said something else, or tuning runs that have a test
    value."""
    found = []
    for task in study.tasks.values():
        test = f"test/{task.metric}"
        for cell in study.of(task.name):
            both = [r for r in (*cell.tunes, *cell.completed) if test in r.final and "objective" in r.final]
            same = [r for r in both if r.final["objective"] == r.final[test] != r.last.get(task.validation)]
            if len(same) >= 2 and len(same) == len(both):
                said = (
                    f"the objective of all {len(both)} runs of {cell.arm} that have both equals their test {task.words}"
                )
                cure = "select on validation: these test values are optimistic"
                found.append(Finding("selected-on-test", said, cure, task.name, level="error"))
        looked = sum(
            any(name.startswith("test/") for name in r.final) for cell in study.of(task.name) for r in cell.tunes
        )
        if looked:
            said = f"{counted(looked, 'tuning run')} read the test split"
            found.append(
                caution(
                    "test-split-in-tuning",
                    said,
                    "test once, in final runs: whoever sees those values may choose by them",
                    task.name,
                )
            )
    return found


def stopped_at_target(study: StudyTable) -> list[Finding]:
    stopped = [r for cell in study.cells.values() for r in cell.finals if stops_at_target(r)]
    if not stopped:
        return []
    said = f"{counted(len(stopped), 'final run', 'were told')} to stop at their target"
    return [caution("stopped-at-target", said, "their final metrics are not comparable; compare times to target")]


def small_models_only(study: StudyTable) -> list[Finding]:
    sizes = [count for r in study.runs if (count := r.file.facts.get("parameters"))]
    if not sizes or len(sizes) < len(study.runs) or max(sizes) >= SMALL_MODEL:
        return []
    said = f"the largest model has {max(sizes):,} parameters"
    return [note("small-models-only", said, "orders found on small models often change with size")]


def _never_reached(study: StudyTable, cell: Cell) -> bool:
    """Whether every completed run has a curve, and none met the target."""
    curves = [study.curves.get(r.run_id) for r in cell.completed]
    return bool(curves) and all(curve is not None and not cell.task.reaches(curve.values).any() for curve in curves)


def _seeds(values: tuple[int, ...]) -> str:
    return ", ".join(map(str, values[:8])) + (f", ... ({len(values)})" if len(values) > 8 else "")


def _range(counts: object) -> str:
    values = sorted(set(counts))  # type: ignore[call-overload]
    return f"{values[0]}" if len(values) == 1 else f"{values[0]} to {values[-1]}"
