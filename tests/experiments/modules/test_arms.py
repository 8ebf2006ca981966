"""Arms on a user's module: what is replaced is what would have been written by hand, and the rest stays."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import lightning.pytorch as pl
import pytest
import torch
from lightning.pytorch.demos.boring_classes import BoringModel, ManualOptimBoringModel
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from algos.finding import InputError
from algos.optimizers.adamw import AdamW
from algos.optimizers.lion import Lion
from experiments.config import Budget, Entry, RunConfig
from experiments.modules.arms import Equipment, equip
from experiments.modules.components import ComponentCallback
from experiments.modules.loss import CatalogueLoss

pytestmark = [
    pytest.mark.filterwarnings("ignore:The '.*_dataloader' does not have many workers"),
    pytest.mark.filterwarnings("ignore:The number of training batches .* is smaller than the logging interval"),
]


def config(**arm: Any) -> RunConfig:
    own: dict[str, Any] = {key: Entry(name="own") for key in ("optimizer", "schedule", "loss", "precision")}
    given = {key: Entry.model_validate(value) if key in own else value for key, value in arm.items()}
    for key in ("wrappers", "compression"):
        given[key] = tuple(Entry.model_validate(each) for each in arm.get(key, ()))
    return RunConfig(
        task="net.py:Net", model=Entry(name="Net"), budget=Budget(updates=8), batch_size=None, evaluate_every=None,
        **{"select": "last", **own, **given},
    )  # fmt: skip


class Net(pl.LightningModule):
    """A classifier with a frozen first layer that its optimizer leaves out, a schedule, and a loss as an attribute."""

    def __init__(self, loss: Any = None, scheduler: Callable[[Any], Any] | None = None, head_only: bool = False):
        super().__init__()
        self.body, self.head = nn.Linear(5, 8).double(), nn.Linear(8, 3).double()
        self.loss = loss if loss is not None else nn.CrossEntropyLoss()
        self.scheduler, self.head_only = scheduler, head_only
        self.rates: list[float] = []

    def training_step(self, batch: Any, batch_idx: int) -> Tensor:
        return self.loss(self.head(torch.tanh(self.body(batch[0]))), batch[1])

    def configure_optimizers(self) -> Any:
        params = self.head.parameters() if self.head_only else self.parameters()
        optimizer = torch.optim.SGD(params, lr=0.5, momentum=0.9)
        return optimizer if self.scheduler is None else ([optimizer], [self.scheduler(optimizer)])

    def on_before_optimizer_step(self, optimizer: torch.optim.Optimizer) -> None:
        self.rates.append(optimizer.param_groups[0]["lr"])


def fresh(**words: Any) -> Net:
    torch.manual_seed(2)
    return Net(**words)


def loader(ignored: int | None = None) -> DataLoader[Any]:
    generator = torch.Generator().manual_seed(0)
    y = torch.randint(0, 3, (24,), generator=generator)
    if ignored is not None:
        y[::4] = ignored
    return DataLoader(TensorDataset(torch.randn(24, 5, generator=generator, dtype=torch.float64), y), batch_size=6)


def fit(module: pl.LightningModule, equipment: Equipment, **words: Any) -> pl.Trainer:
    trainer = pl.Trainer(
        max_epochs=2, logger=False, enable_checkpointing=False, enable_progress_bar=False, accelerator="cpu",
        enable_model_summary=False, callbacks=equipment.callbacks, plugins=equipment.plugins or None, **words,
    )  # fmt: skip
    trainer.fit(module, loader())
    return trainer


def by_hand(module: Net, make: Callable[[nn.Module], torch.optim.Optimizer], factor: Callable[[int], float]) -> Tensor:
    """The same training without Lightning. factor: on the rate, by update."""
    optimizer = make(module)
    rates = [group["lr"] for group in optimizer.param_groups]
    for i, batch in enumerate(list(loader()) * 2):
        for group, rate in zip(optimizer.param_groups, rates):
            group["lr"] = rate * factor(i)
        optimizer.zero_grad()
        module.training_step(batch, i).backward()
        optimizer.step()
    return weights(module)


def weights(module: nn.Module) -> Tensor:
    return torch.cat([p.detach().flatten().clone() for p in module.parameters()])


def clock(module: pl.LightningModule, updates: int = 8) -> Callable[[], float]:
    """What says how much of the budget is used; nothing before there is a trainer."""
    return lambda: module.trainer.global_step / updates if module._trainer is not None else 0.0


def once(module: pl.LightningModule, **arm: Any) -> Equipment:
    return equip(module, config(**arm), clock(module))


# Optimizer and schedule


def test_own_changes_nothing() -> None:
    module, plain = fresh(), fresh()
    before = dict(vars(module))
    equipment = once(module)
    assert equipment == Equipment([], [])
    assert dict(vars(module)) == before
    fit(module, equipment)
    fit(plain, Equipment())
    assert torch.equal(weights(module), weights(plain))


def test_the_optimizer_and_the_schedule_are_replaced() -> None:
    module = fresh(scheduler=lambda o: torch.optim.lr_scheduler.StepLR(o, 1))
    equipment = once(module, optimizer={"name": "adamw", "lr": 0.03}, schedule={"name": "warmup_cosine", "warmup": 0.0})
    trainer = fit(module, equipment)
    assert isinstance(trainer.optimizers[0], AdamW)
    assert len(trainer.lr_scheduler_configs) == 1
    cosine = [(1 + torch.cos(torch.tensor(torch.pi * i / 8, dtype=torch.float64)).item()) / 2 for i in range(8)]
    assert module.rates == pytest.approx([0.03 * factor for factor in cosine], rel=1e-12)
    expected = by_hand(fresh(), lambda m: AdamW(m, lr=0.03), lambda i: cosine[i])
    torch.testing.assert_close(weights(module), expected, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize(
    "scheduler",
    [
        lambda o: torch.optim.lr_scheduler.LambdaLR(o, lambda i: 0.001),
        lambda o: {"scheduler": torch.optim.lr_scheduler.ReduceLROnPlateau(o), "monitor": "val/loss"},
    ],
)
def test_their_optimizer_under_another_schedule_has_the_rates_it_was_made_with(scheduler: Any) -> None:
    module = fresh(scheduler=scheduler)
    trainer = fit(module, once(module, schedule={"name": "constant"}))
    assert type(trainer.optimizers[0]) is torch.optim.SGD
    assert module.rates == [0.5] * 8
    expected = by_hand(fresh(), lambda m: torch.optim.SGD(m.parameters(), lr=0.5, momentum=0.9), lambda i: 1.0)
    assert torch.equal(weights(module), expected)


def test_a_schedule_that_overwrote_their_optimizer_cannot_be_taken_off() -> None:
    module = fresh(scheduler=lambda o: torch.optim.lr_scheduler.OneCycleLR(o, max_lr=1.0, total_steps=9))
    with pytest.raises(InputError, match=r"OneCycleLR.*give the optimizer too"):
        fit(module, once(module, schedule={"name": "constant"}))


def test_only_what_theirs_trains_is_trained() -> None:
    module = fresh(head_only=True)
    trainer = fit(module, once(module, optimizer={"name": "adamw", "lr": 0.1}, schedule={"name": "constant"}))
    assert torch.equal(weights(module.body), weights(fresh().body))
    assert not torch.equal(weights(module.head), weights(fresh().head))
    groups = {n: group["label"] for group in trainer.optimizers[0].param_groups for n in group["param_names"]}
    assert groups == {"head.weight": "decayed", "head.bias": "not decayed"}
    with pytest.raises(InputError, match="only for its fallback"):
        fit(module := fresh(head_only=True), once(module, optimizer={"name": "muon"}, schedule={"name": "constant"}))


def test_a_module_without_an_optimizer_of_its_own_gets_one() -> None:
    class Bare(Net):
        configure_optimizers = pl.LightningModule.configure_optimizers

    module = Bare()
    trainer = fit(module, once(module, optimizer={"name": "lion"}, schedule={"name": "constant"}))
    assert isinstance(trainer.optimizers[0], Lion)
    with pytest.raises(InputError, match="no optimizer of its own"):
        fit(module := Bare(), once(module, schedule={"name": "constant"}))


@pytest.mark.parametrize("key", ["optimizer", "schedule"])
def test_what_optimizes_by_itself_keeps_its_own(key: str) -> None:
    arm: dict[str, Any] = {"schedule": {"name": "constant"}}
    if key == "optimizer":
        arm["optimizer"] = {"name": "adamw"}
    with pytest.raises(InputError, match=f"automatic_optimization=False.*give {key}=own"):
        once(ManualOptimBoringModel(), **arm)

    class Two(BoringModel):
        def configure_optimizers(self) -> Any:
            return [torch.optim.SGD(self.parameters(), lr=0.1), torch.optim.SGD(self.parameters(), lr=0.1)]

    module = Two()
    once(module, **arm)
    with pytest.raises(InputError, match=f"has 2 optimizers.*give {key}=own"):
        module.configure_optimizers()


def test_their_schedule_does_not_go_with_another_optimizer() -> None:
    with pytest.raises(InputError, match="bound to its own optimizer"):
        once(fresh(), optimizer={"name": "adamw"})


def test_the_form_shows_directions_where_a_wrapper_changes_them() -> None:
    lion, constant = {"name": "lion"}, {"name": "constant"}
    module = fresh()
    trainer = fit(module, once(module, optimizer=lion, schedule=constant, wrappers=[{"name": "cautious"}]))
    assert trainer.optimizers[0].form == "stacked"
    module = fresh()
    arm = {"optimizer": {"name": "adamw"}, "schedule": constant, "wrappers": [{"name": "cautious"}], "form": "torch"}
    with pytest.raises(InputError, match="gives no directions to change"):
        fit(module, once(module, **arm))
    module = fresh()
    assert fit(module, once(module, optimizer=lion, schedule=constant, form="loop")).optimizers[0].form == "loop"


# Loss


@pytest.mark.parametrize(
    "theirs", [nn.CrossEntropyLoss(), nn.NLLLoss(), F.cross_entropy, functools.partial(F.nll_loss, ignore_index=-100)]
)
def test_the_one_classification_loss_is_replaced_with_what_it_ignores(theirs: Any) -> None:
    module = fresh(loss=theirs)
    once(module, loss={"name": "focal", "gamma": 2.0})
    assert isinstance(module.loss, CatalogueLoss)
    predictions, targets = torch.randn(6, 3), torch.tensor([0, -100, 2, 1, -100, 0])
    kept = targets != -100
    surprise = F.cross_entropy(predictions[kept], targets[kept], reduction="none")
    torch.testing.assert_close(module.loss(predictions, targets), ((1 - (-surprise).exp()) ** 2 * surprise).mean())


def test_what_the_arm_ignores_goes_before_what_theirs_ignores() -> None:
    targets, predictions = torch.tensor([0, 1, 2]), torch.randn(3, 3)
    for theirs, said, ignored in ((1, None, 1), (1, 2, 2)):
        module = fresh(loss=nn.CrossEntropyLoss(ignore_index=theirs))
        once(module, loss={"name": "cross_entropy", "ignore_index": said})
        expected = F.cross_entropy(predictions, targets, ignore_index=ignored)
        torch.testing.assert_close(module.loss(predictions, targets), expected)


def test_a_loss_further_in_is_found() -> None:
    module = fresh(loss=nn.Identity())
    module.inner = nn.Sequential(nn.Linear(2, 2))
    module.inner.criterion = nn.CrossEntropyLoss()
    once(module, loss={"name": "focal"})
    assert isinstance(module.inner.criterion, CatalogueLoss)


@pytest.mark.parametrize(
    ("losses", "match"),
    [
        ({}, "no classification loss as an attribute: none;"),
        ({"fit": nn.MSELoss()}, r"no classification loss as an attribute: self.fit \(MSELoss\)"),
        ({"fit": F.mse_loss}, r"no classification loss as an attribute: self.fit \(mse_loss\)"),
        (
            {"a": nn.CrossEntropyLoss(), "b": F.cross_entropy},
            r"several classification losses: self.a \(CrossEntropyLoss\), self.b \(cross_entropy\)",
        ),
        ({"a": nn.CrossEntropyLoss(weight=torch.ones(3))}, "has class weights, which loss 'focal' does not take"),
        ({"a": functools.partial(F.cross_entropy, reduction="none")}, "has reduction='none'"),
    ],
)
def test_what_cannot_be_replaced_is_told_in_one_line(losses: dict[str, Any], match: str) -> None:
    module = fresh(loss=nn.Identity())
    for name, value in losses.items():
        setattr(module, name, value)
    with pytest.raises(InputError, match=match) as caught:
        once(module, loss={"name": "focal"})
    assert "\n" not in str(caught.value)


# Precision and components


def test_precision_is_a_plugin() -> None:
    module = fresh()
    equipment = once(module, precision={"name": "bf16"})
    assert fit(module, equipment).precision == "bf16-mixed"
    with pytest.raises(InputError, match="both say how to compute"):
        once(fresh(), precision={"name": "bf16"}, trainer={"precision": "16-mixed"})


def test_components_have_compression_innermost_and_the_budgets_fraction() -> None:
    module = fresh()
    pruning = {"name": "magnitude_pruning", "sparsity": 0.5}
    equipment = once(module, wrappers=[{"name": "sam"}, {"name": "ema"}], compression=[pruning])
    (callback,) = equipment.callbacks
    assert isinstance(callback, ComponentCallback)
    assert [type(each).__name__ for each in callback.components] == ["MagnitudePruning", "Sam", "Ema"]
    assert callback.fraction is not None
    fit(module, equipment)
    assert (weights(module) == 0).sum() == 32
    assert callback.gradients == 8


def test_an_optimizer_of_ours_brings_what_switches_to_its_evaluation_weights() -> None:
    module = fresh()
    equipment = once(module, optimizer={"name": "schedule_free_adamw"}, schedule={"name": "constant"})
    assert [type(each) for each in equipment.callbacks] == [ComponentCallback]
    optimizer = fit(module, equipment).optimizers[0]
    z = torch.cat([optimizer.state[p]["z"].flatten() for p in module.parameters()])
    assert not torch.equal(weights(module), z)


def test_compression_is_not_tested_at_the_best_of_its_weights() -> None:
    with pytest.raises(InputError, match="set select=last"):
        once(fresh(), compression=[{"name": "magnitude_pruning"}], select="best")
