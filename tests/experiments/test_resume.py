"""A run that is stopped anywhere and goes on has the losses and weights of one that never stopped, bit for bit.

The cases are the catalogue and the tasks themselves: what is added there is tried here, without a line of this file.
Stops are at the first, a middle and the last batch of an epoch, on an evaluation and off it; with and without
accumulation. A few cases of every kind are in the fast suite, all of them in the slow one.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from algos import catalogue
from algos.finding import InputError
from experiments.config import resolve
from experiments.data.fetch import from_disk
from experiments.partway import Partway
from experiments.store.home import Home
from experiments.tasks import catalogue as tasks
from experiments.training import load_data, resume, train

#: digits has about 1,200 training images: five batches an epoch, the last one smaller.
BATCH = 250
UPDATES = 14
EVALUATE_EVERY = 4
#: An epoch's last batch; the first of the next; in mid-epoch and on an evaluation; in mid-epoch and off one.
STOPS = (5, 6, 8, 13)
VISION: dict[str, Any] = {"task": "digits", "model": {"name": "mlp", "width": 16}, "batch_size": BATCH}
RESNET = {"name": "resnet", "width": 4, "blocks": 1}
#: Settings that make a model small: of each architecture those that it has.
SMALL = {"width": 8, "depth": 1, "blocks": 1, "heads": 2, "hidden": 8, "dropout": 0.1}
#: Settings without which an entry would do nothing on so small a model, or in so few updates.
SETTINGS: dict[str, dict[str, Any]] = {"galore": {"rank": 4, "every": 5}}
KEYS = {
    "optimizers": "optimizer", "schedules": "schedule", "losses": "loss", "precision": "precision",
    "wrappers": "wrappers", "compression": "compression",
}  # fmt: skip


def entry(name: str) -> dict[str, Any]:
    return {"name": name, **SETTINGS.get(name, {})}


def on(kind: str, name: str) -> dict[str, Any]:
    """An entry of the catalogue, on digits."""
    key = KEYS[kind]
    return {**VISION, key: [entry(name)] if key in ("wrappers", "compression") else entry(name)}


def small(model: str) -> dict[str, Any]:
    hyper = catalogue.describe("architectures", model).hyper
    return {"name": model, **{key: value for key, value in SMALL.items() if key in hyper}}


#: What a domain's tasks show a model.
SHOWN = {"cv": "image", "nlp": "tokens", "gnn": "nodes"}


def built(model: str) -> dict[str, Any]:
    """An architecture on a task that it takes, one that needs no download if there is any."""
    taken = catalogue.describe("architectures", model).literals["accepts"]
    fit = [name for name in tasks.paths() if SHOWN[tasks.describe(name).domain] in taken]
    return sized(min(fit, key=lambda name: (name not in ("digits", "digits_graph", "python_docs"), name)), model)


def sized(task: str, model: str = "") -> dict[str, Any]:
    """A task with a small model, in small batches where it has batches of its own."""
    facts = tasks.describe(task)
    size = {"images": BATCH}.get(facts.unit, min(8, facts.batch_size) if facts.domain == "nlp" else facts.batch_size)
    return {"task": task, "model": small(model or str(facts.model["name"])), "batch_size": size}


CASES: dict[str, dict[str, Any]] = {
    **{f"{kind}.{name}": on(kind, name) for kind in KEYS for name in catalogue.paths(kind)},
    **{f"architectures.{name}": built(name) for name in catalogue.paths("architectures")},
    **{f"tasks.{name}": sized(name) for name in tasks.paths()},
    "everything at once": {
        **VISION, "model": RESNET, "optimizer": "muon", "wrappers": ["clipping", "sam", "cautious", "ema"],
        "schedule": "warmup_cosine", "precision": "bf16", "compression": ["magnitude_pruning"],
    },
    "schedule-free with BatchNorm": {
        **VISION, "model": RESNET, "optimizer": "schedule_free_adamw", "wrappers": ["clipping", "sam"],
        "compression": ["magnitude_pruning"],
    },
    "fp16 that skips and grows": {
        **VISION, "precision": {"name": "fp16", "init_scale": 2.0**24, "growth_interval": 3}, "accumulate": 3,
        "wrappers": ["clipping", "sam", "ema"],
    },
    "curvature": {
        **VISION, "optimizer": {"name": "sophia", "estimator": "gauss_newton", "update_period": 3, "gamma": 10.0},
        "wrappers": ["clipping", "ema"], "accumulate": 2, "schedule": "warmup_cosine",
    },
    "curvature in fp16": {
        **VISION, "optimizer": {"name": "adahessian", "update_period": 3}, "precision": "fp16",
    },
    "L-BFGS with BatchNorm": {
        **VISION, "model": RESNET, "accumulate": 2, "precision": "bf16", "wrappers": ["ema"],
        "optimizer": {"name": "lbfgs", "max_iter": 3, "line_search_fn": "strong_wolfe"},
    },
    "the best weights": {**VISION, "select": "best"},
    "stacked": {**VISION, "optimizer": "muon", "form": "stacked"},
    "loop": {**VISION, "optimizer": "muon", "form": "loop"},
}  # fmt: skip
#: One of each kind of state.
FAST = (
    "precision.fp16", "tasks.python_docs", "tasks.digits_graph", "everything at once",
    "the best weights",
)  # fmt: skip
TRIED = [
    pytest.param(case, accumulate, marks=[] if case in FAST and accumulate == 3 else pytest.mark.slow)
    for case in CASES
    for accumulate in (1, 3)
]


def test_every_entry_and_every_task_is_a_case() -> None:
    for kind in catalogue.KINDS:
        for name in catalogue.paths(kind):
            assert f"{kind}.{name}" in CASES
    assert {f"tasks.{name}" for name in tasks.paths()} <= CASES.keys()
    assert set(FAST) <= CASES.keys()


def series(home: Home, run_id: str) -> dict[str, tuple[Any, Any]]:
    """Every metric but the clock's, which differs by nature."""
    return {
        line.metric: (line.updates, line.values)
        for line in home.series([run_id])
        if not line.metric.startswith("time/")
    }


def weights(home: Home, run_id: str) -> dict[str, torch.Tensor]:
    return load_file(home.folder(run_id).path / "model.safetensors")


def config(case: Mapping[str, Any], accumulate: int) -> Any:
    """The case's config; skips where its data are not here, and refuses nothing else."""
    said = {
        "budget": {"updates": UPDATES}, "evaluate_every": EVALUATE_EVERY, "log_every": 3, "accumulate": accumulate,
        "device": "cpu", "select": "last", **case,
    }  # fmt: skip
    found = resolve(said if case["task"] not in WHOLE else {**said, "accumulate": 1})
    try:
        with from_disk():
            load_data(found.task, os.environ.get("TRAINLAB_DATA"))
    except InputError as error:
        pytest.skip(f"the data of {found.task} are not here: {error.finding.said}")
    return found


#: Tasks whose one batch is the whole: there is nothing to accumulate.
WHOLE = tuple(name for name in tasks.paths() if tasks.describe(name).batch_size == 1)


def equal(home: Home, one: str, two: str) -> None:
    """AssertionError where anything of two runs differs but the time they took."""
    assert series(home, one) == series(home, two)
    assert home.folder(one).record().final == home.folder(two).record().final
    for name, tensor in weights(home, one).items():
        assert torch.equal(tensor, weights(home, two)[name]), name


def interrupted(home: Home, asked: Any, change: Any = None) -> str:
    """A run that is stopped at each of STOPS. change: done to its checkpoint's state at the third."""
    finished = train(asked, home=home, stop=Partway(STOPS[0]))
    for before, after in zip(STOPS, (*STOPS[1:], None), strict=True):
        assert finished.record.status == "interrupted", finished.record.traceback
        folder = home.folder(finished.record.run_id)
        path = folder.checkpoints / "last.pt"
        state = torch.load(path, weights_only=True)
        assert state["update"] == before
        if change and before == STOPS[2]:
            change(state)
            torch.save(state, path)
        finished = resume(folder, stop=Partway(after))
    assert finished.record.status == "completed", (finished.record.reason, finished.record.traceback)
    assert finished.record.attempts == len(STOPS) + 1
    return str(finished.record.run_id)


@pytest.mark.parametrize(("case", "accumulate"), TRIED)
def test_stopped_and_resumed_equals_undisturbed(case: str, accumulate: int, tmp_path: Path) -> None:
    asked = config(CASES[case], accumulate)
    home = Home(tmp_path)
    straight = train(asked, home=home)
    assert straight.record.status == "completed", straight.record.traceback
    equal(home, straight.record.run_id, interrupted(home, asked))


def nudged(*keys: Any) -> Any:
    """Changes the last bit or the last count of one part of a state."""

    def change(state: dict[str, Any]) -> None:
        part: Any = state
        for key in keys[:-1]:
            part = part[key]
        value = part[keys[-1]]
        if not isinstance(value, torch.Tensor):
            part[keys[-1]] = value + 1
        elif value.dtype.is_floating_point:
            value.view(-1)[:1] += value.abs().max() * 1e-3
        else:
            value.view(-1)[1000:3000:8] ^= 1  # lowest bits of a generator's words

    return change


TEXT = {"task": "python_docs", "model": small("gpt"), "batch_size": 8}
#: What is changed -> the config that needs it.
NEEDED: dict[str, tuple[Any, dict[str, Any]]] = {
    "a weight": (nudged("model", "layers.0.weight"), {}),
    "a moment": (nudged("algorithm", "optimizer", "state", 0, "exp_avg"), {}),
    "a step count": (nudged("algorithm", "optimizer", "state", 0, "step"), {}),
    "an average": (nudged("algorithm", "components", 0, "average", "layers.0.weight"), {"wrappers": ["ema"]}),
    "the place in the data": (nudged("source", "epoch"), {}),
    "the random states": (nudged("random", "torch"), TEXT),
    "a count": (nudged("examples"), {}),
    "the scale": (nudged("oracle", "scaling", "scale"), {"precision": "fp16"}),
}
SEEN_FAST = ("a moment", "the place in the data", "the random states")


@pytest.mark.parametrize(
    "what", [pytest.param(what, marks=[] if what in SEEN_FAST else pytest.mark.slow) for what in NEEDED]
)
def test_a_state_that_is_not_brought_back_is_seen(what: str, tmp_path: Path) -> None:
    """The comparison fails for each part of a state that is not what it was."""
    change, needs = NEEDED[what]
    asked = config({**VISION, **needs}, 1)
    home = Home(tmp_path)
    straight = train(asked, home=home)
    with pytest.raises(AssertionError):
        equal(home, straight.record.run_id, interrupted(home, asked, change))


GROWN = """
import shutil, sys
from pathlib import Path
from algos import catalogue
path = catalogue.paths("wrappers")["ema"]
catalogue.paths = (lambda paths: lambda kind: {**paths(kind), **({"an_entry_of_tomorrow": path} if kind == "wrappers"
                   else {})})(catalogue.paths)
sys.path.insert(0, str(Path(sys.argv[1]).parent))
import test_resume
print("wrappers.an_entry_of_tomorrow" in test_resume.CASES)
"""


def test_a_new_entry_is_a_case_by_being_there() -> None:
    done = subprocess.run([sys.executable, "-c", GROWN, __file__], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "True"
