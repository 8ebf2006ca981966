"""Storage: where a sweep's queue is: the journal in the home, a database, or Optuna's gRPC proxy in front of one.

""                              the journal in the home: any number of processes that share the folder
sqlite:///queue.db              a file: processes of one machine
postgresql://..., mysql://...   a server: any number of machines
grpc://HOST:PORT                Optuna's proxy server in front of one of these
"""

from __future__ import annotations

import contextlib
import importlib.util
import socket
import time
import warnings
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from algos.finding import InputError
from experiments.store.home import Home
from experiments.store.locks import Held, Lock
from experiments.store.tracking import shown, sqlite_path

if TYPE_CHECKING:
    from optuna.storages import BaseStorage

_DRIVERS = {"postgresql": ("psycopg2", "psycopg", "pg8000", "asyncpg"), "mysql": ("MySQLdb", "pymysql"), "sqlite": ()}
_FORMS = "sqlite:///FILE, postgresql://..., mysql://... or grpc://HOST:PORT; without one it is a journal in the home"
_ANSWER_S = 5.0
_WAIT_S = 60.0
#: A lock in a database whose owner did not move for so long was left by a dead one: it is held for milliseconds.
_STALE_S = 30.0


def scheme(url: str) -> str:
    """sqlite, postgresql, mysql or grpc; "" for the journal."""
    return url.partition(":")[0].partition("+")[0].lower()


def check_storage(url: str) -> None:
    """InputError, before anything is made, unless the storage is of a kind that Optuna takes and answers."""
    if not url:
        return
    kind = scheme(url)
    if kind == "grpc":
        _answering(url)
        if importlib.util.find_spec("grpc") is None:
            raise _refused(f"{shown(url)} needs the package grpcio", "pip install 'trainlab[cluster]'")
        return
    if kind not in _DRIVERS or "://" not in url:
        raise _refused(f"'{shown(url)}' is no place for a queue", f"give {_FORMS}")
    if kind == "sqlite":
        path = sqlite_path(url)
        if path is None:
            raise _refused(f"{url} is a database in memory, which nobody else can read", "give a file")
        if not path.parent.is_dir():
            raise _refused(f"the folder of {url} does not exist", "make it, or give another")
        with contextlib.suppress(OSError), path.open("rb") as file:
            if file.read(16) not in (b"", b"SQLite format 3\0"):
                raise _refused(f"{url} is not an SQLite database", "give another file")
        return
    named = url.partition(":")[0].partition("+")[2]
    drivers = (named,) if named else _DRIVERS[kind]
    if not any(importlib.util.find_spec(driver) for driver in drivers):
        raise _refused(f"{shown(url)} needs a driver ({' or '.join(drivers)})", "pip install 'trainlab[cluster]'")


def open_storage(url: str, home: Path) -> BaseStorage:
    """The storage, made where it is empty. Raises InputError where it cannot be used."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    if not url:
        from experiments.sweeps.journal import open_journal

        return open_journal(home)
    check_storage(url)
    if scheme(url) == "grpc":
        host, port = _place(url)
        with warnings.catch_warnings():  # Optuna calls it experimental
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            return optuna.storages.GrpcStorageProxy(host=host, port=port)
    path = sqlite_path(url)
    if path is not None:
        with Lock(path.with_name(f".{path.name}.init")).take(wait_s=_WAIT_S, remove=True):
            return optuna.storages.RDBStorage(url, engine_kwargs={"connect_args": {"timeout": _WAIT_S}})
    return _database(_with_driver(url))


def _database(url: str) -> BaseStorage:
    import optuna
    from sqlalchemy.exc import SQLAlchemyError

    for turn in range(5):  # several machines may make the tables at once
        try:
            made = optuna.storages.RDBStorage(url, engine_kwargs={"pool_pre_ping": True})
            weakref.finalize(made, made.engine.dispose).atexit = False  # its connections end with it
            return made
        except SQLAlchemyError as error:
            if turn == 4:
                said = " ".join(str(error.__cause__ or error).split())[:200]
                raise _refused(f"{shown(url)} does not answer ({said})", "start it, or give another") from None
            time.sleep(0.3 * (turn + 1))
    raise AssertionError


def _with_driver(url: str) -> str:
    """psycopg 3 where psycopg2, SQLAlchemy's default, is not installed."""
    kind, _, rest = url.partition("://")
    if kind == "postgresql" and importlib.util.find_spec("psycopg2") is None:
        return f"postgresql+psycopg://{rest}"
    if kind == "mysql" and importlib.util.find_spec("MySQLdb") is None:
        return f"mysql+pymysql://{rest}"
    return url


def _place(url: str) -> tuple[str, int]:
    host, _, port = url.partition("://")[2].rstrip("/").rpartition(":")
    if not host or not port.isdigit():
        raise _refused(f"'{url}' names no host and port", "give grpc://HOST:PORT")
    return host, int(port)


def _answering(url: str) -> None:
    place = _place(url)
    try:
        with socket.create_connection(place, timeout=_ANSWER_S):
            return
    except OSError as error:
        raise _refused(f"{url} does not answer ({error})", "start Optuna's proxy server there") from None


def _refused(said: str, cure: str) -> InputError:
    return InputError(said, cure, rule="storage", place="storage")


# One at a time: claims, last words and reaping of one sweep, on however many machines


@contextlib.contextmanager
def exclusive(storage: BaseStorage, url: str, home: Home, study: str) -> Iterator[None]:
    """A turn alone at the queue of a study, held for milliseconds. A file's lock where all can reach one file, else
    tickets in the storage."""
    path = home.path / "queue.lock" if not url else sqlite_path(url)
    if path is None:
        with _turn_in_storage(storage, study):
            yield
        return
    try:
        lock = Lock(path if not url else path.with_name(f".{path.name}.turn")).take(wait_s=_WAIT_S)
    except Held as held:
        raise InputError(f"the queue of study {study} stays locked: {held}", "end that process", rule="queue") from None
    with lock:
        yield


@contextlib.contextmanager
def _turn_in_storage(storage: BaseStorage, study: str) -> Iterator[None]:
    """By tickets, as in a queue at a counter: a ticket is a trial, numbered by the storage; the lowest that is RUNNING
    has the turn. One that stays so for long is of a dead owner: whoever waits ends that ticket, and no other."""
    import optuna
    from optuna.exceptions import UpdateFinishedTrialError
    from optuna.trial import TrialState

    gate = optuna.create_study(study_name=f"{study}/turns", storage=storage, load_if_exists=True)._study_id
    own = storage.create_new_trial(gate)
    first, since, pause = -1, time.monotonic(), 0.005
    try:
        while True:
            waiting = storage.get_all_trials(gate, deepcopy=False, states=(TrialState.RUNNING,))
            now = min(waiting, key=lambda trial: trial.number, default=None)
            if now is None or now._trial_id == own:
                break
            if now._trial_id != first:
                first, since = now._trial_id, time.monotonic()
            elif time.monotonic() - since > _STALE_S:
                with contextlib.suppress(UpdateFinishedTrialError):
                    storage.set_trial_state_values(first, TrialState.FAIL)
            time.sleep(pause)
            pause = min(2 * pause, 0.2)
        yield
    finally:
        with contextlib.suppress(UpdateFinishedTrialError):
            storage.set_trial_state_values(own, TrialState.FAIL)
