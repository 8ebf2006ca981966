"""Recovery: runs whose process vanished get the last word that it could not write."""

from __future__ import annotations

from experiments.store import spool
from experiments.store.home import Home, RunFolder
from experiments.store.locks import Held, Lock
from experiments.store.schema import RunRecord


def recover(home: Home) -> list[RunRecord]:
    """Marks every lost run as lost in its spool, so that status and MLflow say what happened; returns those it marked.

    May be called at any time, by any number of processes: each run is looked at and marked under its lock.
    """
    folders = [RunFolder(home.run_folder / run_id) for run_id in home.run_ids()]
    return [folder.record() for folder in folders if reap(folder)]


def reap(folder: RunFolder) -> bool:
    """Marks one run, if it is lost."""
    if not spool.spools(folder.path) or spool.ending(folder.path) is not None:
        return False
    try:
        with Lock(folder.path / "owner.lock").take(wait_s=0.0):
            return spool.close_lost(folder.path)
    except Held:
        return False
