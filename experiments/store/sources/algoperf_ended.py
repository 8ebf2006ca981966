"""How a trial of AlgoPerf ended, as far as its log tells.

AlgoPerf stops a trial when it has reached its targets, used its time or its steps. A log says none of this in words. A
trial that was still short of all three when its log ends was killed, ran out of memory or gave up: it crashed, for a
reason that is not in the log. "Used" means that the next evaluation, as far away as the longest wait between two, would
have been past the budget.
"""

from __future__ import annotations

import numpy as np

from experiments.store.schema import Status
from experiments.store.sources.algoperf_logs import Array, Log
from experiments.store.sources.algoperf_targets import Target


def ended(log: Log | None, met: int | None, seconds: Array, target: Target, budget: float | None) -> tuple[Status, str]:
    """Status and reason. met: the evaluation that reached the target. seconds: of training, at each evaluation."""
    if log is None or not log.length:
        return "crashed", "it logged nothing"
    if met is not None:
        return "completed", "it reached its target"
    lost = _not_finite(log, target)
    if lost:
        return "diverged", f"{lost} is not a number at its last evaluation"
    steps = log.columns.get("global_step", np.empty(0))
    if budget is not None and _used(seconds, budget):
        return "completed", "it used its time and did not reach its target"
    if _used(steps, target.steps):
        return "completed", "it used its steps and did not reach its target"
    if budget is None:
        return "completed", "it did not reach its target; how long it was allowed is not known"
    after = f"after {seconds[-1]:,.0f} of {budget:,.0f} s" if len(seconds) else f"at evaluation {log.length}"
    return "crashed", f"its log ends {after}, short of its target, and does not say why"


def _not_finite(log: Log, target: Target) -> str:
    """A validation loss, or the metric of the target, that is not a number at the end."""
    for name, values in log.columns.items():
        split, _, metric = name.partition("/")
        if split == "validation" and ("loss" in metric or metric == target.metric) and not np.isfinite(values[-1]):
            return f"validation {metric.replace('_', ' ')}"
    return ""


def _used(clock: Array, budget: float) -> bool:
    known = clock[np.isfinite(clock)]
    wait = float(np.diff(known).max()) if len(known) > 1 else 0.0
    return bool(len(known)) and float(known[-1]) + wait >= budget
