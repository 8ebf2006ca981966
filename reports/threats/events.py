"""Threats that runs tell of themselves: ended before their budget, warned of something."""

from __future__ import annotations

from algos.finding import Finding
from experiments.store.schema import RunRecord
from reports.clocks import stopped_early, used
from reports.table import StudyTable
from reports.threats.found import caution, listed, note

#: A warning's text is shown up to here.
_CHARACTERS = 300


def ended_before_budget(study: StudyTable) -> list[Finding]:
    """Runs that a callback of the user's ended: the budget they were given is not the one they used."""
    found = []
    for task in study.tasks.values():
        told, why = [], {}
        for cell in study.of(task.name):
            for phase, runs in (("final", cell.finals), ("tuning", cell.tunes)):
                early = [record for record in runs if stopped_early(record)]
                why.update(dict.fromkeys(map(stopped_early, early)))
                if early:
                    told.append(f"{cell.arm}: {len(early)} of {len(runs)} {phase} runs{_at(study, early)}")
        if told:
            said = f"runs were ended before their budget by {listed(list(why)[:3])} ({'; '.join(told)})"
            cure = (
                "budgets are unequal then, and compared where the first run ended: leave that callback out, or say so"
            )
            found.append(caution("stopped-early", said, cure, task.name))
    return found


def warnings(study: StudyTable) -> list[Finding]:
    """What runs were warned of, each text once."""
    texts: dict[str, dict[str, RunRecord]] = {}
    for record in study.runs:
        for event in record.events:
            if event.get("name") == "warning" and (text := " ".join(str(event.get("text", "")).split())):
                texts.setdefault(text, {})[record.run_id] = record
    return [note("run-warning", f"{_cut(text)} ({_runs(list(runs.values()))})", "") for text, runs in texts.items()]


def _at(study: StudyTable, runs: list[RunRecord]) -> str:
    """The updates at which they ended, as far as they say."""
    at = [event.get("update") for r in runs for event in r.events if event.get("name") == "stopped_early"]
    known = [float(update) for update in at if isinstance(update, (int, float))]
    known = known or [total for r in runs if (total := used(study, r, "updates")) == total]
    if not known:
        return ""
    low, high = min(known), max(known)
    return f" at {low:,.0f} updates" if low == high else f" at {low:,.0f} to {high:,.0f} updates"


def _cut(text: str) -> str:
    return (f"{text[:_CHARACTERS]}..." if len(text) > _CHARACTERS else text).rstrip(".")


def _runs(runs: list[RunRecord]) -> str:
    if len(runs) <= 3:
        return f"in {listed(record.run_id for record in runs)}"
    arms = dict.fromkeys(record.labels.arm for record in runs)
    return f"in {len(runs)} runs, of {listed(arms)}"
