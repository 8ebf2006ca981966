"""A whole sweep whose sampler is asked, whose pruner ends runs, in a space with conditions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from experiments.store.home import Home
from experiments.store.schema import RunRecord
from experiments.study import StudyConfig
from experiments.sweeps.sweep import sweep

pytestmark = pytest.mark.slow
ARM: dict[str, Any] = {
    "optimizer": ["adamw", "muon"],
    "optimizer.lr": "1e-4:1e-1:log",
    "when": {"optimizer=muon": {"optimizer.momentum": "0.8:0.99"}},
}
TUNE: dict[str, Any] = {
    "trials": 6,
    "sampler": {"name": "tpe", "n_startup_trials": 2},
    "pruner": {"name": "threshold", "lower": 0.7},  # a slow beginner has half of them right after ten updates
}


def swept(folder: Path, name: str = "s", **tune: Any) -> list[RunRecord]:
    data = {"name": name, "tasks": ["digits"], "arms": {"a": ARM}, "tune": {**TUNE, **tune}, "seeds": 1}
    study = StudyConfig.of({**data, "budget": {"updates": 30}, "config": {"evaluate_every": 10}})
    result = sweep(study, home=Home(folder))
    assert result.complete
    return sorted(result.records, key=lambda record: (record.labels.phase, record.labels.number))


def shown(records: list[RunRecord]) -> list[Any]:
    return [(r.labels.trial, r.status, dict(r.config), r.last.get("val/accuracy"), dict(r.final)) for r in records]


def test_one_seed_reproduces_it_and_a_pruned_run_cannot_win(tmp_path: Path) -> None:
    records = swept(tmp_path / "one")
    (final,) = (record for record in records if record.labels.phase == "final")
    tuned = [record for record in records if record.labels.phase == "tune"]
    assert len(tuned) == 6
    pruned = [record for record in tuned if record.status == "pruned"]
    assert pruned
    assert all(record.last["count/updates"] < 30 and "objective" not in record.final for record in pruned)
    winner = next(r for r in tuned if r.run_id == final.file.facts["study"]["winner"])
    ended = [record for record in tuned if record.status == "completed"]
    assert winner.final["objective"] == max(record.final["objective"] for record in ended)
    assert final.status == "completed"
    kept = final.file.facts["study"]["tuner"]
    assert (kept["sampler"]["name"], kept["sampler"]["n_startup_trials"]) == ("tpe", 2)
    assert (kept["pruner"]["name"], kept["pruner"]["upper"]) == ("threshold", None)
    assert kept["notes"][0].startswith("the pruner threshold ends tuning runs early")
    for record in tuned:
        params = record.file.facts["study"]["params"]
        is_muon = params["optimizer"] == "muon"
        assert ("optimizer.momentum" in params) == is_muon
        assert ("momentum" in record.config["optimizer"]) == is_muon
    assert shown(swept(tmp_path / "two")) == shown(records)


def test_another_study_warms_it(tmp_path: Path) -> None:
    first = swept(tmp_path, "first", pruner="none")
    second = swept(tmp_path, "second", pruner="none", warm_start="first", trials=2)
    assert len([record for record in second if record.labels.phase == "tune"]) == 2
    best = next(r.file.facts["study"]["winner"] for r in second if r.labels.phase == "final")
    assert best in {record.run_id for record in second}
    assert best not in {record.run_id for record in first}
