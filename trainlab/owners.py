"""Owners: the processes that run something of the store, and asking them to stop."""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from algos.finding import InputError
from experiments.store.home import Home, RunFolder
from experiments.store.locks import is_held, owner
from experiments.sweeps.lease import workers

#: How long a lock's owner may take to sign it, in seconds.
_SIGN_S = 2.0


def of_lock(path: Path) -> list[dict[str, Any]]:
    """Who holds a lock: one process, or nobody. One that has taken it just now is waited for until it has signed."""
    deadline = time.monotonic() + _SIGN_S
    while is_held(path):
        found = owner(path)
        if {"pid", "host"} <= found.keys():
            return [found]
        if time.monotonic() > deadline:
            break
        time.sleep(0.01)
    return []


def of_run(folder: RunFolder) -> list[dict[str, Any]]:
    """Who runs a run: one process, or nobody. One that was made just now, and is about to begin, is waited for."""
    lock = folder.path / "owner.lock"
    while not (found := of_lock(lock)) and folder.record().status == "running":
        time.sleep(0.02)
    return found


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
