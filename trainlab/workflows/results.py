"""Results: every task at its default settings over many seeds, as docs/results/defaults.json. Run by `make results`.

The file is small and versioned, with the ids of its runs; tests only verify it, since making it takes too long for
them. A task whose data are not at hand is left as it was.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from algos.finding import InputError
from experiments.store.schema import RunRecord
from reports.statistics.student import mean_interval

SCHEMA = 1
#: Task -> how many seeds: as many as an evening allows.
SEEDS = {"digits": 10, "digits_graph": 10, "cora": 10, "python_docs": 5, "tiny_shakespeare": 3, "fashion_mnist": 3}
FILE = Path(__file__).resolve().parents[2] / "docs" / "results" / "defaults.json"


def main(tasks: Sequence[str] = ()) -> None:
    """Run the tasks, all of them by default, and write each one's row as it is done."""
    for task in tasks or SEEDS:
        try:
            records = _runs(task, SEEDS[task])
        except InputError as error:
            print(f"{task} left as it was: {error}", file=sys.stderr)
            continue
        if any(record.status == "interrupted" for record in records):
            print(f"{task} left as it was: interrupted", file=sys.stderr)
            return
        _keep(row(records))


def _runs(task: str, seeds: int) -> list[RunRecord]:
    from experiments.config import resolve
    from experiments.store.home import Home
    from trainlab.display import watching
    from trainlab.running import execute

    configs = [resolve({"task": task, "seed": seed}) for seed in range(1, seeds + 1)]
    with watching() as listener:
        return [each.record for each in execute(configs, home=Home.default(), listener=listener)]


def row(records: Sequence[RunRecord]) -> dict[str, Any]:
    """What some runs of one task say together. values: of the test metric, one a seed, None where a run did not
    complete; then there is no mean either."""
    first = records[0]
    metric = f"test/{first.task['metric']}"
    values = [record.final.get(metric) for record in records]
    found = [value for value in values if value is not None]
    estimate = mean_interval(found) if len(found) == len(values) else None
    packages = first.file.provenance.get("packages", {})
    return {
        "task": first.labels.task,
        "metric": metric,
        "mode": first.task["mode"],
        "mean": estimate.value if estimate else None,
        "low": estimate.low if estimate else None,
        "high": estimate.high if estimate else None,
        "values": values,
        "seeds": [record.labels.seed for record in records],
        "baselines": dict(first.task["baselines"]),
        "optimizer": first.config["optimizer"]["name"],
        "budget": dict(first.config["budget"]),
        "data": first.task["digest"],
        "commit": (first.file.provenance.get("trainlab") or {}).get("commit", ""),
        "torch": packages.get("torch", ""),
        "runs": [record.run_id for record in records],
    }


def read(path: Path = FILE) -> dict[str, dict[str, Any]]:
    """The rows that are stored, by task."""
    if not path.exists():
        return {}
    return {each["task"]: each for each in json.loads(path.read_text())["rows"]}


def _keep(new: Mapping[str, Any], path: Path = FILE) -> None:
    rows = {**read(path), new["task"]: dict(new)}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"schema": SCHEMA, "rows": [rows[task] for task in sorted(rows)]}, indent=1) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
