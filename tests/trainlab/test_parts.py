"""The parts by name: ordinary torch and Lightning objects, and wrong names told."""

from __future__ import annotations

from typing import Any, cast

import lightning.pytorch as pl
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from algos.contracts import Gradient, Progress
from algos.finding import InputError
from algos.gradient_descent import GradientDescent
from algos.optimizers.muon import Muon
from algos.schedules.warmup_cosine import WarmupCosine
from trainlab import parts


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 3))


class CrossEntropy:
    """An oracle over torch's own cross-entropy, for `GradientDescent`."""

    def __init__(self, model: nn.Module):
        self.model = model

    def gradient(self, batch: Any) -> Gradient:
        self.model.zero_grad()
        loss = F.cross_entropy(self.model(batch[0]), batch[1])
        loss.backward()
        return Gradient(loss.detach(), {})

    def update(self, apply: Any, finite: Any) -> None:
        apply()


def test_a_loop_written_by_hand_with_the_parts_is_our_own_loop() -> None:
    ours, theirs = network(), network()
    x, y = torch.randn(32, 4, generator=torch.Generator().manual_seed(1)), torch.arange(32) % 3

    optimizer = parts.optimizer(theirs, "muon", lr=0.05)
    schedule = parts.schedule(optimizer, "warmup_cosine", updates=12)
    loss = parts.loss("cross_entropy")
    for _ in range(12):
        optimizer.zero_grad()
        loss(theirs(x), y).backward()
        optimizer.step()
        schedule.step()

    descent, oracle = GradientDescent(Muon(ours, lr=0.05), schedule=WarmupCosine()), cast(Any, CrossEntropy(ours))
    for i in range(12):
        descent.step(oracle, (x, y), Progress(i, i / 12))
    for one, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        assert torch.equal(one, other)
    assert isinstance(optimizer, torch.optim.Optimizer)
    assert isinstance(schedule, torch.optim.lr_scheduler.LRScheduler)
    assert schedule.get_last_lr() == [0.0] * len(optimizer.param_groups)


def test_callbacks_are_built_innermost_first_each_with_its_own() -> None:
    built = parts.callback("clipping+sam", **{"sam.rho": 0.2, "clipping.norm": 3.0})
    assert isinstance(built, pl.Callback)
    assert [type(each).__name__ for each in built.components] == ["Clipping", "Sam"]
    first, second = (vars(each) for each in built.components)
    assert (first["norm"], second["rho"]) == (3.0, 0.2)
    assert vars(parts.callback("magnitude_pruning", sparsity=0.6).components[0])["sparsity"] == 0.6
    assert vars(parts.callback("sam", **{"sam.rho": 0.3}).components[0])["rho"] == 0.3
    assert parts.callback().components == parts.callback([]).components == []
    listed = parts.callback(["clipping", "sam"], **{"sam.rho": 0.2, "clipping.norm": 3.0})
    assert listed.state_key == built.state_key
    assert [vars(each) for each in listed.components] == [first, second]
    keys = {parts.callback(name).state_key for name in ("sam", "ema", "sam+ema", "ema+sam")}
    assert len(keys) == 4


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda: parts.optimizer(network(), "moun"), "did you mean 'muon'"),
        (lambda: parts.optimizer(network(), "muon", momentun=0.9), "did you mean 'momentum'"),
        (lambda: parts.param_groups(network(), "lino"), "did you mean 'lion'"),
        (lambda: parts.loss("focla"), "did you mean 'focal'"),
        (lambda: parts.precision("bf61"), "did you mean 'bf16'"),
        (lambda: parts.callback("magnitude_prunning"), "did you mean 'magnitude_pruning'"),
        (lambda: parts.callback("sam", roh=0.1), "did you mean 'rho'"),
        (lambda: parts.callback("sam+cautious", rho=0.1), "'rho' does not say whose it is"),
        (lambda: parts.callback("sam+cautious", **{"smm.rho": 0.1}), "did you mean 'sam'"),
        (lambda: parts.callback("sam+sam"), "'sam' is named twice"),
        (lambda: parts.callback(rho=0.1), "'rho' does not say whose it is"),
        (lambda: parts.optimizer("soap", cast(Any, network())), r'call tl\.optimizer\(model, "soap"\)'),
        (lambda: parts.param_groups("soap", network()), r'call tl\.param_groups\(model, "soap"\)'),
        (lambda: parts.optimizer(network(), torch.optim.AdamW), 'class AdamW .* give "adamw"'),
        (lambda: parts.optimizer(network(), torch.optim.Rprop), r"build it yourself: Rprop\(model\.parameters\(\)"),
        (lambda: parts.optimizer(network(), 3), "3 is given where a name of the catalogue's optimizers"),
        (lambda: parts.param_groups(network().parameters(), "soap"), "give the model itself"),
        (lambda: parts.optimizer(network(), "soap", wrappers="sam"), r'callbacks=\[tl\.callback\("NAME"\)\]'),
        (lambda: parts.optimizer(network(), "soap", compression="qat"), r'callbacks=\[tl\.callback\("NAME"\)\]'),
        (lambda: parts.optimizer(network(), "soap", precision="bf16"), r'plugins=\[tl\.precision\("NAME"\)\]'),
        (lambda: parts.optimizer(network(), "soap", schedule="cosine"), r'tl\.schedule\(optimizer, "NAME"'),
        (lambda: parts.schedule(network(), "cosine", updates=3), r"call tl\.schedule\(optimizer"),
        (lambda: parts.loss(nn.CrossEntropyLoss), "class CrossEntropyLoss .* give one of cross_entropy"),
        (lambda: parts.precision(16), "16 is given .* bf16"),
        (lambda: parts.callback(["cautious", Muon]), r"Muon was given.*callback\(\"cautious\+sam\"\)"),
        (lambda: parts.callback(None), "NoneType was given"),
    ],
)
def test_wrong_names_are_told(call: Any, match: str) -> None:
    with pytest.raises(InputError, match=match) as told:
        call()
    assert "\n" not in str(told.value)


def test_without_the_model_a_matrix_optimizer_takes_the_output_layer_too() -> None:
    """As the docstring says: with the model the last layer is the fallback's."""
    for given, rule in ((network(), "fallback"), (network().parameters(), None)):
        groups = parts.optimizer(given, "muon").param_groups
        flat = {tuple(param.shape): group.get("rule") for group in groups for param in group["params"]}
        assert flat[(3, 5)] == rule
        assert flat[(5, 6)] is None
