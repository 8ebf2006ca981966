"""Evidence: reports and claims held against the store, and what their numbers rest on kept or removed.

tl.verify("digits-report/report.json")        computes every number again, and says what changed
tl.verify("claims.yaml")                      the same of the sentences of a paper; pins the runs they rest on
tl.delete("20261201-104212-7f3a2c")           to the trash, unless a claim rests on it
tl.gc()                                       frees what is needed no more
"""

from __future__ import annotations

import contextlib
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from algos.finding import InputError
from experiments.store import pins
from experiments.store.home import Home
from experiments.store.pins import Pin, Pins
from experiments.store.sources import Source
from experiments.store.spool import now_ms
from experiments.store.uncached import UncachedHome

if TYPE_CHECKING:
    from experiments.deleting import Deletion
    from experiments.store.garbage import Collection
    from reports.document import Document

_REPORT = "report.json"
#: A file of claims that is larger is none.
_MOST_BYTES = 5_000_000


@dataclass(frozen=True)
class Verified:
    """What a verification found. holds: nothing changed, every claim holds. lines: for people; data: all of it.
    outcome: in one line."""

    holds: bool
    lines: tuple[str, ...]
    data: dict[str, Any]
    outcome: str = ""

    def __str__(self) -> str:
        return "\n".join(self.lines)

    __repr__ = __str__


def verify(file: str | Path, *, source: str = "", pin: bool = False) -> Verified:
    """Reads the store again and computes every number of a report.json, or of the claims in a .yaml file, anew.

    source: "home", a home's folder, "mlflow" or an MLflow URI; by default what the report was made from, else the home.
    pin: a report's runs are pinned, so that nothing removes them; those of claims that hold always are. InputError for
    what is neither, and where the store or the study is gone.
    """
    path = Path(file)
    path = path / _REPORT if path.is_dir() else path
    if path.suffix in (".yaml", ".yml"):
        return _claims(path, source)
    if path.suffix == ".json":
        return _report(path, source, pin)
    raise InputError("this is no report and no file of claims", "give a report.json or a .yaml file", source=str(path))


def verify_all(source: str = "") -> Verified:
    """Verifies every report and file of claims that the home knows of by its pins, each told in one line; one that is
    gone or cannot be verified does not hold, and keeps none of the others from being verified. InputError where there
    is no store, or nothing is pinned."""
    home = opened(source).home or Home.default()
    known, wrong = pins.readable(home.path)
    if not known and not wrong:
        cure = "verify a claims.yaml once, or a report with --pin: then it is known"
        raise InputError(f"nothing is pinned in {home.path}", cure, rule="no-pins")
    told: list[tuple[bool, str, dict[str, Any]]] = []
    for each in known:
        try:
            found = verify(each.path, source=source or str(home.path))
            told.append((found.holds, f"{each.path}: {found.outcome}", found.data))
        except InputError as error:
            told.append((False, f"{each.path}: {_unverified(error, each)}", {"file": str(each.path), "holds": False}))
    told += [(False, str(error), {"file": "", "holds": False}) for error in wrong]
    holding = sum(holds for holds, _, _ in told)
    lines = [f"{'holds' if holds else 'does not hold'}: {line}" for holds, line, _ in told]
    files = [{**data, "said": line} for _, line, data in told]
    outcome = f"{holding} of {len(told)} file{'s' * (len(told) > 1)} hold{'s' * (len(told) == 1)}"
    whole = holding == len(told)
    return Verified(whole, (*lines, outcome), {"holds": whole, "files": files}, outcome)


def _unverified(error: InputError, known: Pins) -> str:
    """Why a file cannot be verified, without its path."""
    if known.gone:
        return f"it {known.farewell}"
    return str(error).removeprefix(f"{known.path}: ")


def numbers(file: str | Path) -> list[tuple[str, str]]:
    """The numbers of a report.json that a claim can cite: (the number as it is shown, its key)."""
    from reports.verifying import places, report

    path = Path(file)
    document = report.load(path / _REPORT if path.is_dir() else path)
    return [(each.quantity.text, key) for key, each in places.numbers(document).items()]


def cited(key: str) -> str:
    """A key as YAML takes it: quoted, where it would be read as something else.

    >>> print(cited("results/digits/adam/p"), cited("device: name"))
    results/digits/adam/p "device: name"
    """
    plain = not any(mark in key for mark in (": ", " #", "\n", '"')) and key[:1].isalnum() and not key.endswith(":")
    return key if plain else json.dumps(key, ensure_ascii=False)


@dataclass(frozen=True)
class Store:
    """Where runs are read. home: where what they are pinned by is kept; None for MLflow."""

    source: Source
    home: Home | None = None


def opened(given: str) -> Store:
    """Where runs are read, as it was given. InputError where there is no store."""
    if given in ("", "home") or (Path(given) / "runs").is_dir():
        home = Home.default() if given in ("", "home") else Home(given)
        if not home.run_folder.is_dir():
            cure = "set TRAINLAB_HOME, work in the folder that has .trainlab, or give --source an MLflow URI"
            raise InputError(f"there are no runs in {home.path}", cure, rule="no-store")
        return Store(UncachedHome(home), home)
    return Store(_mlflow(given))


def _mlflow(given: str) -> Source:
    from experiments.store.sources.mlflow import MLflowSource
    from experiments.store.tracking import absolute, check_tracking, shown, sqlite_path, tracking_uri
    from experiments.store.untracked import PATIENCE
    from reports.verifying.answering import Answering

    uri = tracking_uri() if given == "mlflow" else absolute(given)
    try:
        check_tracking(uri)
    except InputError as error:
        said = error.finding.said.removesuffix(" (nothing was run)")
        raise InputError(said, "give --source home, a home's folder, or an MLflow URI", rule="no-store") from None
    path = sqlite_path(uri)
    if path is not None and not path.exists():
        raise InputError(f"{shown(uri)} is not there", "give --source home, or another store", rule="no-store")
    for name, value in PATIENCE.items():
        os.environ.setdefault(name, value)
    return Answering(MLflowSource(uri), shown(uri))


def _report(path: Path, source: str, pin: bool) -> Verified:
    from reports.verifying import report, told

    document = report.load(path)
    kind = source or (document.basis.source if document.basis else "")
    store = opened("mlflow" if kind == "mlflow" else source)
    try:
        found = report.verify(document, store.source)
    except InputError as error:
        raise _with_trash(error, store, document.study).at(source=str(path)) from None
    notes = _notes(document, found.made_by)
    if pin or (store.home and pins.place(store.home.path, path).exists()):
        before = pins.load(store.home.path, path) if store.home and not found.none else Pins(path.absolute())
        notes.append(_keep(store, _all_runs(path, document, before)))
    lines = told.of_report(found, f"{path}: study {document.study}", "; ".join(filter(None, notes)))
    data = {"file": str(path), "study": document.study, **told.changes_json(found)}
    return Verified(found.none, tuple(lines), data, told.outcome(found))


def _with_trash(error: InputError, store: Store, study: str) -> InputError:
    """A study that is not there any more, but could be."""
    from experiments.store import trash
    from experiments.store.records import read_file

    if store.home is None or error.finding.rule != "unknown-study":
        return error
    lying = []
    for entry in trash.entries(store.home):
        with contextlib.suppress(InputError):  # one that is damaged says nothing
            lying += [] if entry.is_study else [read_file(entry.path)]
    if all(file.labels.study != study for file in lying):
        return error
    cure = f"`trainlab delete --restore --study {study}` brings it back from the trash"
    return InputError(f"study '{study}' was deleted", cure, rule=error.finding.rule)


def _notes(document: Document, made_by: str) -> list[str]:
    """What else may make a document other than it was."""
    told = []
    if document.basis is None:
        told.append("it does not say what its runs were, so edited runs are told by their final values alone")
    if made_by not in ("", document.made_by):
        told.append(f"written by {document.made_by}, and this is {made_by}")
    return told


def _all_runs(path: Path, document: Document, before: Pins) -> Pins:
    """A report pins every run it was made from. before: what stays pinned beside those."""
    from reports.verifying.changes import names

    told = {each.run_id: each for each in document.basis.runs} if document.basis else {}
    runs = tuple(told) or tuple(names(document))
    claim = Pin(document.title, document.study, "all of its numbers", document.summary, runs)
    prints = {run: each.model_dump(exclude={"run_id"}) for run, each in told.items()}
    kept = tuple(each for each in before.claims if set(each.runs) - set(runs))
    return Pins(path.absolute(), (claim, *kept), {**before.prints, **prints}, now_ms())


def _claims(path: Path, source: str) -> Verified:
    from experiments.yaml_lines import load_yaml
    from reports.verifying import told
    from reports.verifying.claims import read
    from reports.verifying.judging import judge

    try:
        if path.exists() and path.stat().st_size > _MOST_BYTES:
            raise InputError("this is too large for claims", "give a file of claims", source=str(path))
        data, lines = load_yaml(path)
    except InputError:
        raise
    except (ValueError, TypeError, AttributeError, RecursionError) as error:  # of the library that reads YAML
        why = " ".join(str(error).split())[:160]
        raise InputError(f"this YAML cannot be read ({why})", "write it more plainly", source=str(path)) from None
    try:
        claims, store = read(data), opened(source)
        before = pins.load((store.home or Home.default()).path, path)
        found = judge(claims, store.source, before, now_ms())
    except InputError as error:
        raise lines.locate(error) if error.finding.place else error.at(source=str(path)) from None
    note = _keep(store, found.pins) if found.pins.claims or before.claims else ""
    shown = told.of_claims(found, f"{path}: {len(claims)} claim{'s' if len(claims) > 1 else ''}", note)
    return Verified(found.holds, tuple(shown), {"file": str(path), **told.judgement_json(found)}, told.counted(found))


def _keep(store: Store, kept: Pins) -> str:
    """Pins runs in the home that they were read from; why that could not be, "" where it could."""
    if store.home is None:
        return "its runs are not pinned: they were not read from a home"
    try:
        pins.save(store.home.path, kept)
    except OSError as error:
        return f"its runs could not be pinned in {store.home.path}: {error.strerror}"
    return ""


def delete(*runs: str, study: str = "", dry_run: bool = False, storage: str = "", restore: bool = False) -> Deletion:
    """Moves runs, or all of a study, to the home's trash; restore: brings them back. dry_run: only says what would be.
    storage: the queue's URL, where it is not in the home. InputError, and nothing changed, where a claim rests on one
    of them or one runs."""
    from experiments import deleting

    home = Home.default()
    if restore:
        if dry_run:
            raise InputError("restoring has no dry run", "leave one of the two out", rule="needless")
        return deleting.take_back(home, runs, study=study, storage=storage)
    return deleting.delete(home, runs, study=study, dry_run=dry_run, storage=storage)


def gc(*, days: float | None = None, dry_run: bool = False) -> Collection:
    """Removes what is needed no more: trash older than so many days (30), second checkpoints of runs that are over,
    what dead processes left; never what a claim rests on."""
    from experiments.store import garbage
    from experiments.store.tracking import tracking_uri

    days = garbage.DAYS if days is None else days
    if not days >= 0:
        raise InputError(f"{days:g} days are no age", "give a number from 0", rule="out-of-range", place="older-than")
    return garbage.collect(Home.default(), tracking_uri(), days=days, dry_run=dry_run)


def unpin(file: str | Path) -> Pins:
    """Lets the runs go that a file of claims, or a report, rests on; what they were."""
    return pins.remove(Home.default().path, Path(file))
