"""Statuses: what another tool's word for how a run ended means here. A word that nobody explained is an error."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from algos.finding import InputError, unknown
from experiments.store.schema import STATUSES, Status

#: Words that tools use: MLflow's, Weights & Biases', Optuna's, Slurm's.
WORDS: Mapping[str, Status] = {
    **{status: status for status in STATUSES if status != "running"},
    "finished": "completed",
    "complete": "completed",
    "success": "completed",
    "succeeded": "completed",
    "failed": "crashed",
    "fail": "crashed",
    "crash": "crashed",
    "error": "crashed",
    "killed": "interrupted",
    "cancelled": "interrupted",
    "canceled": "interrupted",
    "preempted": "interrupted",
    "running": "lost",
    "scheduled": "lost",
}


@dataclass(frozen=True)
class Meanings:
    """given: what the user says that words mean, before those that are known. tool: who says them."""

    given: Mapping[str, Status] = field(default_factory=dict)

    @classmethod
    def of_options(cls, options: Iterable[str]) -> Meanings:
        """From WORD=STATUS, as on the command line."""
        found: dict[str, Status] = {}
        for option in options:
            word, mark, status = option.partition("=")
            if not mark or not word:
                raise InputError(f"'{option}' is not WORD=STATUS", "write e.g. OOM=crashed", place="--status-word")
            if status not in STATUSES or status == "running":
                raise unknown("status", status, [s for s in STATUSES if s != "running"], place="--status-word")
            found[word.lower()] = status  # type: ignore[assignment]
        return cls(found)

    def of(self, word: str, source: str) -> tuple[Status, str]:
        """The status, and what the tool's own word was where it says more. InputError for one that is not known."""
        low = word.strip().lower()
        status = self.given.get(low) or WORDS.get(low)
        if status is None:
            cure = f"say what it means: --status-word {word.strip()}=STATUS (completed, diverged, crashed, ...)"
            raise InputError(f"status '{word}' is not known", cure, rule="unknown-status", source=source)
        if low == status:
            return status, ""
        if low in ("running", "scheduled"):
            return status, f"it was {word} when it was imported"
        return status, f"its source says {word}"
