"""Results: what stands in docs/results is what its own values say, and what the project promises."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from experiments.store.schema import Labels, RunFile, RunRecord
from reports.statistics.student import mean_interval
from trainlab.workflows import results

#: What every default must do, from the task's own baselines or the literature.
PROMISED = {"digits": 0.96, "cora": 0.805, "fashion_mnist": 0.90}


def record(seed: int, value: float | None) -> RunRecord:
    facts = {"metric": "accuracy", "mode": "max", "digest": "d", "baselines": {"majority": 0.1}}
    config = {"optimizer": {"name": "adamw"}, "budget": {"updates": 10}}
    provenance = {"trainlab": {"commit": "c"}}
    file = RunFile(f"run-{seed}", "n", Labels("digits", seed=seed), config, "x", {"task": facts}, provenance)
    final = {} if value is None else {"test/accuracy": value}
    return RunRecord(file, "diverged" if value is None else "completed", final=final)


def test_a_row_has_the_mean_and_its_t_interval() -> None:
    row = results.row([record(1, 0.9), record(2, 0.92), record(3, 0.94)])
    # Student's t for 95 %, 2 degrees of freedom: 4.3027; standard error 0.02/sqrt(3)
    assert row["mean"] == pytest.approx(0.92)
    assert row["high"] - row["mean"] == pytest.approx(4.3027 * 0.02 / 3**0.5, rel=1e-4)
    assert row["runs"] == ["run-1", "run-2", "run-3"]


def test_a_run_that_diverged_leaves_no_mean_of_the_others() -> None:
    row = results.row([record(1, 0.9), record(2, None)])
    assert (row["mean"], row["values"]) == (None, [0.9, None])


def test_a_new_row_replaces_only_its_own(tmp_path: Path) -> None:
    path = tmp_path / "defaults.json"
    for value in (0.5, 0.9):
        results._keep(results.row([record(1, value), record(2, value)]), path)
    assert {task: row["mean"] for task, row in results.read(path).items()} == {"digits": 0.9}
    assert json.loads(path.read_text())["schema"] == 1


@pytest.mark.parametrize("task", sorted(results.read()))
def test_what_is_stored_is_what_its_values_say(task: str) -> None:
    row = results.read()[task]
    assert len(row["values"]) == len(row["runs"]) == len(row["seeds"]) == results.SEEDS[task]
    assert None not in row["values"]
    assert row["mean"] == pytest.approx(mean_interval(row["values"]).value)
    sign = 1 if row["mode"] == "max" else -1
    assert all(sign * row["mean"] > sign * value for value in row["baselines"].values())
    assert row["mean"] >= PROMISED.get(task, row["mean"])
