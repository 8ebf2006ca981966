"""A process that dies while it makes MLflow's tables leaves nothing that stops the next one."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from experiments.store.mirror import connect

CONNECT = "import sys; from experiments.store.mirror import connect; connect(sys.argv[1])"


@pytest.mark.slow
@pytest.mark.parametrize("megabytes", [0.05, 0.4, 0.8])
def test_killed_while_it_makes_the_tables(tmp_path: Path, megabytes: float) -> None:
    uri, making = f"sqlite:///{tmp_path}/mlflow.db", tmp_path / ".mlflow.db.making"
    with subprocess.Popen([sys.executable, "-c", CONNECT, uri], stderr=subprocess.DEVNULL) as process:
        while process.poll() is None and not (making.exists() and making.stat().st_size > megabytes * 1e6):
            time.sleep(0.001)
        process.kill()
    assert making.exists(), "it was killed in the middle"
    assert not (tmp_path / "mlflow.db").exists()
    assert [each.name for each in connect(uri).search_experiments()] == ["Default"]
    assert {path.name for path in tmp_path.iterdir()} == {"mlflow.db"}


def test_an_empty_file_becomes_a_store(tmp_path: Path) -> None:
    (tmp_path / "mlflow.db").touch()
    assert [each.name for each in connect(f"sqlite:///{tmp_path}/mlflow.db").search_experiments()] == ["Default"]
    assert {path.name for path in tmp_path.iterdir()} == {"mlflow.db"}
