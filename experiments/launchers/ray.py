"""Ray: the same workers on a Ray cluster, one that an address names or one that is started here and ended.

Ray itself lives in a process of its own (`ray_driver`): in the command's it would take the signals over, print, and
wait two minutes for an address that does not answer. That process and its workers go on where the command is gone.
"""

from __future__ import annotations

import importlib.util
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from queue import Empty, Queue
from typing import TYPE_CHECKING, Any

from algos.finding import InputError, unknown
from experiments.events import from_json
from experiments.launchers.elsewhere import environment
from experiments.progress import Listener
from experiments.store.tracking import sqlite_path, tracking_uri

if TYPE_CHECKING:
    from experiments.sweeps.worker import Assignment

_ROOT = str(Path(__file__).resolve().parents[2])
_BOOT = "import sys; sys.path.insert(0, sys.argv[1]); from experiments.launchers.ray_driver import main; main()"
_OPTIONS = ("address", "cpus", "gpus", "npus")
_ANSWER_S = 3.0
#: For an address, which has answered already; for a cluster that is started here, on a busy machine.
_CONNECT_S, _START_S = 20.0, 120.0
_GRACE_S = 15.0
#: What an HTTP/2 client says first, with empty settings; any gRPC server answers with a frame of settings.
_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(3) + b"\x04\x00" + bytes(4)
_SETTINGS = 4


def check(options: Mapping[str, Any]) -> None:
    """InputError where Ray is not installed, an option is not one, or the address does not answer as Ray would."""
    for name in options:
        if name not in _OPTIONS:
            raise unknown("option of the launcher ray", name, _OPTIONS, place="launcher")
    for name in _OPTIONS[1:]:
        _amount(options, name)
    if importlib.util.find_spec("ray") is None:
        raise _refused("the launcher ray needs Ray", "pip install 'trainlab[ray]'")
    address = _address(options)
    if address in ("", "local"):
        return
    if address == "auto":
        address = _latest()
    _answering(address)


def launch(assignments: Sequence[Assignment], options: Mapping[str, Any], listener: Listener) -> RayCrew:
    """Starts the workers, spread over the cluster's nodes: `cpus` of each (its threads, where not given), `gpus` and
    `npus` (where not given, its share of what the cluster has). A cluster that is full starts them one by one.

    Raises InputError where a node cannot take part: the queue is out of its reach, or trainlab is not installed.
    """
    return RayCrew(_order(assignments, options), listener)


def _order(assignments: Sequence[Assignment], options: Mapping[str, Any]) -> dict[str, Any]:
    first = assignments[0]
    uri = tracking_uri()
    files = {"queue": sqlite_path(first.storage), "MLflow": sqlite_path(uri)}
    return {
        "address": _address(options),
        "assignments": [assignment.to_json() for assignment in assignments],
        "resources": {name: _amount(options, name) for name in _OPTIONS[1:]},
        "threads": first.threads or 1,
        "home": first.home,
        "journal": not first.storage,
        "files": {what: str(path) for what, path in files.items() if path is not None},
        "device": first.study.get("config", {}).get("device", "auto"),
        "environment": environment(uri, first.threads),
        "folder": os.getcwd(),
        "root": _ROOT,
    }


def _amount(options: Mapping[str, Any], name: str) -> float | None:
    if name not in options:
        return None
    try:
        amount = float(options[name])
    except (TypeError, ValueError):
        amount = -1.0
    if not 0 <= amount < float("inf"):
        raise InputError(f"{name}={options[name]!r}", "give a number from 0", rule="out-of-range", place="launcher")
    return amount


def _refused(said: str, cure: str) -> InputError:
    return InputError(said, cure, rule="ray", place="launcher")


# The address, asked before anything is started


def _address(options: Mapping[str, Any]) -> str:
    """`--address`, else Ray's own RAY_ADDRESS, else "": a cluster of this machine alone, for this sweep."""
    return str(options.get("address") or os.environ.get("RAY_ADDRESS") or "")


def _latest() -> str:
    """What `auto` means to Ray: RAY_ADDRESS, else the cluster that was started last on this machine."""
    if os.environ.get("RAY_ADDRESS"):
        return os.environ["RAY_ADDRESS"]
    temporary = os.environ.get("RAY_TMPDIR") or os.environ.get("TMPDIR") or "/tmp"
    with suppress(OSError):
        return (Path(temporary) / "ray" / "ray_current_cluster").read_text().strip()
    raise _refused("no Ray cluster runs on this machine", "start one (ray start --head), or leave the address out")


def _answering(address: str) -> None:
    kind, mark, place = address.rpartition("://")
    host, _, port = place.partition("/")[0].rpartition(":")
    if (mark and kind != "ray") or not host or not port.isdigit():
        cure = "give HOST:PORT, ray://HOST:PORT or auto; without one, a cluster is started here"
        raise _refused(f"'{address}' is no address of a Ray cluster", cure)
    cure = "start it (ray start --head), or give another address; without one, a cluster is started here"
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=_ANSWER_S) as link:
            if os.environ.get("RAY_USE_TLS", "0") in ("", "0"):
                link.sendall(_PREFACE)
                frame = link.recv(9)
                if len(frame) < 4 or frame[3] != _SETTINGS:
                    raise _refused(f"{address} answers, but not as a Ray cluster", cure)
    except (OSError, OverflowError) as error:
        raise _refused(f"the Ray cluster {address} does not answer ({error})", cure) from None


class RayCrew:
    """The workers, seen through the driver's lines."""

    def __init__(self, order: Mapping[str, Any], listener: Listener):
        self._listener = listener
        self._alive = len(order["assignments"])
        self._failures: list[str] = []
        self._wrong: InputError | None = None
        self._over = False
        self._news: Queue[str | None] = Queue()
        self._stderr = tempfile.TemporaryFile("w+")  # noqa: SIM115 (closed with the driver)
        self._driver = subprocess.Popen(
            [sys.executable, "-P", "-c", _BOOT, _ROOT],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._stderr, text=True,
            env={**os.environ, "RAY_USAGE_STATS_ENABLED": "0"}, start_new_session=True,
        )  # fmt: skip
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        try:
            self._say(json.dumps(order))
            self._await_start(_CONNECT_S if order["address"] not in ("", "local") else _START_S)
        except BaseException:
            self._end_driver()
            self._stderr.close()
            raise

    def _read(self) -> None:
        assert self._driver.stdout
        with self._driver.stdout as lines:
            for line in lines:
                self._news.put(line)
        self._news.put(None)

    def _await_start(self, limit_s: float) -> None:
        until = time.monotonic() + limit_s
        while not (self._started or self._over or self._wrong):
            if time.monotonic() > until:
                raise _refused(f"the Ray cluster did not answer within {limit_s:.0f} s", "look at it with: ray status")
            self._hear(0.1)
        if self._wrong is not None:
            raise self._wrong
        if not self._started:
            raise _refused(f"Ray did not start ({self._said()})", "look at it with: ray status")

    _started = False

    def _hear(self, wait_s: float = 0.0) -> None:
        """All that the driver has said since."""
        while not self._over:
            try:
                line = self._news.get(timeout=wait_s) if wait_s else self._news.get_nowait()
            except Empty:
                return
            wait_s = 0.0
            if line is None:
                self._over = True
                self._ended()
            elif line.startswith('{"crew"'):
                self._learn(json.loads(line))
            else:
                with suppress(ValueError):
                    self._listener(from_json(line))

    def _learn(self, told: Mapping[str, Any]) -> None:
        kind = told["crew"]
        if kind == "alive":
            self._started, self._alive = True, told["count"]
        elif kind == "failed":
            self._failures.append(told["said"])
        elif kind == "refused":
            self._wrong = _refused(told["said"], told["cure"])
        elif kind == "wrong" and self._wrong is None:
            self._wrong = InputError(told["said"].removeprefix("error: "), rule="refused")

    def _ended(self) -> None:
        code = self._driver.wait()
        if code and self._wrong is None:
            self._failures.append(f"the connection to Ray ended with code {code}: {self._said()}")
        self._alive = 0

    def running(self) -> int:
        self._hear()
        return self._alive

    def stop(self, reason: str) -> None:
        self._say("stop")

    def kill(self) -> None:
        self._say("kill")
        until = time.monotonic() + _GRACE_S
        while not self._over and time.monotonic() < until:
            self._hear(0.1)
        self._end_driver()

    def _say(self, line: str) -> None:
        assert self._driver.stdin
        with suppress(OSError):
            self._driver.stdin.write(line + "\n")
            self._driver.stdin.flush()

    def _said(self) -> str:
        self._stderr.seek(0)
        lines = self._stderr.read().strip().splitlines()
        return lines[-1][:300] if lines else "without a word"

    def failures(self) -> list[str]:
        if self._wrong is not None:
            raise self._wrong
        return self._failures

    def _end_driver(self) -> None:
        """Ray ends with its driver: a cluster that was started here, and workers on another's."""
        if self._driver.poll() is None:
            self._driver.kill()
        self._driver.wait()
        self._reader.join(_GRACE_S)
        assert self._driver.stdin
        with suppress(OSError):
            self._driver.stdin.close()

    def close(self) -> None:
        if self._driver.poll() is None:
            self._say("stop")
            with suppress(subprocess.TimeoutExpired):
                self._driver.wait(_GRACE_S)
        self._hear()
        self._end_driver()
        self._stderr.close()
