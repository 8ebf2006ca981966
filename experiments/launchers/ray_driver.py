"""The driver: the process that holds the connection to Ray, starts a station for each worker and watches over them.

An order as a line of JSON on stdin, then `stop` (each worker after its update) or `kill`. On stdout, the workers'
events as they come, and lines of its own: {"crew": ...}. Nobody need listen: where stdin ends, it goes on.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import secrets
import signal
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from experiments.events import to_json
from experiments.launchers import ray_node
from experiments.progress import Notice

_LOOK_S = 0.1
#: How long workers that have no place yet hold the others up; those that come later join them.
_PLACE_S = 15.0
_IN_VAIN = 3
_KILL_S = 10.0
_STARTS = 3
_STORE = 80 * 2**20


class Refused(Exception):
    """What keeps the sweep from starting. said, cure: as in InputError."""

    def __init__(self, said: str, cure: str):
        super().__init__(said)
        self.said, self.cure = said, cure


@dataclass
class _Place:
    """A worker's. asked: the answer that is awaited from its station. what: which one."""

    number: int
    station: Any
    asked: Any
    what: str = "look"
    host: str = ""
    seen: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"worker {self.number}" + (f" on {self.host}" if self.host else "")


def main() -> None:
    order = json.loads(sys.stdin.readline())
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        driver = _Driver(order)
        with driver.tokens():
            driver.place()
            driver.watch()
    except Refused as refused:
        _say({"crew": "refused", "said": refused.said, "cure": refused.cure})
    finally:
        import ray

        ray.shutdown()


def _say(told: Mapping[str, Any]) -> None:
    _print(json.dumps(told))


def _print(line: str) -> None:
    try:
        print(line, flush=True)
    except OSError:  # whoever watched is gone; the workers go on
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115


class _Driver:
    def __init__(self, order: Mapping[str, Any]):
        self.order = order
        self.token = f".seen-{secrets.token_hex(6)}"
        self.stopping = self.killing = False
        self.in_vain = 0
        self.done = False
        self.ray = _connected(order["address"], self._cpus() * len(order["assignments"]))
        self.resources = self._share()
        threading.Thread(target=self._obey, daemon=True).start()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._signalled)
        self.places = [self._placed(number) for number in range(len(order["assignments"]))]

    def _signalled(self, number: int, frame: Any) -> None:
        self.killing = self.stopping
        self.stopping = True

    def _obey(self) -> None:
        for line in sys.stdin:
            self.killing |= line.strip() == "kill"
            self.stopping = True

    def _cpus(self) -> float:
        asked = self.order["resources"]["cpus"]
        return float(self.order["threads"] if asked is None else asked)

    def _share(self) -> dict[str, Any]:
        """What each worker asks of Ray. Of devices, where nobody said: one, or an equal part of too few."""
        there = self.ray.cluster_resources()
        share = {}
        for name, resource in (("gpus", "GPU"), ("npus", "NPU")):
            asked = self.order["resources"][name]
            if asked is None and there.get(resource) and self.order["device"] != "cpu":
                workers, devices = len(self.order["assignments"]), int(there[resource])
                asked = 1.0 if workers <= devices else 1 / -(-workers // devices)
            share[resource] = asked or 0.0
        return {"num_cpus": self._cpus(), "num_gpus": share["GPU"], "resources": {"NPU": share["NPU"]}}

    def _placed(self, number: int) -> _Place:
        resources = {name: amount for name, amount in self.resources["resources"].items() if amount}
        station = (
            self.ray.remote(ray_node.Station)
            .options(**{**self.resources, "resources": resources}, scheduling_strategy="SPREAD", max_restarts=0)
            .remote()
        )
        order = self.order
        asked = station.look.remote(order["home"], order["root"], self._files(), self.token)
        return _Place(number, station, asked)

    # What every node must see

    def _files(self) -> dict[str, str]:
        return {what: str(Path(path).parent / self.token) for what, path in self.order["files"].items()}

    @contextlib.contextmanager
    def tokens(self) -> Iterator[None]:
        """Files that a node sees where it shares our home, and what else of the store is a file."""
        paths = [Path(self.order["home"]) / self.token, *map(Path, self._files().values())]
        try:
            for path in paths:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.touch()
            yield
        finally:
            for path in paths:
                with contextlib.suppress(OSError):
                    path.unlink(missing_ok=True)

    def _refusal(self, seen: Mapping[str, Any]) -> Refused | None:
        """Why a node cannot take part."""
        host, cure = seen["host"], "see docs/clusters.md"
        server = "give --storage postgresql://... or grpc://HOST:PORT, which all nodes reach"
        if not seen["trainlab"]:
            return Refused(f"trainlab is not installed on {host}", "install the same version on every node")
        if self.order["journal"] and not seen["shared"]:
            said = f"the queue is a journal in {self.order['home']}, which the worker on {host} does not share"
            return Refused(said, f"{server} ({cure})")
        if "queue" in seen["unseen"]:
            return Refused(f"{host} does not see the queue {self.order['files']['queue']}", f"{server} ({cure})")
        if "MLflow" in seen["unseen"]:
            said = f"{host} does not see MLflow's {self.order['files']['MLflow']}"
            return Refused(said, f"set MLFLOW_TRACKING_URI to a server that all nodes reach ({cure})")
        return None

    # Starting

    def place(self) -> None:
        """Wait for the stations, refuse what cannot be, and start the workers of those that are there."""
        until = time.monotonic() + _PLACE_S
        while time.monotonic() < until and not self.stopping:
            for place in [each for each in self.places if each.what == "look" and self._answered(each)]:
                self._looked(place)
            if all(place.what != "look" for place in self.places):
                break
            time.sleep(_LOOK_S)
        ready = [place for place in self.places if place.what == "ready"]
        for place in ready:
            refusal = self._refusal(place.seen)
            if refusal:
                raise refusal
        if len(ready) < len(self.places):
            self._tell_waiting(len(self.places) - len(ready))
        self._tell_apart(ready)
        for place in ready:
            self._start(place)
        self._tell_alive()

    def _looked(self, place: _Place) -> None:
        try:
            place.seen = self.ray.get(place.asked)
        except self.ray.exceptions.RayError as error:
            self._lost(place, error)
            return
        place.host, place.what = place.seen["host"], "ready"

    def _answered(self, place: _Place) -> bool:
        return bool(self.ray.wait([place.asked], timeout=0)[0])

    def _tell_waiting(self, count: int) -> None:
        asks = [f"{self.resources['num_cpus']:g} CPUs"] + [
            f"{amount:g} {name}s"
            for name, amount in (("GPU", self.resources["num_gpus"]), *self.resources["resources"].items())
            if amount
        ]
        of = len(self.places)
        _tell(f"{count} of {of} workers wait for room in the Ray cluster: each asks for {' and '.join(asks)}")

    def _tell_apart(self, ready: list[_Place]) -> None:
        mine = {"torch": "", "python": sys.version.split()[0]}
        with contextlib.suppress(ImportError):
            import importlib.metadata

            mine["torch"] = importlib.metadata.version("torch")
        for place in {place.host: place for place in ready}.values():
            others = [f"{name} {place.seen[name]}" for name in mine if place.seen[name] != mine[name]]
            if others:
                _tell(f"{place.host} has {' and '.join(others)}: runs there may differ in the last digits")
        apart = {(place.host, place.seen["home"]) for place in ready if not place.seen["shared"]}
        if apart:
            where = ", ".join(f"{host}:{home}" for host, home in sorted(apart))
            _tell(f"homes of their own: {where}; a trial that another home takes over starts from zero")

    def _start(self, place: _Place) -> None:
        place.asked = place.station.start.remote(
            self.order["assignments"][place.number], place.seen["home"], self.order["environment"], self.order["folder"]
        )
        place.what = "start"

    # Watching

    def watch(self) -> None:
        """To the end of the last worker."""
        told = killed_at = 0.0
        while self.places:
            if self.stopping and not told:
                told = time.monotonic()
                self._stop()
            if self.killing and not killed_at:
                killed_at = time.monotonic()
                self._signal(signal.SIGTERM)
            if killed_at and time.monotonic() > killed_at + _KILL_S:
                self._signal(signal.SIGKILL)
            for place in list(self.places):
                if self._answered(place):
                    self._hear(place)
            if self.done and all(place.what == "look" for place in self.places):
                self._drop_waiting()  # nothing is due: they would find nothing to do
            time.sleep(_LOOK_S)

    def _stop(self) -> None:
        self._drop_waiting()
        self._signal(signal.SIGTERM)

    def _signal(self, number: int) -> None:
        for place in self.places:
            place.station.signal.remote(int(number))

    def _drop_waiting(self) -> None:
        for place in [place for place in self.places if place.what == "look"]:
            self._let_go(place)

    def _let_go(self, place: _Place) -> None:
        self.places.remove(place)
        self.ray.kill(place.station)
        self._tell_alive()

    def _hear(self, place: _Place) -> None:
        try:
            answer = self.ray.get(place.asked)
        except self.ray.exceptions.ActorUnavailableError:
            place.asked = place.station.news.remote()
            return
        except self.ray.exceptions.RayError as error:
            self._lost(place, error)
            return
        if place.what == "look":
            self._late(place, answer)
        elif place.what == "start":
            place.what, place.asked = "news", place.station.news.remote()
        else:
            self._news(place, *answer)

    def _late(self, place: _Place, seen: Mapping[str, Any]) -> None:
        """A station that found room after the others had begun."""
        place.seen, place.host = seen, seen["host"]
        refusal = self._refusal(seen)
        if refusal:
            _say({"crew": "failed", "said": f"{place} was not started: {refusal.said}; {refusal.cure}"})
            self._let_go(place)
        else:
            self._start(place)

    def _news(self, place: _Place, lines: list[str], code: int | None, said: str) -> None:
        for line in lines:
            self.in_vain = 0 if line.startswith('{"event": "RunEnded"') else self.in_vain
            _print(line.rstrip("\n"))
        if code is None:
            place.asked = place.station.news.remote()
            return
        if code == 2:
            _say({"crew": "wrong", "said": said})
            self.stopping = True
        elif code not in (0, 130) and not self.stopping:
            how = f"was killed ({signal.Signals(-code).name})" if code < 0 else f"ended with code {code}: {said}"
            _say({"crew": "failed", "said": f"{place} {how}"})
            self.in_vain += 1
            if self.in_vain <= _IN_VAIN:
                self._start(place)
                return
        self.done |= code == 0
        self._let_go(place)

    def _lost(self, place: _Place, error: Exception) -> None:
        """Its station is gone. Another waits for room, unless none of the last few did anything."""
        cause = " ".join(str(error).split())
        how = "was lost with its node" if "node" in cause.lower() else f"was ended by Ray: {cause[:300]}"
        self._let_go(place)
        if self.stopping:
            return
        _say({"crew": "failed", "said": f"{place} {how}; the others take its trial over"})
        self.in_vain += 1
        if self.in_vain <= _IN_VAIN:
            self.places.append(self._placed(place.number))
            self._tell_alive()

    def _tell_alive(self) -> None:
        _say({"crew": "alive", "count": len(self.places)})


def _tell(text: str) -> None:
    _print(to_json(Notice(text)))


def _connected(address: str, cpus: float) -> Any:
    """Ray, connected; or Refused, in a line."""
    import ray
    from ray import cloudpickle

    cloudpickle.register_pickle_by_value(ray_node)
    given: dict[str, Any] = {"log_to_driver": False, "configure_logging": False, "logging_level": "ERROR"}
    if address in ("", "local"):
        here = {"address": "local", "num_cpus": max(1, math.ceil(cpus)), "include_dashboard": False}
        given = {**given, **here, "object_store_memory": _STORE}
    else:
        given["address"] = address
    for _ in range(_STARTS if address in ("", "local") else 1):
        try:
            ray.init(**given)
            return ray
        except Exception as error:  # Ray raises whatever comes; its start gives up after 15 s, on a busy machine
            said = " ".join(str(error).split())[:300]
            ray.shutdown()
    raise Refused(f"Ray cannot be used ({said})", "look at it with: ray status")
