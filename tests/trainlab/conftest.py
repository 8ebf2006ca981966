"""A place to work in: a folder of its own with a home and an MLflow store, shared by the tests of a file."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The current folder, with defaults for everything: ./.trainlab and ./mlflow.db."""
    folder = tmp_path_factory.mktemp("place")
    before = Path.cwd()
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith(("TRAINLAB_", "MLFLOW_"))]:
            patch.delenv(name)
        os.chdir(folder)
        yield folder
        os.chdir(before)
