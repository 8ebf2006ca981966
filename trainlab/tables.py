"""Runs as rows: what `trainlab runs` and the end of `trainlab run` print."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

from experiments.store.schema import RunRecord
from trainlab.plain import columns, duration


def row(record: RunRecord) -> dict[str, Any]:
    """A run as plain data. objective: the selected validation value, of a recorded run the last one; test: the task's
    metric on the test split; recorded: "" or whose loop it was (plain, lightning, huggingface); parent: what it comes
    from, RUN@UPDATE of a fork, whose updates and train_s up to there (shared_updates) are its trunk's too."""
    labels, metric = record.labels, str(record.task.get("metric", ""))
    return {
        "run": record.run_id,
        "name": record.file.name,
        "study": labels.study,
        "task": labels.task,
        "arm": labels.arm,
        "phase": labels.phase,
        "number": labels.number,
        "seed": labels.seed,
        "status": record.status,
        "reason": record.reason,
        "metric": metric,
        "objective": _objective(record, metric),
        "test": record.final.get(f"test/{metric}"),
        "updates": record.last.get("count/updates"),
        "train_s": record.last.get("time/train_s"),
        "created": record.file.created,
        "attempts": record.attempts,
        "recorded": str(record.file.facts.get("recorded") or ""),
        "parent": record.file.parent,
        "shared_updates": (record.file.facts.get("fork") or {}).get("update"),
    }


def _objective(record: RunRecord, metric: str) -> float | None:
    if record.file.facts.get("recorded") and record.status == "completed":
        return record.final.get("objective", record.last.get(f"val/{metric}"))
    return record.final.get("objective")


def runs(records: Iterable[RunRecord]) -> str:
    """Runs as text, one a line."""
    rows = [row(record) for record in records]
    table = [
        (
            each["run"],
            each["name"],
            each["study"],
            each["status"],
            each["metric"],
            each["objective"],
            each["test"],
            each["recorded"],
            each["parent"],
            _whole(each["updates"]),
            duration(each["train_s"]) if each["train_s"] is not None else "",
            time.strftime("%Y-%m-%d %H:%M", time.localtime(each["created"] / 1000)),
        )
        for each in rows
    ]
    head = (
        "run",
        "name",
        "study",
        "status",
        "metric",
        "validation",
        "test",
        "recorded",
        "from",
        "updates",
        "training",
        "created",
    )
    return _without_empty(head, table)


def _whole(value: float | None) -> int | None:
    return None if value is None else int(value)


def _without_empty(head: tuple[str, ...], table: list[tuple[Any, ...]]) -> str:
    """Columns that no row fills are left out."""
    kept = [place for place in range(len(head)) if any(line[place] not in ("", None) for line in table)]
    return columns([[line[place] for place in kept] for line in table], head=[head[place] for place in kept])
