"""Files of nobody: what a dead process was writing, held, or kept aside."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from experiments.store import spool
from experiments.store.checks.visit import Visit, abandoned, listed, owned
from experiments.store.locks import Lock, is_held
from experiments.store.tracking import sqlite_path

#: Files that are written beside their place, and renamed.
_LEFT = (".*.new-*", ".new-*", ".probe-*", ".*.tmp", ".*.[0-9]*")

#: After so long, what may have been coming or going is looked at again.
_AGAIN_S = 0.2


def check(visit: Visit) -> None:
    home = visit.home.path
    for folder in (home, visit.home.run_folder, home / "workers", *sorted((home / "studies").glob("*/"))):
        _remove(visit, folder, "")
    _workers(visit)
    _locks(visit)
    for run in visit.idle():
        _remove(visit, run.path, f"run {run.run_id}")
        _remove(visit, run.checkpoints, f"run {run.run_id}")
        ballast = run.path / "ballast"
        if ballast.exists() and (spool.ending(run.path) or not spool.spools(run.path)):  # else it goes with the mark
            said = "holds room for a last word, and nobody works on it"
            visit.mend("ballast", f"run {run.run_id}", said, "freed", partial(_free, run.path, ballast))


def left_in(folder: Path) -> list[Path]:
    """What dead processes were writing in a folder."""
    return sorted({path for pattern in _LEFT for path in folder.glob(pattern) if abandoned(path)})


def _remove(visit: Visit, folder: Path, source: str) -> None:
    for path in left_in(folder):
        where = source or str(path.relative_to(visit.home.path))
        said = f"{path.name} was being written by a process that is gone" if source else "its writer is gone"
        visit.mend("leftover", where, said, "removed", partial(_delete, path))


def _delete(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _free(run: Path, ballast: Path) -> None:
    with owned(run):
        ballast.unlink(missing_ok=True)


def _workers(visit: Visit) -> None:
    """Signs of life of workers that are dead."""
    folder = visit.home.path / "workers"
    signs = {path.with_suffix("") for pattern in ("*.lock", "*.json") for path in folder.glob(pattern)}
    gone = sorted(path for path in signs if not is_held(path.with_name(f"{path.name}.lock")))
    if gone:  # one may have been coming or going: looked at again
        time.sleep(_AGAIN_S)
        gone = [path for path in gone if _sign(path) and not is_held(path.with_name(f"{path.name}.lock"))]
    if gone:
        names = listed(path.name for path in gone)

        def act() -> None:
            for path in gone:
                _if_free(path.with_name(f"{path.name}.lock"), remove=True)
                path.with_name(f"{path.name}.json").unlink(missing_ok=True)

        visit.mend("dead-worker", "workers", f"{names} left signs of life and are gone", "removed", act)


def _sign(path: Path) -> bool:
    return any(path.with_name(f"{path.name}{end}").exists() for end in (".lock", ".json"))


def _locks(visit: Visit) -> None:
    """Locks that name an owner who is gone. (A lock without an owner is empty, or not there.)"""
    named = [path for path in _of_home(visit) if _names_nobody(path)]
    if named:  # one may have been let go just now
        time.sleep(_AGAIN_S)
        named = [path for path in named if _names_nobody(path)]
    database = sqlite_path(visit.uri)
    turn = database.with_name(f".{database.name}.init") if database is not None else None
    passing = [turn] if turn is not None and turn.exists() and not is_held(turn) else []
    if named or passing:
        names = listed(_shown(visit, path) for path in (*named, *passing))

        def act() -> None:
            for path in named:
                _if_free(path, remove=False)
            for path in passing:
                _if_free(path, remove=True)

        visit.mend("dead-lock", "locks", f"{names}: the process that they name is gone", "let go", act)


def _names_nobody(path: Path) -> bool:
    try:
        return bool(path.stat().st_size) and not is_held(path)
    except FileNotFoundError:
        return False


def _of_home(visit: Visit) -> Iterator[Path]:
    home = visit.home.path
    yield from (home / "uploader.lock", home / "queue.lock", *sorted((home / "studies").glob("*/lock")))
    yield from (visit.home.run_folder / run_id / "owner.lock" for run_id in visit.home.run_ids())


def _shown(visit: Visit, path: Path) -> str:
    return str(path.relative_to(visit.home.path)) if path.is_relative_to(visit.home.path) else str(path)


def _if_free(path: Path, remove: bool) -> None:
    Lock(path).take(wait_s=0.0, remove=remove).release()
