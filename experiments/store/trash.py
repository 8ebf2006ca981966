"""Trash: where deleted runs lie until `trainlab gc` empties it, whole, so that they can be taken back.

    trash/20261201T104212.<run_id>/        a run's folder as it was
    trash/20261201T104212.study.<name>/    what the home kept of a study beside its runs

A folder comes and goes by being renamed, so whatever dies in between, it is in one place or the other."""

from __future__ import annotations

import calendar
import errno
import os
import shutil
import time
from dataclasses import dataclass
from pathlib import Path

from algos.finding import InputError
from experiments.store import records
from experiments.store.home import Home
from experiments.store.locks import Held, Lock

FOLDER = "trash"
_STAMP = "%Y%m%dT%H%M%S"
_STUDY = "study."
_REMOVING = ".removing."


@dataclass(frozen=True)
class Entry:
    """Something in the trash. name: a run's id, or a study's name. deleted_s: when, seconds since 1970."""

    path: Path
    name: str
    deleted_s: float
    is_study: bool = False

    @property
    def age_days(self) -> float:
        return (time.time() - self.deleted_s) / 86400


def put(home: Home, run_id: str) -> Entry:
    """Moves a run that nobody works on. InputError where somebody does."""
    path = home.run_folder / run_id
    try:
        with Lock(path / "owner.lock").take(wait_s=0.2):
            return _moved(home, path, run_id)
    except Held:
        raise running(run_id) from None


def put_study(home: Home, name: str) -> Entry | None:
    """Moves what the home keeps of a study; None where that is nothing."""
    path = home.path / "studies" / name
    return _moved(home, path, _STUDY + name) if path.is_dir() else None


def entries(home: Home) -> list[Entry]:
    """What is in the trash, oldest first."""
    try:
        names = sorted(entry.name for entry in os.scandir(home.path / FOLDER) if entry.is_dir())
    except FileNotFoundError:
        return []
    return [entry for name in names if (entry := _entry(home.path / FOLDER / name)) is not None]


def study_of(entry: Entry) -> str:
    """The study of a run in the trash; "" where that cannot be read."""
    try:
        return records.read_file(entry.path).labels.study
    except InputError:
        return ""


def take_back(home: Home, entry: Entry) -> Path:
    """Moves an entry to where it was. InputError where there is one of that name again."""
    place = home.path / "studies" if entry.is_study else home.run_folder
    if (place / entry.name).exists():
        kind = "study" if entry.is_study else "run"
        raise InputError(f"{kind} {entry.name} is there again", "delete that one first", rule="run-exists")
    place.mkdir(parents=True, exist_ok=True)
    _rename(entry.path, place / entry.name)
    return place / entry.name


def remove(entry: Entry) -> None:
    """For good. It is renamed first, so that what a kill leaves of it is nothing that could be taken back."""
    going = entry.path.with_name(_REMOVING + entry.path.name)
    entry.path.rename(going)
    shutil.rmtree(going, ignore_errors=True)


def half_removed(home: Home) -> list[Path]:
    """What a kill left of entries that were being removed."""
    return sorted((home.path / FOLDER).glob(f"{_REMOVING}*"))


def size_bytes(path: Path) -> int:
    """What a file or folder takes on the disk; what hard links share is counted once."""
    seen: dict[tuple[int, int], int] = {}
    for file in [path, *path.rglob("*")] if path.is_dir() else [path]:
        try:
            told = file.lstat()
        except FileNotFoundError:
            continue
        if not file.is_dir() or file.is_symlink():
            seen[told.st_dev, told.st_ino] = told.st_size
    return sum(seen.values())


def running(run_id: str) -> InputError:
    """What is said of a run that cannot be moved."""
    return InputError(f"run {run_id} is running", "stop it first, or wait for it", rule="already-running")


def _moved(home: Home, path: Path, name: str) -> Entry:
    folder = home.path / FOLDER
    try:
        folder.mkdir(exist_ok=True)
    except FileExistsError:
        raise InputError(f"{folder} is no folder", "move it away: runs are deleted to it", rule="no-trash") from None
    target = folder / f"{time.strftime(_STAMP, time.gmtime())}.{name}"
    if target.exists():  # deleted, made again under its id and deleted again within a second
        time.sleep(1.0)
        return _moved(home, path, name)
    _rename(path, target)
    entry = _entry(target)
    assert entry is not None
    return entry


def _rename(path: Path, target: Path) -> None:
    """InputError where the two are on different disks: a copy could be killed in the middle."""
    try:
        path.rename(target)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        cure = f"make {FOLDER}/ in the home a link to a folder on the disk that has its runs"
        raise InputError(f"{path.parent} and {target.parent} are on different disks", cure, rule="two-disks") from None


def _entry(path: Path) -> Entry | None:
    """None for what we did not put there."""
    stamp, _, name = path.name.partition(".")
    try:
        at = calendar.timegm(time.strptime(stamp, _STAMP))
    except ValueError:
        return None
    return Entry(path, name.removeprefix(_STUDY), at, name.startswith(_STUDY)) if name else None
