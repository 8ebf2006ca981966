"""Definition: what a study was when it first ran, kept in the home; and who runs it now.

A changed study file is another study: it is refused, with what changed, unless it only grew and that was asked for.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from algos.finding import InputError
from experiments.plan import expected
from experiments.store.gathered import Gathered
from experiments.store.home import Home
from experiments.store.locks import Held, Lock
from experiments.study import StudyConfig, difference
from experiments.sweeps.lease import workers

_SHOWN = 8


def folder(home: Home, name: str) -> Path:
    """Where a home keeps what it knows of a study beside its runs."""
    return home.path / "studies" / name


def stored_study(home: Home, name: str) -> StudyConfig | None:
    """The study as it was last run in this home, or None."""
    path = folder(home, name) / "study.json"
    return StudyConfig.of(json.loads(path.read_text())["study"]) if path.exists() else None


@contextmanager
def owned(home: Home, study: StudyConfig, amend: bool = False, joined: bool = False) -> Iterator[None]:
    """Hold the study's lock, and its definition to what it was. joined: workers that are left are no hindrance, since
    the launcher finds them again."""
    place = folder(home, study.name)
    place.mkdir(parents=True, exist_ok=True)
    try:
        lock = Lock(place / "lock").take()
    except Held as held:
        who = f"pid {held.owner['pid']}" if "pid" in held.owner else "another process"
        raise _running(study, who) from None
    with lock:
        left = workers(home, study.name)
        if left and not joined:
            raise _running(study, "workers whose starter is gone, pid " + ", ".join(str(w["pid"]) for w in left))
        _keep(home, study, amend)
        yield


def _running(study: StudyConfig, who: str) -> InputError:
    cure = f"`trainlab status {study.name}` shows it; wait for it, or stop it (kill -TERM)"
    return InputError(f"study {study.name} is being run by {who}", cure, rule="already-running")


def _keep(home: Home, study: StudyConfig, amend: bool) -> None:
    path = folder(home, study.name) / "study.json"
    definition = study.definition()
    runs = Gathered(home, study.name).records()
    before = json.loads(path.read_text()) if runs and path.exists() else None
    changes = difference(before["definition"], definition) if before else []
    if changes and before:
        _check_amendment(StudyConfig.of(before["study"]), study, runs, changes, amend)
    kept: dict[str, Any] = {
        "schema": 1, "study": study.to_json(), "definition": definition, "expected": expected(study)
    }  # fmt: skip
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.write_text(json.dumps(kept, indent=1))
    os.replace(temporary, path)


def _check_amendment(old: StudyConfig, new: StudyConfig, runs: Any, changes: list[str], amend: bool) -> None:
    from experiments.sweeps.amendment import amended

    shown = "; ".join(changes[:_SHOWN]) + (f"; and {len(changes) - _SHOWN} more" if len(changes) > _SHOWN else "")
    said = f"study {new.name} was defined otherwise before ({shown})"
    try:
        amended(old, new, runs)
    except InputError:
        if amend:
            raise
        raise InputError(said, "give the changed study a new name, or change it back", rule="study-changed") from None
    if not amend:
        raise InputError(said, "give it a new name, or --amend to let it grow", rule="study-changed")
