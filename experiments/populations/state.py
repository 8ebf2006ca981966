"""State: what a population remembers, member by member, and back. Tensors have the members along their first dimension,
a real hyperparameter has one value a member, and everything else is the same for all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from algos.per_tensor import PerTensorOptimizer


def of_member(tree: Any, index: int) -> Any:
    """A member's own part of tensors, and dicts and lists of them, copied.

    >>> of_member({"average": torch.tensor([[1.0, 2.0], [3.0, 4.0]]), "count": 7}, 1)
    {'average': tensor([3., 4.]), 'count': 7}
    """
    if isinstance(tree, Tensor):
        return tree[index].detach().clone()
    if isinstance(tree, Mapping):
        return {key: of_member(value, index) for key, value in tree.items()}
    if isinstance(tree, (list, tuple)):
        return type(tree)(of_member(value, index) for value in tree)
    return tree


def of_all(trees: Sequence[Any]) -> Any:
    """The inverse of `of_member`."""
    first = trees[0]
    if isinstance(first, Tensor):
        return torch.stack(list(trees))
    if isinstance(first, Mapping):
        return {key: of_all([tree[key] for tree in trees]) for key in first}
    if isinstance(first, (list, tuple)):
        return type(first)(of_all(list(values)) for values in zip(*trees, strict=True))
    assert all(tree == first for tree in trees), f"members of one population differ: {trees}"
    return first


def algorithm_of_member(optimizer: PerTensorOptimizer, state: Mapping[str, Any], index: int) -> dict[str, Any]:
    """A state of `GradientDescent` over a population -> the lone run's. optimizer: the population's."""
    packed = state["optimizer"]
    groups = [_group_of_member(optimizer, group, index) for group in packed["param_groups"]]
    return {
        **state,
        "optimizer": {"state": of_member(packed["state"], index), "param_groups": groups},
        "components": of_member(state["components"], index),
    }


def algorithm_of_all(optimizer: PerTensorOptimizer, states: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The inverse of `algorithm_of_member`."""
    packed = [state["optimizer"] for state in states]
    groups = zip(*(each["param_groups"] for each in packed), strict=True)
    return {
        "form": states[0]["form"],
        "optimizer": {
            "state": of_all([each["state"] for each in packed]),
            "param_groups": [_group_of_all(optimizer, members) for members in groups],
        },
        "components": of_all([state["components"] for state in states]),
    }


def rates_of_member(optimizer: PerTensorOptimizer, index: int) -> list[float]:
    """A member's learning rate now, group by group."""
    rates = (group["lr"] for group in optimizer.param_groups)
    return [float(rate[index] if isinstance(rate, (list, tuple)) else rate) for rate in rates]


def _kinds(optimizer: PerTensorOptimizer, group: Mapping[str, Any]) -> dict[str, str]:
    kinds: dict[str, str] = {name: hyper.kind for name, hyper in optimizer.declared_for(group.get("rule", "")).items()}
    return {**kinds, "initial_lr": kinds["lr"]}


def _group_of_member(optimizer: PerTensorOptimizer, group: Mapping[str, Any], index: int) -> dict[str, Any]:
    kinds = _kinds(optimizer, group)
    return {key: value[index] if _by_member(kinds.get(key), value) else value for key, value in group.items()}


def _by_member(kind: str | None, value: Any) -> bool:
    """Whether a group's value is one a member."""
    if not isinstance(value, (list, tuple)):
        return False
    return kind == "real" or (kind == "pair" and bool(value) and isinstance(value[0], (list, tuple)))


def _group_of_all(optimizer: PerTensorOptimizer, groups: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    kinds = _kinds(optimizer, groups[0])
    return {
        key: tuple(group[key] for group in groups)
        if kinds.get(key) in ("real", "pair") and value is not None
        else value
        for key, value in groups[0].items()
    }
