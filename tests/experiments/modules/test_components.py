"""Components in Lightning's own loop: equal to our own loop and to loops written by hand, and nothing left behind."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import pytest
import torch
import torchmetrics
from lightning.pytorch.callbacks import ModelCheckpoint
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from algos.compression.magnitude_pruning import MagnitudePruning
from algos.contracts import Component, Gradient, Oracle, Progress
from algos.finding import InputError
from algos.gradient_descent import GradientDescent
from algos.optimizers.adahessian import AdaHessian
from algos.optimizers.adamw import AdamW
from algos.optimizers.lbfgs import LBFGS
from algos.optimizers.lion import Lion
from algos.optimizers.schedule_free_adamw import ScheduleFreeAdamW
from algos.optimizers.sophia import Sophia
from algos.wrappers.cautious import Cautious
from algos.wrappers.clipping import Clipping
from algos.wrappers.ema import Ema
from algos.wrappers.sam import Sam
from experiments.modules.components import ComponentCallback, check_evaluation_weights

pytestmark = [
    pytest.mark.filterwarnings("ignore:You defined a `validation_step` but have no `val_dataloader`"),
    pytest.mark.filterwarnings("ignore:The '.*_dataloader' does not have many workers"),
    pytest.mark.filterwarnings("ignore:The number of training batches .* is smaller than the logging interval"),
    pytest.mark.filterwarnings("ignore:Be aware that when using `ckpt_path`"),
    pytest.mark.filterwarnings("ignore:.isinstance.treespec, LeafSpec"),
]

Make = Callable[[nn.Module], torch.optim.Optimizer]


def sgd(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)


class Net(pl.LightningModule):
    """A small classifier in float64; keeps what a researcher's module may keep."""

    def __init__(self, make: Make = sgd, norm: bool = False, dropout: float = 0.0):
        super().__init__()
        norms: list[nn.Module] = [nn.BatchNorm1d(8)] if norm else []
        self.net = nn.Sequential(nn.Linear(5, 8), *norms, nn.Tanh(), nn.Dropout(dropout), nn.Linear(8, 3)).double()
        self.make = make
        self.accuracy = torchmetrics.Accuracy("multiclass", num_classes=3)
        self.losses: list[float] = []
        self.seen = 0
        self.smoothed = torch.zeros((), dtype=torch.float64)
        self.evaluated: list[Tensor] = []

    def training_step(self, batch: Any, batch_idx: int) -> Tensor:
        x, y = batch
        logits = self.net(x)
        loss = F.cross_entropy(logits, y)
        self.log("loss", loss, on_step=True, on_epoch=True)
        self.accuracy(logits, y)
        self.log("acc", self.accuracy, on_step=False, on_epoch=True)
        self.losses.append(loss.item())
        self.seen += len(y)
        self.smoothed += loss.detach()
        return loss

    def validation_step(self, batch: Any, batch_idx: int) -> None:
        if not self.trainer.sanity_checking:
            self.evaluated.append(weights(self))
        self.log("val/loss", F.cross_entropy(self.net(batch[0]), batch[1]))

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return self.make(self.net)


def data(n: int = 24, seed: int = 0) -> TensorDataset:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(n, 5, generator=generator, dtype=torch.float64)
    return TensorDataset(x, torch.randint(0, 3, (n,), generator=generator))


def loader(n: int = 24) -> DataLoader[Any]:
    return DataLoader(data(n), batch_size=6)


def weights(module: nn.Module) -> Tensor:
    return torch.cat([p.detach().flatten().double().clone() for p in module.parameters()])


def fresh(**words: Any) -> Net:
    torch.manual_seed(3)
    return Net(**words)


def trainer(*callbacks: pl.Callback, epochs: int = 2, **words: Any) -> pl.Trainer:
    quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False}
    return pl.Trainer(
        max_epochs=epochs, callbacks=list(callbacks), accelerator="cpu", enable_model_summary=False,
        **{"num_sanity_val_steps": 0, **quiet, **words},
    )  # fmt: skip


def fit(module: pl.LightningModule, *callbacks: pl.Callback, validate: bool = False, **words: Any) -> pl.Trainer:
    path = words.pop("ckpt_path", None)
    made = trainer(*callbacks, **words)
    made.fit(module, loader(), *([loader()] if validate else []), ckpt_path=path)
    return made


class Plain:
    """An oracle over a torch module and cross-entropy, for `GradientDescent`."""

    def __init__(self, model: nn.Module):
        self.model = model

    def named_parameters(self) -> Iterator[tuple[str, nn.Parameter]]:
        return self.model.named_parameters()

    def gradient(self, batch: Any, *, at: Any = None, create_graph: bool = False, buffers: str = "update") -> Gradient:
        names = [name for name, _ in self.named_parameters()]
        leaves = {name: (at or {}).get(name, p).detach().requires_grad_() for name, p in self.named_parameters()}
        tensors = dict(leaves)
        if buffers == "keep":
            tensors |= {name: buffer.clone() for name, buffer in self.model.named_buffers()}
        loss = F.cross_entropy(torch.func.functional_call(self.model, tensors, (batch[0],)), batch[1])
        grads = dict(zip(names, torch.autograd.grad(loss, list(leaves.values()))))
        for name, parameter in self.named_parameters():
            parameter.grad = grads[name] if at is None else parameter.grad
        return Gradient(loss.detach(), grads)

    def update(self, apply: Callable[[], None], finite: Tensor | None = None) -> None:
        apply()


def descend(model: nn.Module, make: Make, components: Sequence[Component], epochs: int = 2) -> None:
    """The same training in `GradientDescent`, without Lightning."""
    oracle: Any = Plain(model)
    for component in components:
        component.prepare(model)
    descent = GradientDescent(make(model), components)
    batches = list(loader()) * epochs
    for i, batch in enumerate(batches):
        descent.step(oracle, batch, Progress(i, i / len(batches)))
    with descent.evaluating(oracle):
        descent.finalize(model)
        kept = copy.deepcopy(model.state_dict())
    model.load_state_dict(kept)


# Equal to our own loop, and to loops by hand


def test_sam_equals_the_paper_written_by_hand() -> None:
    module, model = fresh(), fresh().net
    fit(module, ComponentCallback([Sam(rho=0.1)]))
    optimizer = sgd(model)
    for x, y in list(loader()) * 2:
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        grads = [p.grad.clone() for p in model.parameters()]
        norm = torch.sqrt(sum((g**2).sum() for g in grads))
        kept = [p.detach().clone() for p in model.parameters()]
        with torch.no_grad():
            for p, g in zip(model.parameters(), grads):
                p += 0.1 * g / norm
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        with torch.no_grad():
            for p, w in zip(model.parameters(), kept):
                p.copy_(w)
        optimizer.step()
    assert (weights(module.net) - weights(model)).abs().max() < 1e-12
    assert (weights(module.net) - weights(fresh().net)).abs().max() > 0.01


@pytest.mark.parametrize(
    ("make", "components"),
    [
        (sgd, [Sam(rho=0.1)]),
        (sgd, [Sam(rho=0.1), Clipping(norm=0.3)]),
        (sgd, [Clipping(norm=0.3), Sam(rho=0.1)]),
        (sgd, [Ema(decay=0.8)]),
        (lambda m: Lion(m, lr=0.01), [Cautious()]),
        (lambda m: AdamW(m, lr=0.01, form="stacked"), [Sam(rho=0.1), Cautious(), Ema(decay=0.8)]),
        (lambda m: AdamW(m, lr=0.01), [MagnitudePruning(sparsity=0.5, every=1), Ema(decay=0.8)]),
        (lambda m: ScheduleFreeAdamW(m, lr=0.01), [MagnitudePruning(sparsity=0.5, every=1)]),
    ],
)
def test_lightnings_loop_with_components_equals_ours(make: Make, components: list[Component]) -> None:
    module, model = fresh(make=make), fresh().net
    callback = ComponentCallback(copy.deepcopy(components))
    fit(module, callback)
    descend(model, make, components)
    assert (weights(module.net) - weights(model)).abs().max() < 1e-12
    assert callback.gradients == (8 if any(isinstance(each, Sam) for each in components) else 0)


def test_two_callbacks_nest_as_one_with_their_components_in_order() -> None:
    def adamw(model: nn.Module) -> torch.optim.Optimizer:
        return AdamW(model, lr=0.01)

    ends = []
    for split in (0, 1, 2, 3):
        components: list[Component] = [Clipping(norm=0.2), Sam(rho=0.2), Cautious()]
        module = fresh(make=adamw)
        fit(module, ComponentCallback(components[:split]), pl.Callback(), ComponentCallback(components[split:]))
        ends.append(weights(module))
    assert all(torch.equal(ends[0], other) for other in ends[1:])
    module = fresh(make=adamw)
    fit(module, ComponentCallback([Sam(rho=0.2), Cautious()]), ComponentCallback([Clipping(norm=0.2)]))
    assert not torch.equal(ends[0], weights(module))


def test_an_empty_callback_changes_nothing() -> None:
    with_it, without = fresh(dropout=0.3), fresh(dropout=0.3)
    for module, callbacks in ((with_it, [ComponentCallback()]), (without, [])):
        torch.manual_seed(5)
        fit(module, *callbacks, validate=True)
    assert torch.equal(weights(with_it), weights(without))
    assert with_it.losses == without.losses


# A second pass leaves no trace


def test_a_second_pass_leaves_buffers_metrics_logs_and_attributes_alone() -> None:
    module = fresh(norm=True)
    epoch_ends: list[tuple[float, float]] = []

    class Watch(pl.Callback):
        def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
            epoch_ends.append((float(trainer.callback_metrics["loss_epoch"]), float(trainer.callback_metrics["acc"])))

    before: list[float] = []
    accuracies: list[float] = []

    class Truth(pl.Callback):
        """What the first pass sees, found apart from the module."""

        def on_train_batch_start(self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int) -> None:
            with torch.no_grad():
                logits = copy.deepcopy(pl_module.net)(batch[0])
            before.append(F.cross_entropy(logits, batch[1]).item())
            accuracies.append((logits.argmax(1) == batch[1]).double().mean().item())

    fit(module, ComponentCallback([Sam(rho=0.5)]), Watch(), Truth())
    assert module.losses == before
    assert module.seen == 48
    assert float(module.smoothed) == pytest.approx(sum(before), rel=1e-12)
    assert int(module.net[1].num_batches_tracked) == 8  # type: ignore[arg-type]
    for epoch, (loss, accuracy) in enumerate(epoch_ends):
        assert loss == pytest.approx(sum(before[4 * epoch : 4 * epoch + 4]) / 4, rel=1e-6)
        assert accuracy == pytest.approx(sum(accuracies[4 * epoch : 4 * epoch + 4]) / 4, rel=1e-6)


def test_a_second_pass_does_not_reach_the_logger() -> None:
    class Direct(Net):
        def training_step(self, batch: Any, batch_idx: int) -> Tensor:
            assert self.logger is not None
            self.logger.log_metrics({"direct": 1.0})
            return super().training_step(batch, batch_idx)

    class Count(pl.loggers.logger.DummyLogger):
        said = 0

        def log_metrics(self, metrics: Any, step: int | None = None) -> None:
            self.said += "direct" in metrics

    count = Count()
    torch.manual_seed(3)
    fit(Direct(), ComponentCallback([Sam()]), logger=count)
    assert count.said == 8


def test_recomputed_activations_see_the_weights_nearby() -> None:
    class Recomputing(Net):
        def training_step(self, batch: Any, batch_idx: int) -> Tensor:
            hidden = torch.utils.checkpoint.checkpoint(self.net[:2], batch[0], use_reentrant=False)
            return F.cross_entropy(self.net[2:](hidden), batch[1])

    torch.manual_seed(3)
    recomputing, plain = Recomputing(), fresh()
    for module in (recomputing, plain):
        fit(module, ComponentCallback([Sam(rho=0.5)]))
    assert (weights(recomputing) - weights(plain)).abs().max() < 1e-12


def test_sam_sees_recurrent_weights() -> None:
    """nn.LSTM keeps its weights in a list of its own."""

    class Recurrent(pl.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.lstm = nn.LSTM(5, 4).double()

        def training_step(self, batch: Any) -> Tensor:
            return self.lstm(batch[0])[0].square().mean()

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.SGD(self.parameters(), lr=0.5)

    torch.manual_seed(0)
    module = Recurrent()
    by_hand = copy.deepcopy(module)
    fit(module, ComponentCallback([Sam(rho=0.5)]))
    optimizer = by_hand.configure_optimizers()
    for x, _ in list(loader()) * 2:
        kept = copy.deepcopy(by_hand.state_dict())
        optimizer.zero_grad()
        by_hand.training_step([x]).backward()
        norm = torch.sqrt(sum((p.grad**2).sum() for p in by_hand.parameters()))
        with torch.no_grad():
            for p in by_hand.parameters():
                p += 0.5 * p.grad / norm
        optimizer.zero_grad()
        by_hand.training_step([x]).backward()
        with torch.no_grad():
            for name, p in by_hand.named_parameters():
                p.copy_(kept[name])
        optimizer.step()
    assert (weights(module) - weights(by_hand)).abs().max() < 1e-12


def test_a_step_without_a_loss_is_left_out() -> None:
    class Skips(Net):
        def training_step(self, batch: Any, batch_idx: int) -> Tensor | None:  # type: ignore[override]
            loss = super().training_step(batch, batch_idx)
            return None if batch_idx == 1 else loss

    class Batches(pl.Callback):
        def __init__(self) -> None:
            self.ends: list[Tensor] = []

        def on_train_batch_end(self, trainer: Any, pl_module: Any, *_: Any) -> None:
            self.ends.append(weights(pl_module))

    torch.manual_seed(3)
    ends = Batches()
    with pytest.warns(UserWarning, match="returned `None`"):
        fit(Skips(make=lambda m: torch.optim.SGD(m.parameters(), lr=0.1)), ComponentCallback([Sam()]), ends)
    assert torch.equal(ends.ends[0], ends.ends[1])
    assert not torch.equal(ends.ends[1], ends.ends[2])


def test_the_second_pass_computes_as_the_trainer_does() -> None:
    seen: list[bool] = []

    class Sees(Net):
        def training_step(self, batch: Any, batch_idx: int) -> Tensor:
            seen.append(torch.is_autocast_enabled("cpu"))
            return super().training_step(batch, batch_idx)

    fit(Sees(), ComponentCallback([Sam()]), precision="bf16-mixed", epochs=1)
    assert seen == [True] * 8


# Evaluation weights and checkpoints


class Probe(pl.Callback):
    """The weights at the end of every batch."""

    def __init__(self) -> None:
        self.ends: list[Tensor] = []

    def on_train_batch_end(self, trainer: Any, pl_module: Any, *_: Any) -> None:
        self.ends.append(weights(pl_module))


def averaged(start: Tensor, ends: Sequence[Tensor], decay: float) -> list[Tensor]:
    """EMA without warm-up, by hand."""
    found, average = [], start
    for end in ends:
        average = decay * average + (1 - decay) * end
        found.append(average)
    return found


def test_ema_by_hand_evaluates_at_the_average_and_trains_as_without_it() -> None:
    probe, module, plain = Probe(), fresh(), fresh()
    fit(module, ComponentCallback([Ema(decay=0.7, warmup=False)]), probe, validate=True)
    fit(plain)
    expected = averaged(weights(fresh()), probe.ends, 0.7)
    assert torch.equal(probe.ends[-1], weights(plain))
    for seen, update in zip(module.evaluated, (3, 3, 3, 3, 7, 7, 7, 7), strict=True):
        assert (seen - expected[update]).abs().max() < 1e-12
    assert (weights(module) - expected[-1]).abs().max() < 1e-12  # what is kept


@pytest.mark.parametrize("kind", ["ema", "schedule_free"])
def test_a_checkpoint_has_the_trained_weights_and_those_that_are_evaluated(kind: str, tmp_path: Path) -> None:
    def free(model: nn.Module) -> torch.optim.Optimizer:
        return ScheduleFreeAdamW(model, lr=0.05)

    def make() -> tuple[Net, ComponentCallback]:
        if kind == "ema":
            return fresh(), ComponentCallback([Ema(decay=0.7)])
        return fresh(make=free), ComponentCallback()

    probe, (module, callback) = Probe(), make()
    saving = ModelCheckpoint(tmp_path, monitor="val/loss", mode="min", save_top_k=-1, filename="{epoch}")
    run = fit(module, callback, probe, saving, validate=True, enable_checkpointing=True, epochs=3)
    final = weights(module)
    state = torch.load(tmp_path / "epoch=0.ckpt", weights_only=False)
    names = [name for name, _ in module.named_parameters()]
    assert torch.equal(torch.cat([state["state_dict"][name].flatten() for name in names]), probe.ends[3])
    evaluated = torch.cat([state["trainlab_weights"]["evaluated"][name].flatten() for name in names])
    assert torch.equal(evaluated, module.evaluated[3])
    assert not torch.equal(evaluated, probe.ends[3])

    tested = make()[0]
    tested.test_step = tested.validation_step  # type: ignore[method-assign, assignment]
    trainer(make()[1]).test(tested, loader(), ckpt_path=tmp_path / "epoch=0.ckpt", verbose=False)
    assert all(torch.equal(seen, evaluated) for seen in tested.evaluated)
    module.evaluated.clear()
    run.validate(module, loader(), verbose=False)
    assert all(torch.equal(seen, final) for seen in module.evaluated)

    again, resumed = make()
    fit(again, resumed, validate=True, epochs=3, ckpt_path=tmp_path / "epoch=0.ckpt")
    assert torch.equal(weights(again), final)

    run.save_checkpoint(tmp_path / "final.ckpt")  # the module as it is, and what to go on from
    longer, more = make()
    fit(longer, more, validate=True, epochs=4, ckpt_path=tmp_path / "final.ckpt")
    whole, all_of_it = make()
    fit(whole, all_of_it, validate=True, epochs=4)
    assert torch.equal(weights(longer), weights(whole))


def test_a_checkpoint_saved_during_an_evaluation_resumes_exactly(tmp_path: Path) -> None:
    class Saves(pl.Callback):
        def on_validation_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
            if trainer.current_epoch == 0:
                trainer.save_checkpoint(tmp_path / "inside.ckpt")

    module, probe = fresh(), Probe()
    fit(module, ComponentCallback([Ema(decay=0.7)]), Saves(), probe, validate=True)
    state = torch.load(tmp_path / "inside.ckpt", weights_only=False)["state_dict"]
    names = [name for name, _ in module.named_parameters()]
    assert torch.equal(torch.cat([state[name].flatten() for name in names]), probe.ends[3])


def test_an_error_in_an_evaluation_does_not_save_its_weights(tmp_path: Path) -> None:
    class Breaks(Net):
        def validation_step(self, batch: Any, batch_idx: int) -> None:
            raise RuntimeError("broken")

    torch.manual_seed(3)
    module, probe = Breaks(), Probe()
    saving = ModelCheckpoint(tmp_path, save_on_exception=True, filename="broken")
    with pytest.raises(RuntimeError, match="broken"):
        fit(module, ComponentCallback([Ema(decay=0.9)]), probe, saving, validate=True, enable_checkpointing=True)
    (path,) = tmp_path.glob("*.ckpt")
    state = torch.load(path, weights_only=False)["state_dict"]
    names = [name for name, _ in module.named_parameters()]
    assert torch.equal(torch.cat([state[name].flatten() for name in names]), probe.ends[3])


def test_masks_survive_a_checkpoint_and_a_resume(tmp_path: Path) -> None:
    def make() -> tuple[Net, ComponentCallback]:
        pruning = MagnitudePruning(sparsity=0.7, begin=0.0, end=0.6, every=3)
        return fresh(make=lambda m: AdamW(m, lr=0.05)), ComponentCallback([pruning, Ema(decay=0.5)])

    module, callback = make()
    saving = ModelCheckpoint(tmp_path, save_top_k=-1, filename="{step}")
    fit(module, callback, saving, enable_checkpointing=True, epochs=3)
    dead = [int((p == 0).sum()) for p in module.net.parameters() if p.dim() == 2]
    assert sum(dead) == round(0.7 * 64)
    for path in sorted(tmp_path.glob("*.ckpt")):
        again, resumed = make()
        fit(again, resumed, epochs=3, ckpt_path=path)
        assert torch.equal(weights(again), weights(module)), path.name
    assert len(list(tmp_path.glob("*.ckpt"))) == 3


def test_one_callback_for_several_fits_begins_each_anew() -> None:
    callback = ComponentCallback([MagnitudePruning(sparsity=0.5, every=1), Ema(decay=0.5)])
    ends = []
    for _ in range(2):
        module = fresh()
        fit(module, callback)
        ends.append(weights(module))
    assert torch.equal(*ends)
    assert (ends[0] == 0).sum() >= 32


@pytest.mark.parametrize("evaluation", ["test", "validate"])
@pytest.mark.parametrize("component", [Ema(decay=0.999, warmup=False), MagnitudePruning(sparsity=0.8, every=2)])
def test_a_fit_after_a_checkpoint_was_evaluated_begins_anew_too(
    component: Component, evaluation: str, tmp_path: Path
) -> None:
    ends = []
    for evaluated in (False, True):
        callback = ComponentCallback([copy.deepcopy(component)])
        module = fresh()
        module.test_step = module.validation_step  # type: ignore[method-assign, assignment]
        first = fit(module, callback)
        first.save_checkpoint(tmp_path / "first.ckpt")
        if evaluated:
            getattr(first, evaluation)(module, loader(), ckpt_path=tmp_path / "first.ckpt", verbose=False)
        torch.manual_seed(4)
        another = Net()
        fit(another, callback, epochs=1)
        ends.append(weights(another))
    assert torch.equal(*ends)


def test_what_a_module_makes_in_its_setup_is_averaged() -> None:
    class Late(Net):
        def setup(self, stage: str) -> None:
            self.net.append(nn.Linear(3, 3).double())

    torch.manual_seed(3)
    module, ema = Late(), Ema(decay=0.5)
    fit(module, ComponentCallback([ema]))
    assert "net.4.weight" in ema.state_dict()["average"]


class Gan(pl.LightningModule):
    """Two optimizers, stepped by the module itself."""

    automatic_optimization = False

    def __init__(self) -> None:
        super().__init__()
        self.generator, self.critic = nn.Linear(5, 5).double(), nn.Linear(5, 1).double()

    def training_step(self, batch: Any) -> None:
        first, second = self.optimizers()  # type: ignore[misc]
        for optimizer, loss in (
            (first, -self.critic(self.generator(batch[0])).mean()),
            (second, (self.critic(self.generator(batch[0]).detach()) - self.critic(batch[0])).square().mean()),
        ):
            optimizer.zero_grad()
            self.manual_backward(loss)
            optimizer.step()

    def configure_optimizers(self) -> Any:
        return [torch.optim.SGD(part.parameters(), lr=0.1) for part in (self.generator, self.critic)]


def test_a_gan_that_steps_by_itself_is_averaged_once_a_batch_and_trains_as_without() -> None:
    torch.manual_seed(0)
    start = Gan()
    module, plain, probe, shares = copy.deepcopy(start), copy.deepcopy(start), Probe(), Shares()
    fit(module, ComponentCallback([Ema(decay=0.6, warmup=False), shares]), probe)
    fit(plain)
    assert torch.equal(probe.ends[-1], weights(plain))
    assert (weights(module) - averaged(weights(start), probe.ends, 0.6)[-1]).abs().max() < 1e-12
    assert shares.seen == [(i + 1, i / 8) for i in range(8)]  # batches that stepped, and batches of the budget
    refused("automatic_optimization=False", copy.deepcopy(start), ComponentCallback([Sam()]))
    refused("there are 2", copy.deepcopy(start), ComponentCallback([Cautious()]))


def test_updates_of_components_go_on_where_a_checkpoint_was_and_count_batches_that_stepped(tmp_path: Path) -> None:
    torch.manual_seed(0)
    start = Gan()
    shares, saving = Shares(), ModelCheckpoint(tmp_path, save_top_k=-1, filename="{epoch}")
    whole = copy.deepcopy(start)
    fit(whole, ComponentCallback([Ema(decay=0.9), shares]), saving, enable_checkpointing=True, epochs=3)
    assert [update for update, _ in shares.seen] == list(range(1, 13))
    again, after = copy.deepcopy(start), Shares()
    callback = ComponentCallback([Ema(decay=0.9), after])
    fit(again, callback, epochs=3, ckpt_path=tmp_path / "epoch=0.ckpt")
    assert [update for update, _ in after.seen] == list(range(5, 13))
    assert callback.updates == 12
    assert torch.equal(weights(again), weights(whole))


# The share of the budget


class Shares(Component):
    """Notes the progress of every update."""

    seen: list[tuple[int, float]]

    def prepare(self, model: nn.Module) -> None:
        self.seen = []

    def updated(self, oracle: Oracle, progress: Progress) -> dict[str, Tensor]:
        self.seen.append((progress.update, progress.fraction))
        return {}


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ({"epochs": 2}, [(i + 1, i / 8) for i in range(8)]),
        ({"epochs": -1, "max_steps": 5}, [(i + 1, i / 5) for i in range(5)]),
        ({"epochs": 2, "accumulate_grad_batches": 2}, [(i + 1, i / 4) for i in range(4)]),
    ],
)
def test_the_fraction_is_of_the_trainers_own_budget(words: dict[str, Any], expected: list[tuple[int, float]]) -> None:
    shares = Shares()
    fit(fresh(), ComponentCallback([shares]), **words)
    assert shares.seen == expected


def test_seconds_are_a_budget_too() -> None:
    shares = Shares()
    fit(fresh(), ComponentCallback([shares]), epochs=-1, max_time={"seconds": 1})
    fractions = [fraction for _, fraction in shares.seen]
    assert fractions == sorted(fractions)
    assert fractions[0] < 0.3
    assert 0.8 < fractions[-1] <= 1.0


def test_the_fraction_may_be_another_ones() -> None:
    shares, clock = Shares(), iter([0.0, 0.2, 0.5, 0.9])
    fit(fresh(), ComponentCallback([shares], fraction=lambda: next(clock)), epochs=1)
    assert shares.seen == [(1, 0.0), (2, 0.2), (3, 0.5), (4, 0.9)]


def test_an_endless_trainer_is_told_only_where_the_fraction_is_asked_for() -> None:
    class Stops(pl.Callback):
        def on_train_batch_end(self, trainer: pl.Trainer, *_: Any) -> None:
            trainer.should_stop = trainer.global_step >= 3

    fit(fresh(), ComponentCallback([Ema()]), Stops(), epochs=-1)
    with pytest.raises(InputError, match="no end; give the Trainer max_steps"):
        fit(fresh(), ComponentCallback([MagnitudePruning()]), Stops(), epochs=-1)


# Refused


def refused(match: str, module: pl.LightningModule, *callbacks: pl.Callback, **words: Any) -> None:
    with pytest.raises(InputError, match=match) as caught:
        fit(module, *callbacks, **words)
    assert "\n" not in str(caught.value)
    assert ";" in str(caught.value)


class Manual(Net):
    automatic_optimization = False

    def training_step(self, batch: Any, batch_idx: int) -> None:  # type: ignore[override]
        raise AssertionError


class FromIterator(Net):
    def training_step(self, dataloader_iter: Any) -> Tensor:  # type: ignore[override]
        raise AssertionError


@pytest.mark.parametrize("component", [Sam(), Clipping()])
def test_gradients_cannot_be_changed_where_they_are_not_the_whole_batchs(component: Component) -> None:
    from lightning.pytorch.callbacks import GradientAccumulationScheduler
    from lightning.pytorch.plugins.precision import MixedPrecision

    callback = ComponentCallback([component])
    refused("accumulate_grad_batches=2 hands it one micro-batch", fresh(), callback, accumulate_grad_batches=2)
    refused("GradientAccumulationScheduler", fresh(), GradientAccumulationScheduler({1: 2}), callback)
    scaler = MixedPrecision("16-mixed", "cpu", torch.amp.GradScaler("cpu"))
    refused("fp16 scaler", fresh(), callback, plugins=[scaler])
    refused("automatic_optimization=False", Manual(), callback)
    with pytest.warns(UserWarning, match="Here be dragons"):
        refused("dataloader_iter", FromIterator(), callback)
    lbfgs = fresh(make=lambda m: torch.optim.LBFGS(m.parameters()))
    refused("LBFGS asks its closure for several", lbfgs, callback)


def test_an_optimizer_that_asks_its_closure_twice_is_found_out() -> None:
    class Twice(torch.optim.SGD):
        def step(self, closure: Any = None) -> Any:
            closure()
            return super().step(closure)

    module = fresh(make=lambda m: Twice(m.parameters(), lr=0.1))
    refused("Twice asks its closure for several", module, ComponentCallback([Sam()]))


def test_clipping_twice_is_refused_and_other_components_may_be_clipped() -> None:
    refused("would clip twice", fresh(), ComponentCallback([Clipping()]), gradient_clip_val=0.5)
    fit(fresh(), ComponentCallback([Sam()]), gradient_clip_val=0.5, epochs=1)


def test_directions_that_an_optimizer_does_not_show_are_refused() -> None:
    module = fresh(make=lambda m: torch.optim.AdamW(m.parameters()))
    refused("torch's AdamW does not show them: .*tl.optimizer\\(self, 'adamw'", module, ComponentCallback([Cautious()]))


def test_schedule_free_needs_no_statistics_no_average_and_whole_checkpoints(tmp_path: Path) -> None:
    def free(model: nn.Module) -> torch.optim.Optimizer:
        return ScheduleFreeAdamW(model)

    refused("collects no BatchNorm statistics", fresh(make=free, norm=True), ComponentCallback())
    refused("leave the averaging wrapper out", fresh(make=free), ComponentCallback([Ema()]))
    saving = ModelCheckpoint(tmp_path, save_weights_only=True)
    words = {"enable_checkpointing": True}
    refused("save_weights_only", fresh(make=free), ComponentCallback(), saving, **words)
    refused("save_weights_only", fresh(), ComponentCallback([Ema()]), saving, **words)


def test_forgetting_to_switch_is_seen_by_whoever_sees_an_evaluation() -> None:
    class Sees(pl.Callback):
        def on_validation_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
            check_evaluation_weights(trainer)

    def free(model: nn.Module) -> torch.optim.Optimizer:
        return ScheduleFreeAdamW(model)

    fit(fresh(), Sees(), validate=True)
    fit(fresh(make=free), Sees(), ComponentCallback(), validate=True)
    with pytest.raises(InputError, match=r"nothing switches to them; add tl.callback\(\)"):
        fit(fresh(make=free), Sees(), validate=True)


# Optimizers that need more than a gradient


def curved(make: Make) -> tuple[list[Tensor], int]:
    """Weights after the updates of a fit with curvature from the callback, and the gradients that it caused."""
    torch.manual_seed(3)
    module, callback = fresh(make=make), ComponentCallback()
    torch.manual_seed(7)
    fit(module, callback, epochs=1)
    return [p.detach().clone() for p in module.parameters()], callback.gradients


def test_curvature_comes_from_the_callback_and_equals_a_gradient_with_its_graph() -> None:
    """The same signs are drawn (same seed, same order), so the steps are equal."""

    class Graphed(Net):
        def backward(self, loss: Tensor, *_: Any, **__: Any) -> None:
            grads = torch.autograd.grad(loss, list(self.net.parameters()), create_graph=True)
            for param, grad in zip(self.net.parameters(), grads, strict=True):
                param.grad = grad

    def make(model: nn.Module) -> torch.optim.Optimizer:
        return AdaHessian(model, lr=0.1, update_period=2)

    found, caused = curved(make)
    torch.manual_seed(2)
    module = Graphed(make)
    start = [p.detach().clone() for p in fresh(make=make).parameters()]
    module.load_state_dict(fresh(make=make).state_dict())
    torch.manual_seed(7)
    callback = ComponentCallback()
    fit(module, callback, epochs=1)
    assert callback.gradients == 0
    assert caused > 0
    assert caused % 2 == 0
    for one, other, before in zip(found, module.parameters(), start, strict=True):
        torch.testing.assert_close(one, other.detach(), rtol=1e-9, atol=1e-12)
        assert not torch.equal(one, before)


def test_curvature_that_is_not_the_whole_batch_s_is_refused() -> None:
    from lightning.pytorch.plugins.precision import MixedPrecision

    def make(**hyper: Any) -> Make:
        return lambda model: Sophia(model, **hyper)

    refused("needs the gradient's curvature, and accumulate_grad_batches=2", fresh(make=make()), ComponentCallback(),
            accumulate_grad_batches=2)  # fmt: skip
    scaler = MixedPrecision("16-mixed", "cpu", torch.amp.GradScaler("cpu"))
    refused("needs the gradient's curvature, and the fp16 scaler", fresh(make=make()), ComponentCallback(),
            plugins=[scaler])  # fmt: skip
    module = fresh(make=make(estimator="gauss_newton"))
    refused("asks for the Gauss-Newton matrix, .*give estimator=hutchinson", module, ComponentCallback())
    with pytest.raises(InputError, match=r"no graph to take it from; .*add tl.callback\(\)"):
        fit(fresh(make=make()))


def test_lightning_s_own_closure_serves_l_bfgs_as_torch_s() -> None:
    ended = []
    for make in (LBFGS, lambda model: torch.optim.LBFGS(model.parameters(), line_search_fn="strong_wolfe")):
        module = fresh(make=make)
        fit(module, ComponentCallback(), epochs=1)
        ended.append([p.detach() for p in module.parameters()])
        assert len(module.losses) > 3 * module.trainer.global_step
    for one, other in zip(*ended, strict=True):
        assert torch.equal(one, other)


def test_a_line_search_over_changed_gradients_is_refused() -> None:
    for said, words in (("would add them up", {"accumulate_grad_batches": 2}),
                        ("would change each of them", {"gradient_clip_val": 1.0})):  # fmt: skip
        refused(f"LBFGS asks for several gradients in one update, and .*{said}", fresh(make=LBFGS),
                ComponentCallback(), **words)  # fmt: skip
