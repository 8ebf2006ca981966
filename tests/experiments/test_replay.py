"""A replay does a run again and says whether it is the same: to the last bit, nearly, or not, and from where on."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file, save_file

from algos.finding import InputError
from experiments import fork
from experiments.compared import compare
from experiments.config import resolve
from experiments.partway import Partway
from experiments.population import Member, train_together
from experiments.replay import replay
from experiments.store.home import Home, RunFolder
from experiments.store.schema import Labels
from experiments.training import train

SMALL: dict[str, Any] = {
    "task": "digits", "model": {"name": "mlp", "width": 16}, "batch_size": 250, "budget": {"updates": 12},
    "evaluate_every": 4, "log_every": 3, "device": "cpu", "select": "last",
}  # fmt: skip
NET = Path(__file__).parent / "modules" / "resumable.py"
MODULE: dict[str, Any] = {
    "task": f"{NET}:Net", "data": f"{NET}:Data", "metric": "val_loss", "device": "cpu", "log_every": 3,
    "budget": {"epochs": 2}, "trainer": {"num_sanity_val_steps": 0},
}  # fmt: skip


def made(home: Home, base: dict[str, Any] = SMALL, **how: Any) -> RunFolder:
    overrides = how.pop("overrides", {})
    return home.folder(train(resolve({**base, **overrides}), home=home, **how).record.run_id)


def pruned(home: Home) -> RunFolder:
    return made(home, judge=lambda update, value: update == 8)


def diverged(home: Home) -> RunFolder:
    return made(home, overrides={"optimizer": "sgd", "optimizer.lr": 1e6, "divergence_bound": 100.0})


def tuned(home: Home) -> RunFolder:
    labels = Labels(task="digits", study="mine", arm="adamw", phase="tune", number=3, seed=1)
    return made(home, labels=labels, study={"name": "mine"})


def forked(home: Home) -> RunFolder:
    point = fork.find(home, f"{made(home).run_id}@8")
    (prepared,) = fork.prepare(point, [(point.changed({"schedule": "linear"}), "")])
    return home.folder(fork.begin(prepared, home).record.run_id)


RUNS: dict[str, tuple[Callable[[Home], RunFolder], str, int | None]] = {
    "completed": (lambda home: made(home, overrides={"select": "best"}), "completed", None),
    "interrupted": (lambda home: made(home, stop=Partway(7)), "interrupted", 7),
    "pruned": (pruned, "pruned", 8),
    "diverged": (diverged, "diverged", None),
    "a trial of a study": (tuned, "completed", None),
    "a fork": (forked, "completed", None),
    "a user's module": (lambda home: made(home, MODULE), "completed", None),
    "a user's module, interrupted": (lambda home: made(home, MODULE, stop=Partway(9)), "interrupted", 9),
}


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("run", RUNS)
def test_on_one_machine_it_is_identical_bit_for_bit(run: str, tmp_path: Path) -> None:
    home = Home(tmp_path)
    make, status, until = RUNS[run]
    folder = make(home)
    assert folder.record().status == status, folder.record().traceback
    found = replay(folder, home)
    assert found.verdict.ruling == "identical", found.lines()
    assert found.until == until
    assert found.verdict.points > 3
    assert (found.verdict.weights >= 100) == (run != "diverged")
    assert found.differs == ()
    assert found.now.file.parent == f"replay of {folder.run_id}"
    assert (found.now.labels.study, found.now.labels.phase) == ("", "single")
    assert found.lines()[-1].startswith("verdict: identical, bit for bit (")


def edited(folder: RunFolder, metric: str, update: int, factor: float) -> None:
    """A value of the run's record, made another."""
    path = folder.path / "spool.1.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    for line in lines:
        if line["kind"] == "points" and line["update"] == update and metric in line["values"]:
            line["values"][metric] *= factor
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    (folder.path / "record.json").unlink(missing_ok=True)


def test_a_difference_is_measured_and_placed(tmp_path: Path) -> None:
    home = Home(tmp_path)
    folder = made(home)
    edited(folder, "val/loss", 8, 1 + 1e-8)
    found = replay(folder, home)
    assert (found.verdict.ruling, found.verdict.parted) == ("within", 8)
    assert found.verdict.largest == pytest.approx(1e-8, rel=1e-3)
    assert found.verdict.where == "val/loss at update 8"
    assert "within tolerance 1e-06: largest relative difference 1e-08, val/loss at update 8" in found.lines()[-1]
    assert replay(folder, home, tolerance=0.0).verdict.ruling == "not"
    edited(folder, "train/loss", 6, 1.5)
    worse = replay(folder, home)
    assert (worse.verdict.ruling, worse.verdict.parted, worse.agrees) == ("not", 6, False)
    assert (
        "not the same: they part at update 6; largest relative difference 0.33, train/loss at update 6"
        in (worse.lines()[-1])
    )


def test_weights_that_differ_are_found_where_no_point_does(tmp_path: Path) -> None:
    home = Home(tmp_path)
    folder = made(home)
    path = folder.path / "model.safetensors"
    weights = load_file(path)
    weights["layers.0.weight"][0, 0] += 0.5
    save_file(weights, path)
    found = replay(folder, home)
    assert found.verdict.ruling == "not"
    assert found.verdict.parted is None
    assert found.verdict.where == "weight layers.0.weight"


def test_what_it_was_made_with_is_compared(tmp_path: Path) -> None:
    home = Home(tmp_path)
    folder = made(home)
    told = json.loads((folder.path / "run.json").read_text())
    told["provenance"]["packages"]["torch"] = "2.9.0"
    told["provenance"]["device"]["threads"] += 7
    told["provenance"]["commit"] = "ab" * 20
    told["facts"]["task"]["digest"] = "00" * 32
    told["provenance"]["user"] = "somebody"
    (folder.path / "run.json").write_text(json.dumps(told))
    (folder.path / "record.json").unlink(missing_ok=True)
    found = replay(home.folder(folder.run_id), home)
    assert [line.partition(":")[0] for line in found.differs] == [
        "commit", "data digest", "device.threads", "packages.torch"
    ]  # fmt: skip
    assert next(line for line in found.differs if "torch" in line).startswith("packages.torch: 2.9.0 -> 2.")
    assert found.verdict.ruling == "identical"


#: A rate so high that training makes much of rounding.
MEMBER: dict[str, Any] = {
    **SMALL, "model": {"name": "mlp", "width": 64, "depth": 3}, "batch_size": 32, "budget": {"updates": 240},
    "evaluate_every": 40, "log_every": 20, "checkpoint_every": 50, "optimizer": "adamw", "optimizer.lr": 0.05,
    "schedule": "constant",
}  # fmt: skip


def member(home: Home, **how: Any) -> RunFolder:
    """One of three that were trained together."""
    several = [Member(resolve({**MEMBER, "seed": seed})) for seed in (1, 2, 3)]
    return home.folder(train_together(several, home=home, **how)[1].record.run_id)


@pytest.mark.parametrize("stop", [None, 225])
def test_a_member_of_a_population_is_replayed_in_one_and_is_identical(stop: int | None, tmp_path: Path) -> None:
    home = Home(tmp_path)
    folder = member(home, stop=Partway(stop))
    alone = made(home, MEMBER, overrides={"seed": 2}, stop=Partway(stop))
    apart = compare((folder.record(), folder.series()), (alone.record(), alone.series()), math.inf, until=stop)
    assert apart.largest > 1e-2, "alone it must be another, or this shows nothing"
    found = replay(folder, home)
    assert found.verdict.ruling == "identical", found.lines()
    assert found.verdict.weights > 1000
    assert (found.tolerance, found.differs, found.notes, found.until) == (1e-6, (), (), stop)
    assert found.now.file.parent == f"replay of {folder.run_id}"
    assert found.now.file.facts["population"] == {**folder.file.facts["population"], "size": 1}
    edited(folder, "val/loss", 80, 1 + 1e-5)
    assert not replay(folder, home).agrees, "as exactly as a lone run's"


def test_a_fork_of_a_member_is_replayed_as_it_was_made(tmp_path: Path) -> None:
    home = Home(tmp_path)
    point = fork.find(home, f"{member(home).run_id}@150")
    (prepared,) = fork.prepare(point, [(point.changed({"optimizer.lr": 0.04}), "")])
    folder = home.folder(fork.begin(prepared, home).record.run_id)
    found = replay(folder, home)
    assert found.verdict.ruling == "identical", found.lines()
    assert "population" in found.now.file.facts


def test_a_member_whose_config_cannot_train_in_a_population_now_is_compared_within_what_they_differ_by(
    tmp_path: Path,
) -> None:
    home = Home(tmp_path)
    folder = made(home, overrides={"accumulate": 2})
    told = json.loads((folder.path / "run.json").read_text())
    told["facts"]["population"] = {"size": 4}
    (folder.path / "run.json").write_text(json.dumps(told))
    edited(folder, "val/loss", 8, 1 + 3e-6)
    found = replay(home.folder(folder.run_id), home)
    assert (found.verdict.ruling, found.tolerance) == ("within", 1e-5)
    assert any("replayed alone" in note for note in found.notes)


def test_what_cannot_be_replayed_is_refused(tmp_path: Path) -> None:
    home = Home(tmp_path)
    at_once = made(home, stop=Partway(0))
    assert at_once.record().status == "interrupted"
    with pytest.raises(InputError, match="made no update before it was interrupted; there is nothing to replay"):
        replay(at_once, home)


def test_another_end_is_not_the_same(tmp_path: Path) -> None:
    home = Home(tmp_path)
    one, other = made(home), diverged(home)
    verdict = compare((one.record(), []), (other.record(), []), math.inf)
    assert (verdict.ruling, verdict.said) == ("not", "it was completed, and is diverged now")
