"""Threats of forks: runs that share their first updates are not independent, whatever their seeds say."""

from __future__ import annotations

from algos.finding import Finding
from experiments.store.schema import RunRecord
from reports.judged import trunk as trunk_of
from reports.table import StudyTable
from reports.threats.found import caution, listed

#: How a replay's parent begins.
_REPLAY = "replay of "


def shared_trunks(study: StudyTable) -> list[Finding]:
    """Final runs of one arm that were forked from one run, or of which one was forked from another."""
    found = []
    for cell in study.cells.values():
        runs: dict[str, list[RunRecord]] = {}
        ids = {record.run_id for record in cell.finals}
        for record in cell.finals:
            if trunk := trunk_of(record):
                runs.setdefault(trunk, []).append(record)
        for trunk, forks in runs.items():
            if len(forks) + (trunk in ids) > 1:
                seeds = listed([str(record.labels.seed) for record in forks])
                said = f"{len(forks)} final runs of {cell.arm} (seeds {seeds}) are forks of one run, {trunk}"
                cure = "they share its updates and its luck, so one of them counts here: fork runs of different seeds"
                found.append(caution("shared-trunk", said, cure, cell.task.name))
    return found


def replays(study: StudyTable) -> list[Finding]:
    """Runs that repeat another one, seed and luck."""
    found = []
    for cell in study.cells.values():
        again = [r for r in (*cell.finals, *cell.tunes) if r.file.parent.startswith(_REPLAY)]
        if again:
            said = f"{len(again)} runs of {cell.arm} are replays of others ({listed(r.run_id for r in again[:3])}"
            said += ", ...)" if len(again) > 3 else ")"
            cure = "a replay shows that a run can be repeated, and is no new evidence: leave it out of the study"
            found.append(caution("replayed-runs", said, cure, cell.task.name))
    return found
