"""A small study and what comes of it undisturbed; servers that workers of several homes share."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from experiments.store.home import Home
from experiments.store.schema import RunRecord
from experiments.study import StudyConfig

STUDY: dict[str, Any] = {
    "name": "spread",
    "tasks": ["digits"],
    "config": {"model": {"name": "mlp", "width": 16}, "batch_size": 50, "evaluate_every": 100, "device": "cpu"},
    "arms": ["adamw"],
    "tune": {"trials": 3, "sampler": "random", "space": ["optimizer.lr"]},
    "seeds": 1,
    "population": "off",
}


@pytest.fixture
def study() -> Callable[..., StudyConfig]:
    """The study, of so many updates a run."""
    return lambda updates, **changes: StudyConfig.of({**STUDY, "budget": {"updates": updates}, **changes})


@pytest.fixture
def outcome() -> Callable[[list[RunRecord]], dict[str, Any]]:
    """What a sweep found, trial by trial."""
    return lambda records: {r.labels.trial: (r.status, r.config["optimizer"], dict(r.final)) for r in records}


@pytest.fixture(autouse=True)
def _place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every test works in a folder of its own, on one thread, as its workers do."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    for name in ("TRAINLAB_HOME", "MLFLOW_TRACKING_URI", "RAY_ADDRESS"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def undisturbed(tmp_path: Path, outcome: Callable[..., dict[str, Any]]) -> Callable[[StudyConfig], dict[str, Any]]:
    """The outcome of a sweep by one worker, in this process, that nothing happens to."""
    from experiments.sweeps.sweep import SweepOptions, sweep

    return lambda study: outcome(sweep(study, home=Home(tmp_path / "alone"), options=SweepOptions(threads=1)).records)


@pytest.fixture
def server() -> Iterator[Callable[..., Any]]:
    """Starts processes that are ended with the test."""
    started: list[subprocess.Popen[bytes]] = []

    def start(*command: str, **more: Any) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **more)
        started.append(process)
        return process

    yield start
    for process in reversed(started):
        process.terminate()
        process.wait(90)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def until(true: Callable[[], Any], limit_s: float = 120.0) -> Any:
    """Waits for something to become true; what it was."""
    end = time.monotonic() + limit_s
    while not (found := true()):
        assert time.monotonic() < end, "it did not come true in time"
        time.sleep(0.02)
    return found


@pytest.fixture
def proxy(tmp_path: Path, server: Callable[..., Any]) -> str:
    """Optuna's gRPC proxy in front of an SQLite file, as docs/clusters.md starts it."""
    port = free_port()
    program = (
        "import optuna; optuna.storages.run_grpc_proxy_server("
        f"optuna.storages.get_storage('sqlite:///{tmp_path}/queue.db'), host='127.0.0.1', port={port})"
    )
    server(sys.executable, "-c", program)
    until(lambda: _listens(port))
    return f"grpc://127.0.0.1:{port}"


@pytest.fixture
def mlflow_server(tmp_path: Path, server: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> str:
    port = free_port()
    store = f"--backend-store-uri=sqlite:///{tmp_path}/tracked.db"
    command = (sys.executable, "-m", "mlflow", "server", "--host=127.0.0.1", f"--port={port}", "--workers=1", store)
    server(
        *command, f"--artifacts-destination={tmp_path}/artifacts", env={**os.environ, "MLFLOW_DISABLE_TELEMETRY": "1"}
    )
    uri = f"http://127.0.0.1:{port}"
    until(lambda: _healthy(uri), 120.0)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    return uri


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _healthy(uri: str) -> bool:
    try:
        with urllib.request.urlopen(f"{uri}/health", timeout=2):
            return True
    except OSError:
        return False


@pytest.fixture
def wait() -> Callable[..., Any]:
    return until
