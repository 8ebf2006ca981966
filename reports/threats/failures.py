"""Threats from runs that did not end well: what diverged counts against its arm, what crashed is missing."""

from __future__ import annotations

from algos.finding import Finding
from reports.judged import recorded
from reports.table import StudyTable
from reports.threats.found import caution, counted, note


def diverged(study: StudyTable) -> list[Finding]:
    found = []
    for cell in study.cells.values():
        count, n = sum(r.status == "diverged" for r in cell.ended), len(cell.ended)
        if count:
            said = f"of {n} final runs of {cell.arm} that ended, {count} diverged"
            cure = "they count as worst in ranks and tests; do not quote the mean of those that survived"
            found.append(caution("diverged-runs", said, cure, cell.task.name))
    return found


def diverged_trials(study: StudyTable) -> list[Finding]:
    found = []
    for cell in study.cells.values():
        count, n = cell.status("tune")["diverged"], len(cell.tunes)
        if count * 2 >= n > 0:
            said = f"{count} of {n} tuning runs of {cell.arm} diverged"
            found.append(
                note("diverged-trials", said, "few trials were left to find its best: move the range", cell.task.name)
            )
    return found


def missing_runs(study: StudyTable) -> list[Finding]:
    """Seeds without an outcome, for reasons that may not be the arm's: counted apart from divergence."""
    found = []
    for cell in study.cells.values():
        missing = [r for r in cell.by_seed.values() if r.status not in ("completed", "diverged", "pruned")]
        if missing:
            told = ", ".join(f"seed {r.labels.seed} {r.status}" for r in missing[:6]) + (
                ", ..." if len(missing) > 6 else ""
            )
            said = f"{len(missing)} of {len(cell.by_seed)} final runs of {cell.arm} have no outcome ({told})"
            theirs = all(map(recorded, missing))
            cure = "run those seeds again" if theirs else "the same sweep command resumes them; report again after"
            found.append(caution("missing-runs", said, cure, cell.task.name))
    return found


def failed_trials(study: StudyTable) -> list[Finding]:
    failed = [
        r
        for cell in study.cells.values()
        for r in cell.tunes
        if r.status in ("crashed", "interrupted", "lost", "running")
    ]
    if not failed:
        return []
    arms = sorted({f"{r.labels.arm} on {r.labels.task}" for r in failed})
    said = f"{counted(len(failed), 'tuning run', 'have no')} outcome ({', '.join(arms)})"
    cure = "the same sweep command resumes what can be; look at the tracebacks of the rest"
    if all(map(recorded, failed)):
        cure = "see there why they failed: what was left to choose from may be only what did not"
    return [caution("failed-trials", said, cure)]
