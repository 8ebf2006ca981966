"""Trouble that may pass interrupts a run, which goes on; trouble of its own, or for the third time, is its end."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import pytest

from experiments import passing, training
from experiments.config import resolve
from experiments.evaluation import Evaluator
from experiments.store.home import Home
from experiments.study import StudyConfig
from experiments.sweeps.sweep import sweep

CONFIG: dict[str, Any] = {
    "task": "digits", "model": {"name": "mlp", "width": 8}, "batch_size": 250, "budget": {"updates": 10},
    "evaluate_every": 5, "checkpoint_every": 5, "device": "cpu",
}  # fmt: skip


def troubled(monkeypatch: pytest.MonkeyPatch, error: Exception, times: int) -> None:
    """The validation after 5 updates raises, so many times."""
    measure, left = Evaluator.measure, [times]

    def measured(self: Evaluator, split: Any) -> dict[str, float]:
        if self._oracle.updates == 5 and left[0]:
            left[0] -= 1
            raise error
        return measure(self, split)

    monkeypatch.setattr(Evaluator, "measure", measured)


def test_what_passes_and_what_does_not() -> None:
    assert passing.passes(ConnectionResetError("peer"), 1)
    assert passing.passes(OSError(errno.ESTALE, "stale"), 2)
    assert not passing.passes(OSError(errno.ESTALE, "stale"), 3)
    assert not passing.passes(OSError(errno.ENOENT, "no such file"), 1)
    assert not passing.passes(ValueError("shapes"), 1)
    with pytest.raises(RuntimeError) as raised:
        raise RuntimeError("the loader died") from TimeoutError("nfs")
    assert passing.passes(raised.value, 1)


def test_a_sweep_tries_again_and_comes_to_the_same_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = {key: value for key, value in CONFIG.items() if key not in ("task", "budget")}
    study = StudyConfig.of(
        {"name": "s", "tasks": ["digits"], "arms": ["adamw"], "seeds": 1, "config": config, "budget": {"updates": 10}}
    )
    (undisturbed,) = sweep(study, home=Home(tmp_path / "a")).records
    troubled(monkeypatch, OSError(errno.ESTALE, "stale file handle"), times=2)
    result = sweep(study, home=Home(tmp_path / "b"))
    (record,) = result.records
    assert result.complete
    assert (record.status, record.attempts) == ("completed", 3)
    assert record.final == undisturbed.final


def test_the_third_time_it_has_crashed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    troubled(monkeypatch, TimeoutError("the disk"), times=99)
    home = Home(tmp_path)
    record = training.train(resolve(CONFIG), home=home).record
    assert record.status == "interrupted"
    assert "trouble that may pass" in record.reason
    folder = home.folder(record.run_id)
    assert training.resume(folder).record.status == "interrupted"
    record = training.resume(folder).record
    assert (record.status, record.attempts) == ("crashed", 3)
    assert "TimeoutError" in record.traceback


def test_a_fault_of_the_runs_own_is_its_end_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    troubled(monkeypatch, FileNotFoundError(errno.ENOENT, "no such file"), times=1)
    assert training.train(resolve(CONFIG), home=Home(tmp_path)).record.status == "crashed"
