"""AlgoPerf's columns: what they are called here, which time is scored, and when a target was met."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from experiments.store.sources.algoperf_logs import Array, Log
from experiments.store.sources.algoperf_targets import Target

#: The time that is scored, or where it was not logged the one that it is made of; and updates.
SCORED, TIME, STEP = "score", "accumulated_submission_time", "global_step"
#: Columns with a name of their own; those of the splits are called as ours.
_NAMES = {"accumulated_eval_time": "time/evaluate_s", "accumulated_logging_time": "time/log_s"}
_SPLITS = {"validation": "val", "test": "test", "train": "train"}


def met(log: Log, target: Target) -> int | None:
    """The first evaluation that met the target at a time that is known."""
    values, clock = log.columns.get(f"validation/{target.metric}"), seconds(log)
    if values is None or not len(clock):
        return None
    good = values >= target.value if target.mode == "max" else values <= target.value
    first = int(good.argmax())
    return first if good[first] and math.isfinite(clock[first]) else None


def seconds(log: Log) -> Array:
    """The time that is scored, at each evaluation."""
    return log.columns.get(SCORED, log.columns.get(TIME, np.empty(0)))


def worth(log: Log, target: Target) -> float:
    """How good a log that missed the target was, by its best validation value: less is better, inf without one."""
    values = log.columns.get(f"validation/{target.metric}", np.empty(0))
    values = values[np.isfinite(values)]
    if not len(values):
        return math.inf
    return float(-values.max() if target.mode == "max" else values.min())


def named(log: Log) -> Mapping[str, Array]:
    """The columns that are metrics, under our names."""
    found: dict[str, Array] = {"time/train_s": seconds(log)} if len(seconds(log)) else {}
    for column, values in log.columns.items():
        split, _, metric = column.partition("/")
        if split in _SPLITS and metric and metric != "num_examples":
            found[f"{_SPLITS[split]}/{metric}"] = values
        elif column in _NAMES:
            found[_NAMES[column]] = values
    if STEP in log.columns:
        found["count/updates"] = log.columns[STEP]
    return found


def step(log: Log, index: int) -> int:
    """The update of an evaluation; its place in the log where steps were not logged."""
    steps = log.columns.get(STEP)
    return int(steps[index]) if steps is not None and math.isfinite(steps[index]) else index


def last(log: Log | None) -> tuple[dict[str, float], tuple[str, ...]]:
    """The last value of each metric, if finite; and the metrics that were once not."""
    every = named(log) if log and log.length else {}
    ends = {name: float(values[-1]) for name, values in every.items() if math.isfinite(values[-1])}
    return ends, tuple(name for name, values in every.items() if not np.isfinite(values).all())
