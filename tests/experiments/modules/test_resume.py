"""A user's module goes on as if never stopped: bit for bit, whatever is half done when it stops, or dies."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import pytest
import torch
from safetensors.torch import load_file

from experiments.config import RunConfig, resolve
from experiments.modules.task import Task
from experiments.stopping import Stop
from experiments.store.home import Home, RunFolder
from experiments.training import Finished, resume, train

FILE = Path(__file__).with_name("resumable.py")
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")
Layer = dict[str, Any]


def config(**more: Any) -> RunConfig:
    said: Layer = {
        "task": f"{FILE}:Net", "data": f"{FILE}:Data", "metric": "val_loss", "device": "cpu", "log_every": 3,
        "budget": {"epochs": 3}, "trainer": {"num_sanity_val_steps": 0}, **more,
    }  # fmt: skip
    return resolve(said)


class Stopping(pl.Callback):
    """Asks for a stop as Ctrl-C does, after so many batches."""

    def __init__(self, stop: Stop, batches: int):
        self._stop, self._left = stop, batches

    def on_train_batch_end(self, *rest: Any) -> None:
        self._left -= 1
        if self._left == 0:
            self._stop.request("Ctrl-C")

    def state_dict(self) -> Layer:
        return {"nothing": 0}


def stopping(batches: int) -> tuple[Stop, Callable[[], pl.Callback]]:
    stop = Stop()
    return stop, lambda: Stopping(stop, batches)


def told(folder: RunFolder) -> dict[str, Any]:
    """Everything but time that a run has left behind."""
    series = {
        line.metric: (line.updates, line.values) for line in folder.series() if not line.metric.startswith("time/")
    }
    return {"series": series, "final": dict(folder.record().final)}


def assert_the_same(home: Home, one: str, other: str) -> None:
    folders = [home.folder(one), home.folder(other)]
    assert told(folders[0]) == told(folders[1])
    weights = [load_file(folder.path / "model.safetensors") for folder in folders]
    assert weights[0].keys() == weights[1].keys()
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])


def stopped_and_resumed(home: Home, asked: RunConfig, batches: int) -> tuple[Finished, Finished]:
    stop, callback = stopping(batches)
    task = Task.from_lightning(f"{FILE}:Net", f"{FILE}:Data", metric="val_loss", callbacks=[callback])
    with_stop = asked.model_copy(
        update={"trainer": {**asked.trainer, "callbacks": task.settings["trainer"]["callbacks"]}}
    )
    first = train(with_stop, home=home, stop=stop)
    return first, resume(home.folder(first.record.run_id))


WAYS: dict[str, Layer] = {
    "epochs": {},
    "updates": {"budget": {"updates": 14}},
    "examples": {"budget": {"examples": 50}},
    "half epochs": {"budget": {"epochs": 2.5}},
    "gradients": {"budget": {"gradients": 14}},
    "accumulating": {"trainer": {"num_sanity_val_steps": 0, "accumulate_grad_batches": 2}},
    "validating in mid-epoch": {"trainer": {"num_sanity_val_steps": 0, "val_check_interval": 0.5}},
    "validating now and then": {"evaluate_every": 4},
    "by hand": {"model": {"manual": True}},
    "plateau": {"model": {"plateau": True}},
    "other optimizer": {"optimizer": "muon", "schedule": "warmup_cosine", "wrappers": "clipping+ema"},
    "best": {"select": "best"},
}


@pytest.mark.parametrize("way", WAYS)
def test_stopped_anywhere_and_resumed_it_is_bit_equal(way: str, tmp_path: Path) -> None:
    """In mid-epoch, at an epoch's last batch, and at the next one's first."""
    home, asked = Home(tmp_path), config(**WAYS[way])
    whole = train(asked, home=home)
    assert whole.record.status == "completed", whole.record.traceback or whole.record.reason
    for batches in (3, 6, 7):
        first, second = stopped_and_resumed(home, asked, batches)
        assert (first.record.status, first.record.reason) == ("interrupted", "Ctrl-C")
        assert second.record.status == "completed", second.record.traceback or second.record.reason
        assert second.record.attempts == 2
        assert_the_same(home, whole.record.run_id, second.record.run_id)


PROGRAM = """
import json, sys, warnings
warnings.simplefilter("ignore")
from experiments.config import RunConfig
from experiments.store.home import Home
from experiments.training import resume, train
home = Home(sys.argv[1])
if sys.argv[2] == "train":
    train(RunConfig.from_json(json.loads(sys.argv[3])), home=home)
else:
    resume(home.folder(sys.argv[3]))
"""


def in_a_process(home: Home, verb: str, what: str, **environment: str) -> int:
    command = [sys.executable, "-c", PROGRAM, str(home.path), verb, what]
    return subprocess.run(command, env={**os.environ, **environment}, capture_output=True, check=False).returncode


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kill_at", "workers"),
    [
        ("batch 4", 0),
        ("batch 6", 0),
        ("batch 7", 0),
        ("validation 6", 0),
        ("epoch 2", 0),
        ("batch 9", 2),
        ("batch 12", 2),
    ],
)
def test_killed_and_resumed_it_is_bit_equal(kill_at: str, workers: int, tmp_path: Path) -> None:
    """kill -9 in mid-epoch, at an epoch's last batch, in a validation, at an epoch's end; shuffled; 0 and 2 workers."""
    home, asked = Home(tmp_path), config(data={"name": f"{FILE}:Data", "workers": workers}, checkpoint_every=1)
    whole = train(asked, home=home)
    assert in_a_process(home, "train", str(asked), KILL_AT=kill_at) == -signal.SIGKILL
    (lost,) = (record for record in home.records() if record.run_id != whole.record.run_id)
    assert lost.status == "lost"
    assert in_a_process(home, "resume", lost.run_id) == 0
    record = home.folder(lost.run_id).record()
    assert record.status == "completed"
    assert record.attempts == 2
    assert_the_same(home, whole.record.run_id, lost.run_id)


def test_a_callback_that_cannot_be_kept_is_named(tmp_path: Path) -> None:
    class Forgetful(pl.Callback):
        def on_train_batch_end(self, *rest: Any) -> None:
            self.shadow = iter(lambda: 0, 1)  # nobody can pickle it

    home, (stop, callback) = Home(tmp_path), stopping(3)
    task = Task.from_lightning(f"{FILE}:Net", f"{FILE}:Data", metric="val_loss", callbacks=[Forgetful, callback])
    first = train(resolve(task.overrides(), {"device": "cpu"}), home=home, stop=stop)
    second = resume(home.folder(first.record.run_id))
    (warning,) = (event["text"] for event in second.record.events if event["name"] == "warning")
    assert warning == "Forgetful.shadow cannot be kept between attempts: the run may differ from one never stopped"


def test_a_loader_that_gives_other_data_is_refused_and_the_run_says_so(tmp_path: Path) -> None:
    import importlib.util

    spec = importlib.util.spec_from_file_location("resumable", FILE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)

    class Drifting(module.Data):  # type: ignore[misc, name-defined]
        asked = 0

        def train_dataloader(self) -> Any:
            Drifting.asked += 1
            data = [(torch.full((4,), float(index + Drifting.asked)), 0) for index in range(24)]
            return torch.utils.data.DataLoader(data, batch_size=4)  # type: ignore[arg-type]

    home, (stop, callback) = Home(tmp_path), stopping(3)
    task = Task.from_lightning(f"{FILE}:Net", Drifting, metric="val_loss", callbacks=[callback])
    first = train(resolve(task.overrides(), {"device": "cpu"}), home=home, stop=stop)
    second = resume(home.folder(first.record.run_id))
    assert second.record.status == "crashed"
    assert "cannot be replayed: gone through again, DataLoader gives other batches" in second.record.reason


@pytest.mark.parametrize("budget", [{"updates": 12}, {"epochs": 2}, {"examples": 44}, {"gradients": 12}])
def test_a_schedule_goes_by_the_budget_whatever_its_unit(budget: Layer, tmp_path: Path) -> None:
    """44 examples are 2 epochs of 6 batches are 12 updates: a linear warm-up over half of it has the same rates."""
    rates: list[float] = []

    class Rates(pl.Callback):
        def on_before_optimizer_step(self, trainer: Any, pl_module: Any, optimizer: Any) -> None:
            rates.append(optimizer.param_groups[0]["lr"])

    task = Task.from_lightning(f"{FILE}:Net", f"{FILE}:Data", metric="val_loss", callbacks=[Rates])
    asked = {"optimizer": "sgd", "optimizer.lr": 1.0, "schedule": "warmup_cosine", "schedule.warmup": 0.5}
    train(resolve(task.overrides(), {**asked, "budget": budget, "device": "cpu"}), home=Home(tmp_path))
    examples = [0, 4, 8, 12, 16, 20, 22, 26, 30, 34, 38, 42]
    for update, rate in enumerate(rates):
        fraction = examples[update] / 44 if "examples" in budget else update / 12
        expected = (
            0.01 + 0.99 * fraction / 0.5 if fraction < 0.5 else (1 + math.cos(math.pi * (fraction - 0.5) / 0.5)) / 2
        )
        assert rate == pytest.approx(expected, abs=1e-12), update
    assert len(rates) == 12
