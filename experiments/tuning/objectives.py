"""Objectives: what a finished run is worth to its tuner, by one metric or by several. Torch-free.

Without `tune.objectives` it is the task's own. A diverged run is worth the worst of each: what the task names, else
infinitely bad. So is one of a metric that it never measured, or that was not finite when last measured: that trial
alone fails.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from experiments.store.schema import RunRecord

if TYPE_CHECKING:
    from experiments.study import StudyConfig

OWN = "objective"
_ALWAYS = (
    OWN, "train/loss", "time/train_s", "time/evaluate_s", "count/updates", "count/epochs", "count/examples",
    "count/gradients",
)  # fmt: skip


def of_task(study: StudyConfig, task: str) -> tuple[str, str, list[str] | None]:
    """A task's own metric (val/accuracy), its mode, and all that its runs record; None where a module decides that."""
    from experiments.store.metric_names import canonical_metric
    from experiments.tasks import catalogue as tasks

    config = study.run_config(task, next(iter(study.arms)), study.seeds[0])
    if config.of_module:
        return f"val/{canonical_metric(config.metric)}", config.mode, None
    facts = tasks.describe(config.task)
    return f"val/{facts.metric}", facts.mode, [*_ALWAYS, *(f"val/{name}" for name in facts.metrics)]


def directions(study: StudyConfig, task: str, arm: str) -> list[Literal["maximize", "minimize"]]:
    """Optuna's directions, "maximize" or "minimize", of an arm's studies on a task."""
    asked = study.tune.objectives if study.tune else None
    modes = list(asked.values()) if asked else [of_task(study, task)[1]]
    return ["maximize" if mode == "max" else "minimize" for mode in modes]


def objectives(record: RunRecord, study: StudyConfig) -> list[float]:
    """What a finished run is worth, an objective each."""
    asked = study.tune.objectives if study.tune else None
    return [value(record, metric, mode) for metric, mode in asked.items()] if asked else [own(record)]


def value(record: RunRecord, metric: str, mode: str) -> float:
    """A run's value of a metric, the worst there is where it diverged or has none."""
    if metric in (OWN, f"val/{record.task.get('metric', '')}"):
        return own(record)
    if record.status == "diverged":
        return _worst(mode)
    found: Mapping[str, Any] = {**record.last, **record.final}
    measured = found.get(metric)
    return float(measured) if measured is not None and math.isfinite(measured) else _worst(mode)


def own(record: RunRecord) -> float:
    """A run's value of its task's own metric."""
    measured = record.final.get("objective") if record.status == "completed" else None
    if measured is not None and math.isfinite(measured):
        return float(measured)
    worst = record.task.get("worst")
    return _worst(record.task["mode"]) if worst is None else float(worst)


def beaten(one: Sequence[float], other: Sequence[float], modes: Sequence[str]) -> bool:
    """Whether `other` is better in one objective and worse in none.

    >>> beaten([0.9, 20.0], [0.9, 10.0], ["max", "min"]), beaten([0.9, 20.0], [0.8, 10.0], ["max", "min"])
    (True, False)
    """
    signed = [(a, b) if mode == "max" else (-a, -b) for a, b, mode in zip(one, other, modes, strict=True)]
    return all(b >= a for a, b in signed) and any(b > a for a, b in signed)


def _worst(mode: str) -> float:
    return -math.inf if mode == "max" else math.inf
