"""A run that is stopped anywhere and goes on has the losses and weights of one that never stopped, bit for bit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from algos import catalogue
from experiments.config import resolve
from experiments.stopping import Stop
from experiments.store.home import Home
from experiments.training import resume, train

#: digits has about 1,200 training images: five batches an epoch, the last one smaller.
BATCH = 250
UPDATES = 16
EVALUATE_EVERY = 4
#: An epoch's last batch; the first of the next; in mid-epoch and on an evaluation; in mid-epoch and off one.
STOPS = (5, 6, 8, 13)
VISION = {"task": "digits", "model": {"name": "mlp", "width": 16}, "batch_size": BATCH}
GPT = {"name": "gpt", "width": 16, "depth": 1, "heads": 2, "dropout": 0.1}
TEXT = {"task": "python_docs", "model": GPT, "batch_size": 8}
GRAPH = {"task": "digits_graph", "model": {"name": "gcn", "width": 8}}

#: The models here are narrower than the default rank: galore would project nothing, and is refused.
RANKED: dict[str, Any] = {"galore": {"name": "galore", "rank": 4, "every": 5}}
CASES: dict[str, dict[str, Any]] = {
    **{f"optimizers.{name}": {**VISION, "optimizer": name} for name in catalogue.paths("optimizers")},
    **{f"wrappers.{name}": {**VISION, "wrappers": [RANKED.get(name, name)]} for name in catalogue.paths("wrappers")},
    **{f"schedules.{name}": {**VISION, "schedule": name} for name in catalogue.paths("schedules")},
    **{f"losses.{name}": {**VISION, "loss": name} for name in catalogue.paths("losses")},
    **{f"precision.{name}": {**VISION, "precision": name} for name in catalogue.paths("precision")},
    **{f"compression.{name}": {**VISION, "compression": [name]} for name in catalogue.paths("compression")},
    "architectures.mlp": VISION,
    "architectures.resnet": {**VISION, "model": {"name": "resnet", "width": 4, "blocks": 1}},
    "architectures.gpt": TEXT,
    "architectures.gcn": GRAPH,
    "everything at once": {
        **VISION, "model": {"name": "resnet", "width": 4, "blocks": 1}, "optimizer": "muon",
        "wrappers": ["clipping", "sam", "cautious", "ema"], "schedule": "warmup_cosine", "precision": "bf16",
        "compression": ["magnitude_pruning"], "select": "last",
    },
    "schedule-free with BatchNorm": {
        **VISION, "model": {"name": "resnet", "width": 4, "blocks": 1}, "optimizer": "schedule_free_adamw",
        "wrappers": ["clipping", "sam"], "compression": ["magnitude_pruning"],
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
        **VISION, "model": {"name": "resnet", "width": 4, "blocks": 1}, "accumulate": 2, "precision": "bf16",
        "optimizer": {"name": "lbfgs", "max_iter": 3, "line_search_fn": "strong_wolfe"}, "wrappers": ["ema"],
    },
    "the best weights": {**VISION, "select": "best"},
    "stacked": {**VISION, "optimizer": "muon", "form": "stacked"},
    "loop": {**VISION, "optimizer": "muon", "form": "loop"},
}  # fmt: skip


class StopAt(Stop):
    """Requested once the loop has asked `updates` times: it asks before every update."""

    def __init__(self, updates: int):
        self._left = updates
        self.reason = "test"

    @property
    def requested(self) -> bool:  # type: ignore[override]
        self._left -= 1
        return self._left < 0


def series(home: Home, run_id: str) -> dict[str, tuple[Any, Any]]:
    """Every metric but the clock's, which differs by nature."""
    return {
        line.metric: (line.updates, line.values)
        for line in home.series([run_id])
        if not line.metric.startswith("time/")
    }


def weights(home: Home, run_id: str) -> dict[str, torch.Tensor]:
    return load_file(home.folder(run_id).path / "model.safetensors")


@pytest.mark.parametrize("accumulate", [1, 3])
@pytest.mark.parametrize("case", CASES)
def test_stopped_and_resumed_equals_undisturbed(case: str, accumulate: int, tmp_path: Path) -> None:
    config = resolve({
        "budget": {"updates": UPDATES}, "evaluate_every": EVALUATE_EVERY, "log_every": 3, "accumulate": accumulate,
        "device": "cpu", "select": "last", **CASES[case],
    })  # fmt: skip
    home = Home(tmp_path)
    straight = train(config, home=home)
    assert straight.record.status == "completed", straight.record.traceback

    finished = train(config, home=home, stop=StopAt(STOPS[0]))
    for before, after in zip(STOPS, (*STOPS[1:], UPDATES + 1), strict=True):
        assert finished.record.status == "interrupted", finished.record.traceback
        folder = home.folder(finished.record.run_id)
        assert torch.load(folder.checkpoints / "last.pt", weights_only=True)["update"] == before
        finished = resume(folder, stop=StopAt(after - before))
    assert finished.record.status == "completed", finished.record.traceback
    assert finished.record.attempts == len(STOPS) + 1

    one, two = straight.record.run_id, finished.record.run_id
    assert series(home, one) == series(home, two)
    assert straight.record.final == finished.record.final
    for name, tensor in weights(home, one).items():
        assert torch.equal(tensor, weights(home, two)[name]), name
