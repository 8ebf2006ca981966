"""The doctor of the store: finds every disagreement that a kill can leave in a home and its MLflow store, and mends it.

    visit = Visit(Home.default(), tracking_uri(), dry_run=True)
    examine_home(visit)        the folders and files of the home
    examine_mlflow(visit)      what MLflow has of it
    visit.found, visit.clean

Nothing is touched that a live process owns: a run is looked at where its lock is free, and changed under that lock.
The queue is looked at in between, by `experiments.doctor`.
"""

from __future__ import annotations

from experiments.store.checks import files, lines, mirrors, runs
from experiments.store.checks.mirrors import Waiting
from experiments.store.checks.visit import Visit


def examine_home(visit: Visit) -> None:
    """Leftovers, half lines, runs that nobody marked, copies that disagree, damaged checkpoints."""
    files.check(visit)
    lines.check(visit)
    runs.check(visit)


def examine_mlflow(visit: Visit, waiting: Waiting | None = None) -> None:
    """Sends what MLflow has not got, and sends again what it has wrongly."""
    mirrors.check(visit, waiting or Waiting())
