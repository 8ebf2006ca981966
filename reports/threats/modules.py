"""Threats from users' own modules: files that changed, between runs, in the middle of one, or since."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from algos.finding import Finding
from experiments.store.module_files import GONE, SHORT, changed, versions
from experiments.store.schema import RunRecord
from reports.table import StudyTable
from reports.threats.found import caution, listed


def files_changed_since(study: StudyTable) -> list[Finding]:
    """Files that are not any more what the runs were made from."""
    found: dict[tuple[str, bool], list[str]] = {}
    for each in changed(study.runs):
        ids = [r.run_id for r in study.runs if any(v[1:] == (each.path, each.stored) for v in versions(r))]
        found.setdefault((Path(each.path).name, each.now == GONE), []).extend(ids)
    findings = []
    for (name, gone), ids in found.items():
        what = "is not where it was" if gone else "has changed since"
        said = f"{name} {what}: {len(set(ids))} of {len(study.runs)} runs were made from another version"
        if gone:
            said = f"{name} {what} when {len(set(ids))} of {len(study.runs)} runs were made from it"
        cure = "the numbers here are of the version that the runs stored, by its sha256 under Provenance"
        findings.append(caution("module-file-changed", said, cure))
    return findings


def mixed_module_files(study: StudyTable) -> list[Finding]:
    """Runs of one task made by different versions of a file: the arms and the change of code are confounded."""
    found = []
    for task in study.tasks.values():
        made: dict[str, dict[str, list[RunRecord]]] = {}
        for record in (r for r in study.runs if r.labels.task == task.name):
            files = list(versions(record))
            names = [file.name for file in files]
            for name, path, sha256 in files:
                key = name if names.count(name) == 1 else path
                made.setdefault(key, {}).setdefault(sha256, []).append(record)
        for name, by_hash in made.items():
            if len(by_hash) > 1:
                told = "; ".join(f"{sha256[:SHORT]}: {_runs(runs)}" for sha256, runs in by_hash.items())
                said = f"runs were made by {len(by_hash)} versions of {name} ({told})"
                cure = "what the arms and what the change of code made cannot be told apart: run all from one version"
                found.append(caution("mixed-module-files", said, cure, task.name))
    return found


def files_changed_midway(study: StudyTable) -> list[Finding]:
    """Runs that were resumed on other code than they began with."""
    resumed: dict[str, list[RunRecord]] = {}
    for record in study.runs:
        for event in record.events:
            if event.get("name") == "file_changed":
                names = sorted({Path(str(path)).name for path in event.get("files") or ()})
                resumed.setdefault(listed(names) if names else "code", []).append(record)
    return [
        caution(
            "file-changed-midway",
            f"{name} changed while runs were interrupted, and they went on with it ({_runs(runs)})",
            "such a run is of neither version: run those seeds again",
        )
        for name, runs in resumed.items()
    ]


def _runs(runs: Sequence[RunRecord]) -> str:
    """Which runs: "6 of sgd (final), 8 of adam (tuning)", and their ids where they are few."""
    counts: dict[str, int] = {}
    for record in runs:
        key = f"{record.labels.arm} ({'tuning' if record.labels.phase == 'tune' else 'final'})"
        counts[key] = counts.get(key, 0) + 1
    told = ", ".join(f"{n} of {key}" for key, n in counts.items())
    ids = f": {', '.join(r.run_id for r in runs)}" if len(runs) <= 3 else ""
    return f"{told}{ids}"
