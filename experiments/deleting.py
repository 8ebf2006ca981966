"""Deleting: runs go to the home's trash, their MLflow twins are marked as deleted, and the queue is told.

    plan = delete(Home.default(), ["20261201-104212-7f3a2c"], dry_run=True)

Never what a claim rests on, and never what runs, or belongs to a study that is being run: then nothing is deleted at
all. What comes first is the folder's move; a kill after it leaves the rest to `trainlab gc`.

What becomes of a study: a run that is deleted alone is due again. The next sweep makes it anew, under its number, with
its seed and, of a tuning run, its parameters; until then no winner is chosen by it. Samplers keep its value in their
history. A whole study that is deleted is forgotten by the home's queue too, so that a sweep of that name begins
afresh; taken back, its runs are told to the queue again by the next sweep."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from algos.finding import InputError, unknown
from experiments.store import pins, records, trash
from experiments.store.home import Home
from experiments.store.locks import Held, Lock
from experiments.store.queries import find, flatten
from experiments.store.schema import RunRecord
from experiments.store.sources.home import HomeSource
from experiments.store.tracking import tracking_uri
from experiments.store.untracked import Twins

if TYPE_CHECKING:
    from optuna.storages import BaseStorage

_SHOWN = 3


@dataclass(frozen=True)
class Deletion:
    """What was deleted, or would be. runs: the records, as they were. size_bytes: what they take, and give back when
    the trash is emptied. notes: what to know of it."""

    runs: tuple[RunRecord, ...]
    size_bytes: int
    notes: list[str] = field(default_factory=list)


def delete(
    home: Home, runs: Sequence[str] = (), *, study: str = "", dry_run: bool = False, storage: str = ""
) -> Deletion:
    """Moves runs, by id, start of id or name, or all of a study, to the trash. storage: the queue's URL, where it is
    not in the home. InputError, and nothing changed, where one of them is pinned or runs, or there is none."""
    if storage:
        from experiments.sweeps.storage import check_storage

        check_storage(storage)
    chosen = _chosen(home, runs, study)
    _refuse(home, chosen)
    studies = {record.labels.study for record in chosen if record.labels.study}
    if not storage:
        _refuse_shared(home, studies)
    with _alone(home, studies):
        size = sum(trash.size_bytes(home.run_folder / record.run_id) for record in chosen)
        done = Deletion(tuple(chosen), size, _notes(home, chosen, study))
        if dry_run:
            return done
        twins = Twins(tracking_uri())
        for record in chosen:
            entry = trash.put(home, record.run_id)
            _untrack(twins, entry, done.notes)
        if study and _folder(home, study):
            trash.put_study(home, study)
        earlier = _lying(home, study) if study else []  # of a deletion that was killed in the middle, too
        _tell_queue(home, earlier or chosen, study, storage)
    return done


def take_back(home: Home, runs: Sequence[str] = (), *, study: str = "", storage: str = "") -> Deletion:
    """Brings runs back from the trash. InputError where they are not there."""
    known = [entry for entry in trash.entries(home) if not entry.is_study]
    kept = [entry for entry in trash.entries(home) if entry.is_study and entry.name == study]
    if study:
        chosen = [entry for entry in known if trash.study_of(entry) == study]
        if not chosen and not kept:
            raise unknown("deleted study", study, {trash.study_of(entry) for entry in known} - {""})
    else:
        if not runs:
            raise InputError("nothing is named", "give runs, or --study NAME", rule="nothing-named")
        chosen = [_in_trash(known, text) for text in dict.fromkeys(runs)]
    for entry in chosen:
        if (home.run_folder / entry.name).exists():
            raise InputError(f"run {entry.name} is there again", "delete that one first", rule="run-exists")
    twins, notes = Twins(tracking_uri()), []
    for entry in chosen:
        path = trash.take_back(home, entry)
        if why := twins.restore(path):
            notes.append(f"run {entry.name}: its MLflow run is still deleted ({why})")
    if study and kept and not (home.path / "studies" / study).exists():
        trash.take_back(home, kept[-1])
    records = [home.folder(entry.name).record() for entry in chosen]
    whole = home.records() if study else []  # what a restoring that was killed brought back before
    _restored_in_queue(home, [r for r in whole if r.labels.study == study] or records, storage)
    return Deletion(tuple(records), sum(trash.size_bytes(home.run_folder / r.run_id) for r in records), notes)


def _lying(home: Home, study: str) -> list[RunRecord]:
    """The runs of a study that are in the trash and not in the home."""
    told = [entry for entry in trash.entries(home) if not entry.is_study and trash.study_of(entry) == study]
    return [records.load(e.path, keep=False) for e in told if not (home.run_folder / e.name).exists()]


def _in_trash(known: Sequence[trash.Entry], text: str) -> trash.Entry:
    found = [entry for entry in known if entry.name == text] or [e for e in known if text and e.name.startswith(text)]
    if len(found) > 1 and len({entry.name for entry in found}) == 1:
        return found[-1]
    if len(found) != 1:
        if found:
            raise InputError(f"'{text}' means any of {len(found)} runs", "give more of the id", rule="ambiguous-run")
        raise unknown("deleted run", text, {entry.name for entry in known})
    return found[0]


def _chosen(home: Home, runs: Sequence[str], study: str) -> list[RunRecord]:
    if bool(runs) == bool(study):
        said = "runs and a study are named" if runs else "nothing is named"
        raise InputError(said, "give runs, or --study NAME", rule="nothing-named")
    if study:
        everything = home.records()
        found = [record for record in everything if record.labels.study == study]
        if not found and not (_folder(home, study) and _lying(home, study)):
            raise unknown("study", study, {r.labels.study for r in everything if r.labels.study})
        return found
    source = HomeSource(home)
    return list({record.run_id: record for record in (_found(home, source, text) for text in runs)}.values())


def _found(home: Home, source: HomeSource, text: str) -> RunRecord:
    try:
        return find(source, text)
    except InputError:
        if any(entry.name == text for entry in trash.entries(home) if not entry.is_study):
            cure = f"`trainlab delete --restore {text}` brings it back"
            raise InputError(f"run {text} is in the trash already", cure, rule="unknown-run") from None
        raise


def _refuse(home: Home, chosen: Sequence[RunRecord]) -> None:
    """InputError where a claim rests on one of them, or one runs."""
    pinned = pins.by_run(pins.every(home.path))
    held = [record.run_id for record in chosen if record.run_id in pinned]
    if held:
        path, claim = pinned[held[0]][0]
        more = f" and {len(held) - _SHOWN} more" if len(held) > _SHOWN else ""
        one = len(held) == 1
        said = f"run{'' if one else 's'} {', '.join(held[:_SHOWN])}{more} {'is' if one else 'are'} pinned by {path}"
        gone = "" if path.exists() else ", which is gone (if it was moved, verify it where it is now)"
        cure = f"it says “{claim.says}”{gone}; `trainlab gc --unpin {path}` lets them go"
        raise InputError(said, cure, rule="pinned")
    for record in chosen:
        if record.status == "running":
            raise trash.running(record.run_id)


@contextmanager
def _alone(home: Home, studies: set[str]) -> Iterator[None]:
    """While nobody sweeps the studies. InputError where somebody does."""
    from experiments.sweeps.lease import workers

    with ExitStack() as held:
        for name in sorted(studies):
            place = _folder(home, name)
            try:
                if place is not None:
                    held.enter_context(Lock(place / "lock").take(wait_s=0.2))
            except Held as error:
                raise _swept(name, str(error.owner.get("pid", "?"))) from None
            if alive := workers(home, name):
                raise _swept(name, ", ".join(str(worker["pid"]) for worker in alive))
        yield


def _swept(study: str, who: str) -> InputError:
    cure = "stop it first: it would make deleted runs again at once"
    return InputError(f"study {study} is being run (pid {who})", cure, rule="already-running")


def _folder(home: Home, study: str) -> Path | None:
    """What the home keeps of a study beside its runs; None where that is nothing."""
    path = home.path / "studies" / study
    return path if study not in ("", ".", "..") and "/" not in study and path.is_dir() else None


def _swept_here(home: Home, study: str) -> bool:
    folder = _folder(home, study)
    return folder is not None and (folder / "study.json").exists()


def _refuse_shared(home: Home, studies: set[str]) -> None:
    """InputError where a study was swept here with a queue elsewhere, which would still count what is deleted."""
    journal = home.path / "optuna.journal"
    text = journal.read_bytes() if journal.exists() else b""
    for name in sorted(studies):
        queued = re.search(rb'"study_name":\s*' + re.escape(json.dumps(f"{name}/")[:-1].encode()), text)
        if _swept_here(home, name) and not queued:
            said = f"the queue of study {name} is not in this home"
            raise InputError(said, "give its place, as to the sweep: --storage URL", rule="storage")


def _notes(home: Home, chosen: Sequence[RunRecord], study: str) -> list[str]:
    notes = []
    ids = {record.run_id for record in chosen}
    if not study:
        for name in sorted({r.labels.study for r in chosen if not r.file.facts.get("recorded")} - {""}):
            if _swept_here(home, name):
                count = sum(record.labels.study == name for record in chosen)
                what = "its trial is" if count == 1 else f"their {count} trials are"
                notes.append(
                    f"study {name}: {what} due again; `trainlab sweep` makes {'it' if count == 1 else 'them'} anew, "
                    "with the same seed and settings"
                )
    for record in home.records():
        if record.run_id not in ids and (begun := _begun_from(record) & ids):
            notes.append(f"run {record.run_id} was begun from {', '.join(sorted(begun))}: it cannot be replayed alone")
    return notes


def _begun_from(record: RunRecord) -> set[str]:
    """The runs that a run needs to be computed again."""
    initial = str(flatten(record.config).get("init") or "")
    named = {initial.removeprefix("run:").partition("@")[0]} if initial.startswith("run:") else set()
    return (named | {record.file.parent}) - {""}


def _untrack(twins: Twins, entry: trash.Entry, notes: list[str]) -> None:
    if why := twins.remove(entry.path):
        notes.append(f"run {entry.name}: its MLflow run is still there ({why}); `trainlab gc` deletes it later")
    if other := twins.elsewhere(entry.path):
        notes.append(f"run {entry.name} is also in {', '.join(other)}: delete it there")


# The queue


def _tell_queue(home: Home, chosen: Sequence[RunRecord], study: str, storage: str) -> None:
    """The home's queue forgets a whole study; of single runs, and of a queue that other homes share, Optuna's study
    says which results are deleted."""
    queue = _queue(home, storage)
    if queue is None:
        return
    import optuna

    if not study or storage:
        _note(queue, chosen, deleted=True)
        return
    for each in queue.get_all_studies():
        if each.study_name.startswith(f"{study}/"):
            optuna.delete_study(study_name=each.study_name, storage=queue)


def _restored_in_queue(home: Home, records: Sequence[RunRecord], storage: str) -> None:
    if (queue := _queue(home, storage)) is not None:
        _note(queue, records, deleted=False)


def _queue(home: Home, storage: str) -> BaseStorage | None:
    if not storage and not (home.path / "optuna.journal").exists():
        return None
    from experiments.sweeps.storage import open_storage

    return open_storage(storage, home.path)


def _note(queue: BaseStorage, records: Sequence[RunRecord], deleted: bool) -> None:
    import optuna

    from experiments.sweeps.queue import DELETED, study_name

    by_study: dict[str, list[str]] = {}
    for record in records:
        if record.labels.study and not record.file.facts.get("recorded"):
            by_study.setdefault(study_name(record.labels), []).append(record.run_id)
    known = {each.study_name for each in queue.get_all_studies()}
    for name, ids in by_study.items():
        if name in known:
            found = optuna.load_study(study_name=name, storage=queue)
            before = [run for run in found.user_attrs.get(DELETED, []) if run not in ids]
            found.set_user_attr(DELETED, before + ids if deleted else before)
