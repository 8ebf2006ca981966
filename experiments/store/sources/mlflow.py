"""MLflow as a Source: the runs that trainlab mirrored there, equal to what the home says of them."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from algos.finding import InputError
from experiments.store import descriptions, names
from experiments.store.queries import parse
from experiments.store.schema import RunFile, RunRecord
from experiments.store.sources import Series
from experiments.store.sources.mlflow_points import points
from experiments.store.tracking import absolute, shown, tracking_uri

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run

_A_PAGE = 1000


class MLflowSource:
    """Reads an MLflow store. uri: "" is `$MLFLOW_TRACKING_URI` or MLflow's default. study: "" reads all of them."""

    def __init__(self, uri: str = "", study: str = ""):
        self.uri = absolute(uri) if uri else tracking_uri()
        self.study = study
        self._client: MlflowClient | None = None
        self._runs: dict[str, Run] = {}

    @property
    def client(self) -> MlflowClient:
        if self._client is None:
            from experiments.store.mirror import connect

            self._client = connect(self.uri)
        return self._client

    def runs(self, query: str = "") -> list[RunRecord]:
        """The runs that `query` selects, oldest first. All of them: the store is read page by page."""
        self._runs = {run.data.tags["trainlab.run_id"]: run for run in self._pages()}
        found = [self._record(self._runs[run_id]) for run_id in sorted(self._runs)]
        wanted = parse(query, found)
        return [record for record in found if wanted(record)]

    def series(self, run_ids: Iterable[str], metrics: Sequence[str] | None = None) -> list[Series]:
        """Every point of the runs' metrics, run by run in the order given."""
        wanted: dict[str, dict[str, str]] = {}
        for run_id in run_ids:
            run = self._run(run_id)
            cut = self._cut(run)
            keys = {names.decode(key, cut): key for key in run.data.metrics}
            wanted[run_id] = {name: key for name, key in keys.items() if metrics is None or name in metrics}
        asked = {self._runs[run_id].info.run_id: list(keys.values()) for run_id, keys in wanted.items()}
        found = points(self.client, self.uri, asked)
        return [
            Series(run_id, name, *map(tuple, zip(*found[self._runs[run_id].info.run_id, keys[name]])))
            for run_id, keys in wanted.items()
            for name in sorted(keys)
        ]

    def _pages(self) -> Iterable[Run]:
        wanted = "tags.`trainlab.run_id` LIKE '%'"
        if self.study:
            wanted += f" AND tags.study = '{self.study}'"
        token = None
        while True:
            page = self.client.search_runs(self._experiments(), wanted, max_results=_A_PAGE, page_token=token)
            yield from page
            token = page.token
            if not token:
                return

    def _experiments(self) -> list[str]:
        found, token = [], None
        while True:
            page = self.client.search_experiments(page_token=token)
            found += [item.experiment_id for item in page]
            token = page.token
            if not token:
                return found

    def _run(self, run_id: str) -> Run:
        if run_id not in self._runs:
            self.runs()
        return self._runs[run_id]

    def _record(self, run: Run) -> RunRecord:
        facts = self._outcome(run)
        cut = json.loads(facts.get("trainlab.names") or "{}")

        def number(key: str) -> int | None:
            return int(facts[key]) if facts.get(key) else None

        def data(key: str, empty: str) -> Any:
            return json.loads(facts.get(key) or empty)

        last = {names.decode(key, cut): value for key, value in run.data.metrics.items()}
        gone = data("trainlab.no_last", "[]")
        return RunRecord(
            file=RunFile.from_json(json.loads(self._artifact(run, "run.json"))),
            status=facts["trainlab.status"],  # type: ignore[arg-type]
            reason=facts.get("trainlab.reason", ""),
            traceback=facts.get("trainlab.traceback", ""),
            attempts=number("trainlab.attempts") or 0,
            started=number("trainlab.started"),
            ended=number("trainlab.ended"),
            last={name: value for name, value in last.items() if name not in gone},
            final=data("trainlab.final", "{}"),
            nonfinite=tuple(data("trainlab.nonfinite", "[]")),
            reached=data("trainlab.reached", "null"),
            events=tuple(data("trainlab.events", "[]")),
        )

    def _outcome(self, run: Run) -> Mapping[str, str]:
        """The tags that say what happened, whole: those too long for a tag are in an artifact."""
        tags: dict[str, str] = dict(run.data.tags)
        if descriptions.ELSEWHERE in tags.values():
            tags.update(json.loads(self._artifact(run, "outcome.json")))
        return tags

    def _cut(self, run: Run) -> Mapping[str, str]:
        cut: Mapping[str, str] = json.loads(self._outcome(run).get("trainlab.names") or "{}")
        return cut

    def _artifact(self, run: Run, name: str) -> bytes:
        """An artifact's bytes: from the disk where it lies on this one, else from the server."""
        place: str = run.info.artifact_uri
        if place.startswith("file://"):
            place = unquote(place.removeprefix("file://"))
        try:
            return Path(place, name).read_bytes() if place.startswith("/") else self._download(f"{place}/{name}")
        except Exception as error:  # of the disk, MLflow or the network
            run_id = run.data.tags["trainlab.run_id"]
            said = f"run {run_id} has no {name} in {shown(self.uri)} ({error})"
            raise InputError(said, "read it from its home", rule="no-artifact") from error

    def _download(self, uri: str) -> bytes:
        from mlflow.artifacts import download_artifacts

        os.environ.setdefault("MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR", "false")
        with TemporaryDirectory() as folder:
            return Path(download_artifacts(artifact_uri=uri, dst_path=folder, tracking_uri=self.uri)).read_bytes()
