"""MLflow beside the home: what it has not got, and what it says other than the home does.

What is to be sent, the uploader sends. A run that MLflow has forgotten, has RUNNING though it is over, or has without
some of its metrics is sent again; MLflow stores a point that it has once.
"""

from __future__ import annotations

import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from algos.finding import Finding, InputError
from experiments.store import descriptions, mirrored, names, records, spool, troubles
from experiments.store.checks.visit import Visit, listed
from experiments.store.home import RunFolder
from experiments.store.locks import is_held
from experiments.store.mirrored import Left, Mirrored
from experiments.store.tracking import AWAY, check_tracking, shown, sqlite_path
from experiments.store.uploads import is_started, start_uploader

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run

_A_PAGE = 1000
#: So long a live uploader is left to send what it has in hand, and so often it is looked at.
_UPLOADER_S, _LOOK_S = 15.0, 0.5


@dataclass(frozen=True)
class Waiting:
    """How long to wait for MLflow, and who is told what is still left."""

    timeout_s: float = 120.0
    told: Callable[[Left], object] | None = None


def check(visit: Visit, waiting: Waiting) -> None:
    unsent, away = _unsent(visit), _away(visit)
    if unsent and not away and _at_work(visit):  # a live uploader has them in hand
        unsent = _waited(visit, unsent)
    if away:
        if unsent:
            _say(visit, unsent, f"could not be sent: {away}", "error")
        return
    wrong = _compare(visit, _steady(visit))
    if visit.dry_run:
        if unsent:
            _say(visit, unsent, "would be sent", "caution")
    elif unsent or wrong:
        _send(visit, unsent, wrong, waiting)
    _complaint(visit)


def _unsent(visit: Visit) -> list[str]:
    return [folder.run_id for folder in visit.idle() if mirrored.pending(folder.path, visit.uri)]


def _at_work(visit: Visit) -> bool:
    """Whether an uploader that this process did not start works on the home."""
    return is_held(visit.home.path / "uploader.lock") and not is_started(visit.home, visit.uri)


def _waited(visit: Visit, unsent: list[str]) -> list[str]:
    """What of it is still not sent once the live uploader has had its time."""
    deadline = time.monotonic() + _UPLOADER_S
    while unsent and time.monotonic() < deadline and _at_work(visit):
        time.sleep(_LOOK_S)
        now = set(_unsent(visit))
        unsent = [run_id for run_id in unsent if run_id in now]
    return unsent


def _steady(visit: Visit) -> dict[str, Mirrored]:
    """The runs that are wholly sent, with how. Beside a live uploader only those that MLflow has otherwise at a first
    look, and of which nothing was sent since."""
    settled = _settled(visit)
    if not settled or not _at_work(visit):
        return settled
    look = replace(visit, dry_run=True, found=[])
    first = _compare(look, settled)
    if not first:
        return settled if any(finding.rule == "mlflow-away" for finding in look.found) else {}
    time.sleep(_LOOK_S)
    _waited(visit, first)
    now = _settled(visit)
    return {run_id: settled[run_id] for run_id in first if now.get(run_id) == settled[run_id]}


def _away(visit: Visit) -> str:
    """Why MLflow is not asked at all; "" where it is."""
    try:
        check_tracking(visit.uri)
    except InputError as error:
        if error.finding.rule != AWAY:
            raise
        return error.finding.said.removesuffix(" (nothing was run)")
    return ""


def _say(visit: Visit, run_ids: list[str], cure: str, level: str) -> None:
    count = f"{len(run_ids)} run{'s are' if len(run_ids) > 1 else ' is'}"
    said = f"{count} not wholly in {shown(visit.uri)} ({listed(run_ids)})"
    visit.found.append(Finding("not-in-mlflow", said, cure, "MLflow", level=level))  # type: ignore[arg-type]


def _send(visit: Visit, unsent: list[str], wrong: list[str], waiting: Waiting) -> None:
    in_use = is_started(visit.home, visit.uri)
    uploader = start_uploader(visit.home, visit.uri)
    left = uploader.finish(waiting.timeout_s, waiting.told)
    if not in_use:
        uploader.stop()
    sent = [run_id for run_id in unsent if run_id not in left.runs]
    if sent:
        _say(visit, sent, "sent", "note")
    if still := [run_id for run_id in (*unsent, *wrong) if run_id in left.runs]:
        _say(visit, still, f"could not be sent: {left.reason or 'it takes longer'}", "error")


def _complaint(visit: Visit) -> None:
    """What an uploader complained of, and is over."""
    reason = mirrored.reason(visit.home, visit.uri)
    if reason and not mirrored.left(visit.home, visit.uri) and not is_held(visit.home.path / "uploader.lock"):
        visit.mend(
            "stale-complaint", "uploader.json", f"it says '{reason}', and all runs are sent", "cleared",
            lambda: mirrored.complain(visit.home, visit.uri, ""),
        )  # fmt: skip


def _settled(visit: Visit) -> dict[str, Mirrored]:
    settled = {}
    for folder in visit.idle():
        state = mirrored.load(folder.path, visit.uri)
        if state.run and state.settled == mirrored.sizes(folder.path) and not state.skip:
            settled[folder.run_id] = state
    return settled


def _compare(visit: Visit, settled: dict[str, Mirrored]) -> list[str]:
    """Those of the runs that are to be sent again."""
    if not settled:
        return []
    try:
        with _client(visit) as client:
            if client is None:
                return []
            return _compared(visit, client, settled)
    except InputError:
        raise
    except Exception as error:  # of MLflow, its database or the network
        said = " ".join(str(error).split())[:200]
        meaning = troubles.of_store(error) or "does not answer"
        visit.unmended(
            "mlflow-away", "MLflow", f"{shown(visit.uri)} {meaning}", f"its runs were not looked at ({said})"
        )
        return []


@contextmanager
def _client(visit: Visit) -> Iterator[MlflowClient | None]:
    """A dry run looks at a copy of an SQLite file: opening one may write to it."""
    from experiments.store.mirror import connect

    path = sqlite_path(visit.uri)
    if path is not None and not path.exists():
        yield None
    elif path is None or not visit.dry_run:
        yield connect(visit.uri)
    else:
        with tempfile.TemporaryDirectory() as folder:
            copy = Path(folder) / "copy.db"
            with (
                closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as here,
                closing(sqlite3.connect(copy)) as there,
            ):
                here.backup(there)
            yield connect(f"sqlite:///{copy}")


def _compared(visit: Visit, client: MlflowClient, settled: dict[str, Mirrored]) -> list[str]:
    theirs = _theirs(client, {state.experiment for state in settled.values()})
    wrong = []
    for run_id, state in settled.items():
        folder = RunFolder(visit.home.run_folder / run_id)
        known = theirs.get(run_id, [])
        own = next((run for run in known if run.info.run_id == state.run), None)
        adopted = own or max(
            (run for run in known if _active(run)), key=lambda run: len(run.data.metrics), default=None
        )
        _twins(visit, client, run_id, [run for run in known if _active(run) and run is not adopted])
        said = _difference(folder, own, state)
        if said:
            fresh = Mirrored(state.uri)
            if adopted is not None:
                fresh = replace(state, run=adopted.info.run_id, settled={}, offsets={}, status="")
            visit.mend(
                "mlflow-differs", f"run {run_id}", said, "sent again",
                partial(mirrored.save, folder.path, visit.uri, fresh),
            )  # fmt: skip
            wrong.append(run_id)
    return wrong


def _theirs(client: MlflowClient, experiments: set[str]) -> dict[str, list[Run]]:
    """MLflow's runs of ours, the deleted ones too, by our id."""
    from mlflow.entities import ViewType

    found: dict[str, list[Run]] = {}
    token = None
    while True:
        page = client.search_runs(
            sorted(experiments), "tags.`trainlab.run_id` LIKE '%'", ViewType.ALL, _A_PAGE, page_token=token
        )
        for run in page:
            found.setdefault(run.data.tags["trainlab.run_id"], []).append(run)
        token = page.token
        if not token:
            return found


def _difference(folder: RunFolder, own: Run | None, state: Mirrored) -> str:
    """What MLflow says of a run other than the home; "" where nothing. One that a user deleted there stays so."""
    if own is None:
        return "MLflow does not have the run that the home sent it to"
    if not _active(own):
        return ""
    record = records.load(folder.path, keep=False)
    wanted = descriptions.STATUS[record.status]
    if own.info.status != wanted:
        return f"MLflow says {own.info.status}, and it is {record.status}"
    cut = {name: key for key, name in state.names.items()}
    missing = [name for name in record.last if cut.get(name, names.encode(name)) not in own.data.metrics]
    if missing and spool.spools(folder.path):
        return f"MLflow lacks its {listed(missing)}"
    return ""


def _active(run: Run) -> bool:
    return bool(run.info.lifecycle_stage == "active")


def _twins(visit: Visit, client: MlflowClient, run_id: str, others: list[Run]) -> None:
    for run in others:
        said = f"MLflow has it twice ({run.info.run_id} is not the one that the home sends to)"
        if run.data.metrics:
            cure = "that one holds points, so it is left: delete it on MLflow's pages if nobody needs it"
            visit.unmended("mlflow-twin", f"run {run_id}", said, cure)
        else:
            visit.mend(
                "mlflow-twin", f"run {run_id}", said, "marked as deleted there, for it holds nothing",
                partial(client.delete_run, run.info.run_id),
            )  # fmt: skip
