"""A session: what a command that trains holds open: a home it may write to, MLflow's place, and the mirror that runs
beside it."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from experiments.store.home import Home
from experiments.store.mirrored import Left
from experiments.store.recovery import recover
from experiments.store.tracking import tracking_uri
from experiments.store.uploads import check_store, start_uploader

#: How long a command waits at its end for MLflow; what is left is sent by the next command.
WAIT_S = 120.0
#: And after a Ctrl-C that nobody handled.
_SOON_S = 2.0
#: By how much the clock of a file system may be behind.
_CLOCKS_S = 5.0


@dataclass
class Session:
    """home: where runs are stored. uri: MLflow's place, "" where nothing is mirrored. left: what MLflow has not got
    yet, known once the session has ended."""

    home: Home
    uri: str
    left: Left | None = None


@contextmanager
def session(
    home: Home | None = None,
    *,
    mirror: bool = True,
    wait_s: float = WAIT_S,
    on_wait: Callable[[Left], object] | None = None,
) -> Iterator[Session]:
    """Raises InputError, before anything is run, where the home or MLflow's place cannot be used. A store that has runs
    of this home and is away for now is no reason: one line says so.

    Runs that a dead process left behind are marked as lost. mirror=False keeps runs in the home; a later session sends
    them.
    """
    uri = tracking_uri() if mirror else ""
    home = home or Home.default()
    note = check_store(home, uri) if mirror else ""
    home.prepare()
    if note:
        print(f"note: {note}", file=sys.stderr, flush=True)
    recover(home)
    opened = Session(home, uri)
    since = time.time() - _CLOCKS_S
    uploader = start_uploader(home, uri) if mirror else None
    try:
        yield opened
    except KeyboardInterrupt:  # who presses Ctrl-C is not kept waiting
        wait_s = min(wait_s, _SOON_S)
        raise
    finally:
        if uploader is not None:
            opened.left = uploader.finish(wait_s, on_wait, since)
