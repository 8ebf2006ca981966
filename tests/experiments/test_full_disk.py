"""A disk that fills up stops the run as interrupted, harms nothing, and the run goes on when there is space."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from experiments import checkpoint
from experiments.config import resolve
from experiments.progress import Event, RunProgress
from experiments.store import spool
from experiments.store.checks.visit import Visit
from experiments.store.doctor import examine_home
from experiments.store.home import Home, new_run_id
from experiments.store.schema import Labels, RunFile
from experiments.training import resume, train

CONFIG = {
    "task": "digits", "model": {"name": "mlp", "width": 128}, "budget": {"updates": 60}, "evaluate_every": 10,
    "checkpoint_every": 10, "log_every": 1,
}  # fmt: skip


def fill(disk: Path, but: int) -> None:
    """Leaves so many bytes of a disk, as it counts them: in pages."""
    with (disk / "filler").open("ab") as file:
        while (free := shutil.disk_usage(disk).free) > but:
            try:
                file.write(bytes(min(free - but, 1 << 20)))
                file.flush()
            except OSError:
                return


def run(home: Home, **more: Any) -> Any:
    return train(resolve(CONFIG), home=home, **more)


def essence(record: Any) -> tuple[Any, ...]:
    last = {name: value for name, value in record.last.items() if not name.startswith("time/")}
    return record.status, record.final, last


def points(folder: Any) -> list[tuple[Any, ...]]:
    series = folder.series()
    return [(line.metric, line.updates, line.values) for line in series if not line.metric.startswith("time/")]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Any:
    home = Home(tmp_path_factory.mktemp("undisturbed") / "home")
    record = run(home).record
    return essence(record), points(home.folder(record.run_id))


@pytest.mark.parametrize(
    ("at", "left"),
    [
        (20, 0),  # not a byte: the next line finds no space
        (20, 64 * 1024),  # lines fit, a checkpoint does not
        (50, 64 * 1024),  # the last checkpoint does not
        (10, 0),
    ],
)
def test_a_run_whose_disk_fills_up_is_interrupted_and_goes_on(small_disk, undisturbed, at, left) -> None:
    disk = small_disk("8m")
    home = Home(disk / "home")
    best: dict[str, Any] = {}

    def listener(event: Event) -> None:
        if isinstance(event, RunProgress) and event.update == at and not (disk / "filler").exists():
            fill(disk, left)
            (folder,) = (home.folder(run_id) for run_id in home.run_ids())
            best["before"] = [path.name for path in folder.checkpoints.glob("*.pt")]

    finished = run(home, listener=listener)
    record = finished.record
    folder = home.folder(record.run_id)
    assert (record.status, finished.error) == ("interrupted", None)
    assert record.reason == f"no space left for run {record.run_id}; free some, then run the same command again"
    for name in best["before"]:  # what was there before is whole
        assert checkpoint.load(folder.checkpoints / name)["update"] <= at
    assert not [path for path in folder.path.rglob(".*") if path.is_file()]
    assert all(list(spool.read(path)) for _, path in spool.spools(folder.path))

    with suppress(spool.StoreFull):  # still full
        assert resume(folder).record.status == "interrupted"
    (disk / "filler").unlink()
    resumed = resume(folder)
    assert (essence(resumed.record), points(folder)) == undisturbed
    visit = Visit(home, "sqlite:////nowhere/x.db")
    examine_home(visit)
    assert visit.found == []


def test_no_run_is_half_made_on_a_full_disk(small_disk) -> None:
    disk = small_disk("2m")
    home = Home(disk / "home").prepare()
    fill(disk, 0)
    with pytest.raises(spool.StoreFull, match="no space left"):
        run(home)
    assert os.listdir(home.run_folder) == []


def test_a_run_without_room_for_its_last_word_does_not_begin(small_disk) -> None:
    disk = small_disk("2m")
    home = Home(disk / "home").prepare()
    folder = home.create(RunFile(new_run_id(), "name", Labels("digits"), {}, ""))
    fill(disk, 60 * 1024)  # its first line fits, what is kept aside for the last word does not
    with pytest.raises(spool.StoreFull, match="no space left"):
        folder.begin()
    assert {path.name for path in folder.path.iterdir()} == {"run.json", "checkpoints", "owner.lock"}
    assert (folder.record().status, folder.record().reason) == ("lost", "it never began")
    (disk / "filler").unlink()
    folder.begin().end("completed")
    assert (folder.record().status, folder.record().attempts) == ("completed", 1)


def test_a_last_word_that_finds_no_space_is_never_that_the_run_is_over(small_disk) -> None:
    disk = small_disk("2m")
    home = Home(disk / "home").prepare()
    folder = home.create(RunFile(new_run_id(), "name", Labels("digits"), {}, ""))
    attempt = folder.begin()
    (folder.path / "ballast").unlink()
    fill(disk, 0)
    path = folder.path / "spool.1.jsonl"
    room = 4096 - path.stat().st_size % 4096  # what is left of the file's last page
    attempt.points(1, {f"metric{number}": 0.5 for number in range(room // 5)})
    assert attempt.end("completed") == "interrupted"
    assert list(folder.record().last) == []
    assert (folder.record().status, folder.record().reason.partition(" for ")[0]) == ("interrupted", "no space left")
    assert path.read_bytes().endswith(b"}\n")
