"""Runs to store: small, made by hand, of every ending."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from experiments.store.home import Home, RunFolder, new_run_id
from experiments.store.schema import Labels, RunFile


@pytest.fixture
def home(tmp_path) -> Home:
    return Home(tmp_path / "home")


@pytest.fixture
def create(home) -> Callable[..., RunFolder]:
    """Makes a run's folder; keywords are labels, or name, config, facts, created."""

    def make(task: str = "digits", **given: Any) -> RunFolder:
        config = given.pop("config", {"task": task, "optimizer": {"name": "lion", "lr": 1e-3, "betas": (0.9, 0.99)}})
        name, facts = given.pop("name", "digits-lion"), given.pop("facts", {})
        created = given.pop("created", 1_000)
        labels = Labels(task, **given)
        provenance = {"commit": "c0ffee", "dirty": True}
        return home.create(RunFile(new_run_id(), name, labels, config, "digest", facts, provenance, created=created))

    return make


@pytest.fixture(scope="session")
def empty_store(tmp_path_factory) -> Path:
    """An empty MLflow database, made once: MLflow takes seconds for that."""
    from experiments.store.mirror import connect

    path = tmp_path_factory.mktemp("mlflow") / "mlflow.db"
    connect(f"sqlite:///{path}")
    return path


@pytest.fixture
def store(empty_store, tmp_path, monkeypatch) -> str:
    """The URI of an empty MLflow store of the test's own, in the folder the test is in."""
    shutil.copy(empty_store, tmp_path / "mlflow.db")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    monkeypatch.setenv("MLFLOW_TRUNCATE_LONG_VALUES", "false")
    return f"sqlite:///{tmp_path / 'mlflow.db'}"
