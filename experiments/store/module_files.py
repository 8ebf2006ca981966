"""Module files: whether the files of users' own modules are still what runs were made from. Torch-free: a file is read
and hashed, never imported.

A run keeps, in facts["task"], "module" and "data": {"file": path, "files": {path beside it: sha256}, ...}, for the file
of a class and whatever that imported from its own folder."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from experiments.store.schema import RunRecord

#: What stands for the sha256 of a file that cannot be read.
GONE = "gone"
#: So many characters of a sha256 tell files apart for people.
SHORT = 12


class Changed(NamedTuple):
    """A file that is not what a run was made from. stored: the sha256 it had; now: the one it has, or "gone"."""

    path: str
    stored: str
    now: str


class Version(NamedTuple):
    """A file as one run used it. name: its path from the folder of the class's own file."""

    name: str
    path: str
    sha256: str


def sources(record: RunRecord) -> dict[str, Mapping[str, Any]]:
    """The facts of the user's classes that a run used: {"module": ..., "data": ...}, each where there is one."""
    found = ((role, record.task.get(role)) for role in ("module", "data"))
    return {role: facts for role, facts in found if isinstance(facts, Mapping) and facts}


def versions(record: RunRecord) -> Iterator[Version]:
    """Every file of the user's that a run was made from, each once, whichever class it is told with."""
    seen: set[str] = set()
    for facts in sources(record).values():
        file = str(facts.get("file") or "")
        files = facts.get("files") or ({Path(file).name: facts["sha256"]} if file and facts.get("sha256") else {})
        for name, sha256 in files.items():
            path = os.path.normpath(Path(file).parent / name)
            if path not in seen:
                seen.add(path)
                yield Version(str(name), path, str(sha256))


def changed(records: Iterable[RunRecord]) -> list[Changed]:
    """The files that are not any more what some run was made from, each version once, in the order of the runs."""
    known = dict.fromkeys((version.path, version.sha256) for record in records for version in versions(record))
    now = {path: _sha256(path) for path in dict.fromkeys(path for path, _ in known)}
    return [Changed(path, stored, now[path]) for path, stored in known if now[path] != stored]


def _sha256(path: str) -> str:
    try:
        return hashlib.sha256(Path(path).read_bytes()).hexdigest()
    except OSError:
        return GONE
