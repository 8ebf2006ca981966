"""Schedules as torch's: the rates of our own loop at every update."""

from __future__ import annotations

import math
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
    assert state["base_lrs"] == [0.5, 0.02]
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


def test_rates_of_a_checkpoint_go_before_those_given_as_with_torchs_own() -> None:
    def resumed(make: Any) -> tuple[list[float], list[float]]:
        first, second = parameters(), parameters()
        old, new = torch.optim.SGD(first, lr=0.5), torch.optim.SGD(second, lr=0.02)
        before, after = make(old), make(new)
        step(old), before.step()
        new.load_state_dict(old.state_dict())
        after.load_state_dict(before.state_dict())
        step(new), after.step()
        return rates(new), [group["initial_lr"] for group in new.param_groups]

    theirs = resumed(lambda o: torch.optim.lr_scheduler.LambdaLR(o, lambda i: 1.0))
    assert resumed(lambda o: scheduled(o, "constant", updates=10)) == theirs == ([0.5], [0.5])


# Stepped, or not


def test_a_schedule_that_nobody_steps_is_an_error_at_the_second_update() -> None:
    optimizer = two_groups()
    scheduled(optimizer, "warmup_cosine", updates=10)  # nobody keeps it
    step(optimizer)
    with pytest.raises(InputError, match=r"made 2 updates since .*schedule.step\(\).*\"interval\": \"step\"") as caught:
        step(optimizer)
    assert "\n" not in str(caught.value)


def test_a_schedule_that_is_stepped_less_often_from_some_time_on_is_an_error() -> None:
    optimizer = two_groups()
    schedule = scheduled(optimizer, "warmup_cosine", updates=10)
    step(optimizer), schedule.step()
    step(optimizer), step(optimizer)
    with pytest.raises(InputError, match="made 2 updates since"):
        schedule.step()


@pytest.mark.filterwarnings("ignore:Detected call of `lr_scheduler.step")
def test_a_step_before_the_first_update_is_a_step() -> None:
    optimizer = two_groups()
    schedule = scheduled(optimizer, "warmup_cosine", updates=10)
    for _ in range(5):
        schedule.step()
        step(optimizer)
    assert schedule.last_epoch == 5


def test_of_two_schedules_on_one_optimizer_the_last_is_to_be_stepped() -> None:
    optimizer = two_groups()
    scheduled(optimizer, "warmup_cosine", updates=10)
    schedule = scheduled(optimizer, "constant", updates=10)
    for _ in range(4):
        step(optimizer), schedule.step()
    assert rates(optimizer) == [0.5, 0.02]


@pytest.mark.parametrize("ours_first", [True, False])
def test_torchs_sequence_of_schedules_may_hold_ours_back_and_leave_it(ours_first: bool) -> None:
    sequences = []

    def make() -> tuple[torch.optim.Optimizer, Any]:
        optimizer = two_groups()
        pair: list[Any] = [torch.optim.lr_scheduler.ConstantLR(optimizer, 0.1, 100)]
        pair.insert(0 if ours_first else 1, scheduled(optimizer, "warmup_cosine", updates=8, warmup=0.0))
        return optimizer, torch.optim.lr_scheduler.SequentialLR(optimizer, pair, [4])

    optimizer, sequence = make()
    for i in range(8):
        sequences.append(rates(optimizer)[0])
        step(optimizer), sequence.step()
        if i == 5:  # resumed
            state, weights = sequence.state_dict(), optimizer.state_dict()
            optimizer, sequence = make()
            optimizer.load_state_dict(weights)
            sequence.load_state_dict(state)
    cosine = [0.25 * (1 + math.cos(math.pi * i / 8)) for i in range(4)]
    assert sequences == pytest.approx([*cosine, *[0.05] * 4] if ours_first else [*[0.05] * 4, *cosine], rel=1e-9)


def fit(module: Any, **words: Any) -> None:
    import lightning.pytorch as pl

    given = {"max_epochs": 2, "limit_train_batches": 6, "limit_val_batches": 0, **words}
    pl.Trainer(
        logger=False, enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
        accelerator="cpu", **given,
    ).fit(module)  # fmt: skip


class Net(BoringModel):
    """Returns from configure_optimizers what is asked for; notes the rates of its updates."""

    def __init__(self, returned: str, updates: int, manual: bool = False, steps: bool = False):
        super().__init__()
        self.returned, self.updates, self.steps = returned, updates, steps
        self.automatic_optimization = not manual
        self.seen: list[float] = []

    def configure_optimizers(self) -> Any:
        optimizer = torch.optim.SGD(self.parameters(), lr=1.0)
        schedule = scheduled(optimizer, "warmup_cosine", updates=self.updates, warmup=0.0)
        if self.returned == "optimizer":
            return optimizer
        if self.returned == "lists":  # Lightning steps it once an epoch
            return [optimizer], [schedule]
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}

    def training_step(self, batch: Any, batch_idx: int) -> Any:
        loss = self.step(batch)
        if not self.automatic_optimization:
            optimizer: Any = self.optimizers()
            optimizer.zero_grad()
            self.manual_backward(loss)
            optimizer.step()
            if self.steps:
                schedule: Any = self.lr_schedulers()
                schedule.step()
        return loss

    def on_before_optimizer_step(self, optimizer: torch.optim.Optimizer) -> None:
        self.seen.append(optimizer.param_groups[0]["lr"])


LIGHTNING = pytest.mark.filterwarnings("ignore:The '.*_dataloader' does not have many workers")


@LIGHTNING
@pytest.mark.parametrize(("returned", "manual"), [("optimizer", False), ("lists", False), ("dict", True)])
def test_in_lightning_an_unstepped_schedule_is_told_in_the_first_epoch(returned: str, manual: bool) -> None:
    net = Net(returned, 12, manual)
    with pytest.raises(InputError, match="made 2 updates since"):
        fit(net)
    assert net.seen == [1.0, 1.0]


@LIGHTNING
def test_lightning_steps_it_at_every_update_and_not_at_a_micro_batch() -> None:
    from lightning.pytorch.callbacks import GradientAccumulationScheduler

    changing = {"callbacks": [GradientAccumulationScheduler({0: 1, 1: 3})]}
    cases: list[tuple[int, dict[str, Any], dict[str, Any]]] = [
        (6, {"accumulate_grad_batches": 2}, {}), (8, changing, {}), (12, {}, {"manual": True, "steps": True}),
    ]  # fmt: skip
    for updates, words, given in cases:
        net = Net("dict", updates, **given)
        fit(net, **words)
        expected = [(1 + math.cos(math.pi * i / updates)) / 2 for i in range(updates)]
        assert net.seen == pytest.approx(expected, abs=1e-12)


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
