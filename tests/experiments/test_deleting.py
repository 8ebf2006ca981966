"""Deleting runs of a study: what the trash, the queue, the next sweep and the doctor make of it; and of a kill."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from algos.finding import InputError
from experiments.deleting import delete, take_back
from experiments.doctor import examine
from experiments.store import pins, trash
from experiments.store.home import Home
from experiments.store.locks import Lock
from experiments.store.pins import Pin, Pins
from experiments.store.schema import RunRecord
from experiments.study import StudyConfig
from experiments.sweeps.journal import open_journal
from experiments.sweeps.lease import living
from experiments.sweeps.sweep import SweepOptions, sweep

ROOT = Path(__file__).parents[2]
STUDY: dict[str, Any] = {
    "name": "small",
    "tasks": ["digits"],
    "config": {"model": {"name": "mlp", "width": 16}, "batch_size": 250, "evaluate_every": 5, "device": "cpu"},
    "budget": {"updates": 5},
    "arms": ["adamw", "lion"],
    "tune": {"trials": 2, "sampler": "random", "space": ["optimizer.lr"]},
    "seeds": 2,
}


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with a study that is complete."""
    place = tmp_path_factory.mktemp("swept")
    assert sweep(StudyConfig.of(STUDY), home=Home(place)).complete
    return place


@pytest.fixture
def home(swept: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    """A copy of it; MLflow is nowhere."""
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path}/mlflow.db")
    shutil.copytree(swept, tmp_path / "home")
    return Home(tmp_path / "home")


def of(home: Home, phase: str, arm: str = "adamw") -> list[RunRecord]:
    return [r for r in home.records() if (r.labels.phase, r.labels.arm) == (phase, arm)]


def outcome(records: list[RunRecord]) -> dict[str, Any]:
    return {r.labels.trial: (r.status, r.config["optimizer"], dict(r.final)) for r in records}


def amiss(home: Home) -> list[str]:
    """What the doctor finds, but that nothing was sent to MLflow."""
    return [found.rule for found in examine(home, dry_run=True).found if found.source != "MLflow"]


def pin(home: Home, file: Path, *runs: str) -> None:
    pins.save(home.path, Pins(file, (Pin("It is so.", "small", "mean", "1", runs),)))


@pytest.mark.parametrize("phase", ["tune", "final"])
def test_a_run_that_is_deleted_alone_is_made_anew_by_the_next_sweep_and_is_the_same(home: Home, phase: str) -> None:
    before, gone = outcome(home.records()), of(home, phase)[0]
    done = delete(home, [gone.run_id])
    assert done.runs == (gone,)
    assert done.size_bytes > 1000
    assert "due again" in done.notes[0]
    assert gone.run_id not in home.run_ids()
    assert amiss(home) == []  # nothing is missing
    result = sweep(StudyConfig.of(STUDY), home=home)
    assert result.complete
    assert outcome(home.records()) == before
    assert len(home.run_ids()) == 8
    assert gone.run_id not in home.run_ids()
    assert sweep(StudyConfig.of(STUDY), home=home).complete
    assert len(home.run_ids()) == 8
    assert amiss(home) == []


def test_a_dry_run_changes_nothing(home: Home) -> None:
    before = {str(p): p.stat().st_mtime_ns for p in home.path.rglob("*") if p.name != "lock"}
    planned = delete(home, study="small", dry_run=True)
    assert len(planned.runs) == 8
    after = {str(p): p.stat().st_mtime_ns for p in home.path.rglob("*") if p.name != "lock"}
    assert before == after


def test_a_study_goes_whole_and_a_sweep_of_that_name_begins_afresh(home: Home) -> None:
    before = outcome(home.records())
    delete(home, study="small")
    assert home.run_ids() == []
    assert not (home.path / "studies" / "small").exists()
    assert open_journal(home.path).get_all_studies() == []
    assert amiss(home) == []
    changed = StudyConfig.of({**STUDY, "budget": {"updates": 3}})  # no amendment: nothing is there
    assert sweep(changed, home=home).complete
    assert outcome(home.records()).keys() == before.keys()


def test_a_study_that_is_taken_back_is_complete_and_nothing_of_it_is_run_again(home: Home) -> None:
    before = home.records()
    delete(home, study="small")
    done = take_back(home, study="small")
    assert len(done.runs) == 8
    assert home.records() == before
    assert (home.path / "studies" / "small" / "study.json").exists()
    assert sweep(StudyConfig.of(STUDY), home=home).complete
    assert home.records() == before
    assert amiss(home) == []
    assert trash.entries(home) == []


def test_a_run_that_is_taken_back_stands_where_it_was(home: Home) -> None:
    before, gone = home.records(), of(home, "final")[1]
    delete(home, [gone.file.name])
    take_back(home, [gone.run_id[:-2]])
    assert home.records() == before
    assert sweep(StudyConfig.of(STUDY), home=home).complete
    assert len(home.run_ids()) == 8


def test_a_run_that_was_made_anew_counts_beside_one_that_is_taken_back(home: Home) -> None:
    gone = of(home, "final")[0]
    delete(home, [gone.run_id])
    sweep(StudyConfig.of(STUDY), home=home)
    take_back(home, [gone.run_id])
    assert sweep(StudyConfig.of(STUDY), home=home).complete
    assert len(home.run_ids()) == 9


def test_what_a_claim_rests_on_is_never_deleted_and_nothing_else_is_then(home: Home, tmp_path: Path) -> None:
    held, free = of(home, "final")
    file = tmp_path / "claims.yaml"
    file.write_text("")
    pin(home, file, held.run_id)
    for given in ({"runs": [free.run_id, held.run_id]}, {"study": "small"}):
        with pytest.raises(InputError, match=f"{held.run_id} is pinned by .*claims.yaml; it says “It is so.”"):
            delete(home, **given)  # type: ignore[arg-type]
        assert len(home.run_ids()) == 8
    file.unlink()
    with pytest.raises(InputError, match=r"which is gone \(if it was moved, .*`trainlab gc --unpin"):
        delete(home, [held.run_id])
    pins.remove(home.path, file)
    assert [run.run_id for run in delete(home, [held.run_id]).runs] == [held.run_id]


def test_what_runs_is_never_deleted(home: Home) -> None:
    run = of(home, "final")[0]
    with Lock(home.run_folder / run.run_id / "owner.lock").take(), pytest.raises(InputError, match="is running"):
        delete(home, [run.run_id])
    with Lock(home.path / "studies" / "small" / "lock").take(), pytest.raises(InputError, match="is being run"):
        delete(home, [run.run_id])
    with living(home, "small"), pytest.raises(InputError, match="is being run"):
        delete(home, study="small")
    assert len(home.run_ids()) == 8


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "nothing is named"),
        ({"runs": ["x"], "study": "small"}, "runs and a study are named"),
        ({"runs": ["no-such-run"]}, "no run is called 'no-such-run'"),
        ({"study": "smal"}, "did you mean 'small'"),
        ({"study": "small", "storage": "nonsense"}, "no place for a queue"),
    ],
)
def test_bad_input_deletes_nothing(home: Home, given: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        delete(home, **given)
    assert len(home.run_ids()) == 8


def test_what_is_not_in_the_trash_cannot_be_taken_back(home: Home) -> None:
    gone = of(home, "final")[0]
    delete(home, [gone.run_id])
    with pytest.raises(InputError, match="did you mean"):
        take_back(home, [gone.run_id[:-1] + "_"])
    with pytest.raises(InputError, match="did you mean 'small'"):
        take_back(home, study="smal")


def test_what_was_begun_from_a_deleted_run_is_said(home: Home) -> None:
    import json

    parent, child = of(home, "final")
    path = home.run_folder / child.run_id / "run.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "parent": parent.run_id}))
    (home.run_folder / child.run_id / "record.json").unlink()
    notes = delete(home, [parent.run_id], dry_run=True).notes
    assert any(f"run {child.run_id} was begun from {parent.run_id}" in note for note in notes)


_KILLED = """
import os, signal, sys
from pathlib import Path
from experiments.deleting import delete
from experiments.store.home import Home
from experiments.store.untracked import Twins

die = lambda *given, **more: os.kill(os.getpid(), signal.SIGKILL)
if sys.argv[2] == "before":
    Path.rename = die
else:
    Twins.remove = die
delete(Home(sys.argv[1]), study="small")
"""


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_kill_in_the_middle_leaves_every_run_whole_or_in_the_trash(home: Home, when: str) -> None:
    before = {record.run_id: record for record in home.records()}
    done = subprocess.run([sys.executable, "-c", _KILLED, str(home.path), when], cwd=ROOT)
    assert done.returncode == -signal.SIGKILL
    here, there = set(home.run_ids()), {entry.name for entry in trash.entries(home)}
    assert here | there == before.keys()
    assert not here & there
    assert len(there) == (0 if when == "before" else 1)
    assert all(record == before[record.run_id] for record in home.records())
    assert set(amiss(home)) <= {"dead-lock"}  # what the killed process held
    if there:
        take_back(home, [*there])
    assert {record.run_id: record for record in home.records()} == before


_KILLED_LATER = """
import os, signal, sys
from experiments import deleting
from experiments.store.home import Home

deleting.trash.put_study = lambda *given: os.kill(os.getpid(), signal.SIGKILL)
deleting.delete(Home(sys.argv[1]), study="small")
"""


def test_a_deletion_that_was_killed_is_finished_by_the_same_command(home: Home) -> None:
    before = {record.run_id: record for record in home.records()}
    done = subprocess.run([sys.executable, "-c", _KILLED_LATER, str(home.path)], cwd=ROOT)
    assert done.returncode == -signal.SIGKILL  # all runs are in the trash, and the study is not
    assert home.run_ids() == []
    assert (home.path / "studies" / "small").exists()
    assert delete(home, study="small").runs == ()
    assert not (home.path / "studies" / "small").exists()
    assert not open_journal(home.path).get_all_studies()
    take_back(home, study="small")
    assert {record.run_id: record for record in home.records()} == before
    assert (home.path / "studies" / "small" / "study.json").exists()


def test_a_restoring_that_was_killed_is_finished_by_the_same_command(home: Home) -> None:
    delete(home, study="small")
    runs = [entry.name for entry in trash.entries(home) if not entry.is_study]
    take_back(home, runs)  # all but the study itself, as a kill would leave it
    assert not (home.path / "studies" / "small").exists()
    assert take_back(home, study="small").runs == ()
    assert (home.path / "studies" / "small" / "study.json").exists()
    assert trash.entries(home) == []


@pytest.mark.slow
def test_a_queue_that_homes_share_counts_a_deleted_result_no_more(tmp_path: Path) -> None:
    """Two homes sweep with one database: what one of them deletes does not come back out of the queue, in neither."""
    url = f"sqlite:///{tmp_path}/queue.db"
    options, study = SweepOptions(storage=url), StudyConfig.of(STUDY)
    one, other = Home(tmp_path / "one"), Home(tmp_path / "other")
    assert sweep(study, home=one, options=options).complete
    assert sweep(study, home=other, options=options).complete
    assert other.run_ids() == []  # all that it needs it knows from the queue
    gone = of(one, "tune")[0]
    with pytest.raises(InputError, match="give its place"):
        delete(one, [gone.run_id])
    delete(one, [gone.run_id], storage=url)
    assert sweep(study, home=other, options=options).complete
    assert [record.labels.trial for record in other.records()] == [gone.labels.trial]
    assert sweep(study, home=one, options=options).complete
    assert len(one.run_ids()) == 8
