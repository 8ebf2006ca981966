"""The mirror: sends what a home's spools say to MLflow, so that each point is there once, whatever dies in between.

Where it stands is in `mirror.json` (see `mirrored`), written after each batch. A batch that was sent but not noted is
sent again, and MLflow stores a point of the same time, step, name and value once. Before a run is created, its place is
noted; one whose note is there already, or that is older than this connection, may have been sent, and is looked for by
its tag `trainlab.run_id`. mlflow is imported when a store is connected, not with this module.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.store import descriptions, mirrored, names, spool, troubles
from experiments.store.home import RunFolder
from experiments.store.locks import Lock
from experiments.store.mirrored import Mirrored
from experiments.store.schema import RunFile, RunRecord
from experiments.store.tracking import sqlite_path

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Metric, Run

_MOST_METRICS = 1000
_MOST_PARAMETERS = 100
_MOST_KEYS = 100_000
_MOST_PLACES = 1000
_READ_BYTES = 4 * 1024 * 1024
_log = logging.getLogger(__name__)


class Mirror:
    """A connection to MLflow's store. Errors of MLflow and of the network are the caller's to retry."""

    def __init__(self, uri: str):
        self.uri = uri
        self._since = spool.now_ms()
        self.client = connect(uri)
        self._experiments: dict[str, tuple[str, int]] = {}
        self._keys: dict[str, str] = {}  # metric names as MLflow accepts them: working one out costs as much as a point

    def push(self, folder: RunFolder) -> int:
        """Sends what is new of a run; returns how many metric values that were."""
        state = mirrored.load(folder.path, self.uri)
        if state.skip:
            return 0
        if state.run and not self.knows(state):
            state = Mirrored(state.uri)  # that store is gone: this one gets the whole run
        try:
            return self._push(folder, state)
        except Exception as error:
            after = self._gone(state, error) if state.run else None
            if after is None:
                raise
            mirrored.save(folder.path, self.uri, after)
            return 0

    def _push(self, folder: RunFolder, state: Mirrored) -> int:
        sizes = mirrored.sizes(folder.path)
        if state.settled == sizes or not any(sizes.values()):
            return 0
        if not state.run:
            self._create(folder, state)
        batch, offsets, rare = self._points(folder, state, sizes)
        values = {} if state.header else self._header(folder, state)
        record = folder.record() if rare or not state.settled else None
        tags = {} if record is None else self._outcome(state, record)
        self._log(state, batch, values, tags)
        if record is not None:
            self._status(state, record)
            state.told = sorted(key for key, value in tags.items() if value)
        state.offsets, state.settled, state.header = offsets, sizes, True
        mirrored.save(folder.path, self.uri, state)
        return len(batch)

    def knows(self, state: Mirrored) -> bool:
        """Whether the store still has the experiment that the run was sent to."""
        known = dict(self._experiments.values())
        if state.experiment not in known:
            found = self.client.search_experiments()
            known = {item.experiment_id: int(item.creation_time or 0) for item in found}
        return known.get(state.experiment) == state.born

    def answers(self) -> bool:
        """Whether the store is there: then an error was one run's."""
        try:
            self.client.search_experiments(max_results=1)
        except Exception:  # whatever the client, its database or the network raise
            return False
        return True

    def _gone(self, state: Mirrored, error: Exception) -> Mirrored | None:
        """How the run stands if the error says that it is not there: sent anew, or deleted by the user and left so."""
        code = getattr(error, "error_code", "")
        if code == "RESOURCE_DOES_NOT_EXIST":
            return Mirrored(state.uri)
        refused = code in ("INVALID_PARAMETER_VALUE", "INVALID_STATE")
        if refused and self.client.get_run(state.run).info.lifecycle_stage == "deleted":
            return replace(state, skip="deleted in MLflow")
        return None

    def _create(self, folder: RunFolder, state: Mirrored) -> None:
        file = folder.file
        maybe_sent = bool(state.experiment) or file.created <= self._since
        state.experiment, state.born = self._experiment(file)
        mirrored.save(folder.path, self.uri, state)
        run = self._found(file.run_id, state) if maybe_sent else None
        if run is None:
            began = next((line["at"] for _, line, _ in lines(folder.path, {}) if line["kind"] == "began"), file.created)
            tags = {key: value[: descriptions.TAG_CHARACTERS] for key, value in descriptions.identity(file).items()}
            run = self.client.create_run(
                state.experiment, start_time=began, tags=tags, run_name=file.name or file.run_id
            )
        state.run, state.status = run.info.run_id, run.info.status
        _remember_place(state.run, run.info.artifact_uri, self.uri)
        mirrored.save(folder.path, self.uri, state)

    def _found(self, run_id: str, state: Mirrored) -> Run | None:
        from mlflow.entities import ViewType

        wanted = f"tags.`trainlab.run_id` = '{run_id}'"
        found = self.client.search_runs([state.experiment], wanted, run_view_type=ViewType.ALL, max_results=1)
        return found[0] if found else None

    def _experiment(self, file: RunFile) -> tuple[str, int]:
        name = descriptions.experiment_name(file, os.environ.get("MLFLOW_EXPERIMENT_NAME") or "trainlab")
        if name not in self._experiments:
            found = self._find_experiment(name, file)
            self._experiments[name] = (found.experiment_id, int(found.creation_time or 0))
        return self._experiments[name]

    def _find_experiment(self, name: str, file: RunFile) -> Any:
        """The experiment of that name; where the user deleted it, one beside it."""
        from mlflow.exceptions import MlflowException

        found = self.client.get_experiment_by_name(name)
        if found is not None and found.lifecycle_stage != "active":
            return self._find_experiment(f"{name} (again)", file)
        if found is None:
            tags = descriptions.experiment_tags(file)
            try:
                return self.client.get_experiment(self.client.create_experiment(name, tags=tags))
            except MlflowException as error:
                found = self.client.get_experiment_by_name(name)  # another process made it in between
                if found is None:
                    raise error
        return found

    def _header(self, folder: RunFolder, state: Mirrored) -> dict[str, str]:
        """Sends run.json and the uncommitted changes; returns the parameters."""
        for path in (folder.path / "run.json", *sorted(folder.path.glob("*.diff"))):
            self._store(state, path.name, partial(self.client.log_artifact, state.run, str(path)))
        return {names.encode(key): value for key, value in descriptions.parameters(folder.file).items()}

    def _store(self, state: Mirrored, name: str, write: Callable[[], None]) -> None:
        """Writes an artifact. Where artifacts cannot be stored but the rest can, the run says so and goes on."""
        try:
            write()
        except Exception as error:
            if troubles.is_full(error) or not self.answers():
                raise  # later there may be space
            said = f"{name} could not be stored as an artifact, it is in the home only: {error}"
            _log.warning("run %s: %s", state.run, said)
            self.client.set_tag(state.run, "trainlab.warning", said[: descriptions.TAG_CHARACTERS])

    def _log(self, state: Mirrored, metrics: list[Metric], values: dict[str, str], tags: dict[str, str]) -> None:
        """As few calls as MLflow's limits allow: each costs as much as a hundred points."""
        from mlflow.entities import Param, RunTag

        parameters = [Param(*row) for row in values.items()]
        labels = [RunTag(*row) for row in tags.items()]
        while metrics or parameters or labels:
            some, parameters = parameters[:_MOST_PARAMETERS], parameters[_MOST_PARAMETERS:]
            few, labels = labels[:_MOST_PARAMETERS], labels[_MOST_PARAMETERS:]
            room = _MOST_METRICS - len(some) - len(few)
            part, metrics = metrics[:room], metrics[room:]
            try:
                self.client.log_batch(state.run, part, some, few, synchronous=True)
            except Exception as error:
                if not some or not self._keep_beside(state, {item.key: item.value for item in some}):
                    raise error
                self.client.log_batch(state.run, part, [], few, synchronous=True)

    def _keep_beside(self, state: Mirrored, rows: dict[str, str]) -> bool:
        """Where MLflow has other values of some parameters, it keeps them; the new ones go to tags beside them."""
        from mlflow.entities import Param, RunTag

        had = self.client.get_run(state.run).data.params
        changed = {key: value for key, value in rows.items() if key in had and had[key] != value}
        if not changed:
            return False
        said = f"the parameters {', '.join(sorted(changed))} changed; the new values are in tags changed.<name>"
        _log.warning("run %s: %s", state.run, said)
        tags = [RunTag(f"changed.{key}"[:250], value[: descriptions.TAG_CHARACTERS]) for key, value in changed.items()]
        new = [Param(*row) for row in rows.items() if row[0] not in had]
        self.client.log_batch(state.run, params=new, tags=[*tags[:99], RunTag("trainlab.warning", said[:1000])])
        return True

    def _points(
        self, folder: RunFolder, state: Mirrored, upto: dict[str, int]
    ) -> tuple[list[Metric], dict[str, int], bool]:
        """Sends points in full batches; returns the last batch, where it ends, and whether there were other lines."""
        batch: list[Metric] = []
        offsets = dict(state.offsets)
        rare = False
        pointed = set(state.metrics)
        for number, line, end in lines(folder.path, state.offsets, upto):
            new = self._metrics(line, state, pointed)
            rare = rare or line["kind"] != "points"
            if batch and len(batch) + len(new) > _MOST_METRICS:
                self._log(state, batch, {}, {})
                state.offsets = dict(offsets)
                mirrored.save(folder.path, self.uri, state)
                batch = []
            batch += new
            offsets[str(number)] = end
        return batch, offsets, rare

    def _metrics(self, line: dict[str, Any], state: Mirrored, pointed: set[str]) -> list[Metric]:
        """The metric values of a line. A final value is a point only of a metric that has no other. pointed: those that
        have points, as a set."""
        from mlflow.entities import Metric

        kind = line["kind"]
        if kind not in ("points", "final"):
            return []
        values: dict[str, float] = line["values"]
        if kind == "final":
            values = {name: value for name, value in values.items() if name not in pointed}
        elif not values.keys() <= pointed:
            state.metrics += [name for name in values if name not in pointed]
            pointed.update(values)
        at, update = line["at"], line["update"]
        return [Metric(self._key(name, state), value, at, update) for name, value in values.items()]

    def _key(self, name: str, state: Mirrored) -> str:
        """A metric's name as MLflow accepts it. One that had to be cut is kept with the run."""
        key = self._keys.get(name)
        if key is None:
            if len(self._keys) > _MOST_KEYS:
                self._keys.clear()
            key = self._keys[name] = names.encode(name)
        if len(key) >= names.CUT and key not in state.names and names.is_cut(key):
            state.names[key] = name
        return key

    def _outcome(self, state: Mirrored, record: RunRecord) -> dict[str, str]:
        """What happened, as tags and a description; what is too long for a tag goes to an artifact."""
        tags = {**descriptions.outcome(record), "trainlab.names": json.dumps(state.names) if state.names else ""}
        long = {key: value for key, value in tags.items() if len(value) > descriptions.TAG_CHARACTERS}
        if long:
            name = "outcome.json"
            self._store(state, name, partial(self.client.log_text, state.run, json.dumps(long), name))
            tags.update(dict.fromkeys(long, descriptions.ELSEWHERE))
        if record.traceback:
            name = "traceback.txt"
            self._store(state, name, partial(self.client.log_text, state.run, record.traceback, name))
        tags["mlflow.note.content"] = descriptions.note(record)
        return {key: value for key, value in tags.items() if value or key in state.told}

    def _status(self, state: Mirrored, record: RunRecord) -> None:
        status = descriptions.STATUS[record.status]
        if status != "RUNNING":
            self.client.set_terminated(state.run, status, record.ended)
        elif state.status != "RUNNING":
            _reopen(self.client, state.run)
        state.status = status


def connect(uri: str) -> MlflowClient:
    """A client of the store. One process at a time makes an empty SQLite store: MLflow itself lets them collide."""
    from mlflow import MlflowClient

    from experiments.store.empty_store import make_sqlite

    path = sqlite_path(uri)
    turn: AbstractContextManager[object] = (
        nullcontext() if path is None else Lock(path.with_name(f".{path.name}.init")).take(wait_s=300, remove=True)
    )
    with turn:
        if path is not None and not (path.exists() and path.stat().st_size):
            make_sqlite(path)
        client = MlflowClient(tracking_uri=uri)
        client.search_experiments(max_results=1)
    return client


def lines(
    folder: Path, offsets: dict[str, int], upto: dict[str, int] | None = None
) -> Iterator[tuple[int, dict[str, Any], int]]:
    """(attempt, line, where it ends) of a run's spools, from the offsets on. A line still being written waits."""
    for number, path in spool.spools(folder):
        start = offsets.get(str(number), 0)
        end = path.stat().st_size if upto is None else upto.get(str(number), 0)
        most = _READ_BYTES
        with path.open("rb") as file:
            while start < end:
                file.seek(start)
                data = file.read(min(most, end - start))
                whole = data[: data.rfind(b"\n") + 1]
                if not whole:
                    if len(data) < most:
                        break
                    most *= 2  # one line is longer than that
                for piece in whole.splitlines(keepends=True):
                    start += len(piece)
                    for line in spool.parse(piece):
                        yield number, line, start


def _remember_place(run: str, artifacts: str, uri: str) -> None:
    """MLflow's client keeps where runs have their artifacts, once it knows; to ask the store costs it as much as to log
    the parameters. Here it is known already. On Databricks the place alone does not say whose it is."""
    from mlflow.store.artifact.artifact_repository_registry import get_artifact_repository
    from mlflow.tracking._tracking_service import utils

    known = getattr(utils, "_artifact_repos_cache", None)
    if known is None or uri.startswith("databricks"):
        return
    with contextlib.suppress(Exception):  # of a kind that is not installed: the client says so, of each artifact
        known[run] = get_artifact_repository(artifacts, tracking_uri=uri)
        if len(known) > _MOST_PLACES:
            known.popitem(last=False)


def _reopen(client: MlflowClient, run: str) -> None:
    """A run that goes on is RUNNING and has no end. MLflow cannot unset an end time, but 0 reads as none everywhere;
    its public `set_terminated` takes 0 for now."""
    from mlflow.entities import RunStatus

    client._tracking_client.store.update_run_info(run, RunStatus.RUNNING, 0, None)
