"""An empty MLflow store in an SQLite file, there as a whole or not at all.

MLflow makes its tables one by one in the file itself, and one that was killed meanwhile can never be opened again. Here
it makes them in a file beside, which takes the store's name once it is complete.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path

from mlflow import MlflowClient


def make_sqlite(path: Path) -> None:
    """Makes the store at `path`, where there is no file, or an empty one. Of two who make it at once the first wins."""
    made, whole = (path.with_name(f".{path.name}.{word}") for word in ("making", "made"))
    left = [made.with_name(made.name + end) for end in ("", "-wal", "-shm", "-journal")]
    for file in (*left, whole):
        file.unlink(missing_ok=True)  # of one that was killed
    try:
        MlflowClient(tracking_uri=f"sqlite:///{made}").search_experiments(max_results=1)
        with closing(sqlite3.connect(made)) as source, closing(sqlite3.connect(whole)) as target:
            source.backup(target)
        with whole.open("rb") as written:
            os.fsync(written.fileno())
        if path.exists() and not path.stat().st_size:
            os.replace(whole, path)
        else:
            _take_name(whole, path)
    finally:
        for file in (*left, whole):
            file.unlink(missing_ok=True)


def _take_name(whole: Path, path: Path) -> None:
    try:
        os.link(whole, path)
    except FileExistsError:
        pass
    except OSError:  # a file system without links
        os.replace(whole, path)
