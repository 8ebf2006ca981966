"""The uploader: one process a home that mirrors its runs to MLflow, out of the way of training.

    python -P -c "..." HOME PARENT        (started by `uploads.start_uploader`; the store is $MLFLOW_TRACKING_URI)

Every worker starts one, and starts it again should it die. The first takes the home's lock and works; the others wait
for the lock, so that one is there as long as any worker lives. A process whose parent is gone marks lost runs, sends
what is left, and ends. While MLflow is away, locked or full it tries again, ever more seldom, and training never waits
for it.
"""

from __future__ import annotations

import bisect
import contextlib
import gc
import logging
import os
import signal
import sys
import time
from pathlib import Path
from types import FrameType

from algos.finding import InputError
from experiments.store import mirrored, recovery, spool, troubles, twins
from experiments.store.home import Home, RunFolder
from experiments.store.locks import Held, Lock, is_held
from experiments.store.mirror import Mirror
from experiments.store.tracking import shown, sqlite_path

_LOOK_S = 0.3
_LIVE_S = 5.0
_LONGEST_WAIT_S = 10.0
_LONGEST_REFUSAL_S = 600.0
_LINGER_S = 60.0
#: A look sends so long, and then looks again for runs that are new: they go before a long queue.
_SEND_S = 2.0
#: So many runs refused one after another, and none taken, are the store's doing.
_REFUSALS = 3
#: Of its time, it spends at most a fifth on looking.
_REST = 4.0
_NICE = 15
_LOG_BYTES = 1_000_000
_log = logging.getLogger("trainlab.uploader")

#: What MLflow reads in this process: fail soon and let us retry; no cut values; no chatter.
ENVIRONMENT = {
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0",  # a retry of its own could create a run twice
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "15",
    "MLFLOW_TRUNCATE_LONG_VALUES": "false",
    "MLFLOW_ENABLE_ASYNC_LOGGING": "false",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
    "MLFLOW_LOGGING_LEVEL": "WARNING",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "OMP_NUM_THREADS": "1",
}


class Patience:
    """When to try again: after 1 s, then ever later."""

    def __init__(self, longest_s: float):
        self._longest_s, self._wait_s, self._at = longest_s, 1.0, 0.0

    @property
    def due(self) -> bool:
        return time.monotonic() >= self._at

    def fail(self) -> None:
        self._at = time.monotonic() + self._wait_s
        self._wait_s = min(2 * self._wait_s, self._longest_s)


class Loop:
    """Looks at the home again and again, and pushes what changed."""

    def __init__(self, home: Home, uri: str, parent: int):
        self.home, self.uri, self.parent = home, uri, parent
        self.stopped = False
        self._mirror: Mirror | None = None
        self._sending_s = 0.0  # of this look
        self._sent_at = 0.0
        self._met: set[str] = set()
        self._next = ""  # where the last look ended, when it was cut short
        self._quiet: dict[str, int] = {}  # settled runs: their folder's time of change
        self._pushed: dict[str, float] = {}
        self._said = mirrored.reason(home, uri)
        self._away = ""  # what keeps the whole store
        self._store = Patience(_LONGEST_WAIT_S)
        self._runs: dict[str, Patience] = {}  # those that the store refuses
        self._refused: dict[str, str] = {}  # and why
        self._refusals = 0
        self._maybe_created: set[str] = set()  # an answer to the wish to create them never came

    def stop(self, number: int, frame: FrameType | None) -> None:
        self.stopped = True

    @property
    def orphaned(self) -> bool:
        return os.getppid() != self.parent

    def run(self) -> None:
        """Until the parent is gone and nothing is left, or nothing can be sent for a while."""
        left_at: float | None = None
        while not self.stopped:
            orphaned = self.orphaned
            began, self._sending_s = time.monotonic(), 0.0
            waiting = self.look()
            took_s = time.monotonic() - began - self._sending_s
            if orphaned:
                left_at = left_at or time.monotonic()
                if not waiting or time.monotonic() - max(left_at, self._sent_at) > _LINGER_S:
                    return
            if not self._next:
                time.sleep(max(_LOOK_S, min(_REST * took_s, _LIVE_S)))

    def look(self) -> int:
        """One look at every run, or at as many as can be sent meanwhile; returns how many that nobody works on are, as
        far as it looked, not wholly in MLflow."""
        waiting, place, order = 0, str(self.home.run_folder), self._ordered()
        self._next = ""
        for run_id in order:
            if self.stopped:
                break
            if self._sending_s > _SEND_S:
                self._next = run_id
                return waiting + 1
            try:
                changed = os.stat(f"{place}/{run_id}").st_mtime_ns
                if self._quiet.get(run_id) != changed:
                    waiting += self._look_at(RunFolder(self.home.run_folder / run_id), changed)
            except FileNotFoundError:
                continue  # the run was deleted
            except OSError as error:  # of the home's own disk
                waiting += 1
                self._away = f"the home {self.home.path} cannot be written: {error.strerror or error}"
                self._tell()
        return waiting

    def _ordered(self) -> list[str]:
        """First the newest of those that were not there at the last look, then those that are half sent; then on from
        where that look ended."""
        known = self.home.run_ids()
        new = [run_id for run_id in reversed(known) if run_id not in self._met]
        followed = [run_id for run_id in known if run_id in self._pushed and run_id not in self._quiet]
        first = dict.fromkeys([*new, *followed])
        rest = [run_id for run_id in known if run_id not in first]
        start = bisect.bisect_left(rest, self._next)
        self._met.update(known)
        return [*first, *rest[start:], *rest[:start]]

    def _look_at(self, folder: RunFolder, changed: int) -> bool:
        live = is_held(folder.path / "owner.lock")
        if not live and recovery.reap(folder):
            _log.info("run %s is lost: its process vanished", folder.run_id)
        if mirrored.pending(folder.path, self.uri):
            if live and time.monotonic() - self._pushed.get(folder.run_id, -_LIVE_S) < _LIVE_S:
                return False
            self._push(folder)
        settled = not mirrored.pending(folder.path, self.uri)
        if settled and not live and spool.ending(folder.path) is not None:
            self._quiet[folder.run_id] = changed  # from before: what has changed since is looked at again
        return not settled and not live and bool(spool.spools(folder.path))

    def _push(self, folder: RunFolder) -> None:
        run_id = folder.run_id
        if not self._store.due or not self._runs.get(run_id, self._store).due:
            return
        began = time.monotonic()
        try:
            self._connected().push(folder)
            if run_id in self._maybe_created:
                self._make_single(folder)
        except Exception as error:  # of MLflow, its database or the network: all are tried again
            self._failed(folder, error)
            return
        finally:
            self._sending_s += time.monotonic() - began
        self._pushed[run_id] = self._sent_at = time.monotonic()
        self._runs.pop(run_id, None)
        self._refused.pop(run_id, None)
        self._refusals = 0
        if self._away:
            _log.info("%s takes runs again", shown(self.uri))
        self._away = ""
        self._store = Patience(_LONGEST_WAIT_S)
        self._tell()

    def _failed(self, folder: RunFolder, error: Exception) -> None:
        run_id, said = folder.run_id, " ".join(str(error).split())[:300] or type(error).__name__
        if not mirrored.load(folder.path, self.uri).run:
            self._maybe_created.add(run_id)
        whole = self._of_store(error)
        if whole:
            self._away = f"{whole}: {said}"
            self._store.fail()
            _log.warning("%s", self._away)
        else:
            ours = isinstance(error, InputError)
            self._refused[run_id] = f"run {run_id} cannot be sent: {said}" if ours else self._refusal(run_id, said)
            self._runs.setdefault(run_id, Patience(_LONGEST_REFUSAL_S)).fail()
            self._refusals += not ours
            if self._refusals >= _REFUSALS:
                self._store.fail()
            _log.exception("run %s is refused", run_id)
        self._tell()

    def _refusal(self, run_id: str, said: str) -> str:
        return f"{shown(self.uri)} refuses run {run_id}: {said}"

    def _of_store(self, error: Exception) -> str:
        """Who keeps every run, where the error is not about this one alone."""
        if isinstance(error, InputError):
            return ""
        if troubles.is_full(error) and not troubles.has_room(self.home.path):
            return f"the disk of the home {self.home.path} has no space left"
        if meaning := troubles.of_store(error):
            return f"{shown(self.uri)} {meaning}"
        there = self._mirror is not None and self._mirror.answers()
        return "" if there else f"{shown(self.uri)} is away"

    def _tell(self) -> None:
        """Says in the home what keeps the runs, when that has changed."""
        text = self._away or next(iter(self._refused.values()), "")
        if text != self._said:
            self._said = text
            with contextlib.suppress(OSError):
                mirrored.complain(self.home, self.uri, text)

    def _make_single(self, folder: RunFolder) -> None:
        """The run is there; where an earlier answer was lost, it may be there twice."""
        mirror = self._connected()
        state = mirrored.load(folder.path, self.uri)
        if state.run and twins.remove_empty(mirror.client, twins.twins(mirror.client, state, folder.run_id)):
            _log.warning("run %s is in MLflow twice; see `trainlab doctor`", folder.run_id)
        self._maybe_created.discard(folder.run_id)

    def _connected(self) -> Mirror:
        if self._mirror is None:
            started = time.monotonic()
            self._mirror = Mirror(self.uri)
            _log.info("connected to %s in %.1f s", shown(self.uri), time.monotonic() - started)
            gc.freeze()  # what is imported stays: to look through it for garbage costs a quarter of a batch
            self._forget_other_stores(self._mirror)
        return self._mirror

    def _forget_other_stores(self, mirror: Mirror) -> None:
        """A store that was deleted and made anew gets the runs that the old one had."""
        for run_id in self.home.run_ids():
            folder = self.home.run_folder / run_id
            state = mirrored.load(folder, self.uri)
            if state.run and not state.skip and not mirror.knows(state):
                mirrored.save(folder, self.uri, mirrored.Mirrored(state.uri))
                self._quiet.pop(run_id, None)


def main(home_path: str, parent: str) -> None:
    """The process: waits for the home's lock, then works."""
    with contextlib.suppress(OSError):
        os.nice(_NICE)
    os.environ.update(ENVIRONMENT)
    home = Home(home_path)
    uri = os.environ["MLFLOW_TRACKING_URI"]
    loop = Loop(home, uri, int(parent))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, loop.stop)
    logging.basicConfig(stream=sys.stdout, level=logging.INFO, format="%(asctime)s %(process)d %(message)s")
    for chatty in ("mlflow", "alembic", "sqlalchemy", "urllib3"):
        logging.getLogger(chatty).setLevel(logging.WARNING)
    path = sqlite_path(uri)
    os.chdir(path.parent if path is not None else home.path.parent)  # where MLflow puts its `mlruns`
    lock = _turn(home.path / "uploader.lock", loop)
    if lock is not None:
        with lock:
            _shorten_log()
            loop.run()


def _turn(path: Path, loop: Loop) -> Lock | None:
    """Waits for the lock; None where the parent is gone first."""
    while not loop.stopped:
        with contextlib.suppress(Held):
            return Lock(path).take(wait_s=0.0)
        if loop.orphaned:
            return None
        time.sleep(_LOOK_S)
    return None


def _shorten_log() -> None:
    with contextlib.suppress(OSError):
        if os.fstat(1).st_size > _LOG_BYTES:
            os.ftruncate(1, 0)
