"""Tuned: what settings are chosen by never sees the test split, and neither does what comes from it.

A replay of a tuning run measures what the tuning run did. A fork of one goes on with a choice that is still being made.
Both say so in facts["tuned"], for their own forks and replays. A new run, also from a tuning run's weights, is tested.
"""

from __future__ import annotations

from typing import Any

from experiments.store.schema import RunFile


def is_tuned(file: RunFile) -> bool:
    """Whether a run is a tuning run, or comes from one: then the test split is not read."""
    return file.labels.phase == "tune" or bool(file.facts.get("tuned"))


def tuned(before: RunFile) -> dict[str, Any]:
    """The facts of a run that goes on from another, or does it again: {} where that is tested. before: the other."""
    return {"tuned": before.facts.get("tuned") or before.run_id} if is_tuned(before) else {}


def untested(before: RunFile) -> str:
    """What is to be said of a run that comes from `before`, "" where there is nothing."""
    if not is_tuned(before):
        return ""
    came = "is a tuning run" if before.labels.phase == "tune" else "comes from a tuning run"
    return f"run {before.run_id} {came}: the test split is not read"
