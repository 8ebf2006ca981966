"""Copying: the runs of a Source become runs of a home, each whole or not there at all.

A run that was copied before is known by where it came from and by the digest of all that its source said of it, so a
second copy adds nothing, a copy that was killed goes on, and a source that says something else now is told apart. Runs
are written in batches: folders under temporary names, one sync of the disks, then their names; a kill leaves whole
runs, and so does a power cut."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from algos.finding import InputError
from experiments.store import changes, pins, records, spool, trash
from experiments.store.copies import Copy, Judging, drafted
from experiments.store.home import Home
from experiments.store.locks import Held, Lock
from experiments.store.schema import FINISHED, Labels, RunFile, RunRecord
from experiments.store.sources import Source
from experiments.store.tracking import tracking_uri
from experiments.store.untracked import Twins

_BATCH = 500
_LOCK_S = 60.0


@dataclass
class Copied:
    """What a copy did. added: ids of runs that are new; anew: of those that took the place of a copy that the source
    had changed or gone on with; already: how many were there. notes: what to know of the runs."""

    study: str
    added: list[str] = field(default_factory=list)
    anew: list[str] = field(default_factory=list)
    already: int = 0
    notes: list[str] = field(default_factory=list)


def copy(
    source: Source,
    home: Home,
    *,
    study: str,
    kind: str = "",
    place: str = "",
    judging: Judging | None = None,
    query: str = "",
    replacing: bool = False,
) -> Copied:
    """Copies the runs that `query` selects of a source into a study of a home.

    kind, place: what the source is and where, as runs tell it (by default, what it says itself). judging: by which
    metric they are compared. replacing: runs that their source has changed since take the place of their copies, which
    go to the home's trash; without it, that is an error. A copy of a run that had not finished gives way by itself.

    InputError, and nothing is changed, where there are no such runs, none of them is finished, none has the metric,
    copies have changed, or a claim rests on a copy that would go.
    """
    return store(drafts(source, study=study, kind=kind, place=place, judging=judging, query=query), home, replacing)


@dataclass(frozen=True)
class Drafts:
    """Runs of a source as they would be in a home, read whole. notes: what its source has to say of them."""

    study: str
    place: str
    copies: Sequence[Copy]
    notes: Sequence[str]


def drafts(
    source: Source, *, study: str, kind: str = "", place: str = "", judging: Judging | None = None, query: str = ""
) -> Drafts:
    """The first half of `copy`, which writes nothing."""
    check_name(study)
    kind, place = kind or str(getattr(source, "kind", "source")), place or str(getattr(source, "place", ""))
    selected = source.runs(query)
    _refuse_empty(source, selected, query, place)
    judging = (judging or Judging()).of(source, selected)
    copies = [drafted(source, record, study, kind, place, judging) for record in selected]
    return Drafts(study, place, copies, [*getattr(source, "notes", ()), *_told(selected)])


def store(drafts: Drafts, home: Home, replacing: bool = False) -> Copied:
    """The second half of `copy`."""
    done = Copied(drafts.study, notes=list(drafts.notes))
    home.prepare()
    with _alone(home):
        before = _Before(home, drafts.study)
        plans = [before.plan(draft) for draft in drafts.copies]
        changed = [(draft, old) for draft, old in zip(drafts.copies, plans) if old and not old.same]
        if not replacing and (finished := [pair for pair in changed if pair[1].finished(home)]):
            raise _changed(home, finished, drafts)
        leaving = [old.file.run_id for _, old in changed] + before.left_behind(drafts.copies)
        _refuse_pinned(home, leaving)
        fresh = [draft for draft, old in zip(drafts.copies, plans) if old is None or not old.same]
        named = before.numbered(fresh, leaving)
        done.already = len(drafts.copies) - len(fresh)
        _write(home, named)
        done.notes += _put_away(home, leaving)
    replaced = {draft.digest for draft, _ in changed}
    for draft in named:
        (done.anew if draft.digest in replaced else done.added).append(draft.file.run_id)
    done.notes += before.told(named, leaving)
    return done


def check_name(study: str) -> None:
    """InputError for what cannot be a study's name."""
    if not study or not study.isprintable() or study != study.strip() or "/" in study:
        raise InputError(f"'{study}' is no study's name", "give printable text without /, as --name", place="--name")


@dataclass
class _Old:
    """The copy that is there of a draft. same: whether it is what the source says now."""

    same: bool
    file: RunFile

    def finished(self, home: Home) -> bool:
        return home.folder(self.file.run_id).record().status in FINISHED


class _Before:
    """The runs of the study that are there already."""

    def __init__(self, home: Home, study: str):
        self._home = home
        self._files = list(_of_study(home, study))
        told = [(file, file.facts.get("source") or {}) for file in self._files]
        self._by_digest = {source["digest"]: file for file, source in told if "digest" in source}
        self._by_place = {_place(source): file for file, source in told if "digest" in source}

    def plan(self, draft: Copy) -> _Old | None:
        if same := self._by_digest.get(draft.digest):
            return _Old(True, same)
        if other := self._by_place.get(_place(draft.file.facts["source"])):
            return _Old(False, other)
        return None

    def left_behind(self, drafts: Sequence[Copy]) -> list[str]:
        """Earlier copies whose place was taken, by a copy that a kill ended before they had gone."""
        now = {_place(draft.file.facts["source"]): draft.digest for draft in drafts}
        told = [(file, file.facts.get("source") or {}) for file in self._files]
        there = {(_place(source), source.get("digest")) for _, source in told}
        return [
            file.run_id
            for file, source in told
            if (place := _place(source)) in now and source.get("digest") != now[place] and (place, now[place]) in there
        ]

    def numbered(self, drafts: Sequence[Copy], leaving: Sequence[str]) -> list[Copy]:
        """The drafts with ids and numbers of their own: a number that is taken becomes the next that is free. Those
        without times are a millisecond apart, so that they stay in the order of their source."""
        taken: dict[tuple[str, str, str], set[int]] = {}
        ids = set(self._home.run_ids())  # of other studies too: the same source may be in several
        for file in self._files:
            if file.run_id not in leaving:
                taken.setdefault(_group(file.labels), set()).add(file.labels.number)
        found: list[Copy] = []
        for draft in drafts:
            used = taken.setdefault(_group(draft.file.labels), set())
            number = draft.file.labels.number
            number = number if number not in used else max(used) + 1
            used.add(number)
            run_id = draft.run_id(ids)
            ids.add(run_id)
            labels = replace(draft.file.labels, number=number)
            created = max(draft.file.created, found[-1].file.created + 1) if found and not draft.timed else 0
            file = replace(draft.file, run_id=run_id, labels=labels, created=created or draft.file.created)
            found.append(replace(draft, file=file))
        return found

    def told(self, drafts: Sequence[Copy], leaving: Sequence[str]) -> list[str]:
        """What keeps runs from being compared: seeds that an arm has several runs of, of which a report counts one, and
        metrics that others of the task are not judged by."""
        return self._of_seeds(drafts, leaving) + self._of_metrics(drafts, leaving)

    def _of_metrics(self, drafts: Sequence[Copy], leaving: Sequence[str]) -> list[str]:
        there: dict[str, dict[str, None]] = {}
        for file in self._files:
            metric = (file.facts.get("task") or {}).get("metric")
            if metric and file.run_id not in leaving:
                there.setdefault(file.labels.task, {})[metric] = None
        new = {(d.file.labels.task, d.file.facts["task"].get("metric") or "") for d in drafts}
        return [
            f"on '{task}' the study's other runs are judged by '{other}', these by '{metric}': a report does not "
            f"compare them (call their columns val/{other} and test/{other} if they are the same)"
            for task, metric in sorted(new)
            if metric and task in there and metric not in there[task]
            for other in [next(iter(there[task]))]
        ]

    def _of_seeds(self, drafts: Sequence[Copy], leaving: Sequence[str]) -> list[str]:
        counts: dict[tuple[str, str, int], int] = {}
        staying = [file.labels for file in self._files if file.run_id not in leaving]
        for labels in [*staying, *(draft.file.labels for draft in drafts)]:
            if labels.phase == "final":
                key = (labels.task, labels.arm, labels.seed)
                counts[key] = counts.get(key, 0) + 1
        several = [(key, count) for key, count in counts.items() if count > 1]
        if not drafts or not several:
            return []
        (task, arm, seed), count = several[0]
        more = f", and so on for {len(several) - 1} more" if len(several) > 1 else ""
        return [
            f"arm '{arm}' has {count} runs of seed {seed} on '{task}'{more}: a report counts the first of each "
            "(name the setting that tells them apart with --arm)"
        ]


def _of_study(home: Home, study: str) -> Iterator[RunFile]:
    mark = f'"study": {json.dumps(study)}'.encode()
    for run_id in home.run_ids():
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            data = (home.run_folder / run_id / "run.json").read_bytes()
            if mark in data:
                file = RunFile.from_json(json.loads(data))
                if file.labels.study == study:
                    yield file


def _place(source: Mapping[str, Any]) -> tuple[str, str, str]:
    return str(source.get("kind")), str(source.get("place")), str(source.get("run"))


def _group(labels: Labels) -> tuple[str, str, str]:
    return labels.task, labels.arm, labels.phase


def _refuse_empty(source: Source, selected: Sequence[RunRecord], query: str, place: str) -> None:
    where = place or "the source"
    if not selected:
        said = f"no run of {where} is selected by '{query}'" if query and source.runs() else f"{where} has no runs"
        raise InputError(said, "look at what it holds", rule="empty-source")
    if not any(record.status in FINISHED for record in selected):
        said = f"{where} has no finished runs ({len(selected)} are {', '.join(sorted({r.status for r in selected}))})"
        raise InputError(said, "import it when some have ended", rule="no-finished-runs")


def _changed(home: Home, changed: Sequence[tuple[Copy, _Old]], drafts: Drafts) -> InputError:
    draft, old = changed[0]
    said = changes.between(home, home.folder(old.file.run_id), draft)
    more = f", and {len(changed) - 1} more" if len(changed) > 1 else ""
    return InputError(
        f"{len(changed)} of {len(drafts.copies)} runs are not what was imported from {drafts.place} before: "
        f"run {old.file.run_id}: {said}{more}",
        "nothing was changed; --replace takes them as they are now", rule="source-changed",
    )  # fmt: skip


def _told(selected: Sequence[RunRecord]) -> list[str]:
    """Runs that are not over, and how they were taken."""
    unfinished = [record for record in selected if record.status not in FINISHED]
    if not unfinished:
        return []
    has = "has" if len(unfinished) == 1 else "have"
    return [
        f"{len(unfinished)} of {len(selected)} runs {has} not finished ({unfinished[0].reason or 'no end is told'})"
    ]


@contextlib.contextmanager
def _alone(home: Home) -> Iterator[None]:
    """Numbers are given by one process at a time."""
    try:
        with Lock(home.path / "numbers.lock").take(wait_s=_LOCK_S):
            yield
    except Held as held:
        raise InputError(str(held), "end that process, then start again", rule="home-busy") from None


def _write(home: Home, drafts: Sequence[Copy]) -> None:
    """Batch by batch: temporary folders, a sync, their names."""
    for start in range(0, len(drafts), _BATCH):
        batch = drafts[start : start + _BATCH]
        temporary = [home.run_folder / records.temporary_name(draft.file.run_id) for draft in batch]
        try:
            for draft, folder in zip(batch, temporary):
                _write_one(draft, folder)
            os.sync()
            for draft, folder in zip(batch, temporary):
                folder.rename(home.run_folder / draft.file.run_id)
        except OSError as error:
            raise spool.clear(error, home.run_folder) from error
        finally:
            for folder in temporary:
                if folder.is_dir():
                    shutil.rmtree(folder, ignore_errors=True)


def _write_one(draft: Copy, folder: Path) -> None:
    (folder / "checkpoints").mkdir(parents=True)
    (folder / "run.json").write_text(json.dumps(draft.file.to_json(), indent=1), encoding="utf-8")
    (folder / "spool.1.jsonl").write_bytes(draft.lines)


def _refuse_pinned(home: Home, run_ids: Sequence[str]) -> None:
    """InputError where a claim rests on a copy that would go."""
    pinned = pins.by_run(pins.every(home.path)) if run_ids else {}
    held = [run_id for run_id in run_ids if run_id in pinned]
    if held:
        path, claim = pinned[held[0]][0]
        said = f'run {held[0]} has changed in its source, but {path} rests on it ("{claim.says}")'
        raise InputError(said, f"import under another name, or `trainlab gc --unpin {path}`", rule="pinned")


def _put_away(home: Home, run_ids: Sequence[str]) -> list[str]:
    """Copies whose place is taken go to the trash, their twins in MLflow are marked as deleted; what could not be."""
    if not run_ids:
        return []
    twins, notes = Twins(tracking_uri()), []
    for run_id in run_ids:
        entry = trash.put(home, run_id)
        if why := twins.remove(entry.path):
            notes.append(f"run {run_id}: its MLflow run is still there ({why}); `trainlab gc` deletes it later")
    return notes
