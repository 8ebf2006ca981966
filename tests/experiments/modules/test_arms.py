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
from algos.losses.focal import Focal
from algos.optimizers.adamw import AdamW
from algos.optimizers.lion import Lion
from experiments.config import Budget, Entry, RunConfig
from experiments.modules.arms import Equipment, check, equip
from experiments.modules.components import ComponentCallback
from experiments.modules.loss import CatalogueLoss

pytestmark = [
    pytest.mark.filterwarnings("ignore:The '.*_dataloader' does not have many workers"),
    pytest.mark.filterwarnings("ignore:You defined a `validation_step` but have no `val_dataloader`"),
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
        lambda o: chain(o, lambda o: torch.optim.lr_scheduler.CosineAnnealingLR(o, 9)),
        lambda o: torch.optim.lr_scheduler.ChainedScheduler([torch.optim.lr_scheduler.ExponentialLR(o, 0.5)]),
    ],
)
def test_their_optimizer_under_another_schedule_has_the_rates_it_was_made_with(scheduler: Any) -> None:
    module = fresh(scheduler=scheduler)
    trainer = fit(module, once(module, schedule={"name": "constant"}))
    assert type(trainer.optimizers[0]) is torch.optim.SGD
    assert module.rates == [0.5] * 8
    expected = by_hand(fresh(), lambda m: torch.optim.SGD(m.parameters(), lr=0.5, momentum=0.9), lambda i: 1.0)
    assert torch.equal(weights(module), expected)


class Warmup(torch.optim.lr_scheduler.LambdaLR):
    """A schedule of the user's own, which may do anything to the optimizer."""

    def __init__(self, optimizer: torch.optim.Optimizer):
        for group in optimizer.param_groups:
            group["lr"] = 1e-6
        super().__init__(optimizer, lambda i: 1.0)


def chain(optimizer: torch.optim.Optimizer, last: Callable[[Any], Any]) -> Any:
    first = torch.optim.lr_scheduler.LinearLR(optimizer)
    return torch.optim.lr_scheduler.SequentialLR(optimizer, [first, last(optimizer)], [3])


@pytest.mark.parametrize(
    ("name", "scheduler"),
    [
        ("OneCycleLR", lambda o: torch.optim.lr_scheduler.OneCycleLR(o, max_lr=1.0, total_steps=9)),
        ("CyclicLR", lambda o: torch.optim.lr_scheduler.CyclicLR(o, 1e-4, 0.7)),
        ("Warmup", lambda o: {"scheduler": Warmup(o), "interval": "step"}),
        ("CyclicLR", lambda o: chain(o, lambda o: torch.optim.lr_scheduler.CyclicLR(o, 1e-4, 0.7))),
    ],
)
def test_a_schedule_that_may_have_overwritten_their_optimizer_cannot_be_taken_off(name: str, scheduler: Any) -> None:
    module = fresh(scheduler=scheduler)
    with pytest.raises(InputError, match=rf"\({name}\).*give the optimizer too") as caught:
        fit(module, once(module, schedule={"name": "constant"}))
    assert "\n" not in str(caught.value)
    module = fresh(scheduler=scheduler)
    fit(module, once(module, optimizer={"name": "sgd", "lr": 0.1}, schedule={"name": "constant"}))
    assert module.rates == [0.1] * 8


def test_a_schedule_that_they_step_themselves_would_go_on_beside_the_arms() -> None:
    class Keeps(Net):
        def configure_optimizers(self) -> Any:
            optimizer = torch.optim.SGD(self.parameters(), lr=0.5)
            self.mine = torch.optim.lr_scheduler.StepLR(optimizer, 1)
            return optimizer

    module = Keeps()
    with pytest.raises(InputError, match="steps it itself; return it there, or give schedule=own"):
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
    targets = torch.tensor([0, -100, 2, 1, -100, 0])
    loss, predictions = trained_on(module, targets)
    kept = targets != -100
    surprise = F.cross_entropy(predictions[kept], targets[kept], reduction="none")
    torch.testing.assert_close(loss, ((1 - (-surprise).exp()) ** 2 * surprise).mean())


def trained_on(module: Net, targets: Tensor) -> tuple[Tensor, Tensor]:
    """The loss of a training step, and its predictions."""
    x = torch.randn(len(targets), 5, dtype=torch.float64)
    return module.training_step((x, targets), 0), module.head(torch.tanh(module.body(x)))


def test_what_the_arm_ignores_goes_before_what_theirs_ignores() -> None:
    targets = torch.tensor([0, 1, 2])
    for theirs, said, ignored in ((1, None, 1), (1, 2, 2)):
        module = fresh(loss=nn.CrossEntropyLoss(ignore_index=theirs))
        once(module, loss={"name": "cross_entropy", "ignore_index": said})
        loss, predictions = trained_on(module, targets)
        torch.testing.assert_close(loss, F.cross_entropy(predictions, targets, ignore_index=ignored))


def test_label_smoothing_is_kept_or_refused_never_dropped() -> None:
    targets = torch.tensor([0, 1, 2])
    for said, smoothing in (({}, 0.1), ({"label_smoothing": 0.3}, 0.3)):
        module = fresh(loss=nn.CrossEntropyLoss(label_smoothing=0.1))
        once(module, loss={"name": "cross_entropy", **said})
        loss, predictions = trained_on(module, targets)
        torch.testing.assert_close(loss, F.cross_entropy(predictions, targets, label_smoothing=smoothing))
    for arm, match in (
        ({"name": "cross_entropy", "label_smoothing": 0.0}, "is given none; give loss.label_smoothing=0.1, or"),
        ({"name": "focal"}, "has label_smoothing=0.1, which loss 'focal' does not take"),
    ):
        with pytest.raises(InputError, match=match):
            once(fresh(loss=nn.CrossEntropyLoss(label_smoothing=0.1)), loss=arm)


class Measured(Net):
    """Measures validation and test with the loss that it trains on."""

    def __init__(self, **words: Any):
        super().__init__(**words)
        self.shared = False

    def validation_step(self, batch: Any, batch_idx: int) -> None:
        loss = self.training_step(batch, batch_idx) if self.shared else self.loss(*self.parts(batch))
        self.log("val/loss", loss, batch_size=len(batch[1]))

    def test_step(self, batch: Any, batch_idx: int) -> None:
        self.log("test/loss", self.loss(*self.parts(batch)), batch_size=len(batch[1]))

    def parts(self, batch: Any) -> tuple[Tensor, Tensor]:
        return self.head(torch.tanh(self.body(batch[0]))), batch[1]


@pytest.mark.parametrize("theirs", [nn.CrossEntropyLoss, lambda: F.cross_entropy])
@pytest.mark.parametrize("shared", [False, True])
def test_the_ruler_is_theirs_and_what_is_trained_on_the_arms(theirs: Any, shared: bool) -> None:
    torch.manual_seed(2)
    module = Measured(loss=theirs())
    module.shared, before = shared, module.loss
    equipment = once(module, loss={"name": "focal", "gamma": 3.0})
    assert module.loss is before
    trainer = pl.Trainer(
        max_epochs=2, logger=False, enable_checkpointing=False, enable_progress_bar=False, accelerator="cpu",
        enable_model_summary=False, callbacks=equipment.callbacks,
    )  # fmt: skip
    trainer.fit(module, loader(), loader())
    assert module.loss is before
    everything = [torch.cat(parts) for parts in zip(*loader(), strict=True)]
    with torch.no_grad():
        measured = F.cross_entropy(*module.parts(everything)).item()
    assert trainer.callback_metrics["val/loss"].item() == pytest.approx(measured, rel=1e-6)
    tested = trainer.test(module, loader(), verbose=False)
    assert tested[0]["test/loss"] == pytest.approx(measured, rel=1e-6)

    by_focal = fresh(loss=CatalogueLoss("focal", Focal(gamma=3.0)))
    expected = by_hand(by_focal, lambda m: torch.optim.SGD(m.parameters(), lr=0.5, momentum=0.9), lambda i: 1.0)
    torch.testing.assert_close(weights(module), expected, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("wrappers", [[], [{"name": "sam"}]])
def test_a_loss_that_is_computed_again_on_the_way_back_is_the_arms_too(wrappers: list[Any]) -> None:
    class Recomputes(Net):
        def training_step(self, batch: Any, batch_idx: int) -> Tensor:
            def chunk(x: Tensor) -> Tensor:
                return self.loss(self.head(torch.tanh(self.body(x))), batch[1])

            return torch.utils.checkpoint.checkpoint(chunk, batch[0], use_reentrant=False)

    ends = []
    for kind in (Net, Recomputes):
        torch.manual_seed(2)
        module = kind()
        fit(module, once(module, loss={"name": "focal", "gamma": 3.0}, wrappers=wrappers))
        ends.append(weights(module))
    torch.testing.assert_close(*ends, rtol=1e-12, atol=1e-13)


def test_a_loss_that_training_never_calls_is_told_before_the_first_update() -> None:
    class ForValidation(Net):
        def training_step(self, batch: Any, batch_idx: int) -> Tensor:
            return F.cross_entropy(self.head(torch.tanh(self.body(batch[0]))), batch[1])

        def validation_step(self, batch: Any, batch_idx: int) -> None:
            self.log("val/loss", self.loss(self.head(torch.tanh(self.body(batch[0]))), batch[1]))

    class ByItself(ForValidation):
        automatic_optimization = False

        def training_step(self, batch: Any, batch_idx: int) -> Tensor:
            self.manual_backward(loss := super().training_step(batch, batch_idx))
            return loss.detach()

    for kind in (ForValidation, ByItself):
        torch.manual_seed(2)
        module = kind()
        with pytest.raises(InputError, match=r"self.loss is not the training loss.*or give loss=own") as caught:
            fit(module, once(module, loss={"name": "focal"}))
        assert "\n" not in str(caught.value)
        assert torch.equal(weights(module), weights(fresh()))
        assert type(module.loss) is nn.CrossEntropyLoss


def test_a_loss_further_in_is_found() -> None:
    class Inner(Net):
        def training_step(self, batch: Any, batch_idx: int) -> Tensor:
            return self.inner.criterion(self.head(torch.tanh(self.body(batch[0]))), batch[1])

    torch.manual_seed(2)
    module = Inner(loss=nn.Identity())
    module.inner = nn.Sequential(nn.Linear(2, 2))
    module.inner.criterion = nn.CrossEntropyLoss()
    once(module, loss={"name": "focal", "gamma": 2.0})
    targets = torch.tensor([0, 1, 2])
    loss, predictions = trained_on(module, targets)
    surprise = F.cross_entropy(predictions, targets, reduction="none")
    torch.testing.assert_close(loss, ((1 - (-surprise).exp()) ** 2 * surprise).mean())


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


def test_fp16_is_fp16_on_the_cpu_too_and_not_bf16() -> None:
    module = fresh()
    equipment = once(module, precision={"name": "fp16", "init_scale": 64.0})
    trainer = fit(module, equipment)
    assert trainer.precision == "16-mixed"
    assert trainer.precision_plugin.scaler.get_scale() == 64  # type: ignore[attr-defined]


def test_l_bfgs_over_what_theirs_trains_is_torch_s() -> None:
    arm = {"optimizer": {"name": "lbfgs", "max_iter": 3}, "schedule": {"name": "constant"}}
    module, twin = fresh(head_only=True), fresh(head_only=True)
    body = module.body.weight.detach().clone()
    fit(module, once(module, **arm))
    optimizer = torch.optim.LBFGS(twin.head.parameters(), max_iter=3, line_search_fn="strong_wolfe")
    for i, batch in enumerate(list(loader()) * 2):

        def closure(batch: Any = batch, i: int = i) -> Tensor:
            optimizer.zero_grad()
            loss = twin.training_step(batch, i)
            loss.backward()
            return loss

        optimizer.step(closure)
    assert torch.equal(weights(module), weights(twin))
    assert torch.equal(module.body.weight, body)


@pytest.mark.parametrize(
    ("arm", "said"),
    [
        ({"optimizer": "lbfgs", "precision": "fp16"}, "fp16's scaling"),
        ({"optimizer": "lbfgs", "wrappers": ["cautious"]}, "Cautious changes the directions of steps"),
        ({"optimizer": "lbfgs", "wrappers": ["sam"]}, "Sam changes the gradient, and LBFGS"),
        ({"optimizer": "sophia", "precision": "fp16"}, "needs the gradient's curvature, and the fp16 scaler"),
        ({"optimizer": "sophia.ggn"}, "asks for the Gauss-Newton matrix"),
    ],
)
def test_what_an_optimizer_that_needs_more_cannot_be_combined_with(arm: dict[str, Any], said: str) -> None:
    given: dict[str, Any] = {"schedule": {"name": "constant"}}
    for key, value in arm.items():
        given[key] = [{"name": each} for each in value] if isinstance(value, list) else {"name": value}
    if arm["optimizer"] == "sophia.ggn":
        given["optimizer"] = {"name": "sophia", "estimator": "gauss_newton"}
    module = fresh()
    with pytest.raises(InputError, match=said) as raised:
        fit(module, once(module, **given))
    assert "\n" not in str(raised.value)


def test_curvature_in_an_arm_is_asked_for_when_it_is_due() -> None:
    module = fresh()
    optimizer = {"name": "adahessian", "lr": 0.05, "update_period": 3}
    equipment = once(module, optimizer=optimizer, schedule={"name": "constant"})
    before = weights(module)
    trainer = fit(module, equipment)
    (callback,) = (each for each in equipment.callbacks if isinstance(each, ComponentCallback))
    assert trainer.global_step == 8
    assert callback.gradients == 2 * 3
    assert not torch.equal(weights(module), before)


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


@pytest.mark.parametrize(
    ("wrapper", "words", "match"),
    [
        ("sam", {}, "automatic_optimization=False"),
        ("clipping", {}, "automatic_optimization=False"),
        ("cautious", {}, "automatic_optimization=False"),
        ("sam", {"accumulate_grad_batches": 2}, "accumulate_grad_batches=2"),
        ("clipping", {"accumulate_grad_batches": 2}, "accumulate_grad_batches=2"),
        ("clipping", {"gradient_clip_val": 1.0}, "would clip twice"),
    ],
)
def test_what_a_component_cannot_do_is_told_before_there_is_a_trainer(
    wrapper: str, words: dict[str, Any], match: str
) -> None:
    module: pl.LightningModule = fresh() if words else ManualOptimBoringModel()
    before = dict(vars(module))
    arm: dict[str, Any] = {"wrappers": [{"name": "ema"}, {"name": wrapper}], "trainer": words}
    for refuses in (lambda: check(module, config(**arm)), lambda: once(module, **arm)):
        with pytest.raises(InputError, match=match) as caught:
            refuses()
        assert "\n" not in str(caught.value)
    assert dict(vars(module)) == before
    once(fresh(), wrappers=[{"name": "cautious"}, {"name": "sam"}], trainer={"gradient_clip_val": 1.0})
    once(ManualOptimBoringModel(), wrappers=[{"name": "ema"}])


def test_compression_is_not_tested_at_the_best_of_its_weights() -> None:
    with pytest.raises(InputError, match="set select=last"):
        once(fresh(), compression=[{"name": "magnitude_pruning"}], select="best")
