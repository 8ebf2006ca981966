"""What the store holds: runs, their labels, statuses and points. Torch-free, imports only the standard library.

A run's folder, `$TRAINLAB_HOME/runs/<run_id>/`:

    run.json               written once, at creation: everything in RunFile
    spool.<attempt>.jsonl  one line an event, in order; the truth of what happened (attempts count from 1)
    checkpoints/           last.pt, previous.pt, best.<update>.safetensors (see experiments.checkpoint)
    model.safetensors      the evaluation weights, at the end

Spool lines, each with "at" (wall clock, milliseconds since 1970):

    {"kind": "began", "attempt": 1, "token": "...", "pid": 1, "host": "...", "resumed_from": 0}
    {"kind": "points", "update": 100, "values": {"train/loss": 0.3, "time/train_s": 1.2}}     finite numbers only
    {"kind": "nonfinite", "update": 120, "metric": "train/loss", "value": "nan"}
    {"kind": "event", "name": "...", ...}           anything worth telling: "reached_target", "evaluation_weights",
                           "warning" (text), "stopped_early" (update, reason), "file_changed" (files)
    {"kind": "final", "values": {"test/accuracy": 0.97, "objective": 0.98}}                   once, at the end
    {"kind": "ended", "status": "completed", "reason": "", "traceback": ""}                   last line of an attempt

What is measured after the end, by the same process, is added to the attempt (`Attempt.amend`): points, then `final` and
`ended` again, all of them in one write.

Metric names: train/loss, val/<metric>, test/<metric>, objective, time/train_s, time/evaluate_s, count/updates,
count/epochs, count/examples, count/gradients. x is updates completed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Literal

SCHEMA = 1

Status = Literal["running", "completed", "diverged", "pruned", "crashed", "interrupted", "lost"]
STATUSES: tuple[Status, ...] = ("running", "completed", "diverged", "pruned", "crashed", "interrupted", "lost")
#: A run that has one of these is over: it is never run again under its id.
FINISHED: tuple[Status, ...] = ("completed", "diverged", "pruned", "crashed")
#: These go on where they stopped.
RESUMABLE: tuple[Status, ...] = ("interrupted", "lost")

Phase = Literal["single", "tune", "final"]


@dataclass(frozen=True)
class Labels:
    """Where a run belongs. study: "" outside a study. arm: the arm's name ("" outside a study). phase: "single" outside
    a study, else "tune" or "final". number: the trial's number within (study, task, arm, phase), from 0."""

    task: str
    study: str = ""
    arm: str = ""
    phase: Phase = "single"
    number: int = 0
    seed: int = 1

    @property
    def trial(self) -> str:
        """A unique key within a home: study/task/arm/phase/number."""
        return f"{self.study}/{self.task}/{self.arm}/{self.phase}/{self.number}"


@dataclass(frozen=True)
class RunFile:
    """run.json. config: the resolved RunConfig as plain JSON; digest: its sha256. facts: what a report must know of
    task and entries: {"task": {metric, mode, worst, target, target_source, unit, select, title, domain, sizes, digest,
    baselines, cite, module, data}, "entries": {"optimizer": {"name", "title", "cite", ...}, ...}, "recorded": whose
    loop it was, where not our runner's}; module, data: the user's classes and their files. provenance: commit, dirty,
    packages, device asked, device computed, threads, ... created: milliseconds since 1970."""

    run_id: str
    name: str
    labels: Labels
    config: Mapping[str, Any]
    digest: str
    facts: Mapping[str, Any] = field(default_factory=dict)
    provenance: Mapping[str, Any] = field(default_factory=dict)
    parent: str = ""
    created: int = 0
    schema: int = SCHEMA

    def to_json(self) -> dict[str, Any]:
        return {**vars(self), "labels": asdict(self.labels)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> RunFile:
        known = {item.name for item in fields(cls)}
        plain = {key: value for key, value in data.items() if key in known}
        return cls(**{**plain, "labels": Labels(**plain["labels"])})


@dataclass(frozen=True)
class RunRecord:
    """A run as a Source tells it: the file, and what the spools add up to.

    status: of the newest attempt ("lost" where its process is gone without a word). last: the last value of each
    metric, of none whose last value was not finite. final: the values of the "final" line (test/*, objective).
    nonfinite: metrics that were once not finite. reached: update, examples, gradients and train seconds at which the
    target was first reached, or None. attempts: how many there were. started, ended: milliseconds since 1970, or None.
    pinned_by: names of claims that rest on the run.
    """

    file: RunFile
    status: Status
    reason: str = ""
    traceback: str = ""
    attempts: int = 0
    started: int | None = None
    ended: int | None = None
    last: Mapping[str, float] = field(default_factory=dict)
    final: Mapping[str, float] = field(default_factory=dict)
    nonfinite: tuple[str, ...] = ()
    reached: Mapping[str, float] | None = None
    events: tuple[Mapping[str, Any], ...] = ()
    pinned_by: tuple[str, ...] = ()
    visibility: str = "internal"

    @property
    def run_id(self) -> str:
        return self.file.run_id

    @property
    def labels(self) -> Labels:
        return self.file.labels

    @property
    def config(self) -> Mapping[str, Any]:
        return self.file.config

    @property
    def task(self) -> Mapping[str, Any]:
        """The facts of the run's task."""
        facts: Mapping[str, Any] = self.file.facts.get("task", {})
        return facts
