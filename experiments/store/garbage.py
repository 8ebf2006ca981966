"""Garbage: what takes room in a home and is needed no more: old trash, second checkpoints of runs that are over, what
dead processes were writing. Never anything of a run that a claim rests on, or that somebody works on.

Of a run that is over, `last.pt`, its best weights and `model.safetensors` stay, so that it can be forked, gone on from
and tested again. `previous.pt` is there for a kill in the middle of a training, which can happen no more; without it, a
fork at that one update computes it again."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from experiments.store import pins, spool, trash
from experiments.store.checks.files import left_in
from experiments.store.checks.visit import owned
from experiments.store.home import Home, RunFolder
from experiments.store.locks import Held, is_held
from experiments.store.schema import FINISHED
from experiments.store.untracked import Twins

DAYS = 30.0
_LAST, _PREVIOUS = "last.pt", "previous.pt"
_BEST = re.compile(r"best\.(\d+)\.safetensors")


@dataclass(frozen=True)
class Piece:
    """Something to remove. what: in words; where: the run, or the folder in the home."""

    kind: str
    where: str
    what: str
    size_bytes: int


@dataclass
class Collection:
    """What was removed, or would be. notes: what was left, and why."""

    pieces: list[Piece] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def size_bytes(self) -> int:
        return sum(piece.size_bytes for piece in self.pieces)


def collect(home: Home, uri: str, *, days: float = DAYS, dry_run: bool = False) -> Collection:
    """Removes what is needed no more; with dry_run, only says what. days: so old trash is emptied. uri: MLflow's place.
    InputError, and nothing removed, where it is not known what claims rest on."""
    known = pins.every(home.path)
    pinned = set(pins.by_run(known))
    found = Collection(notes=[_said_of(each) for each in known if each.gone])
    if not home.path.is_dir():
        return found
    twins = Twins(uri)
    if not dry_run:
        _restore_twins(home, twins, found.notes)
    for piece, act in (*_trash(home, pinned, days, twins, found.notes, dry_run), *_of_runs(home, pinned), *_left(home)):
        if not dry_run:
            try:
                act()
            except Held:
                continue  # somebody has just taken it up
            except OSError as error:
                found.notes.append(f"{piece.where}: {piece.what} could not be removed ({error.strerror})")
                continue
        found.pieces.append(piece)
    return found


def _said_of(gone: pins.Pins) -> str:
    return f"{gone.path} {gone.farewell}"


def _restore_twins(home: Home, twins: Twins, notes: list[str]) -> None:
    """Of runs that were taken back from the trash, and whose twins a kill or a server that was away left deleted."""
    for run_id in home.run_ids():
        folder = home.run_folder / run_id
        if twins.is_back(folder) and (why := twins.restore(folder)):
            notes.append(f"run {run_id}: its MLflow run is still deleted ({why})")


Step = tuple[Piece, Callable[[], object]]


def _trash(home: Home, pinned: set[str], days: float, twins: Twins, notes: list[str], dry_run: bool) -> Iterator[Step]:
    """Entries that are old enough. What a kill or a server that was away left undone at MLflow is done first. What a
    study's pinned runs need to be taken back stays with them."""
    known = trash.entries(home)
    studies = {trash.study_of(entry) for entry in known if not entry.is_study and entry.name in pinned}
    for entry in known:
        if entry.is_study and entry.name in studies:
            continue
        where = f"study {entry.name}" if entry.is_study else f"run {entry.name}"
        if not entry.is_study and entry.name in pinned:
            notes.append(f"{where} is in the trash, and a claim rests on it: `trainlab delete --restore {entry.name}`")
            continue
        if not entry.is_study and twins.waits(entry.path) and not dry_run and (why := twins.remove(entry.path)):
            notes.append(f"{where}: its MLflow run is still there ({why}), so it stays in the trash")
            continue
        if entry.age_days >= days:
            age = f"deleted {entry.age_days:.0f} days ago"
            yield Piece("trash", where, age, trash.size_bytes(entry.path)), partial(trash.remove, entry)
    for path in trash.half_removed(home):
        piece = Piece("trash", "trash", "half removed before", trash.size_bytes(path))
        yield piece, partial(_remove, path)


def _of_runs(home: Home, pinned: set[str]) -> Iterator[Step]:
    """Second checkpoints, and what dead processes were writing in a run's folder."""
    for run_id in home.run_ids():
        folder = RunFolder(home.run_folder / run_id)
        if run_id in pinned or is_held(folder.path / "owner.lock"):
            continue
        for path in (*left_in(folder.path), *left_in(folder.checkpoints)):
            yield _piece("leftover", f"run {run_id}", path), partial(_remove, path)
        try:
            needless = _needless(folder)
        except (OSError, ValueError):  # broken: the doctor's
            continue
        for path in needless:
            yield _piece("checkpoint", f"run {run_id}", path), partial(_remove_owned, folder, path)


def _needless(folder: RunFolder) -> list[Path]:
    """What only an interruption would have needed, of a run that is over; nothing of a loop that is not ours."""
    ended = spool.ending(folder.path) if folder.path.is_dir() else None
    over = ended is not None and ended["status"] in FINISHED
    if not over or folder.file.facts.get("recorded") or not _whole(folder.checkpoints / _LAST):
        return []
    previous = folder.checkpoints / _PREVIOUS
    best = sorted(
        (int(match[1]), path) for path in folder.checkpoints.iterdir() if (match := _BEST.fullmatch(path.name))
    )
    return [*([previous] if previous.exists() else []), *(path for _, path in best[:-1])]


def _whole(path: Path) -> bool:
    """Whether a checkpoint, which is a zip file, has all its bytes as they were."""
    try:
        with zipfile.ZipFile(path) as file:
            return file.testzip() is None
    except (OSError, zipfile.BadZipFile):
        return False


def _left(home: Home) -> Iterator[Step]:
    """What dead processes were writing beside the runs."""
    folders = (home.path, home.run_folder, home.path / pins.FOLDER, *sorted((home.path / "studies").glob("*/")))
    for folder in folders:
        for path in left_in(folder):
            where = str(folder.relative_to(home.path))
            yield _piece("leftover", "the home" if where == "." else where, path), partial(_remove, path)


def _piece(kind: str, where: str, path: Path) -> Piece:
    """What removing a file gives back: nothing where another name has it too."""
    shared = path.is_file() and path.stat().st_nlink > 1
    return Piece(kind, where, path.name, 0 if shared else trash.size_bytes(path))


def _remove_owned(folder: RunFolder, path: Path) -> None:
    with owned(folder.path):
        _remove(path)


def _remove(path: Path) -> None:
    import shutil

    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
