"""Runs: what a dead process left of one that its folder does not say, or says wrongly."""

from __future__ import annotations

import json
import zipfile
import zlib
from functools import partial
from pathlib import Path

from algos.finding import InputError
from experiments.store import records, recovery, spool
from experiments.store.checks.visit import Visit, owned
from experiments.store.home import RunFolder
from experiments.store.schema import RESUMABLE

_LAST = "last.pt"


def check(visit: Visit) -> None:
    for folder in visit.idle():
        try:
            folder.file  # noqa: B018 (it is read)
        except InputError as error:
            _broken(visit, folder, error)
            continue
        _unmarked(visit, folder)
        _record(visit, folder)
        _checkpoint(visit, folder)


def _broken(visit: Visit, folder: RunFolder, error: InputError) -> None:
    """What cannot be read, or is a copy, is moved out of the way, where it can be looked into."""
    aside = _free(folder.path.with_name(f".broken-{folder.run_id}"))

    def act() -> None:
        with owned(folder.path):
            folder.path.rename(aside)

    cause = error.__cause__
    why = "is not there" if isinstance(cause, FileNotFoundError) else f"cannot be read ({cause})"
    if cause is None:
        why = "is another run's: a copy, or somebody exchanged the two"
    visit.mend("broken-run", f"run {folder.run_id}", f"its run.json {why}", f"moved to runs/{aside.name}", act)


def _free(path: Path) -> Path:
    number = 1
    while path.exists():
        number += 1
        path = path.with_name(f"{path.name.rpartition('~')[0] or path.name}~{number}")
    return path


def _unmarked(visit: Visit, folder: RunFolder) -> None:
    if spool.spools(folder.path) and spool.ending(folder.path) is None:
        act = partial(_reap, folder)
        visit.mend("lost-run", f"run {folder.run_id}", "its process vanished and nobody said so", "marked as lost", act)


def _reap(folder: RunFolder) -> None:
    recovery.reap(folder)


def _record(visit: Visit, folder: RunFolder) -> None:
    """record.json is a copy of what the spools add up to."""
    path = folder.path / "record.json"
    try:
        json.loads(path.read_bytes())
    except FileNotFoundError:
        return
    except (OSError, ValueError):
        said = "its record.json cannot be read"
    else:
        if not records.disagrees(folder.path):
            return
        said = "its record.json says other than its spools"

    def act() -> None:
        path.unlink()
        records.load(folder.path)

    visit.mend("stale-record", f"run {folder.run_id}", said, "made anew from the spools", act)


def _checkpoint(visit: Visit, folder: RunFolder) -> None:
    """A run that is to go on does so from a checkpoint that is whole."""
    path = folder.checkpoints / _LAST
    ended = spool.ending(folder.path)
    if not path.exists() or _whole(path, every_byte=ended is None or ended["status"] in RESUMABLE):
        return

    def act() -> None:
        with owned(folder.path):
            path.unlink()

    before = (folder.checkpoints / "previous.pt").exists()
    instead = "the one before it is used" if before else "the run goes on from its start"
    visit.mend(
        "broken-checkpoint", f"run {folder.run_id}", f"checkpoints/{_LAST} is damaged", f"removed: {instead}", act
    )


def _whole(path: Path, every_byte: bool) -> bool:
    """Whether a checkpoint, which is a zip file, has its end, and, where asked, all its bytes as they were."""
    try:
        with zipfile.ZipFile(path) as file:
            return not every_byte or file.testzip() is None
    except (OSError, zipfile.BadZipFile, zlib.error, ValueError, EOFError):
        return False
