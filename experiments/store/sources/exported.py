"""What `trainlab export csv` wrote, read back: the table of runs beside the table of points."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from algos.finding import InputError
from experiments.store.copies import OWN
from experiments.store.exporting import FINAL, RUN_COLUMNS, runs_path
from experiments.store.queries import flatten
from experiments.store.schema import STATUSES
from experiments.store.sources.foreign import Told
from experiments.store.sources.steps import UPDATES


@dataclass(frozen=True)
class Runs:
    """The rows of a table of runs, by its columns."""

    name: str
    rows: Sequence[Mapping[str, str]]


def runs_beside(path: Path) -> Runs | None:
    """The table of runs of a table of points; None where there is none that trainlab wrote."""
    beside = runs_path(path)
    if not beside.is_file():
        return None
    csv.field_size_limit(2**31 - 1)  # a config or a traceback is one cell
    try:
        with beside.open(encoding="utf-8", newline="") as file:
            table = csv.DictReader(file)
            if not set(RUN_COLUMNS) <= set(table.fieldnames or ()):
                return None
            return Runs(beside.name, list(table))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        said = f"{beside.name}, beside {path.name}, cannot be read ({error})"
        raise InputError(said, "export the study again, or move that file away", rule="broken-export") from None


def merged(points: Sequence[Told], runs: Runs) -> list[Told]:
    """The runs of the table, with their points. InputError for points of a run that the table lacks."""
    by_key = {run.key: run for run in points}
    found = [_told(row, by_key.pop(row["run_id"], None), f"{runs.name}: line {line}")
             for line, row in enumerate(runs.rows, 2)]  # fmt: skip
    if by_key:
        said = f"{runs.name} has no run '{next(iter(by_key))}', whose points are beside it"
        raise InputError(said, "export the study again, or move the table of runs away", rule="broken-export")
    return found


def _told(row: Mapping[str, str], points: Told | None, place: str) -> Told:
    try:
        facts: dict[str, Any] = json.loads(row["facts"])
        config: dict[str, Any] = json.loads(row["config"])
        before = facts.get("source") or {}
        counted = before.get("steps", "") if before else UPDATES  # trainlab counts updates
        facts["source"] = {"kind": OWN, "study": row["study"], "run": row["run_id"], "steps": counted}
        facts["source"] |= {"before": before} if before else {}
        if row["status"] not in STATUSES:
            raise ValueError(f"status '{row['status']}'")
        return Told(
            key=row["run_id"],
            name=row["name"],
            said=flatten(config),
            config=config,
            status=row["status"] if row["status"] != "running" else "lost",  # type: ignore[arg-type]
            reason=row["reason"] if row["status"] != "running" else "it was running when it was exported",
            traceback=row["traceback"],
            created=int(row["created"]) if row["created"] else None,
            started=int(row["started"]) if row["started"] else None,
            ended=int(row["ended"]) if row["ended"] else None,
            points=points.points if points else {},
            final={key.removeprefix(FINAL): float(v) for key, v in row.items() if key.startswith(FINAL) and v},
            events=json.loads(row["events"]),
            labels={
                "task": row["task"], "arm": row["arm"], "phase": row["phase"] if row["phase"] != "single" else "final",
                "number": int(row["number"]), "seed": int(row["seed"]),
            },
            facts=facts,
            provenance={"commit": row["commit"]} if row["commit"] else {},
        )  # fmt: skip
    except (ValueError, TypeError, KeyError) as error:
        raise InputError(
            f"this row cannot be read ({error})", "export the study again", rule="broken-export", source=place
        ) from None
