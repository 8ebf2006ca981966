"""A member of a population is the run it would have been alone; what becomes of one does not reach another."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from algos import catalogue
from experiments import training
from experiments.checkpoint import LAST
from experiments.config import RunConfig, resolve
from experiments.loop import Parts
from experiments.partway import Partway
from experiments.population import Member, resume, shape, train_together, was_member
from experiments.populations.stack import Stack
from experiments.populations.verification import doubt
from experiments.progress import RunNotice
from experiments.store.home import Home
from experiments.store.schema import Labels
from experiments.task import TaskData
from experiments.training import Finished

#: digits has 1,200 training images: five batches an epoch.
UPDATES, EVALUATE_EVERY = 16, 4
DIGITS = {"task": "digits", "model": {"name": "mlp", "width": 16}, "batch_size": 250}
RESNET = {**DIGITS, "model": {"name": "resnet", "width": 4, "stages": 2}}
TASKS: dict[str, dict[str, Any]] = {
    "images": DIGITS,
    "images, BatchNorm": {**RESNET, "optimizer": "sgd"},
    "BatchNorm at other weights": {**RESNET, "optimizer": "schedule_free_sgd"},
    "text": {"task": "python_docs", "model": {"name": "gpt", "width": 16, "depth": 1, "heads": 2}},
    "a graph": {"task": "digits_graph", "model": {"name": "gcn", "dropout": 0.0}, "batch_size": 30},
    "the best weights": {**DIGITS, "select": "best"},
    "averages": {**DIGITS, "wrappers": ["ema"]},
    "a schedule": {**DIGITS, "schedule": "warmup_cosine"},
    "epochs": {**DIGITS, "budget": {"epochs": 3}},
}  # fmt: skip
#: Those whose decompositions make much of rounding: the run alone is another after a few updates.
SENSITIVE = ("dion", "soap", "soap_muon")


def configs(*seeds: int, **more: Any) -> list[RunConfig]:
    """One config a seed, each of a rate of its own."""
    layer = {"budget": {"updates": UPDATES}, "evaluate_every": EVALUATE_EVERY, "log_every": 3, **DIGITS, **more}
    found = []
    for seed in seeds:
        config = resolve(layer, {"seed": seed})
        rate = config.optimizer.hyper["lr"] / (1 + seed)
        found.append(resolve(layer, {"seed": seed, "optimizer.lr": rate}))
    return found


def together(home: Path, members: Sequence[RunConfig | Member], **more: Any) -> list[Finished]:
    made = [each if isinstance(each, Member) else Member(each) for each in members]
    return train_together(made, home=Home(home), **more)


def weights(home: Path, run: Finished) -> dict[str, torch.Tensor]:
    return load_file(home / "runs" / run.record.run_id / "model.safetensors")


def lines(home: Path, run: Finished) -> dict[str, list[tuple[int, float]]]:
    """Every series but the seconds."""
    found = Home(home).series([run.record.run_id])
    return {
        each.metric: list(zip(each.updates, each.values, strict=True))
        for each in found
        if not each.metric.startswith("time/")
    }


def assert_same(home: Path, one: Finished, other: Finished) -> None:
    """Bit for bit: points, final metrics, weights."""
    assert lines(home, one) == lines(home, other)
    assert one.record.final == other.record.final
    mine, theirs = weights(home, one), weights(home, other)
    assert mine.keys() == theirs.keys()
    assert all(torch.equal(mine[name], theirs[name]) for name in mine)


def assert_close(home: Path, member: Finished, alone: Finished, tolerance: float = 1e-5) -> None:
    mine, theirs = lines(home, member), lines(home, alone)
    assert mine.keys() == theirs.keys()
    for metric in mine:
        assert [update for update, _ in mine[metric]] == [update for update, _ in theirs[metric]], metric
        for (update, value), (_, expected) in zip(mine[metric], theirs[metric], strict=True):
            assert value == pytest.approx(expected, rel=tolerance, abs=1e-7), f"{metric} at {update}"
    ours, lone = weights(home, member), weights(home, alone)
    for name, tensor in lone.items():
        if not name.endswith("qkv.bias"):  # a key's bias changes nothing: its gradient is rounding
            apart = float((ours[name].double() - tensor.double()).norm())
            assert apart <= tolerance * max(float(tensor.double().norm()), 1e-2), name


@pytest.mark.parametrize("name", TASKS)
def test_a_member_is_the_run_it_would_have_been_alone(tmp_path: Path, name: str) -> None:
    several = configs(1, 2, 3, **TASKS[name])
    assert doubt(several) == ""
    members = together(tmp_path, several)
    for config, member in zip(several, members, strict=True):
        alone = training.train(config, home=Home(tmp_path))
        assert member.record.status == alone.record.status == "completed"
        assert was_member(Home(tmp_path).folder(member.record.run_id))
        assert_close(tmp_path, member, alone)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in catalogue.paths("optimizers") if name not in SENSITIVE])
def test_a_member_of_every_optimizer_is_the_run_alone(tmp_path: Path, name: str) -> None:
    several = configs(1, 2, optimizer=name)
    if not shape(several[0]):
        assert {"closure", "curvature"} & set(catalogue.describe("optimizers", name).needs)
        return
    assert doubt(several) == ""
    members = together(tmp_path, several)
    assert_close(tmp_path, members[1], training.train(several[1], home=Home(tmp_path)))


def test_one_that_diverges_reaches_no_other(tmp_path: Path) -> None:
    fine = configs(1, 2, 3, optimizer="sgd")
    wild = resolve({**fine[0].to_json(), "seed": 9}, {"optimizer.lr": 1e6})
    undisturbed = together(tmp_path, fine)
    *others, bad = together(tmp_path, [*fine, wild])
    alone = training.train(wild, home=Home(tmp_path))
    assert (bad.record.status, bad.record.reason) == (alone.record.status, alone.record.reason)
    assert bad.record.status == "diverged"
    assert bad.record.nonfinite == alone.record.nonfinite
    assert bad.record.last["count/updates"] == alone.record.last["count/updates"] > 0
    for one, other in zip(undisturbed, others, strict=True):
        assert_same(tmp_path, one, other)


def test_one_that_is_pruned_leaves_and_the_last_one_goes_on_as_before(tmp_path: Path) -> None:
    several = configs(1, 2, 3)
    undisturbed = together(tmp_path, several)
    asked: list[int] = []

    def late(update: int, value: float) -> bool:
        asked.append(update)
        return update == 12

    pruned = together(
        tmp_path,
        [
            Member(several[0], judge=lambda update, value: update == 4), Member(several[1], judge=late),
            Member(several[2]),
        ],
    )  # fmt: skip
    assert [each.record.status for each in pruned] == ["pruned", "pruned", "completed"]
    assert pruned[0].record.reason == "the pruner ended it at update 4"
    assert asked == [4, 8, 12]
    assert [update for update, _ in lines(tmp_path, pruned[0])["val/loss"]] == [0, 4]
    assert_same(tmp_path, pruned[2], undisturbed[2])


@pytest.mark.parametrize(
    ("name", "stop"),
    [
        ("images", 5), ("images", 8), ("images", 13), ("averages", 13), ("the best weights", 7),
        pytest.param("images, BatchNorm", 7, marks=pytest.mark.slow), pytest.param("text", 3, marks=pytest.mark.slow),
    ],
)  # fmt: skip
def test_a_stopped_member_goes_on_bit_for_bit_in_any_company(tmp_path: Path, name: str, stop: int) -> None:
    several = configs(1, 2, 3, **TASKS[name])
    undisturbed = together(tmp_path, several)
    stopped = together(tmp_path, several, stop=Partway(stop))
    assert [each.record.status for each in stopped] == ["interrupted"] * 3
    folders = [Home(tmp_path).folder(each.record.run_id) for each in stopped]
    saved = torch.load(folders[0].checkpoints / LAST, weights_only=True)
    assert saved["update"] == stop
    lone = training.resume(folders[1])
    new = configs(7, **TASKS[name])[0]
    rest = together(tmp_path, [Member(folder=folders[2]), Member(new), Member(folder=folders[0])])
    for before, after in zip(undisturbed, (rest[2], lone, rest[0]), strict=True):
        assert after.record.attempts == 2
        assert_same(tmp_path, before, after)
    assert rest[1].record.status == "completed"


@pytest.mark.slow
def test_killed_members_go_on_from_their_checkpoints(tmp_path: Path) -> None:
    several = configs(1, 2, budget={"updates": 4000}, evaluate_every=1000, checkpoint_every=500)
    code = """
import json, sys
from experiments.config import RunConfig
from experiments.population import Member, train_together
from experiments.store.home import Home
train_together([Member(RunConfig.from_json(each)) for each in json.loads(sys.argv[2])], home=Home(sys.argv[1]))
"""
    told = json.dumps([config.to_json() for config in several])
    process = subprocess.Popen([sys.executable, "-c", code, str(tmp_path), told])
    deadline = time.monotonic() + 200
    while len(list(tmp_path.glob("runs/*/checkpoints/last.pt"))) < 2:
        assert time.monotonic() < deadline
        assert process.poll() is None
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    home = Home(tmp_path)
    killed = home.run_ids()
    assert [home.folder(run_id).record().status for run_id in killed] == ["lost", "lost"]
    resumed = together(tmp_path, [Member(folder=home.folder(run_id)) for run_id in killed])
    by_seed = {run.record.labels.seed: run for run in resumed}
    for config, whole in zip(several, together(tmp_path, several), strict=True):
        assert_same(tmp_path, by_seed[config.seed], whole)


def test_what_one_member_raises_crashes_that_one(tmp_path: Path) -> None:
    def broken(update: int, value: float) -> bool:
        raise LookupError("no such trial")

    several = configs(1, 2, 3)
    undisturbed = together(tmp_path, several)
    bad, *others = together(tmp_path, [Member(several[0], judge=broken), *several[1:]])
    assert (bad.record.status, bad.record.reason) == ("crashed", "LookupError: no such trial")
    assert isinstance(bad.error, LookupError)
    assert_same(tmp_path, others[0], undisturbed[1])
    assert_same(tmp_path, others[1], undisturbed[2])


def test_what_fails_together_crashes_only_the_one_whose_fault_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    several = configs(1, 2, 3, checkpoint_every=4)
    undisturbed = together(tmp_path, several)
    made = Stack.__init__

    def torn(self: Stack, parts: Sequence[Parts], data: TaskData) -> None:
        made(self, parts, data)
        given, batches = self.source.next, iter(range(6))
        if any(each.config.seed == 2 for each in parts):
            monkeypatch.setattr(self.source, "next", lambda: (next(batches), given())[1], raising=False)

    monkeypatch.setattr(Stack, "__init__", torn)
    told: list[Any] = []
    ended = together(tmp_path, several, listener=told.append)
    assert [each.record.status for each in ended] == ["completed", "crashed", "completed"]
    assert isinstance(ended[1].error, StopIteration)
    assert [each.record.attempts for each in ended] == [2, 2, 2]
    assert_same(tmp_path, ended[0], undisturbed[0])
    assert_same(tmp_path, ended[2], undisturbed[2])
    notices = [event for event in told if isinstance(event, RunNotice)]
    assert {event.run_id for event in notices} == {each.record.run_id for each in ended}
    assert all("its members go on apart: StopIteration" in event.text for event in notices)


def test_the_objective_is_what_the_selected_weights_measure(tmp_path: Path) -> None:
    """Where nothing changes them after the last validation it is not measured again, and is the same to the bit."""
    config = configs(1)[0]
    alone = training.train(config, home=Home(tmp_path))
    parts, _ = training.build(config)
    parts.oracle.model.load_state_dict(weights(tmp_path, alone))
    parts.oracle.model.eval()
    with torch.no_grad():
        assert alone.record.final["objective"] == parts.evaluator.measure("validation")[parts.task.metric]
    for run in (alone, *together(tmp_path, configs(1, 2))):
        assert run.record.final["objective"] == run.record.last[f"val/{parts.task.metric}"]


def test_members_are_runs_of_their_own(tmp_path: Path) -> None:
    several = configs(1, 2)
    labels = [Labels("digits", study="s", arm="a", phase="tune", number=number, seed=number) for number in (0, 1)]
    members = [Member(config, own, {"hash": "x"}) for config, own in zip(several, labels, strict=True)]
    started = time.perf_counter()
    finished = together(tmp_path, members)
    wall_s = time.perf_counter() - started
    for config, own, run in zip(several, labels, finished, strict=True):
        record = run.record
        assert record.labels == own
        assert record.config == config.to_json()
        assert record.file.facts["study"] == {"hash": "x"}
        assert record.file.facts["population"]["size"] == 2
        assert record.file.facts["form"] == "stacked"
        assert set(record.final) == {"objective"}
        assert run.model is not None
        assert torch.equal(run.model.state_dict()["head.bias"], weights(tmp_path, run)["head.bias"])
    seconds = [run.record.last["time/train_s"] for run in finished]
    assert seconds[0] == pytest.approx(seconds[1], rel=0.05)
    assert sum(seconds) < wall_s


def test_other_shapes_train_apart(tmp_path: Path) -> None:
    wide = configs(3, model={"name": "mlp", "width": 8})
    dropping = configs(4, task="digits_graph", model={"name": "gcn", "dropout": 0.5}, batch_size=30)
    finished = together(tmp_path, [*configs(1, 2), *wide, *dropping])
    assert [run.record.status for run in finished] == ["completed"] * 4
    assert [was_member(Home(tmp_path).folder(run.record.run_id)) for run in finished] == [True, True, True, False]


def test_a_resumed_run_that_was_alone_stays_alone(tmp_path: Path) -> None:
    (config,) = configs(1)
    stopped = training.train(config, home=Home(tmp_path), stop=Partway(5))
    whole = training.train(config, home=Home(tmp_path))
    (resumed,) = together(tmp_path, [Member(folder=Home(tmp_path).folder(stopped.record.run_id))])
    assert_same(tmp_path, resumed, whole)


def test_resume_leaves_a_finished_member_alone(tmp_path: Path) -> None:
    finished = together(tmp_path, configs(1, 2))
    with pytest.raises(ValueError, match="it is over"):
        resume(Home(tmp_path).folder(finished[0].record.run_id))
