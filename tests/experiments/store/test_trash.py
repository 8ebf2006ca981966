"""The trash: a run is in it or where it was, whole; MLflow's twin is marked, and comes back with it."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from algos.finding import InputError
from experiments.store import mirrored, trash
from experiments.store.untracked import TAG, Twins

ROOT = Path(__file__).parents[3]


def ended(folder, status="completed") -> None:
    attempt = folder.begin()
    attempt.points(1, {"train/loss": 0.5})
    attempt.final({"objective": 0.5})
    attempt.end(status)


def contents(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_a_run_goes_whole_and_comes_back_as_it_was(home, create) -> None:
    folder = create()
    ended(folder)
    folder.record()
    before = contents(folder.path)
    entry = trash.put(home, folder.run_id)
    assert home.run_ids() == []
    assert [each.name for each in trash.entries(home)] == [folder.run_id]
    assert {name: data for name, data in contents(entry.path).items() if name != "owner.lock"} == {
        name: data for name, data in before.items() if name != "owner.lock"
    }
    trash.take_back(home, entry)
    assert home.folder(folder.run_id).record().status == "completed"
    assert trash.entries(home) == []


def test_a_run_that_somebody_works_on_stays(home, create) -> None:
    folder = create()
    attempt = folder.begin()
    with pytest.raises(InputError, match="is running"):
        trash.put(home, folder.run_id)
    assert home.run_ids() == [folder.run_id]
    attempt.end("completed")


def test_a_run_is_not_put_over_another(home, create) -> None:
    folder = create()
    ended(folder)
    entry = trash.put(home, folder.run_id)
    (home.run_folder / folder.run_id).mkdir()
    with pytest.raises(InputError, match="is there again"):
        trash.take_back(home, entry)
    assert entry.path.exists()


def test_the_same_id_may_be_deleted_twice_within_a_second(home, create) -> None:
    folder = create()
    ended(folder)
    file = folder.file
    first = trash.put(home, folder.run_id)
    home.create(file)
    second = trash.put(home, folder.run_id)
    assert first.path != second.path
    assert len(trash.entries(home)) == 2


def test_entries_know_their_age_and_what_is_not_ours_is_none(home, create) -> None:
    folder = create()
    ended(folder)
    entry = trash.put(home, folder.run_id)
    assert entry.age_days < 0.01
    old = entry.path.with_name(f"20200101T000000.{folder.run_id}")
    entry.path.rename(old)
    (old.parent / "something.else").mkdir()
    (found,) = trash.entries(home)
    assert found.age_days > 365


def test_a_kill_in_the_middle_of_removing_leaves_nothing_that_could_be_taken_back(home, create) -> None:
    folder = create()
    ended(folder)
    entry = trash.put(home, folder.run_id)
    code = f"""
import os, shutil, signal
from experiments.store import trash
from experiments.store.home import Home
shutil.rmtree = lambda *given, **more: os.kill(os.getpid(), signal.SIGKILL)
trash.remove(trash.entries(Home({str(home.path)!r}))[0])
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT)
    assert done.returncode == -signal.SIGKILL
    assert trash.entries(home) == []
    (left,) = trash.half_removed(home)
    assert left.name.endswith(entry.path.name)


def test_hard_links_are_counted_once(tmp_path) -> None:
    (tmp_path / "a").write_bytes(b"x" * 1000)
    os.link(tmp_path / "a", tmp_path / "b")
    (tmp_path / "c").write_bytes(b"x" * 10)
    assert trash.size_bytes(tmp_path) == 1010


def test_mlflows_twin_is_marked_as_deleted_and_comes_back(home, create, store) -> None:
    from experiments.store.mirror import Mirror

    folder = create()
    ended(folder)
    mirror = Mirror(store)
    mirror.push(folder)
    theirs = mirrored.load(folder.path, store).run
    entry, twins = trash.put(home, folder.run_id), Twins(store)
    assert twins.waits(entry.path)
    assert twins.remove(entry.path) == ""
    run = mirror.client.get_run(theirs)
    assert run.info.lifecycle_stage == "deleted"
    assert TAG in run.data.tags
    assert not twins.waits(entry.path)
    assert twins.remove(entry.path) == ""  # twice is once
    path = trash.take_back(home, entry)
    assert twins.restore(path) == ""
    run = mirror.client.get_run(theirs)
    assert (run.info.lifecycle_stage, TAG in run.data.tags) == ("active", False)
    assert mirror.push(home.folder(folder.run_id)) == 0  # it is there, wholly


def test_a_store_that_is_not_there_is_said_and_waits(home, create, store, tmp_path) -> None:
    from experiments.store.mirror import Mirror

    folder = create()
    ended(folder)
    Mirror(store).push(folder)
    entry = trash.put(home, folder.run_id)
    (tmp_path / "mlflow.db").rename(tmp_path / "away.db")
    twins = Twins(store)
    assert "is not there" in twins.remove(entry.path)
    assert twins.waits(entry.path)
    assert not (tmp_path / "mlflow.db").exists()
    (tmp_path / "away.db").rename(tmp_path / "mlflow.db")
    assert Twins(store).remove(entry.path) == ""


def test_other_stores_that_have_the_run_are_named(home, create, store) -> None:
    from experiments.store.mirror import Mirror

    folder = create()
    ended(folder)
    Mirror(store).push(folder)
    assert Twins("sqlite:////elsewhere/mlflow.db").elsewhere(folder.path) == [store]
    assert Twins(store).elsewhere(folder.path) == []


def test_what_is_no_folder_or_on_another_disk_is_refused_and_nothing_moved(home, create, monkeypatch) -> None:
    folder = create()
    (home.path / "trash").write_text("")
    with pytest.raises(InputError, match="is no folder"):
        trash.put(home, folder.run_id)
    (home.path / "trash").unlink()

    def rename(path: Path, target: Path) -> None:
        raise OSError(errno.EXDEV, "Invalid cross-device link")

    monkeypatch.setattr(Path, "rename", rename)
    with pytest.raises(InputError, match="are on different disks"):
        trash.put(home, folder.run_id)
    assert home.run_ids() == [folder.run_id]


def test_a_full_disk_does_not_keep_a_twin_from_being_deleted(home, create, store, monkeypatch) -> None:
    """What is not noted is done once more later, which changes nothing."""
    from experiments.store.mirror import Mirror

    folder = create()
    folder.begin().end("completed")
    mirror = Mirror(store)
    mirror.push(folder)
    theirs = mirrored.load(folder.path, store).run

    def full(path: Path, data: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    twins = Twins(store)
    with monkeypatch.context() as patched:
        patched.setattr("experiments.store.untracked.write_json", full)
        assert twins.remove(folder.path) == ""
    assert mirror.client.get_run(theirs).info.lifecycle_stage == "deleted"
    assert twins.waits(folder.path)
    assert twins.remove(folder.path) == ""
    assert not twins.waits(folder.path)


def test_a_store_that_went_away_is_asked_once(home, create, store, monkeypatch) -> None:
    """Not once a run, each after as long a wait."""
    from experiments.store.mirror import Mirror

    asked = []

    def away(self: Twins, client: object, run: str, deleted: bool) -> None:
        asked.append(run)
        raise ConnectionError("timed out")

    monkeypatch.setattr(Twins, "_mark", away)
    twins, folders = Twins(store), [create(), create()]
    for folder in folders:
        folder.begin().end("completed")
        Mirror(store).push(folder)
    assert [twins.remove(folder.path) for folder in folders] == ["timed out", "timed out"]
    assert len(asked) == 1
