"""What takes room and is needed no more is freed, counted in bytes; what a claim rests on is left alone."""

from __future__ import annotations

import os
import shutil
import zipfile
from pathlib import Path

import pytest

from algos.finding import InputError
from experiments.store import pins, trash
from experiments.store.garbage import collect
from experiments.store.pins import Pin, Pins

NOWHERE = "sqlite:////nowhere/mlflow.db"


def ended(folder, status="completed", best=()) -> None:
    """A run that is over, with the checkpoints that it would leave."""
    attempt = folder.begin()
    attempt.points(1, {"train/loss": 0.5})
    attempt.end(status)
    for name in ("last.pt", "previous.pt"):
        with zipfile.ZipFile(folder.checkpoints / name, "w") as file:
            file.writestr("state", b"x" * 1000)
    for update in best:
        (folder.checkpoints / f"best.{update}.safetensors").write_bytes(b"w" * 500)


def names(folder) -> set[str]:
    return {path.name for path in folder.checkpoints.iterdir()}


def test_second_checkpoints_of_runs_that_are_over_go(home, create) -> None:
    folder = create()
    ended(folder, best=(90, 100))
    size = (folder.checkpoints / "previous.pt").stat().st_size + 500
    planned = collect(home, NOWHERE, dry_run=True)
    assert planned.size_bytes == size
    assert "previous.pt" in names(folder)
    done = collect(home, NOWHERE)
    assert done.pieces == planned.pieces
    assert names(folder) == {"last.pt", "best.100.safetensors"}
    assert not collect(home, NOWHERE).pieces


@pytest.mark.parametrize("status", ["interrupted", "lost"])
def test_of_runs_that_may_go_on_nothing_goes(home, create, status) -> None:
    folder = create()
    ended(folder, status=status)
    assert not collect(home, NOWHERE).pieces
    assert "previous.pt" in names(folder)


def test_where_the_last_checkpoint_is_damaged_the_one_before_it_stays(home, create) -> None:
    folder = create()
    ended(folder)
    (folder.checkpoints / "last.pt").write_bytes(b"half")
    assert not collect(home, NOWHERE).pieces


def test_what_a_recorded_loop_kept_is_its_own(home, create) -> None:
    folder = create(facts={"recorded": "plain"})
    ended(folder)
    assert not collect(home, NOWHERE).pieces


def test_what_a_claim_rests_on_is_left_alone(home, create, tmp_path) -> None:
    held, free = create(), create()
    ended(held)
    ended(free)
    file = tmp_path / "claims.yaml"
    file.write_text("")
    pins.save(home.path, Pins(file, (Pin("It is.", "s", "mean", "1", (held.run_id,)),)))
    assert {piece.where for piece in collect(home, NOWHERE).pieces} == {f"run {free.run_id}"}
    assert "previous.pt" in names(held)
    file.unlink()
    found = collect(home, NOWHERE)
    assert not found.pieces
    assert "is gone, and still pins 1 runs" in found.notes[0]
    pins.remove(home.path, file)
    assert collect(home, NOWHERE).pieces


def test_where_it_is_not_known_what_claims_rest_on_nothing_goes(home, create, tmp_path) -> None:
    folder = create()
    ended(folder)
    place = pins.place(home.path, tmp_path / "a.yaml")
    place.parent.mkdir()
    place.write_text("{")
    with pytest.raises(InputError, match="not known"):
        collect(home, NOWHERE)
    assert "previous.pt" in names(folder)


def test_old_trash_goes_and_new_stays(home, create) -> None:
    old, new = create(), create()
    ended(old)
    ended(new)
    entry = trash.put(home, old.run_id)
    entry.path.rename(entry.path.with_name(f"20200101T000000.{old.run_id}"))
    trash.put(home, new.run_id)
    (aged,) = (each for each in trash.entries(home) if each.name == old.run_id)
    size = trash.size_bytes(aged.path)
    found = collect(home, NOWHERE)
    assert [(piece.where, piece.size_bytes) for piece in found.pieces] == [(f"run {old.run_id}", size)]
    assert [each.name for each in trash.entries(home)] == [new.run_id]
    assert collect(home, NOWHERE, days=0).pieces
    assert trash.entries(home) == []


def test_what_a_claim_rests_on_stays_in_the_trash_too(home, create, tmp_path) -> None:
    folder = create()
    ended(folder)
    file = tmp_path / "claims.yaml"
    file.write_text("")
    pins.save(home.path, Pins(file, (Pin("It is.", "s", "mean", "1", (folder.run_id,)),)))
    trash.put(home, folder.run_id)
    found = collect(home, NOWHERE, days=0)
    assert not found.pieces
    assert f"--restore {folder.run_id}" in found.notes[0]


def test_what_dead_processes_were_writing_goes_and_what_live_ones_write_stays(home, create) -> None:
    folder = create()
    ended(folder)
    collect(home, NOWHERE)
    dead = folder.path / f".record.json.new-999999999@{os.uname().nodename}"
    dead.write_bytes(b"12345")
    live = folder.path / f".record.json.new-{os.getpid()}@{os.uname().nodename}"
    live.write_bytes(b"12345")
    found = collect(home, NOWHERE)
    assert [(piece.kind, piece.size_bytes) for piece in found.pieces] == [("leftover", 5)]
    assert (dead.exists(), live.exists()) == (False, True)


def test_what_another_name_has_too_frees_nothing(home, create) -> None:
    folder = create()
    ended(folder, best=(90, 100))
    os.link(folder.checkpoints / "best.90.safetensors", folder.path / "model.safetensors")
    by_name = {piece.what: piece.size_bytes for piece in collect(home, NOWHERE).pieces}
    assert by_name["best.90.safetensors"] == 0


def test_a_twin_that_mlflow_still_has_is_deleted_first(home, create, store, tmp_path) -> None:
    from experiments.store import mirrored
    from experiments.store.mirror import Mirror

    folder = create()
    ended(folder)
    mirror = Mirror(store)
    mirror.push(folder)
    theirs = mirrored.load(folder.path, store).run
    trash.put(home, folder.run_id)  # and killed before MLflow was told
    database = tmp_path / "mlflow.db"
    shutil.move(database, tmp_path / "away.db")
    found = collect(home, store, days=0)
    assert not found.pieces
    assert "stays in the trash" in found.notes[0]
    shutil.move(tmp_path / "away.db", database)
    assert collect(home, store, days=0).pieces
    assert Mirror(store).client.get_run(theirs).info.lifecycle_stage == "deleted"


def test_a_twin_of_a_run_that_was_taken_back_is_restored(home, create, store) -> None:
    """Of one whose restoring was killed before MLflow was told."""
    from experiments.store import mirrored
    from experiments.store.mirror import Mirror
    from experiments.store.untracked import Twins

    folder = create()
    ended(folder)
    mirror = Mirror(store)
    mirror.push(folder)
    theirs = mirrored.load(folder.path, store).run
    entry = trash.put(home, folder.run_id)
    assert Twins(store).remove(entry.path) == ""
    trash.take_back(home, entry)
    collect(home, store, dry_run=True)
    assert mirror.client.get_run(theirs).info.lifecycle_stage == "deleted"
    collect(home, store)
    assert mirror.client.get_run(theirs).info.lifecycle_stage == "active"
    assert not (folder.path / "untracked.json").exists()


def test_a_study_whose_pinned_runs_are_in_the_trash_stays_with_them(home, create, tmp_path) -> None:
    folder, study = create(study="night"), "night"
    ended(folder)
    (home.path / "studies" / study).mkdir(parents=True)
    trash.put(home, folder.run_id)
    trash.put_study(home, study)
    pins.save(home.path, Pins(tmp_path / "c.yaml", (Pin("s", study, "mean", "1", (folder.run_id,)),)))
    assert collect(home, f"sqlite:///{tmp_path}/none.db", days=0).pieces == []
    assert len(trash.entries(home)) == 2


def test_an_empty_place_has_nothing(tmp_path: Path) -> None:
    from experiments.store.home import Home

    assert collect(Home(tmp_path / "none"), NOWHERE).size_bytes == 0
    assert not (tmp_path / "none").exists()
