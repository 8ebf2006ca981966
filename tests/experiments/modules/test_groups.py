"""Groups over a model, over part of it, and as dicts: complete, disjoint, and the same optimizer either way."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from algos import catalogue
from algos.finding import InputError
from experiments.modules.groups import groups, optimizer, optimizer_over


def model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Embedding(7, 6), nn.Linear(6, 8), nn.LayerNorm(8), nn.Linear(8, 5), nn.Linear(5, 7)
    ).double()


def train(net: nn.Module, made: torch.optim.Optimizer, steps: int = 3) -> torch.Tensor:
    for i in range(steps):
        generator = torch.Generator().manual_seed(i)
        for param in net.parameters():
            param.grad = torch.randn(param.shape, generator=generator, dtype=param.dtype)
        if getattr(made, "wants_curvature", False):
            made.observe_curvature({param: torch.ones_like(param) for param in net.parameters()})  # type: ignore[attr-defined]
        made.step()
    return torch.cat([param.detach().flatten() for param in net.parameters()])


GROUPING = [entry.name for entry in catalogue.listing("optimizers") if "closure" not in entry.needs]


@pytest.mark.parametrize("name", GROUPING)
def test_groups_are_complete_disjoint_and_make_the_same_optimizer(name: str) -> None:
    whole, parted = model(), model()
    found = groups(parted, name)
    params = [param for group in found for _, param in group["params"]]
    assert len(params) == len({id(param) for param in params}) == len(list(parted.parameters()))
    assert {id(param) for param in params} == {id(param) for param in parted.parameters()}
    assert torch.equal(train(whole, optimizer(whole, name)), train(parted, optimizer(found, name)))


def test_one_that_looks_at_all_weights_together_makes_none_and_trains_some_of_them() -> None:
    net = model()
    with pytest.raises(InputError, match="optimizer 'lbfgs' makes no groups of a model"):
        groups(net, "lbfgs")
    head = list(net[4].parameters())
    (group,) = optimizer_over(net, head, "lbfgs", lr=0.3).param_groups
    assert (group["params"], group["lr"]) == (head, 0.3)


def test_what_is_given_reaches_the_group_it_is_for() -> None:
    hyper: dict[str, Any] = {"lr": 0.3, "fallback_lr": 0.004, "fallback_weight_decay": 0.1, "momentum": 0.9}
    found = {group["label"]: group for group in groups(model(), "muon", **hyper)}
    assert found["matrices"]["lr"] == 0.3
    assert found["matrices"]["momentum"] == 0.9
    assert found["fallback"]["lr"] == 0.004
    assert found["fallback"]["weight_decay"] == 0.1
    assert found["fallback, not decayed"]["weight_decay"] == 0.0
    assert "momentum" not in found["fallback"]
    one, other = model(), model()
    assert torch.equal(
        train(one, optimizer(one, "muon", **hyper)), train(other, optimizer(groups(other, "muon", **hyper), "muon"))
    )


def test_a_torch_optimizer_takes_groups_without_a_rule() -> None:
    net = model()
    theirs = torch.optim.AdamW(groups(net, "adamw", weight_decay=0.1), lr=0.05)
    decays = {name: group["weight_decay"] for group in theirs.param_groups for name in group["param_names"]}
    assert decays["1.weight"] == 0.1
    assert decays["0.weight"] == decays["2.weight"] == decays["1.bias"] == 0.0
    assert all(group["lr"] == 0.05 for group in theirs.param_groups)
    ours = model()
    made = optimizer(ours, "adamw", lr=0.05, weight_decay=0.1)
    torch.testing.assert_close(train(net, theirs), train(ours, made), rtol=1e-12, atol=1e-14)


def test_over_some_parameters_each_keeps_its_role_and_the_others_stay() -> None:
    whole, part = model(), model()
    head = [*part[3].parameters(), *part[4].parameters()]
    made = optimizer_over(part, head, "muon", lr=0.1)
    roles = {name: group["label"] for group in made.param_groups for name in group["param_names"]}
    assert roles == {"3.weight": "matrices", "3.bias": "fallback", "4.weight": "fallback", "4.bias": "fallback"}
    before = part[1].weight.clone()
    train(whole, optimizer(whole, "muon", lr=0.1))
    train(part, made)
    assert torch.equal(part[1].weight, before)
    assert torch.equal(part[3].weight, whole[3].weight)
    assert torch.equal(part[4].weight, whole[4].weight)


def test_over_the_fallbacks_parameters_alone_a_matrix_rule_is_refused() -> None:
    net = model()
    with pytest.raises(InputError, match="only for its fallback"):
        optimizer_over(net, net[4].parameters(), "muon")


def test_wrong_names_are_told() -> None:
    for make in (groups, optimizer):
        with pytest.raises(InputError, match="did you mean 'muon'"):
            make(model(), "moun")
        with pytest.raises(InputError, match="did you mean 'momentum'"):
            make(model(), "muon", momentun=0.9)
