"""A fork has its trunk's whole state: with no change it is its trunk, bit for bit; what a change leaves is said."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from algos.finding import InputError
from experiments import fork
from experiments.company import ALONE
from experiments.config import resolve
from experiments.partway import Partway
from experiments.population import Member, train_together
from experiments.progress import RunNotice
from experiments.stopping import Stop, StopNow
from experiments.store.home import Home, RunFolder
from experiments.training import Finished, resume, train

UPDATES = 16
#: digits has 1,200 training images: five batches an epoch, the last one smaller.
SMALL: dict[str, Any] = {
    "task": "digits", "model": {"name": "mlp", "width": 16}, "batch_size": 250, "budget": {"updates": UPDATES},
    "evaluate_every": 4, "log_every": 3, "checkpoint_every": 6, "device": "cpu", "select": "last",
    "optimizer": "muon", "schedule": "warmup_cosine", "wrappers": ["clipping", "ema"],
}  # fmt: skip
TRUNKS: dict[str, dict[str, Any]] = {
    "muon": {},
    "the best weights": {"select": "best"},
    "fp16, dropout, BatchNorm, masks": {
        "model": {"name": "resnet", "width": 4, "blocks": 1}, "precision": {"name": "fp16", "init_scale": 2.0**24},
        "compression": ["magnitude_pruning"], "accumulate": 2,
    },
    "schedule-free": {"optimizer": "schedule_free_adamw", "wrappers": [], "schedule": "constant"},
    "gpt": {"task": "python_docs", "model": {"name": "gpt", "width": 16, "depth": 1, "heads": 2, "dropout": 0.1},
            "batch_size": 8},
}  # fmt: skip


def trained(home: Home, **overrides: Any) -> RunFolder:
    finished = train(resolve({**SMALL, **overrides}), home=home)
    assert finished.record.status == "completed", finished.record.traceback
    return home.folder(finished.record.run_id)


def forked(home: Home, trunk: RunFolder, at: object, layer: Mapping[str, Any] | None = None, **how: Any) -> Finished:
    point = fork.find(home, f"{trunk.run_id}@{at}")
    (prepared,) = fork.prepare(point, [(point.changed(layer or {}), "")], listener=how.get("listener", lambda _: None))
    return fork.begin(prepared, home, **how)


def points(folder: RunFolder, after: int = 0) -> dict[str, dict[int, float]]:
    """Everything but seconds and what is said once, at the end."""
    found = {line.metric: dict(zip(line.updates, line.values, strict=True)) for line in folder.series()}
    return {
        metric: {update: value for update, value in values.items() if update > after}
        for metric, values in found.items()
        if not metric.startswith(("time/", "test/", "objective"))
    }


def same(home: Home, one: RunFolder, other: RunFolder, after: int) -> None:
    assert points(other) == points(one, after)
    assert one.record().final == other.record().final
    weights, own = (load_file(each.path / "model.safetensors") for each in (one, other))
    assert weights.keys() == own.keys()
    assert all(torch.equal(weights[name], own[name]) for name in weights)


@pytest.mark.parametrize("trunk", TRUNKS)
def test_a_fork_with_no_change_is_its_trunk_bit_for_bit(trunk: str, tmp_path: Path) -> None:
    """From a checkpoint (12), from the start (5: computed again), and between two checkpoints of an interrupted one."""
    home = Home(tmp_path)
    straight = trained(home, **TRUNKS[trunk])
    for at in (12, 5):
        found = forked(home, straight, at).record
        assert found.status == "completed", found.traceback
        same(home, straight, home.folder(found.run_id), at)
        assert found.file.parent == f"{straight.run_id}@{at}"


#: A rate so high that training makes much of rounding: alone, a member would go on as another run.
MEMBER: dict[str, Any] = {
    **SMALL, "model": {"name": "mlp", "width": 64, "depth": 3}, "batch_size": 32, "budget": {"updates": 240},
    "evaluate_every": 40, "checkpoint_every": 100, "optimizer": "adamw", "optimizer.lr": 0.05, "schedule": "constant",
    "wrappers": ["ema"],
}  # fmt: skip


def member(home: Home) -> RunFolder:
    """One of two that were trained together."""
    several = [Member(resolve({**MEMBER, "seed": seed})) for seed in (1, 2)]
    finished = train_together(several, home=home)[0]
    assert finished.record.status == "completed", finished.record.traceback
    return home.folder(finished.record.run_id)


def test_a_fork_of_a_member_goes_on_in_a_population_and_is_its_trunk_bit_for_bit(tmp_path: Path) -> None:
    """From a checkpoint (200), from the start (30: computed again); and from its trunk again, its own ones lost."""
    home = Home(tmp_path)
    trunk = member(home)
    for at in (200, 30):
        found = forked(home, trunk, at).record
        assert found.status == "completed", found.traceback
        assert found.file.facts["population"] == {**trunk.file.facts["population"], "size": 1}
        assert found.file.facts["form"] == "stacked"
        assert [event["update"] for event in found.events if event["name"] == "forked"] == [at]
        same(home, trunk, home.folder(found.run_id), at)
    stopped = home.folder(forked(home, trunk, 200, stop=Partway(215)).record.run_id)
    for name in ("last.pt", "previous.pt"):
        (stopped.checkpoints / name).write_bytes(b"half")
    assert resume(stopped).record.status == "completed"
    same(home, trunk, stopped, 200)


def test_a_fork_of_a_member_that_may_not_train_in_a_population_goes_on_alone_and_says_so(tmp_path: Path) -> None:
    home = Home(tmp_path)
    trunk = member(home)
    for layer in ({"accumulate": 2}, {"wrappers": ["ema", "clipping"]}, {"form": "loop"}):
        found = forked(home, trunk, 200, layer).record
        assert found.status == "completed", found.traceback
        assert "population" not in found.file.facts
        assert ALONE in found.file.facts["fork"]["notes"]
    found = forked(home, trunk, 200, {"optimizer": "lion", "form": "stacked", "schedule": "linear"}).record
    assert found.status == "completed", found.traceback
    assert "population" in found.file.facts
    assert ALONE not in found.file.facts["fork"]["notes"]


def test_a_point_between_two_checkpoints_is_computed_from_the_one_before(tmp_path: Path) -> None:
    home, told = Home(tmp_path), []
    straight = trained(home)
    stopped = home.folder(train(resolve(SMALL), home=home, stop=Partway(15)).record.run_id)
    listener = lambda event: told.append(event.text) if isinstance(event, RunNotice) else None  # noqa: E731
    found = forked(home, stopped, 12, listener=listener).record
    assert "no checkpoint" not in " ".join(told), "previous.pt stands there"
    same(home, straight, home.folder(found.run_id), 12)
    found = forked(home, stopped, 13, listener=listener).record
    assert told[0] == (
        f"no checkpoint of {stopped.run_id} stands at update 13: computed again from its checkpoint at update 12"
    )
    assert found.file.facts["fork"]["notes"] == [told[0]]
    same(home, straight, home.folder(found.run_id), 13)


def test_a_fork_of_a_fork_and_one_that_is_stopped_killed_and_goes_on(tmp_path: Path) -> None:
    home = Home(tmp_path)
    straight = trained(home)
    first = home.folder(forked(home, straight, 6).record.run_id)
    for at in (10, 7):
        second = home.folder(forked(home, first, at).record.run_id)
        same(home, straight, second, at)
    with pytest.raises(InputError, match=rf"is itself a fork, from update 6 on; fork its trunk, {straight.run_id}@6"):
        forked(home, first, 3)
    stopped = home.folder(forked(home, straight, 6, stop=Partway(9)).record.run_id)
    assert stopped.record().status == "interrupted"
    for name in ("last.pt", "previous.pt"):
        (stopped.checkpoints / name).write_bytes(b"half")
    done = resume(stopped)
    assert done.record.status == "completed", (done.record.reason, done.record.traceback)
    assert "begins again from its start" in next(e["text"] for e in done.record.events if e["name"] == "warning")
    same(home, straight, stopped, 6)
    (stopped.path / "spool.2.jsonl").unlink()
    shutil.rmtree(straight.path)
    for name in ("last.pt", "previous.pt"):
        (stopped.checkpoints / name).write_bytes(b"half")
    with pytest.raises(InputError, match=r"has no checkpoint left, and its trunk is gone"):
        resume(stopped)


def test_what_it_shares_is_counted_once_and_said(tmp_path: Path) -> None:
    home = Home(tmp_path)
    straight = trained(home, accumulate=2, wrappers=["sam"])
    found = forked(home, straight, 8, {"schedule": "linear"}).record
    shared = found.file.facts["fork"]["shared"]
    table = points(straight)
    assert shared["updates"] == 8
    for key in ("gradients", "examples"):
        assert shared[key] == table[f"count/{key}"][8]
    assert 0 < shared["seconds"] < found.last["time/train_s"]
    assert found.file.facts["fork"]["trunk"] == straight.run_id
    (event,) = [event for event in found.events if event["name"] == "forked"]
    assert (event["trunk"], event["update"]) == (straight.run_id, 8)
    assert "not an independent seed" in event["text"]
    assert min(update for values in points(home.folder(found.run_id)).values() for update in values) > 8


def states(home: Home, found: Finished) -> dict[str, Any]:
    """The first checkpoint of a fork that was stopped at once."""
    assert found.record.status == "interrupted", found.record.traceback
    path = home.folder(found.record.run_id).checkpoints / "previous.pt"
    state: dict[str, Any] = torch.load(path, weights_only=True)
    return state


def test_hyperparameters_are_the_fork_s_and_moments_the_trunk_s(tmp_path: Path) -> None:
    home = Home(tmp_path)
    straight = trained(home, optimizer="adamw", wrappers=[])
    then = torch.load(straight.checkpoints / "previous.pt", weights_only=True)
    change = {"optimizer.lr": 0.05, "optimizer.betas": (0.8, 0.9)}
    now = states(home, forked(home, straight, 12, change, stop=Partway(13)))
    group = now["algorithm"]["optimizer"]["param_groups"][0]
    assert (group["initial_lr"], tuple(group["betas"])) == (0.05, (0.8, 0.9))
    moments = then["algorithm"]["optimizer"]["state"][0]
    assert all(torch.equal(torch.as_tensor(value), torch.as_tensor(
        now["algorithm"]["optimizer"]["state"][0][name])) for name, value in moments.items())  # fmt: skip
    assert torch.equal(now["random"]["torch"], then["random"]["torch"])
    assert now["source"] == then["source"]


#: Change -> what is said of it.
SAID: dict[str, tuple[dict[str, Any], str]] = {
    "another rule": ({"optimizer": "lion"}, "weights only: optimizer changed from muon to lion"),
    "a wrapper that goes": ({"wrappers": "ema"}, "wrappers.clipping ends here"),
    "a wrapper that comes": ({"wrappers": "clipping+ema+cautious"}, "wrappers.cautious begins here"),
    "another batch size": ({"batch_size": 300}, "epoch 1 is left after 500 examples, and the next one begins"),
    "another seed": ({"seed": 2}, "seed 2 orders the data and draws from here on; the weights are those of seed 1"),
    "another precision": ({"precision": "fp16"}, "precision changed from fp32 to fp16"),
    "the best": ({"select": "best"}, "the best counts from here on: the trunk kept no best weights"),
    "a state that does not fit": (
        {"wrappers": [{"name": "galore", "rank": 4}]},
        "weights only: the state of muon does not fit (the loaded state",
    ),
}


@pytest.mark.parametrize("change", SAID)
def test_what_does_not_go_on_is_said(change: str, tmp_path: Path) -> None:
    home, told = Home(tmp_path), []
    layer, said = SAID[change]
    straight = trained(home)
    at = 7 if change in ("another batch size", "another seed") else 12
    listener = lambda event: told.append(event.text) if isinstance(event, RunNotice) else None  # noqa: E731
    found = forked(home, straight, at, layer, listener=listener)
    assert found.record.status == "completed", found.record.traceback
    assert any(text.startswith(said) for text in told), told
    assert any(text.startswith(said) for text in found.record.file.facts["fork"]["notes"])


def test_groups_that_are_not_the_trunk_s_and_another_form(tmp_path: Path) -> None:
    home = Home(tmp_path)
    straight = trained(home, optimizer="adamw", wrappers=[])
    found = forked(home, straight, 12, {"optimizer.decay_all": True}).record
    assert found.file.facts["fork"]["notes"] == ["weights only: adamw groups the parameters in another way"]
    for layer in ({"form": "loop"}, {"wrappers": "cautious"}):
        then = torch.load(straight.checkpoints / "previous.pt", weights_only=True)["algorithm"]["optimizer"]["state"]
        now = states(home, forked(home, straight, 12, layer, stop=Partway(13)))["algorithm"]
        assert now["form"] == layer.get("form", "stacked")
        assert torch.equal(now["optimizer"]["state"][0]["exp_avg"], then[0]["exp_avg"])


def test_a_schedule_alone_changes_nothing_before_it_does(tmp_path: Path) -> None:
    home = Home(tmp_path)
    straight = trained(home)
    found = forked(home, straight, 12, {"schedule": "linear", "budget": {"updates": 20}})
    assert found.record.file.facts["fork"]["notes"] == []
    assert found.record.last["count/updates"] == 20
    assert points(home.folder(found.record.run_id))["val/loss"].keys() == {16, 20}


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "budget": ({"budget.updates": 12}, r"budget of 12 updates is used up at update 12 .*give budget.updates above 12"),
    "gradients": ({"budget.gradients": 3}, r"used up at update 12 \(12 gradients\); give budget.gradients above 12"),
    "epochs": ({"budget.epochs": 9, "batch_size": 100}, "epochs cannot be counted across batches of another size"),
    "task": ({"task": "python_docs"}, "goes on with its trunk's task, digits, not with python_docs"),
    "model": ({"model.width": 8}, r"the trunk's weights do not fit this model .*leave model as it is"),
    "depth": ({"model.depth": 3}, r"the trunk's weights do not fit this model"),
    "init": ({"init": "other.safetensors"}, "a fork starts from its trunk's state, and init from weights"),
}


@pytest.mark.parametrize("change", REFUSED)
def test_what_cannot_be_a_fork_is_refused_before_anything_is_made(change: str, tmp_path: Path) -> None:
    home = Home(tmp_path)
    straight = trained(home)
    layer, said = REFUSED[change]
    with pytest.raises(InputError, match=said) as caught:
        forked(home, straight, 12, layer)
    assert "\n" not in str(caught.value)
    assert home.run_ids() == [straight.run_id]


def test_points_that_are_none_are_refused(tmp_path: Path) -> None:
    home = Home(tmp_path)
    straight = trained(home)
    for place, said in {
        "best": rf"weights only, without an optimizer's state.*init=run:{straight.run_id}@best",
        "17": "got to update 16; give an update up to 16",
        "0": "does not say where to fork; give RUN@UPDATE",
        "soon": "does not say where to fork; give RUN@UPDATE",
    }.items():
        with pytest.raises(InputError, match=said):
            forked(home, straight, place)
    with pytest.raises(InputError, match="no run is called"):
        fork.find(home, "nobody@4")
    with pytest.raises(InputError, match="used up at update 16"):
        forked(home, straight, "last")
    assert forked(home, straight, "last", {"budget.updates": 18}).record.status == "completed"


def test_asked_to_stop_while_the_trunk_is_computed_again_nothing_is_made(tmp_path: Path) -> None:
    home, stop = Home(tmp_path), Stop()
    straight = trained(home)
    stop.request("Ctrl-C")
    point = fork.find(home, f"{straight.run_id}@5")
    with pytest.raises(StopNow):
        fork.prepare(point, [(point.changed({}), "")], stop=stop)
    assert home.run_ids() == [straight.run_id]
