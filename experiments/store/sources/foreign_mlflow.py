"""MLflow's runs that other tools logged, as a Source: experiments, parameters, metric histories and statuses.

The runs that trainlab mirrors there are not among them: a home has them already. Deleted runs are left out too."""

from __future__ import annotations

import contextlib
import math
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from algos.finding import InputError, unknown
from experiments.store.sources.cells import plain
from experiments.store.sources.databases import check_answers, check_sqlite, displayed, without_secrets
from experiments.store.sources.foreign import Points, Read, Told, counted, in_order, stepless
from experiments.store.sources.mlflow_points import points as every_point
from experiments.store.sources.statuses import Meanings
from experiments.store.tracking import absolute, check_tracking, sqlite_path

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run

_A_PAGE = 1000
_TABLES = ("experiments", "runs", "metrics", "params", "tags")
_OURS = "trainlab.run_id"
_PARENT = "mlflow.parentRunId"
#: A database of MLflow's holds no infinity: it keeps the largest number instead.
_LARGEST = sys.float_info.max
#: A question is asked so often before a server that fails or drops the connection is given up; MLflow's client itself
#: would try a server that hangs for a quarter of an hour.
_TRIES = 4
_PAUSE_S = 1.0
_PATIENCE = {"MLFLOW_HTTP_REQUEST_TIMEOUT": "30", "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0"}
#: What a later try may mend, as MLflow's client calls it.
_PASSING = ("INTERNAL_ERROR", "TEMPORARILY_UNAVAILABLE", "REQUEST_LIMIT_EXCEEDED")

Answer = TypeVar("Answer")


class MlflowReader:
    """Reads an MLflow store: a server, a database, or a folder of older versions (`mlruns`). experiments: the names of
    those that are read; by default, all that have runs."""

    kind = "mlflow"

    def __init__(self, uri: str, experiments: Sequence[str] = (), meanings: Meanings | None = None):
        self.uri = _folder(uri) or absolute(uri)
        self.place = displayed(self.uri)
        self._experiments, self._meanings = tuple(experiments), meanings or Meanings()
        self._client: MlflowClient | None = None
        self._stepless: dict[str, None] = {}
        self._infinite = self._twice = 0

    def read(self) -> Read:
        self._check()
        with self._clear():
            names = self._chosen()
            runs = list(self._pages(list(names)))
        theirs = [run for run in runs if _OURS not in run.data.tags]
        if runs and not theirs:
            said = f"all {len(runs)} runs there are trainlab's own mirror"
            raise InputError(
                said, "they are in their home already (`trainlab runs`)", rule="own-mirror", source=self.place
            )
        notes = []
        nested = sum(_PARENT in run.data.tags for run in theirs)
        if nested:
            notes.append(f"{nested} runs are nested in others; those are runs too here, unless --where leaves them out")
        if len(theirs) < len(runs):
            notes.append(f"{len(runs) - len(theirs)} runs are trainlab's own mirror, and left out")
        theirs.sort(key=lambda run: (run.info.start_time or 0, run.info.run_id))
        told = [self._told(run, names[run.info.experiment_id]) for run in theirs]
        return Read(told, notes, written=max((run.info.start_time or 0 for run in theirs), default=0))

    @property
    def late(self) -> Sequence[str]:
        """What was found in the points."""
        names = ", ".join(list(self._stepless)[:6])
        notes = [f"{names}: logged without steps, so their values are counted in order of time"] if names else []
        if self._infinite:
            notes.append(f"{self._infinite} values of +-{_LARGEST:.4g} are infinite: MLflow's databases hold it so")
        if self._twice:
            notes.append(f"{self._twice} values were given twice for a run, metric and step; the last one is kept")
        return notes

    def points(self, run: Told) -> Points:
        found: Points = {}
        with self._clear():
            wanted = {run.key: list(run.last)}
            every = self._asked(partial(every_point, self._connected(), self.uri, wanted))
            for metric in run.last:
                points = [(step, _infinite(value), at) for step, value, at in every[run.key, metric]]
                self._infinite += sum(math.isinf(point[1]) for point in points)
                if stepless(points):
                    self._stepless[metric] = None
                    points = counted(points)
                found[metric], dropped = in_order(points)
                self._twice += dropped
        return found

    def _asked(self, question: Callable[[], Answer]) -> Answer:
        """The answer, asked for again where a later try may have one."""
        tries = _TRIES if self.uri.startswith("http") else 1
        for tried in range(1, tries + 1):
            try:
                with _patient():
                    return question()
            except Exception as error:  # of MLflow, its database or the network
                if tried == tries or getattr(error, "error_code", "INTERNAL_ERROR") not in _PASSING:
                    raise
                said = without_secrets(str(error), self.uri)[:200]
                print(f"note: {self.place} failed ({said}); asked again", file=sys.stderr, flush=True)
                time.sleep(_PAUSE_S * 2 ** (tried - 1))
        raise AssertionError("the last try returns or raises")

    def _check(self) -> None:
        """InputError unless there is a store, before MLflow would make one."""
        check_sqlite(self.uri, _TABLES, "MLflow")
        check_answers(self.uri)
        if sqlite_path(self.uri) is None and not _folder(self.uri):
            try:
                check_tracking(self.uri)
            except InputError as error:
                known = error.finding
                said = known.said.replace(" (nothing was run)", "")
                raise InputError(
                    said, "give sqlite:///FILE, http://HOST:PORT or a folder mlruns", rule="no-source"
                ) from None

    def _connected(self) -> MlflowClient:
        if self._client is None:
            from mlflow import MlflowClient

            with _files_allowed(self.uri):
                self._client = MlflowClient(tracking_uri=self.uri)
                self._asked(partial(self._client.search_experiments, max_results=1))
        return self._client

    @contextlib.contextmanager
    def _clear(self) -> Iterator[None]:
        """What MLflow, its database or the network raise, in one line."""
        try:
            yield
        except InputError:
            raise
        except Exception as error:
            said = without_secrets(str(error), self.uri)
            cure = "look whether it is there and whole"
            if "schema" in said or "upgrade" in said or "revision" in said:
                cure = "another version of MLflow wrote it: `mlflow db upgrade` brings a copy of it up to date"
            raise InputError(f"{self.place} cannot be read ({said})", cure, rule="no-source") from error

    def _chosen(self) -> dict[str, str]:
        """id -> name of the experiments to read."""
        found: dict[str, str] = {}
        token = None
        while True:
            page = self._asked(partial(self._connected().search_experiments, page_token=token))
            found |= {each.experiment_id: each.name for each in page}
            token = page.token
            if not token:
                break
        for name in self._experiments:
            if name not in found.values():
                raise unknown("experiment", name, found.values(), source=self.place, place="--experiment")
        return {key: name for key, name in found.items() if not self._experiments or name in self._experiments}

    def _pages(self, experiments: list[str]) -> Iterator[Run]:
        token = None
        while experiments:
            search = partial(self._connected().search_runs, experiments, max_results=_A_PAGE, page_token=token)
            page = self._asked(search)
            yield from page
            token = page.token
            if not token:
                return

    def _told(self, run: Run, experiment: str) -> Told:
        info, tags = run.info, run.data.tags
        status, reason = self._meanings.of(info.status, f"run {info.run_id}")
        params: dict[str, Any] = {key: plain(value) for key, value in run.data.params.items()}
        commit = tags.get("mlflow.source.git.commit", "")
        return Told(
            key=info.run_id,
            name=info.run_name or info.run_id,
            said={**{k: v for k, v in tags.items() if not k.startswith("mlflow.")}, **params},
            config=params,
            status=status,
            reason=reason,
            started=info.start_time or None,
            ended=info.end_time or None,
            last={metric: _infinite(value) for metric, value in run.data.metrics.items()},
            labels={"place": experiment},
            provenance={"commit": commit} if commit else {},
        )


def _infinite(value: float) -> float:
    """A value as it was logged.

    >>> _infinite(1.7976931348623157e308), _infinite(-1.7976931348623157e308), _infinite(0.5)
    (inf, -inf, 0.5)
    """
    return math.copysign(math.inf, value) if abs(value) == _LARGEST else value


@contextlib.contextmanager
def _patient() -> Iterator[None]:
    """How long MLflow's client waits, unless the user has said so."""
    with _environment({name: value for name, value in _PATIENCE.items() if name not in os.environ}):
        yield


def _folder(uri: str) -> str:
    """The path of a store of files, as MLflow made them by default until 3.7; "" for anything else."""
    path = Path(uri.removeprefix("file://")).expanduser()
    with contextlib.suppress(OSError):
        if (uri.startswith("file://") or "://" not in uri) and path.is_dir():
            if any(path.glob("*/meta.yaml")):
                return str(path.absolute())
            raise InputError(
                f"{path} is a folder, but not MLflow's", "give mlruns, or the URI of a store", rule="wrong-kind"
            )
    return ""


def _files_allowed(uri: str) -> contextlib.AbstractContextManager[None]:
    """MLflow refuses stores of files unless this is set; to read one is what is asked here."""
    return _environment({"MLFLOW_ALLOW_FILE_STORE": "true"} if Path(uri).is_dir() else {})


@contextlib.contextmanager
def _environment(values: Mapping[str, str]) -> Iterator[None]:
    """Variables that are set for a while."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
