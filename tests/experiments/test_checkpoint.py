"""At every instant one whole checkpoint exists; one that is not whole is found out, said, and the one before used."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file

from algos.finding import InputError
from experiments import checkpoint, initial
from experiments.checkpoint import Checkpoints
from experiments.config import resolve
from experiments.partway import Partway
from experiments.progress import RunNotice
from experiments.store.home import Home, RunFolder
from experiments.store.spool import StoreFull
from experiments.training import NotResumable, load_model, resume, train

SMALL = {
    "task": "digits", "model": {"name": "mlp", "width": 16}, "batch_size": 250, "budget": {"updates": 12},
    "evaluate_every": 2, "checkpoint_every": 2, "device": "cpu", "select": "best", "schedule": "warmup_cosine",
}  # fmt: skip


def state(update: int, best: int | None = None) -> dict[str, Any]:
    """A state as the loop makes it, in short. best: the update of its best weights, 0 for none."""
    best = update if best is None else best
    return {
        "update": update, "model": {"w": torch.arange(update * 10.0)}, "random": {"python": [3, [1, 2], None]},
        "best": {"value": 0.5, "update": best, "weights": {"w": torch.full((3,), float(best))} if best else {}},
    }  # fmt: skip


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def stopped(home: Home, at: int, **overrides: Any) -> RunFolder:
    finished = train(resolve({**SMALL, **overrides}), home=home, stop=Partway(at))
    assert finished.record.status == "interrupted", finished.record.traceback
    return home.folder(finished.record.run_id)


def points(folder: RunFolder) -> dict[str, Any]:
    return {line.metric: (line.updates, line.values) for line in folder.series() if not line.metric.startswith("time/")}


# What is stored


def test_there_are_never_more_than_the_last_the_one_before_and_their_best(tmp_path: Path) -> None:
    kept = Checkpoints(tmp_path, "me")
    for update, best in ((1, 1), (2, 1), (3, 1), (4, 4), (5, 5), (6, 5), (7, 5)):
        kept.save(state(update, best))
        found = Checkpoints(tmp_path, "me").newest()
        assert found.state
        assert (found.state["update"], found.state["best"]["update"], found.warning) == (update, best, "")
    assert names(tmp_path) == ["best.5.safetensors", "last.pt", "previous.pt"]
    kept.save(state(8))
    assert names(tmp_path) == ["best.5.safetensors", "best.8.safetensors", "last.pt", "previous.pt"]


def test_best_weights_are_written_once_and_named_by_every_state_that_has_them(tmp_path: Path) -> None:
    kept = Checkpoints(tmp_path, "me")
    kept.save(state(1))
    written = (tmp_path / "best.1.safetensors").stat()
    for update in (2, 3):
        kept.save(state(update, 1))
        now = (tmp_path / "best.1.safetensors").stat()
        assert (now.st_ino, now.st_mtime_ns) == (written.st_ino, written.st_mtime_ns)
    stored = torch.load(tmp_path / "last.pt", weights_only=True)
    assert "weights" not in stored["best"]
    assert torch.equal(checkpoint.load(tmp_path / "last.pt")["best"]["weights"]["w"], torch.ones(3))


def test_a_completed_run_that_selects_its_best_has_it_on_the_disk_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    finished = train(resolve(SMALL), home=Home(tmp_path))
    folder = Home(tmp_path).folder(finished.record.run_id)
    model = folder.path / "model.safetensors"
    (best,) = (path for path in folder.checkpoints.glob("best.*.safetensors") if path.samefile(model))
    update = int(best.name.split(".")[1])
    series = {line.metric: dict(zip(line.updates, line.values, strict=True)) for line in folder.series()}
    assert series["val/accuracy"][update] == max(series["val/accuracy"].values()) == finished.record.final["objective"]
    kept, blank = load_model(folder).state_dict(), load_model(folder)
    torch.nn.init.zeros_(next(blank.parameters()))
    monkeypatch.setenv("TRAINLAB_HOME", str(tmp_path))
    initial.load(blank, f"run:{folder.run_id}@best")
    assert all(torch.equal(weight, kept[name]) for name, weight in blank.state_dict().items())


def test_the_best_weights_of_an_interrupted_run_can_be_started_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRAINLAB_HOME", str(tmp_path))
    folder = stopped(Home(tmp_path), 7)
    (best,) = folder.checkpoints.glob("best.*.safetensors")
    other = train(resolve({**SMALL, "init": f"run:{folder.run_id}@best", "budget": {"updates": 1}, "select": "last"}))
    assert other.record.status == "completed", other.record.traceback
    (folder.checkpoints / "last.pt").write_bytes(b"")
    (folder.checkpoints / "previous.pt").write_bytes(b"")
    with pytest.raises(InputError, match=r"checkpoints/last\.pt: the file is empty; checkpoints/previous\.pt: .*empty"):
        train(resolve({**SMALL, "init": f"run:{folder.run_id}@best"}))
    assert load_file(best)


def test_every_state_of_ours_loads_with_weights_only(tmp_path: Path) -> None:
    folder = stopped(Home(tmp_path), 7, wrappers=["ema"], precision="fp16")
    for name in ("last.pt", "previous.pt"):
        assert torch.load(folder.checkpoints / name, weights_only=True)["schema"] == checkpoint.SCHEMA


def test_a_state_of_the_first_schema_is_read(tmp_path: Path) -> None:
    """It had its best weights inside, and no run's id."""
    checkpoint.save(tmp_path / "last.pt", {"schema": 1, **state(3)})
    found = Checkpoints(tmp_path, "me").newest()
    assert found.state
    assert torch.equal(found.state["best"]["weights"]["w"], torch.full((3,), 3.0))


# What is damaged


def truncated(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def flipped(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[data.index(b"update") + 2] ^= 16  # within what is stored, not between
    path.write_bytes(data)


def empty(path: Path) -> None:
    path.write_bytes(b"")


def something_else(path: Path) -> None:
    torch.save([1, 2, 3], path)


def of_a_later_schema(path: Path) -> None:
    torch.save({**torch.load(path, weights_only=True), "schema": 99}, path)


def of_another_run(path: Path) -> None:
    torch.save({**torch.load(path, weights_only=True), "run_id": "20200101-000000-aaaaaa"}, path)


def without_its_best(path: Path) -> None:
    named = torch.load(path, weights_only=True)["best"]["stored"]["file"]
    (path.parent / named).unlink()


FAULTS: dict[Callable[[Path], None], str] = {
    truncated: "truncated", flipped: "damaged: its checksums do not hold", empty: "the file is empty",
    something_else: "no checkpoint of a run", of_a_later_schema: "schema 99, and this trainlab reads 1 to 2",
    of_another_run: "of another run, 20200101-000000-aaaaaa", without_its_best: "best weights, checkpoints/best",
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_a_last_checkpoint_that_is_not_whole_is_said_and_the_one_before_used(
    fault: Callable[[Path], None], tmp_path: Path
) -> None:
    undisturbed = train(resolve(SMALL), home=Home(tmp_path))
    folder = stopped(Home(tmp_path), 7)
    before = torch.load(folder.checkpoints / "previous.pt", weights_only=True)
    last = torch.load(folder.checkpoints / "last.pt", weights_only=True)
    assert (before["update"], last["update"]) == (6, 7)
    if fault is without_its_best:  # the one before needs one of its own
        for name, each in (("previous.pt", before), ("last.pt", last)):
            own = f"best.9{each['update']}.safetensors"
            shutil.copy(folder.checkpoints / each["best"]["stored"]["file"], folder.checkpoints / own)
            each["best"]["stored"] = {**each["best"]["stored"], "file": own}
            torch.save(each, folder.checkpoints / name)
    fault(folder.checkpoints / "last.pt")
    notices: list[str] = []
    done = resume(folder, listener=lambda event: notices.append(event.text) if isinstance(event, RunNotice) else None)
    assert done.record.status == "completed", done.record.traceback
    (told,) = [event["text"] for event in done.record.events if event["name"] == "warning"]
    assert notices == [told]
    assert told.startswith("checkpoints/last.pt: ")
    assert FAULTS[fault] in told
    assert told.endswith("the run goes on from checkpoints/previous.pt (update 6)")
    straight = Home(tmp_path).folder(undisturbed.record.run_id)
    assert points(folder) == points(straight)
    assert done.record.final == undisturbed.record.final
    weights = load_file(straight.path / "model.safetensors")
    assert all(torch.equal(weights[name], w) for name, w in load_file(folder.path / "model.safetensors").items())
    assert Checkpoints(folder.checkpoints, folder.run_id).newest().warning == ""


def test_where_both_are_damaged_the_run_begins_again_and_says_so(tmp_path: Path) -> None:
    undisturbed = train(resolve(SMALL), home=Home(tmp_path))
    folder = stopped(Home(tmp_path), 7)
    flipped(folder.checkpoints / "last.pt")
    truncated(folder.checkpoints / "previous.pt")
    done = resume(folder)
    (told,) = [event["text"] for event in done.record.events if event["name"] == "warning"]
    assert told.startswith("checkpoints/last.pt: the file is damaged")
    assert "checkpoints/previous.pt: the file is truncated" in told
    assert told.endswith("; the run begins again from its start")
    assert done.record.final == undisturbed.record.final
    assert points(folder) == points(Home(tmp_path).folder(undisturbed.record.run_id))


def test_no_bit_can_flip_unseen(tmp_path: Path) -> None:
    """In the files of a state and of its best weights: found out, or of no consequence."""
    kept = Checkpoints(tmp_path, "me")
    kept.save(state(1))
    for name in ("last.pt", "best.1.safetensors"):
        path = tmp_path / name
        whole = path.read_bytes()
        for place in range(0, len(whole), 7):
            data = bytearray(whole)
            data[place] ^= 1 << place % 8
            path.write_bytes(data)
            found = Checkpoints(tmp_path, "me").newest()
            if found.state is not None:
                assert torch.equal(found.state["model"]["w"], state(1)["model"]["w"]), (name, place)
                assert torch.equal(found.state["best"]["weights"]["w"], torch.ones(3)), (name, place)
                assert found.state["random"] == state(1)["random"]
        path.write_bytes(whole)


def test_a_damaged_last_state_never_takes_the_place_of_the_whole_one_before(tmp_path: Path) -> None:
    for update in (1, 2):
        Checkpoints(tmp_path, "me").save(state(update, 0))
    flipped(tmp_path / "last.pt")
    kept = Checkpoints(tmp_path, "me")
    found = kept.newest()
    assert found.state
    assert found.state["update"] == 1
    kept.save(state(3, 0))
    flipped(tmp_path / "last.pt")
    again = Checkpoints(tmp_path, "me").newest()
    assert again.state
    assert again.state["update"] == 1


# What is killed or finds no space

KILLED = """
import os, signal, sys
from pathlib import Path
import torch
from experiments.checkpoint import Checkpoints

def state(update):
    return {"update": update, "model": {"w": torch.full((9,), float(update))},
            "best": {"value": 0.5, "update": update, "weights": {"w": torch.full((3,), float(update))}}}

def saves(folder, left):
    kept = Checkpoints(folder, "me")
    for update in (1, 2):
        kept.save(state(update))
    def counted(call):
        def called(*arguments):
            nonlocal left
            left -= 1
            if left < 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return call(*arguments)
        return called
    for name in ("replace", "fsync", "unlink", "open", "scandir"):
        setattr(os, name, counted(getattr(os, name)))
    for update in (3, 4):
        kept.save(state(update))
    os._exit(0)

for left in range(100):
    if not (child := os.fork()):
        saves(Path(sys.argv[1]) / str(left), left)
    if os.waitpid(child, 0)[1] == 0:
        print(left)
        break
"""


def test_killed_at_any_call_to_the_system_there_is_a_whole_state(tmp_path: Path) -> None:
    command = [sys.executable, "-c", KILLED, str(tmp_path)]
    through = int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    assert through > 8, "calls in two checkpoints"
    last = 2
    for left in range(through + 1):
        found = Checkpoints(tmp_path / str(left), "me").newest()
        assert found.state, (left, names(tmp_path / str(left)))
        assert found.warning == ""
        update = found.state["update"]
        assert update >= last, "what was there before stays"
        last = update
        assert torch.equal(found.state["model"]["w"], torch.full((9,), float(update)))
        assert torch.equal(found.state["best"]["weights"]["w"], torch.full((3,), float(update)))
    assert last == 4


def test_what_a_kill_left_half_written_is_removed_at_the_next_checkpoint(tmp_path: Path) -> None:
    for name in (".last.pt.123.tmp", ".best.7.safetensors.123.tmp", "best.7.safetensors", "theirs.ckpt"):
        (tmp_path / name).write_bytes(b"half")
    Checkpoints(tmp_path, "me").save(state(1))
    assert names(tmp_path) == ["best.1.safetensors", "last.pt", "theirs.ckpt"]


@pytest.mark.parametrize("name", ["last.pt", "best.3.safetensors"])
def test_on_a_full_disk_the_states_before_stay_and_the_error_says_what_to_do(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*arguments: Any) -> None:
        raise SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)")

    kept = Checkpoints(tmp_path / "checkpoints", "me")
    for update in (1, 2):
        kept.save(state(update))
    before = {path.name: path.read_bytes() for path in kept.folder.iterdir()}
    with monkeypatch.context() as patch:
        if name == "last.pt":
            (kept.folder / f".{name}.{os.getpid()}.tmp").symlink_to("/dev/full")
        else:
            patch.setattr(safetensors.torch, "save_file", full)
        with pytest.raises(StoreFull, match=r"no space left for run .*; free some, then run the same command again"):
            kept.save(state(3))
    after = {path.name: path.read_bytes() for path in kept.folder.iterdir()}
    assert {key: value for key, value in after.items() if key != "best.3.safetensors"} == before
    kept.save(state(3))
    assert Checkpoints(kept.folder, "me").newest().state["update"] == 3  # type: ignore[index]


def test_a_run_that_finds_no_space_for_its_checkpoint_is_interrupted_and_goes_on(tmp_path: Path) -> None:
    undisturbed = train(resolve(SMALL), home=Home(tmp_path))
    folder = stopped(Home(tmp_path), 5)
    (folder.checkpoints / f".last.pt.{os.getpid()}.tmp").symlink_to("/dev/full")
    full = resume(folder)
    assert full.record.status == "interrupted"
    assert "no space left" in full.record.reason
    done = resume(folder)
    assert done.record.status == "completed"
    assert done.record.final == undisturbed.record.final
    assert points(folder) == points(Home(tmp_path).folder(undisturbed.record.run_id))


def test_a_state_that_does_not_fit_the_run_is_said_and_stays(tmp_path: Path) -> None:
    folder = stopped(Home(tmp_path), 5)
    path = folder.checkpoints / "last.pt"
    whole = path.read_bytes()
    stored = torch.load(path, weights_only=True)
    stored["model"].pop(next(iter(stored["model"])))
    torch.save(stored, path)
    before = folder.record()
    for _ in range(2):
        with pytest.raises(NotResumable, match="the run cannot be gone on with: "):
            resume(folder)
    assert folder.record() == before, "no attempt was begun"
    path.write_bytes(whole)
    done = resume(folder).record
    assert (done.status, done.attempts) == ("completed", 2)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_user_s_module_goes_on_from_the_one_before_too(tmp_path: Path) -> None:
    net = Path(__file__).parent / "modules" / "resumable.py"
    asked = resolve({
        "task": f"{net}:Net", "data": f"{net}:Data", "metric": "val_loss", "device": "cpu", "log_every": 3,
        "budget": {"epochs": 3}, "trainer": {"num_sanity_val_steps": 0}, "checkpoint_every": 2, "select": "best",
    })  # fmt: skip
    home = Home(tmp_path)
    undisturbed = train(asked, home=home)
    for fault, count in ((truncated, 1), (flipped, 2)):
        folder = home.folder(train(asked, home=home, stop=Partway(9)).record.run_id)
        assert [each for each in names(folder.checkpoints) if "best" not in each] == ["last.pt", "previous.pt"]
        for name in ("last.pt", "previous.pt")[:count]:
            fault(folder.checkpoints / name)
        done = resume(folder)
        assert done.record.status == "completed", done.record.traceback
        (told,) = [event["text"] for event in done.record.events if event["name"] == "warning"]
        assert ("previous.pt (update 8)" if count == 1 else "begins again from its start") in told
        assert done.record.final == undisturbed.record.final
        assert points(folder) == points(home.folder(undisturbed.record.run_id))
        (best,) = (
            path for path in folder.checkpoints.glob("best.*") if path.samefile(folder.path / "model.safetensors")
        )
        assert load_file(best)
