"""Outcomes: what the shared queue knows of runs whose folders another home holds. Torch-free.

A worker that tells the queue how a run ended leaves with its trial what the study's design needs of it: labels, config,
status and final values. Whoever does not see that home reads it back as a record.
"""

from __future__ import annotations

import socket
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from experiments.store.home import Home
from experiments.store.schema import FINISHED, Labels, RunFile, RunRecord

_OF_FACTS = ("task", "study", "population", "fork")


def to_json(record: RunRecord, home: Home) -> dict[str, Any]:
    """What is kept with the trial. home: where the run's folder is."""
    file = record.file
    kept = {key: file.facts[key] for key in _OF_FACTS if key in file.facts}
    slim = RunFile(file.run_id, file.name, file.labels, file.config, file.digest, kept, created=file.created)
    return {
        "home": place(home), "file": asdict(slim), "status": record.status, "reason": record.reason,
        "attempts": record.attempts, "started": record.started, "ended": record.ended, "last": dict(record.last),
        "final": dict(record.final), "reached": record.reached,
    }  # fmt: skip


def of_json(data: Mapping[str, Any]) -> RunRecord:
    """The record that `to_json` kept."""
    told = {key: value for key, value in data.items() if key not in ("home", "file")}
    return RunRecord(RunFile.from_json(data["file"]), **told)


def running(labels: Labels) -> RunRecord:
    """A run in progress, of which only its place in the study is known."""
    name = f"{labels.task} {labels.arm} {labels.phase} {labels.number}"
    return RunRecord(RunFile(f"elsewhere/{labels.trial}", name, labels, {}, ""), "running")


def counts(told: RunRecord, own: RunRecord | None) -> bool:
    """Whether what the queue says of a trial counts, given this home's run of it: a finished run always does, another's
    run in progress where this home has none that is over."""
    if own is None:
        return True
    if own.status in FINISHED:
        return False
    return told.run_id != own.run_id


def place(home: Home) -> str:
    """A home, told apart from those of other machines."""
    return f"{socket.gethostname()}:{home.path}"
