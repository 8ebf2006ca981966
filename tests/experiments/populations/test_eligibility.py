"""Which runs may train together: those that differ in seeds and in real hyperparameters of the optimizer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from experiments.config import RunConfig, resolve
from experiments.populations.eligibility import shape


def config(**more: Any) -> RunConfig:
    return resolve({"task": "digits", "model": {"name": "mlp", "width": 8}, **more})


@pytest.mark.parametrize(
    "other",
    [
        {"seed": 2}, {"optimizer": {"name": "adamw", "lr": 0.1}}, {"optimizer": {"name": "adamw", "betas": (0.5, 0.6)}},
        {"form": "auto"},
    ],
)  # fmt: skip
def test_seeds_and_real_hyperparameters_may_differ(other: dict[str, Any]) -> None:
    assert shape(config()) == shape(config(**other)) != ""


@pytest.mark.parametrize(
    "other",
    [
        {"optimizer": "lion"}, {"optimizer": {"name": "adamw", "weight_decay": 0.0}}, {"batch_size": 32},
        {"optimizer": {"name": "adamw", "decay_all": True}}, {"model": {"name": "mlp", "width": 9}},
        {"budget": {"updates": 7}}, {"schedule": "constant"}, {"loss": "focal"}, {"wrappers": ["ema"]},
        {"select": "best"}, {"log_every": 3},
    ],
)  # fmt: skip
def test_everything_else_is_another_shape(other: dict[str, Any]) -> None:
    assert shape(config(**other)) not in ("", shape(config()))


@pytest.mark.parametrize(
    "other",
    [
        {"optimizer": "lbfgs"}, {"optimizer": "sophia"}, {"wrappers": ["sam"]}, {"wrappers": ["clipping"]},
        {"compression": ["magnitude_pruning"]}, {"precision": "bf16"}, {"accumulate": 2}, {"form": "loop"},
        {"budget": {"seconds": 3}}, {"trainer": {"benchmark": True}},
    ],
)  # fmt: skip
def test_what_needs_more_trains_alone(other: dict[str, Any]) -> None:
    assert shape(config(**other)) == ""


def test_randomness_in_the_forward_pass_is_found() -> None:
    graph: dict[str, Any] = {"task": "digits_graph", "batch_size": 30}
    assert shape(resolve({**graph, "model": {"name": "gcn", "dropout": 0.5}})) == ""
    assert shape(resolve({**graph, "model": {"name": "gcn", "dropout": 0.0}})) != ""


def test_looking_leaves_no_trace() -> None:
    before = torch.get_rng_state()
    shape(config(model={"name": "mlp", "width": 11}))
    assert torch.equal(torch.get_rng_state(), before)


def test_a_users_own_randomness_is_found_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "losses"
    folder.mkdir()
    (folder / "noisy.py").write_text(
        '"""Noisy: a loss that draws."""\nimport torch\nfrom algos.spec import Declared, Spec\n'
        "class Noisy(Declared):\n"
        "    def __call__(self, predictions, targets):\n"
        "        return torch.nn.functional.cross_entropy(predictions, targets) * (1 + torch.rand(())), 1.0\n"
        "SPEC = Spec(build=Noisy, accepts=('image',))\n"
    )
    monkeypatch.setenv("TRAINLAB_ENTRIES", str(tmp_path))
    assert shape(config(loss="noisy")) == ""
