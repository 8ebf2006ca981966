"""Pins: which runs a file of claims rests on, told in the home, so that nothing removes them unawares.

    claims/<sha256 of the file's path>.json     {"schema": 1, "path": ..., "at": ..., "claims": [...], "prints": {...}}

A claim there is {"says", "study", "number", "text", "runs"}; prints are the runs' fingerprints (run -> {"sha256",
"parts"}), as they were when the claims held. Written when claims are verified, read when records are: a run that is
pinned says by which files (`RunRecord.pinned_by`). Pins of a file that is gone stay until they are taken away."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from algos.finding import InputError, closest
from experiments.store.records import write_json
from experiments.store.schema import RunRecord

SCHEMA = 1
FOLDER = "claims"


@dataclass(frozen=True)
class Pin:
    """One claim and the runs it rests on. number: which of the study it is about, in words; text: what it was."""

    says: str
    study: str
    number: str
    text: str
    runs: tuple[str, ...]


@dataclass(frozen=True)
class Pins:
    """What one file pins. path: absolute. at: when its claims were last verified, milliseconds since 1970."""

    path: Path
    claims: tuple[Pin, ...] = ()
    prints: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    at: int = 0

    @property
    def runs(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(run for claim in self.claims for run in claim.runs))

    @property
    def gone(self) -> bool:
        """Whether the file is not there any more."""
        return not self.path.exists()

    @property
    def farewell(self) -> str:
        """What to do about a file that is gone."""
        moved = "if it was moved, verify it where it is now; then"
        return f"is gone, and still pins {len(self.runs)} runs; {moved} `trainlab gc --unpin {self.path}` lets them go"


def place(home: Path, file: Path) -> Path:
    """Where a file's pins are kept."""
    return home / FOLDER / f"{hashlib.sha256(os.fsencode(_absolute(file))).hexdigest()[:16]}.json"


def load(home: Path, file: Path) -> Pins:
    """What a file pins; nothing where it was never verified. InputError where its pins cannot be read."""
    path = place(home, file)
    if path.exists():
        return _read(path)
    return next((known for _, known in _elsewhere(home, file)), Pins(_absolute(file)))


def save(home: Path, pins: Pins) -> None:
    """Whole or not at all."""
    path = place(home, pins.path)
    path.parent.mkdir(parents=True, exist_ok=True)
    data = {
        "schema": SCHEMA,
        "path": str(pins.path),
        "at": pins.at,
        "claims": [asdict(claim) for claim in pins.claims],
        "prints": {run: dict(told) for run, told in pins.prints.items()},
    }
    write_json(path, data)
    for other, _ in _elsewhere(home, pins.path):
        other.unlink(missing_ok=True)


def every(home: Path) -> list[Pins]:
    """Of every file, by path. InputError where some cannot be read: it is not known then what they pin."""
    return sorted((_read(path) for path in _files(home)), key=lambda pins: pins.path)


def readable(home: Path) -> tuple[list[Pins], list[InputError]]:
    """Of every file, by path, and what is wrong with those that cannot be read."""
    found: list[Pins] = []
    wrong: list[InputError] = []
    for path in _files(home):
        try:
            found.append(_read(path))
        except InputError as error:
            wrong.append(error)
    return sorted(found, key=lambda pins: pins.path), wrong


def remove(home: Path, file: Path) -> Pins:
    """Takes a file's pins away; what they were. InputError, with the closest, where it has none."""
    path = place(home, file)
    gone = [(path, _read(path))] if path.exists() else []
    gone += _elsewhere(home, file)
    if not gone:
        names = [str(pins.path) for pins in every(home)]
        guess = closest(str(_absolute(file)), names)
        cure = f"did you mean {guess}?" if guess else f"pinned by: {', '.join(names) or 'nothing'}"
        raise InputError(f"{file} pins no runs in {home}", cure, rule="no-pins")
    for known, _ in gone:
        known.unlink(missing_ok=True)
    return gone[0][1]


def by_run(known: Iterable[Pins]) -> dict[str, list[tuple[Path, Pin]]]:
    """Run -> the claims that rest on it, with their files."""
    found: dict[str, list[tuple[Path, Pin]]] = {}
    for pins in known:
        for claim in pins.claims:
            for run in claim.runs:
                found.setdefault(run, []).append((pins.path, claim))
    return found


def marked(records: Sequence[RunRecord], home: Path) -> list[RunRecord]:
    """The records, each with the files of claims that rest on it. What cannot be read marks nothing here; who removes
    runs asks `every`."""
    pinned: dict[str, list[str]] = {}
    for path in _files(home):
        file, runs = _rests(path)
        for run in runs:
            pinned.setdefault(run, []).append(file)
    if not pinned:
        return list(records)
    return [replace(r, pinned_by=tuple(sorted(pinned[r.run_id]))) if r.run_id in pinned else r for r in records]


#: Pins' file -> its time of change and size, and what it then said: the file of claims and its runs.
_seen: dict[Path, tuple[tuple[int, int], tuple[str, tuple[str, ...]]]] = {}


def _rests(path: Path) -> tuple[str, tuple[str, ...]]:
    """Which file pins which runs, read again only where it changed: records are loaded one by one, too."""
    try:
        told = path.stat()
        key = (told.st_mtime_ns, told.st_size)
        if path not in _seen or _seen[path][0] != key:
            pins = _read(path)
            _seen[path] = (key, (str(pins.path), pins.runs))
        return _seen[path][1]
    except (OSError, InputError):
        return "", ()


def _files(home: Path) -> list[Path]:
    try:
        with os.scandir(home / FOLDER) as entries:
            return sorted(Path(each.path) for each in entries if each.name.endswith(".json") and each.name[0] != ".")
    except (FileNotFoundError, NotADirectoryError):
        return []


def _elsewhere(home: Path, file: Path) -> list[tuple[Path, Pins]]:
    """Pins of the file that are kept under another spelling of its path."""
    here, wanted = place(home, file), _absolute(file)
    found = []
    for path in _files(home):
        if path != here:
            try:
                known = _read(path)
            except InputError:
                continue
            if _absolute(known.path) == wanted:
                found.append((path, known))
    return found


def _read(path: Path) -> Pins:
    try:
        data = json.loads(path.read_bytes())
        if data["schema"] > SCHEMA:
            raise ValueError(f"its schema is {data['schema']}, this trainlab reads {SCHEMA}")
        claims = tuple(Pin(**{**each, "runs": _texts(each["runs"])}) for each in data["claims"])
        prints = {run: {**told, "parts": dict(told["parts"])} for run, told in data["prints"].items()}
        return Pins(Path(data["path"]), claims, prints, data["at"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        said = f"{path} cannot be read, so it is not known which runs it pins ({error})"
        raise InputError(said, "verify its claims again, or remove it", rule="broken-pins") from error


def _texts(told: Any) -> tuple[str, ...]:
    if not isinstance(told, list) or not all(isinstance(each, str) for each in told):
        raise ValueError("its runs are no list of ids")
    return tuple(told)


def _absolute(file: Path) -> Path:
    """One path for one file, through whatever links its folder is named."""
    whole = file.expanduser()
    return Path(os.path.realpath(whole.parent), whole.name)
