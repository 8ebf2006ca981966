"""Schedules as torch's: the rates of our own loop at every update."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from lightning.pytorch.demos.boring_classes import BoringModel
from torch import nn

from algos import catalogue
from algos.contracts import Gradient, Progress
from algos.finding import InputError
from algos.gradient_descent import GradientDescent
from experiments.modules.schedule import scheduled

SCHEDULES = [
    ("warmup_cosine", {"warmup": 0.2}),
    ("warmup_stable_decay", {"decay": 0.3}),
    ("constant", {}),
]


def parameters() -> list[nn.Parameter]:
    return [nn.Parameter(torch.ones(2)), nn.Parameter(torch.ones(3))]


def two_groups() -> torch.optim.Optimizer:
    first, second = parameters()
    return torch.optim.SGD([{"params": [first], "lr": 0.5}, {"params": [second], "lr": 0.02}], lr=0.1)


def step(optimizer: torch.optim.Optimizer) -> None:
    for group in optimizer.param_groups:
        for param in group["params"]:
            param.grad = torch.ones_like(param)
    optimizer.step()


def rates(optimizer: torch.optim.Optimizer) -> list[float]:
    return [group["lr"] for group in optimizer.param_groups]


class Nothing:
    """An oracle without a loss: only the rates are looked at."""

    def gradient(self, batch: Any) -> Gradient:
        return Gradient(torch.zeros(()), {})

    def update(self, apply: Any, finite: Any) -> None:
        apply()


@pytest.mark.parametrize(("name", "hyper"), SCHEDULES)
def test_rates_are_those_of_our_own_loop_at_every_update(name: str, hyper: dict[str, Any]) -> None:
    updates, ours, theirs = 17, two_groups(), two_groups()
    descent = GradientDescent(ours, schedule=catalogue.load("schedules", name).build(**hyper))
    schedule = scheduled(theirs, name, updates=updates, **hyper)
    oracle: Any = Nothing()
    for update in range(updates):
        descent.step(oracle, None, Progress(update, min(1.0, update / updates)))
        assert rates(theirs) == rates(ours), update
        step(theirs)
        schedule.step()


def test_the_budget_may_be_in_anything() -> None:
    used = iter([0.0, 0.5, 2.0])
    optimizer = two_groups()
    schedule = scheduled(optimizer, "warmup_cosine", fraction=lambda: next(used), warmup=0.0)
    assert rates(optimizer) == [0.5, 0.02]
    for expected in (0.25, 0.0):  # half a cosine; its end
        step(optimizer)
        schedule.step()
        assert rates(optimizer)[0] == pytest.approx(expected, abs=1e-12)


def test_a_state_goes_on_where_it_was_and_leaves_the_budget_alone() -> None:
    whole, optimizer = two_groups(), two_groups()
    first = scheduled(whole, "warmup_cosine", updates=10)
    for _ in range(4):
        step(whole)
        first.step()
    state, weights = first.state_dict(), whole.state_dict()
    assert all(isinstance(value, (int, float, list)) for value in state.values())
    second = scheduled(optimizer, "warmup_cosine", updates=10)
    optimizer.load_state_dict(weights)
    second.load_state_dict(state)
    for _ in range(6):
        step(whole), first.step(), step(optimizer), second.step()
        assert rates(whole) == rates(optimizer)
        assert second.get_last_lr() == rates(optimizer)
    longer = scheduled(two_groups(), "warmup_cosine", updates=20)
    longer.load_state_dict(state)
    assert longer.last_epoch == 4
    assert longer._budget == 20


def test_a_schedule_that_is_stepped_once_an_epoch_is_an_error() -> None:
    optimizer = two_groups()
    schedule = scheduled(optimizer, "warmup_cosine", updates=10)
    step(optimizer)
    step(optimizer)
    with pytest.raises(InputError, match=r'made 2 updates since .*"interval": "step"'):
        schedule.step()


@pytest.mark.filterwarnings("ignore:The '.*_dataloader' does not have many workers")
def test_lightning_steps_it_at_every_update_and_not_at_a_micro_batch() -> None:
    import lightning.pytorch as pl

    seen: list[float] = []

    class Net(BoringModel):
        def configure_optimizers(self) -> Any:
            optimizer = torch.optim.SGD(self.parameters(), lr=1.0)
            schedule = scheduled(optimizer, "warmup_cosine", updates=4, warmup=0.0)
            return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}

        def on_before_optimizer_step(self, optimizer: torch.optim.Optimizer) -> None:
            seen.append(optimizer.param_groups[0]["lr"])

    pl.Trainer(
        max_epochs=1, limit_train_batches=8, limit_val_batches=0, accumulate_grad_batches=2, logger=False,
        enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False, accelerator="cpu",
    ).fit(Net())  # fmt: skip
    assert seen == pytest.approx([(1 + torch.cos(torch.tensor(torch.pi * i / 4)).item()) / 2 for i in range(4)])


@pytest.mark.parametrize(
    ("words", "match"),
    [
        ({}, "no budget; give updates=N"),
        ({"updates": 5, "fraction": lambda: 0.0}, "one of them"),
        ({"updates": 0}, "updates=0 is not valid"),
        ({"updates": 2.5}, "updates=2.5 is not valid"),
        ({"updates": 5, "warmpu": 0.1}, "did you mean 'warmup'"),
    ],
)
def test_wrong_words_are_told(words: dict[str, Any], match: str) -> None:
    with pytest.raises(InputError, match=match):
        scheduled(two_groups(), "warmup_cosine", **words)


def test_a_wrong_name_is_told() -> None:
    with pytest.raises(InputError, match="did you mean 'warmup_cosine'"):
        scheduled(two_groups(), "warmup_cosin", updates=5)
