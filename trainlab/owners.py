"""Owners: the processes that run something of the store, and asking them to stop."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from algos.finding import InputError
from experiments.store.home import Home
from experiments.store.locks import is_held, owner
from experiments.sweeps.lease import workers


def of_lock(path: Path) -> list[dict[str, Any]]:
    """Who holds a lock: one process, or nobody."""
    found = owner(path) if is_held(path) else {}
    return [found] if {"pid", "host"} <= found.keys() else []


def of_study(home: Home, name: str) -> list[dict[str, Any]]:
    """Who runs a study: whoever started it; where that is gone, its workers."""
    return of_lock(home.path / "studies" / name / "lock") or workers(home, name)


def ask_to_stop(what: str, owners: Sequence[Mapping[str, Any]]) -> None:
    """SIGTERM to each: it stops after its update, resumable; asked twice, now. InputError for those that a signal from
    here does not reach."""
    here = socket.gethostname()
    for each in owners:
        if each["host"] == here and each["pid"] == os.getpid():
            raise InputError(f"{what} is run by this process", "interrupt it (Ctrl-C, or the kernel)", rule="own")
    for each in owners:
        if each["host"] == here:
            with suppress(ProcessLookupError):
                os.kill(each["pid"], signal.SIGTERM)
    for each in owners:
        if each["host"] != here:
            said = f"{what} is run by process {each['pid']} on {each['host']}, and this is {here}"
            raise InputError(said, f"stop it there: kill {each['pid']}", rule="elsewhere")
