"""The peer: AlgoPerf's logs read and scored the way the benchmark's own scripts do it.

Written from what mlcommons/algorithmic-efficiency's scoring does at v0.5: folders listed, one pandas.read_csv and one
concat a trial, a summary of every submission, then Series.apply for what was reached, and a table of time ratios.
Targets are looked up in a table, which is cheaper than the official import of each workload's class. It draws nothing.
"""

from __future__ import annotations

import operator
import os
import re
from typing import Any

import numpy as np
import pandas as pd

from experiments.store.sources.algoperf_targets import V05

_NAME = re.compile("(.*)(_jax|_pytorch)")


def experiment(folder: str) -> pd.DataFrame:
    """One row a trial, a cell an array: as the official get_experiment_df has it."""
    frame = pd.DataFrame()
    for study in os.listdir(folder):
        for workload in os.listdir(f"{folder}/{study}"):
            if not _NAME.match(workload):
                continue  # 18 stray logs, over which the official script passes too
            data: dict[str, Any] = {"workload": workload, "study": study}
            of_workload = pd.DataFrame()
            for trial in [t for t in os.listdir(f"{folder}/{study}/{workload}") if re.match(r"trial_(\d+)", t)]:
                read = pd.read_csv(f"{folder}/{study}/{workload}/{trial}/eval_measurements.csv")
                data["trial"] = (trial, study)
                for column in read.columns:
                    data[column] = read[column].to_numpy()
                of_workload = pd.concat([of_workload, pd.DataFrame([data])], ignore_index=True)
            frame = pd.concat([frame, of_workload], ignore_index=True)
    return frame


def summary(frame: pd.DataFrame) -> pd.DataFrame:
    """What the official script writes of each submission before it scores: best and reached values of each trial."""
    return pd.concat([_told(str(workload), group.copy()) for workload, group in frame.groupby("workload")])


def _told(workload: str, group: pd.DataFrame) -> pd.DataFrame:
    metric, target, reached, low = _asked(workload)
    told = pd.DataFrame()
    told["workload"], told["trial"] = group["workload"], group["trial"].apply(lambda x: x[0])
    told["reached"] = group[metric].apply(lambda x: reached(x, target)).apply(np.any)
    told["best"] = group[metric].apply(lambda x: min(x) if low else max(x))
    group["at best"] = group[metric].apply(lambda x: np.argmin(x) if low else np.argmax(x))
    told["time to best"] = group.apply(lambda x: x["accumulated_submission_time"][x["at best"]], axis=1)
    group["hit"] = group[metric].apply(lambda x: reached(x, target)).apply(np.any)
    first: Any = lambda x: np.argmax(reached(x[metric], target)) if x["hit"] else np.nan  # noqa: E731
    group["first"] = group.apply(first, axis=1)
    told["time"] = group.apply(
        lambda x: x["accumulated_submission_time"][int(x["first"])] if x["hit"] else np.inf, axis=1
    )
    return told


def times(frame: pd.DataFrame, submission: str) -> pd.DataFrame:
    """Median times to target, a column a workload."""
    rows = [
        {"submission": submission, "workload": _name(str(workload)), "score": _median(str(workload), group)}
        for workload, group in frame.groupby("workload")
    ]
    return pd.DataFrame.from_records(rows).pivot(index="submission", columns="workload", values="score")


def _median(workload: str, group: pd.DataFrame) -> float:
    metric, target, reached, _ = _asked(workload)
    seconds = []
    for _study, trials in group.groupby("study"):
        hit = trials[metric].apply(lambda x: reached(x, target))
        hit = hit[hit.apply(np.any)]
        if len(hit):
            first = hit.apply(np.argmax)
            seconds.append(trials["score"].loc[first.idxmin()][first[first.idxmin()]])
        else:
            seconds.append(np.inf)
    return float(np.median(seconds))


def scores(folder: str) -> dict[str, float]:
    """The official score of each submission."""
    frames = {name: experiment(f"{folder}/{name}") for name in os.listdir(folder)}
    for frame in frames.values():
        summary(frame)
    table = pd.concat([times(frame, name) for name, frame in frames.items()])[[*V05.base, *V05.held_out]]

    def unless(kept: str, needed: str) -> None:
        table[kept] = table.apply(lambda x: x[kept] if np.isfinite(x[needed]) else np.inf, axis=1)

    for variant in V05.held_out:
        unless(variant, V05.base_of(variant))
    best = table.min(axis=0)
    table[table.apply(lambda x: x > 4 * best, axis=1)] = np.inf
    for variant in V05.held_out:
        unless(V05.base_of(variant), variant)
    left = table[list(V05.base)]
    ratios = left.div(left.min(axis=0), axis=1)
    points = np.linspace(1.0, 4.0, 100)
    profile = pd.concat([(ratios <= tau).sum(axis=1) / len(V05.base) for tau in points], axis=1)
    return dict(zip(profile.index, np.trapezoid(profile, x=points, axis=1) / 3))


def _name(workload: str) -> str:
    named = _NAME.match(workload)
    assert named
    return named[1]


def _asked(workload: str) -> tuple[str, float, Any, bool]:
    target = V05.workloads[_name(workload)]
    low = target.mode == "min"
    return f"validation/{target.metric}", target.value, operator.le if low else operator.ge, low
