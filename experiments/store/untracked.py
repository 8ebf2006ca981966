"""Untracked: the MLflow twins of runs that are deleted here. MLflow marks them as deleted, from where they can be
restored there too, until `mlflow gc`. A twin says by its tag `trainlab.deleted` who did it.

What has been done is noted beside the run, in `untracked.json`, so that what a kill or a server that was away left
undone is done later."""

from __future__ import annotations

import contextlib
import json
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from algos.finding import InputError
from experiments.store import mirrored
from experiments.store.records import write_json
from experiments.store.tracking import check_tracking, shown, sqlite_path

if TYPE_CHECKING:
    from mlflow import MlflowClient

TAG = "trainlab.deleted"
_NOTE = "untracked.json"
#: How long MLflow's client waits for a server, where the user has not said it. Its own default is a quarter of an hour.
PATIENCE = {"MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1", "MLFLOW_HTTP_REQUEST_TIMEOUT": "30"}
#: MLflow's codes for what is wrong with the store, and not with a run.
_OF_THE_STORE = (
    "INTERNAL_ERROR",
    "TEMPORARILY_UNAVAILABLE",
    "REQUEST_LIMIT_EXCEEDED",
    "PERMISSION_DENIED",
    "UNAUTHENTICATED",
)


class Twins:
    """The runs of one MLflow store that are ours. Whatever MLflow or the network raise is said, and nothing else is
    kept from happening by it."""

    def __init__(self, uri: str):
        self.uri = uri
        self._client: MlflowClient | None = None
        self._away = ""

    def remove(self, folder: Path) -> str:
        """Deletes the twin of a run that lies in `folder`; why it could not, "" where it is done."""
        why = self._done(folder, deleted=True)
        if not why:
            with contextlib.suppress(OSError):  # a full disk: it is done once more, which changes nothing
                write_json(folder / _NOTE, {"schema": 1, "uri": shown(self.uri), "deleted": True})
        return why

    def restore(self, folder: Path) -> str:
        """The other way."""
        why = self._done(folder, deleted=False)
        if not why:
            (folder / _NOTE).unlink(missing_ok=True)
        return why

    def is_back(self, folder: Path) -> bool:
        """Whether a run that was taken back still has a twin that is deleted."""
        return bool(mirrored.load(folder, self.uri).run) and _noted(folder)

    def waits(self, folder: Path) -> bool:
        """Whether a deleted run still has a twin that was not deleted."""
        return bool(mirrored.load(folder, self.uri).run) and not _noted(folder)

    def elsewhere(self, folder: Path) -> list[str]:
        """Other stores that the run was sent to."""
        return [part.uri for part in mirrored.parts(folder).values() if part.run and part.uri != shown(self.uri)]

    def _done(self, folder: Path, deleted: bool) -> str:
        state = mirrored.load(folder, self.uri)
        if not state.run:
            return ""
        client = self._connected()
        if client is None:
            return self._away
        try:
            self._mark(client, state.run, deleted)
        except Exception as error:  # of MLflow, its database or the network
            if getattr(error, "error_code", "") == "RESOURCE_DOES_NOT_EXIST":
                return ""
            said = " ".join(str(error).split())[:200] or type(error).__name__
            if not isinstance(error, ValueError) and getattr(error, "error_code", "INTERNAL_ERROR") in _OF_THE_STORE:
                self._away = said  # it would be the same with the next run, after as long a wait
                self._client = None
            return said
        return ""

    def _mark(self, client: MlflowClient, run: str, deleted: bool) -> None:
        is_deleted = client.get_run(run).info.lifecycle_stage == "deleted"
        if deleted and not is_deleted:
            client.set_tag(run, TAG, time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()))
            client.delete_run(run)
        elif not deleted and is_deleted:
            client.restore_run(run)
            client.delete_tag(run, TAG)

    def _connected(self) -> MlflowClient | None:
        """A client; None, and `_away` says why, where the store is not there."""
        if self._client is None and not self._away:
            path = sqlite_path(self.uri)
            try:
                check_tracking(self.uri)
                if path is not None and not path.exists():
                    raise InputError(f"{shown(self.uri)} is not there")
                from experiments.store.mirror import connect

                for name, value in PATIENCE.items():
                    os.environ.setdefault(name, value)
                self._client = connect(self.uri)
            except Exception as error:
                said = error.finding.said if isinstance(error, InputError) else str(error)
                self._away = " ".join(said.removesuffix(" (nothing was run)").split())[:200]
        return self._client


def _noted(folder: Path) -> bool:
    try:
        told: Any = json.loads((folder / _NOTE).read_bytes())
        return bool(told.get("deleted"))
    except (OSError, ValueError, AttributeError):
        return False
