"""The doctor: what kills can leave between home, queue and MLflow, found and mended in that order of truth.

    found = examine(Home.default(), dry_run=True)

The spools say what happened; the queue is set right after them, and MLflow after both. The store's own half is in
`experiments.store.doctor`; Optuna is imported when there is a queue to look at.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from algos.finding import Finding, InputError
from experiments.store.checks.mirrors import Waiting
from experiments.store.checks.visit import Visit
from experiments.store.doctor import examine_home, examine_mlflow
from experiments.store.home import Home
from experiments.store.locks import is_held
from experiments.store.records import load
from experiments.store.schema import FINISHED, RunRecord
from experiments.store.tracking import AWAY, check_tracking, sqlite_path, tracking_uri

if TYPE_CHECKING:
    from experiments.study import StudyConfig
    from experiments.sweeps.queue import Queue

_JOURNAL = "optuna.journal"
_SHOWN = 5
#: After so long, what may have moved between two reads is read again.
_AGAIN_S = 1.0


def examine(home: Home, *, dry_run: bool = False, storage: str = "", waiting: Waiting | None = None) -> Visit:
    """Looks at everything, and mends it unless this is a dry run. storage: the URL of the queue of studies that are not
    in the home's journal. No home says where another queue is: a URL may have a password in it.

    Raises InputError, with nothing changed, where MLflow's place or the queue's is none. A store that is away is no
    reason: what waits for it is said.
    """
    visit = Visit(home, tracking_uri(), dry_run)
    try:
        check_tracking(visit.uri)
    except InputError as error:
        if error.finding.rule != AWAY:
            raise
    if storage:
        from experiments.sweeps.storage import check_storage

        check_storage(storage)
    if not home.run_folder.is_dir():
        return visit
    examine_home(visit)
    _half_line(visit)
    for path in sorted((home.path / "studies").glob("*/study.json")):
        _queue(visit, path.parent.name, storage)
    examine_mlflow(visit, waiting)
    return visit


def _half_line(visit: Visit) -> None:
    journal = visit.home.path / _JOURNAL
    if not journal.exists() or not journal.stat().st_size or is_held(journal.with_name(f"{_JOURNAL}.lock")):
        return
    with journal.open("rb") as file:
        file.seek(-1, os.SEEK_END)
        whole = file.read(1) == b"\n"
    if not whole:
        said = "it ends in half a line, which a kill in mid-write left"
        visit.mend("half-line", _JOURNAL, said, "cut off", partial(_cut, visit.home.path))


def _cut(home: Path) -> None:
    from experiments.sweeps.journal import mended

    mended(home)


def _queue(visit: Visit, name: str, storage: str) -> None:
    """The trials of a study beside its runs. Looked at in a copy: asking a queue can write to it."""
    from experiments.sweeps.definition import stored_study

    try:
        study = stored_study(visit.home, name)
    except (InputError, ValueError, KeyError) as error:
        visit.unmended("broken-study", f"study {name}", f"its study.json cannot be read ({error})", "sweep it again")
        return
    if study is None:
        return
    places = [place for place in ("", storage) if _holds(visit, study, place)]
    if not places:
        _elsewhere(visit, study, storage)
        return
    storage = places[0]
    wrong, over = _looked(visit, study, storage)
    if (wrong or over) and visit.beside:  # runs and trials are read one after the other, and may have moved in between
        time.sleep(_AGAIN_S)
        again, still = _looked(visit, study, storage)
        wrong, over = [said for said in wrong if said in again], [said for said in over if said in still]
    for said in over:
        visit.unmended("trial-over", f"study {name}", said, "left as it is: only its worker could have told so")
    if wrong:
        more = [f"and {len(wrong) - _SHOWN} more"] if len(wrong) > _SHOWN else []
        said = "; ".join([*wrong[:_SHOWN], *more])
        visit.mend("stale-trials", f"study {name}", said, "set right", partial(_release, visit, study, storage))


def _holds(visit: Visit, study: StudyConfig, storage: str) -> bool:
    """Whether the study's trials are in that queue. storage: "" for the journal in the home."""
    from experiments.sweeps.queue import study_name

    if not storage and not (visit.home.path / _JOURNAL).exists():
        return False
    with _copied(visit, study, storage) as queue:
        there = {each.study_name for each in queue.storage.get_all_studies()}
        return any(study_name(labels) in there for labels in queue.all_labels())


def _elsewhere(visit: Visit, study: StudyConfig, storage: str) -> None:
    """That the trials of a study that has runs were not looked at."""
    if not _records(visit.home, study.name):
        return
    said = f"its trials are in no queue of this home{' and not in that one' if storage else ''}: not looked at"
    cure = "give --storage URL as to its sweep" if not storage else "give the URL that its sweep was given"
    visit.found.append(Finding("queue-elsewhere", said, cure, f"study {study.name}", level="note"))


def _looked(visit: Visit, study: StudyConfig, storage: str) -> tuple[list[str], list[str]]:
    """Trials to be set right, and trials that contradict their run."""
    records = _records(visit.home, study.name)
    with _copied(visit, study, storage) as queue:
        return queue.release(records, dry_run=True), _contradictions(queue, records)


def _release(visit: Visit, study: StudyConfig, storage: str) -> None:
    from experiments.sweeps.queue import Queue

    Queue(visit.home, study, storage).release(_records(visit.home, study.name))


def _records(home: Home, study: str) -> list[RunRecord]:
    """The runs that our runner made for a study. Writes nothing."""
    found = []
    for run_id in home.run_ids():
        with suppress(InputError, FileNotFoundError):  # one that cannot be read has been told
            record = load(home.run_folder / run_id, keep=False)
            if record.labels.study == study and not record.file.facts.get("recorded"):
                found.append(record)
    return found


@contextmanager
def _copied(visit: Visit, study: StudyConfig, storage: str) -> Iterator[Queue]:
    """The queue, where it is a file, of a copy of it; who lives is asked of the true home."""
    from experiments.sweeps.lease import Watch
    from experiments.sweeps.queue import Queue

    with tempfile.TemporaryDirectory() as folder:
        place, url = Path(folder), storage
        file = sqlite_path(storage)
        if not storage:
            shutil.copy(visit.home.path / _JOURNAL, place / _JOURNAL)
        elif file is not None:
            url = f"sqlite:///{place}/queue.db"
            if file.exists():
                reading, copy = sqlite3.connect(f"file:{file}?mode=ro", uri=True), sqlite3.connect(place / "queue.db")
                with closing(reading) as here, closing(copy) as there:
                    here.backup(there)
        queue = Queue(Home(place), study, url)
        queue._watch = Watch(visit.home)
        yield queue


def _contradictions(queue: Queue, records: list[RunRecord]) -> list[str]:
    """Trials that are over while their run is not. No kill can leave one: whoever tells has ended the run before."""
    from experiments.sweeps.queue import study_name

    over = {}
    for labels in queue.all_labels():
        study = queue.study(labels)
        for number, trial in enumerate(queue._trials(study)[queue._offset(study) :]):
            if trial.state.is_finished():
                over[study.study_name, number] = trial
    found = []
    for record in records:
        told = over.get((study_name(record.labels), record.labels.number))
        if told is not None and record.status not in FINISHED and "outcome" not in told.user_attrs:
            found.append(f"trial {told.number} is {told.state.name}, and its run {record.run_id} is {record.status}")
    return found
