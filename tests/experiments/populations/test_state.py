"""What a population remembers comes apart member by member, and together again, bit for bit."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from algos.contracts import Progress
from experiments import training
from experiments.config import resolve
from experiments.populations.stack import Stack
from experiments.populations.state import algorithm_of_all, algorithm_of_member


def same(one: Any, other: Any) -> bool:
    if isinstance(one, torch.Tensor):
        return torch.equal(one, other)
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)


@pytest.mark.parametrize("optimizer", ["adamw", "muon", "prodigy", "shampoo", "schedule_free_adamw"])
def test_states_come_apart_and_together(optimizer: str) -> None:
    layer = {"task": "digits", "model": {"name": "mlp", "width": 8}, "wrappers": [] if "free" in optimizer else ["ema"]}
    configs = [resolve({**layer, "optimizer": optimizer, "seed": seed}) for seed in (1, 2, 3)]
    configs = [resolve(each.to_json(), {"optimizer.lr": 0.01 * (1 + i)}) for i, each in enumerate(configs)]
    built = [training.build(config) for config in configs]
    stack = Stack([parts for parts, _ in built], built[0][1])
    for update in range(3):
        stack.algorithm.step(stack.oracle, stack.source.next(), Progress(update, 0.5))
    whole = stack.algorithm.state_dict()
    members = [algorithm_of_member(stack.optimizer, whole, index) for index in range(3)]
    again = algorithm_of_all(stack.optimizer, members)
    assert same(whole["optimizer"]["state"], again["optimizer"]["state"])
    assert same(whole["components"], again["components"])
    for index, (parts, _) in enumerate(built):
        parts.algorithm.load_state_dict(members[index])  # a lone run's own
        rates = [group["lr"] for group in parts.algorithm.state_dict()["optimizer"]["param_groups"]]
        assert all(isinstance(rate, float) for rate in rates)
