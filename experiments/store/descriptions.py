"""What MLflow shows of a run: its tags, its parameters, and a description for people. Pure; imports no mlflow."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from experiments.store.queries import flatten, written
from experiments.store.schema import RunFile, RunRecord, Status

#: Characters that every MLflow since 3.14 keeps whole.
TAG_CHARACTERS = 5000
PARAMETER_CHARACTERS = 6000
#: What a tag says whose value is too long for one.
ELSEWHERE = "in outcome.json"

#: MLflow's status for ours.
STATUS: Mapping[Status, str] = {
    "running": "RUNNING",
    "completed": "FINISHED",
    "diverged": "FAILED",
    "pruned": "KILLED",
    "crashed": "FAILED",
    "interrupted": "KILLED",
    "lost": "FAILED",
}

_ENDINGS: Mapping[Status, str] = {
    "running": "Running.",
    "completed": "Completed.",
    "diverged": "**Diverged**: its loss or weights left the finite numbers or passed the bound.",
    "pruned": "Stopped early by the study's pruner.",
    "crashed": "**Crashed.**",
    "interrupted": "Interrupted; it can go on.",
    "lost": "**Lost**: its process vanished without a word; it can go on.",
}


def experiment_name(file: RunFile, single: str = "trainlab") -> str:
    """A study is an experiment of its own; other runs share one."""
    return file.labels.study or single


def identity(file: RunFile) -> dict[str, str]:
    """The tags that never change: where a run belongs, and with what code it was made."""
    labels = file.labels
    commit = str(file.provenance.get("commit", ""))
    tags = {
        "trainlab.run_id": file.run_id,
        "trainlab.config": file.digest,
        "study": labels.study,
        "task": labels.task,
        "arm": labels.arm,
        "phase": labels.phase,
        "number": str(labels.number),
        "seed": str(labels.seed),
        "optimizer": str(flatten(file.config).get("optimizer.name", "")),
        "commit": commit + ("+changes" if commit and file.provenance.get("dirty") else ""),
        "parent": file.parent,
        "mlflow.source.name": "trainlab",
        "mlflow.source.type": "LOCAL",
        "mlflow.source.git.commit": commit,
        "mlflow.user": str(file.provenance.get("user", "")),
    }
    return {key: value for key, value in tags.items() if value}


def parameters(file: RunFile) -> dict[str, str]:
    """The resolved config, flat. A value that is too long says where it is whole."""
    return {key: _parameter(value) for key, value in flatten(file.config).items()}


def _parameter(value: Any) -> str:
    plain = "none" if value is None else written(value)
    if len(plain) > PARAMETER_CHARACTERS:
        return f"({len(plain)} characters, whole in run.json)"
    return plain or '""'


def outcome(record: RunRecord) -> dict[str, str]:
    """The tags that say what happened, "" for those that have nothing to say. JSON where it is not plain text."""
    return {
        "trainlab.status": record.status,
        "trainlab.reason": record.reason,
        "trainlab.attempts": str(record.attempts),
        "trainlab.started": "" if record.started is None else str(record.started),
        "trainlab.ended": "" if record.ended is None else str(record.ended),
        "trainlab.final": json.dumps(dict(record.final)) if record.final else "",
        "trainlab.nonfinite": json.dumps(record.nonfinite) if record.nonfinite else "",
        "trainlab.no_last": json.dumps(gone) if (gone := _no_last(record)) else "",
        "trainlab.reached": json.dumps(dict(record.reached)) if record.reached is not None else "",
        "trainlab.events": json.dumps(record.events) if record.events else "",
        "trainlab.traceback": record.traceback,
    }


def _no_last(record: RunRecord) -> list[str]:
    """Metrics whose last value was not finite: MLflow shows an older one of them."""
    return [name for name in record.nonfinite if name not in record.last]


def note(record: RunRecord) -> str:
    """A run's description, in Markdown."""
    labels, file = record.labels, record.file
    where = (
        f"study **{labels.study}**, arm **{labels.arm}**, {labels.phase} run {labels.number}" if labels.study else ""
    )
    head = f"Task **{labels.task}**{f', {where}' if where else ''}, seed {labels.seed}."
    rows = [f"| `{key}` | {_cell(value)} |" for key, value in parameters(file).items() if len(value) < 100]
    parts = [
        head,
        _ending(record),
        _results(record),
        "| setting | value |\n|---|---|\n" + "\n".join(rows[:60]) if rows else "",
        f"trainlab run `{file.run_id}`; everything about it is in its artifact `run.json`.",
    ]
    return _shortened("\n\n".join(part for part in parts if part))


def experiment_tags(file: RunFile) -> dict[str, str]:
    """What a new experiment says of itself: a description, and that MLflow's page is to show it as model training."""
    tags = {
        "mlflow.note.content": study_note(file),
        "mlflow.experimentKind": "custom_model_development",
        "trainlab.study": file.labels.study,
    }
    task = file.facts.get("task", {})
    if "metric" in task:
        tags["mlflow.experiment.primaryMetric.name"] = f"val/{task['metric']}"
        tags["mlflow.experiment.primaryMetric.greaterIsBetter"] = str(task.get("mode") == "max")
    return {key: value for key, value in tags.items() if value}


def study_note(file: RunFile) -> str:
    """An experiment's description, in Markdown."""
    if not file.labels.study:
        return "Runs made one by one with `trainlab run`. `trainlab runs` lists them."
    return (
        f"Study **{file.labels.study}**: every run of it, tuning (`phase = tune`) and final (`phase = final`).\n\n"
        "Group by the tags `task`, `arm` and `phase`. Compare only final runs: tuning runs chose the settings. "
        f"`trainlab report {file.labels.study}` writes the answer, with intervals."
    )


def _ending(record: RunRecord) -> str:
    said = _ENDINGS[record.status]
    if record.reason:
        said += f" Reason: {record.reason}"
    if record.traceback:
        said += f"\n\n```\n{record.traceback[-1500:]}\n```"
    return said


def _results(record: RunRecord) -> str:
    named = ", ".join(f"{name} = {value:.6g}" for name, value in record.final.items())
    reached = record.reached
    lines = [f"Results: {named}." if named else ""]
    if reached is not None and "update" in reached:
        lines.append(f"Target reached at update {reached['update']:g}.")
    if record.nonfinite:
        lines.append(f"Not finite at some update: {', '.join(record.nonfinite)}.")
    return " ".join(line for line in lines if line)


def _cell(value: str) -> str:
    return value.replace("|", "\\|").replace("\n", " ")


def _shortened(markdown: str) -> str:
    return markdown if len(markdown) <= TAG_CHARACTERS else markdown[: TAG_CHARACTERS - 2] + " …"
