"""Every optimizer from an ordinary LightningModule (`tl.optimizer` in configure_optimizers) under Lightning's Trainer:
a plain torch loop bit for bit, in every precision, accumulating and clipping; counted, resumed, evaluated, refused.

SAM, the averages' checkpoints and what else components do there is in test_components.py and test_wrappers.py.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import pytest
import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

import trainlab as tl
from algos import catalogue
from algos.curvature import signs
from algos.finding import InputError

pytestmark = [
    pytest.mark.filterwarnings("ignore:You defined a `validation_step` but have no `val_dataloader`"),
    pytest.mark.filterwarnings("ignore:The number of training batches .* is smaller than the logging interval"),
    pytest.mark.filterwarnings("ignore:Be aware that when using `ckpt_path`"),
    pytest.mark.filterwarnings("ignore:.isinstance.treespec, LeafSpec."),
]

NAMES = tuple(catalogue.paths("optimizers"))


def needing(what: str) -> tuple[str, ...]:
    return tuple(name for name in NAMES if what in catalogue.describe("optimizers", name).needs)


CLOSED, CURVED = needing("closure"), needing("curvature")
AVERAGED = ("schedule_free_adamw", "schedule_free_sgd")
OPEN = tuple(name for name in NAMES if name not in CLOSED)
ACCUMULATING = tuple(name for name in OPEN if name not in CURVED)
DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}
#: 22 examples in batches of 4: five of four and one of two, and with three an update the second has ten.
EPOCHS, BATCHES = 2, 6


class Net(pl.LightningModule):
    """As a researcher would write it."""

    def __init__(self, name: str, norm: bool = False, **hyper: Any):
        super().__init__()
        torch.manual_seed(3)
        norms: list[nn.Module] = [nn.BatchNorm1d(8)] if norm else [nn.LayerNorm(8)]
        self.net = nn.Sequential(nn.Linear(5, 8), *norms, nn.Tanh(), nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 3))
        # At its default rate a line search without bounds runs off on some machines.
        self.name, self.hyper = name, {**({"lr": 0.05} if name == "lbfgs" else {}), **hyper}
        self.evaluated: list[Tensor] = []

    def training_step(self, batch: Any, batch_idx: int) -> Tensor:
        return F.cross_entropy(self.net(batch[0]), batch[1])

    def validation_step(self, batch: Any, batch_idx: int) -> None:
        self.evaluated.append(flat(self))

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return tl.optimizer(self, self.name, **self.hyper)


class Seeds(pl.Callback):
    """Lightning keeps no random state in its checkpoints: probes are drawn from the update's own seed."""

    def on_train_batch_start(self, trainer: pl.Trainer, *_: Any) -> None:
        torch.manual_seed(trainer.global_step)


class Ends(pl.Callback):
    """The weights after every batch."""

    def __init__(self) -> None:
        self.seen: list[Tensor] = []

    def on_train_batch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule, *_: Any) -> None:
        self.seen.append(flat(pl_module))


def flat(module: nn.Module) -> Tensor:
    return torch.cat([param.detach().flatten() for param in module.parameters()])


def loader(broken: int | None = None) -> DataLoader[Any]:
    """broken: a batch whose inputs are infinite."""
    generator = torch.Generator().manual_seed(0)
    x, y = torch.randn(22, 5, generator=generator), torch.randint(0, 3, (22,), generator=generator)
    if broken is not None:
        x[4 * broken : 4 * broken + 4] = torch.inf
    return DataLoader(TensorDataset(x, y), batch_size=4)


def fit(module: Net, *callbacks: pl.Callback, **words: Any) -> pl.Trainer:
    """With `tl.callback()` where the optimizer needs it."""
    path, validate, broken = words.pop("ckpt_path", None), words.pop("validate", False), words.pop("broken", None)
    more = [tl.callback()] if module.name in (*CURVED, *AVERAGED) else []
    quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False, "max_epochs": EPOCHS}
    made = pl.Trainer(
        accelerator="cpu", enable_model_summary=False, num_sanity_val_steps=0,
        callbacks=[Seeds(), *more, *callbacks], **{**quiet, **words},
    )  # fmt: skip
    made.fit(module, loader(broken), loader() if validate else None, ckpt_path=path)
    return made


def autocast(precision: str) -> AbstractContextManager[Any]:
    return torch.autocast("cpu", dtype=DTYPES[precision]) if precision in DTYPES else nullcontext()


def by_hand(
    module: Net, precision: str = "fp32", accumulate: int = 1, clip: float | None = None, broken: int | None = None
) -> Any:
    """The loop that anybody would write; returns its optimizer. As Lightning does, each micro-batch counts 1/accumulate
    whatever its size, and an epoch's last update has what is left."""
    model: nn.Module = module.net
    optimizer: Any = tl.optimizer(module, module.name, **module.hyper)
    scaler = torch.amp.GradScaler("cpu", init_scale=256.0) if precision == "fp16" else None
    updates = 0
    for _ in range(EPOCHS):
        for index, (x, y) in enumerate(loader(broken)):

            def closure(x: Tensor = x, y: Tensor = y, first: bool = index % accumulate == 0) -> Tensor:
                if first:
                    optimizer.zero_grad()
                with autocast(precision):
                    loss = F.cross_entropy(model(x), y) / accumulate
                (loss if scaler is None else scaler.scale(loss)).backward()
                return loss

            torch.manual_seed(updates)
            if module.name in CLOSED:
                optimizer.step(closure)
                updates += 1
                continue
            closure()
            if (index + 1) % accumulate and index + 1 < BATCHES:
                continue
            if getattr(optimizer, "wants_curvature", False):
                observe(optimizer, model, x, y, precision)
            if scaler is not None:
                scaler.unscale_(optimizer)
            if clip is not None:
                torch.nn.utils.clip_grad_norm_([p for each in optimizer.param_groups for p in each["params"]], clip)
            if scaler is None:
                optimizer.step()
            else:
                scaler.step(optimizer)
                scaler.update()
            updates += 1
    return optimizer


def observe(optimizer: Any, model: nn.Module, x: Tensor, y: Tensor, precision: str) -> None:
    """Hutchinson's estimate by hand."""
    params = list(model.parameters())
    probes = [signs(param) for param in params]
    with autocast(precision):
        loss = F.cross_entropy(model(x), y)
    slope = torch.autograd.grad(loss, params, create_graph=True)
    products = torch.autograd.grad(slope, params, probes, materialize_grads=True)
    optimizer.observe_curvature(
        {param: probe * product for param, probe, product in zip(params, probes, products, strict=True)}
    )


def precision_words(precision: str) -> dict[str, Any]:
    hyper = {"init_scale": 256.0} if precision == "fp16" else {}
    return {} if precision == "fp32" else {"plugins": [tl.precision(precision, **hyper)]}


def refused(match: str, module: Net, *callbacks: pl.Callback, **words: Any) -> None:
    with pytest.raises(InputError, match=match) as caught:
        fit(module, *callbacks, **words)
    assert "\n" not in str(caught.value)


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["fp32", "bf16", "fp16"])
@pytest.mark.parametrize("name", NAMES)
def test_a_module_is_trained_as_in_a_plain_torch_loop_bit_for_bit(name: str, precision: str) -> None:
    """In fp16 beside torch's own GradScaler. One optimizer that counts one update a batch, whatever its groups."""
    module, plain = Net(name), Net(name)
    if precision == "fp16" and name not in ACCUMULATING:
        said = "asks for several gradients" if name in CLOSED else "needs the gradient's curvature, and the fp16 scaler"
        refused(said, module, **precision_words(precision))
        return
    trainer = fit(module, **precision_words(precision))
    optimizer = by_hand(plain, precision)
    assert trainer.global_step == EPOCHS * BATCHES
    assert len(trainer.optimizers) == 1
    with optimizer.evaluating() if name in AVERAGED else nullcontext():  # what the callback leaves in the module
        assert torch.equal(flat(module), flat(plain))
        assert not torch.equal(flat(plain), flat(Net(name)))


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["fp32", "bf16", "fp16"])
@pytest.mark.parametrize("name", NAMES)
def test_accumulation_and_clipping_are_of_the_whole_update(name: str, precision: str) -> None:
    """Lightning's own: three batches an update, the last one smaller; the sum of their gradients is clipped, once, and
    unscaled before. Refused where an optimizer asks for more than that gradient."""
    module, plain = Net(name), Net(name)
    words = {"accumulate_grad_batches": 3, "gradient_clip_val": 0.05, **precision_words(precision)}
    if name not in ACCUMULATING:
        said = "asks for several gradients" if name in CLOSED else "needs the gradient's curvature, and accumulate_grad"
        refused(said, module, **words)
        return
    trainer = fit(module, **words)
    optimizer = by_hand(plain, precision, 3, 0.05)
    assert trainer.global_step == EPOCHS * BATCHES // 3
    with optimizer.evaluating() if name in AVERAGED else nullcontext():
        assert torch.equal(flat(module), flat(plain))


@pytest.mark.parametrize("name", CURVED)
def test_curvature_goes_with_the_clipped_gradient(name: str) -> None:
    module, plain = Net(name), Net(name)
    fit(module, gradient_clip_val=0.05)
    by_hand(plain, clip=0.05)
    assert torch.equal(flat(module), flat(plain))


@pytest.mark.parametrize("name", ACCUMULATING)
def test_an_update_that_is_not_finite_touches_nothing(name: str) -> None:
    """fp16, one epoch, its third batch infinite: the weights and the optimizer's state are what they were before, and
    the update is counted."""
    states: list[Any] = []

    class States(pl.Callback):
        def on_train_batch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule, *_: Any) -> None:
            states.append(copy.deepcopy([flat(pl_module), trainer.optimizers[0].state_dict()]))

    trainer = fit(Net(name), States(), broken=2, max_epochs=1, **precision_words("fp16"))
    assert trainer.global_step == BATCHES
    assert _equal(states[1], states[2])
    assert not _equal(states[2][1], states[3][1])
    assert all(bool(weights.isfinite().all()) for weights, _ in states)


def _equal(one: Any, other: Any) -> bool:
    if isinstance(one, Tensor):
        return torch.equal(one, other)
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(_equal(one[key], other[key]) for key in one)
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(_equal, one, other))
    return bool(one == other)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "precision"), [*((name, "fp32") for name in NAMES), *((name, "fp16") for name in ACCUMULATING)]
)
def test_a_fit_goes_on_bit_for_bit_from_lightnings_checkpoint(name: str, precision: str, tmp_path: Path) -> None:
    """ckpt_path: the optimizer's state_dict and the scaler's go through Lightning, after the first of three epochs."""
    words: dict[str, Any] = {"max_epochs": 3}
    saving = ModelCheckpoint(tmp_path, save_top_k=-1, filename="{epoch}")
    whole, again = Net(name), Net(name)
    first = fit(whole, saving, enable_checkpointing=True, **words, **precision_words(precision))
    with torch.no_grad():
        for param in again.parameters():
            param.zero_()
    second = fit(again, ckpt_path=tmp_path / "epoch=0.ckpt", **words, **precision_words(precision))
    assert torch.equal(flat(again), flat(whole))
    assert second.global_step == first.global_step == 3 * BATCHES
    assert _equal(second.optimizers[0].state_dict(), first.optimizers[0].state_dict())


# Evaluation weights


@pytest.mark.parametrize("name", AVERAGED)
def test_schedule_free_is_evaluated_at_its_average_and_checkpointed_where_it_trains(name: str, tmp_path: Path) -> None:
    saving, ends = ModelCheckpoint(tmp_path, save_top_k=-1, filename="{epoch}"), Ends()
    module, plain = Net(name), Net(name)
    fit(module, saving, ends, enable_checkpointing=True, validate=True)
    optimizer = by_hand(plain)
    names = [key for key, _ in module.named_parameters()]
    saved = torch.load(tmp_path / "epoch=1.ckpt", weights_only=False)
    trained, evaluated = (
        torch.cat([state[key].flatten() for key in names])
        for state in (saved["state_dict"], saved["trainlab_weights"]["evaluated"])
    )
    assert torch.equal(trained, flat(plain))
    assert torch.equal(ends.seen[-1], flat(plain))
    with optimizer.evaluating():
        assert torch.equal(evaluated, flat(plain))
        assert torch.equal(module.evaluated[-1], flat(plain))
    assert not torch.equal(trained, evaluated)


def _mean(weights: Sequence[Tensor]) -> Tensor:
    return torch.stack(list(weights)).mean(0)


@pytest.mark.parametrize(
    ("wrapper", "hyper", "averaged"),
    [
        ("swa", {"start": 0.4, "every": 2}, lambda w: _mean(w[6::2])),  # from update 6 (begun at 5/12) every two
        ("lawa", {"k": 2, "every": 3}, lambda w: _mean([w[9], w[12]])),
    ],
)
def test_averages_by_hand_are_evaluated_kept_and_checkpointed(
    wrapper: str, hyper: dict[str, Any], averaged: Any, tmp_path: Path
) -> None:
    """ema and lookahead stand in test_components.py and below."""
    saving, ends = ModelCheckpoint(tmp_path, save_top_k=-1, filename="{epoch}"), Ends()
    module, start = Net("adamw"), flat(Net("adamw"))
    fit(module, tl.callback(wrapper, **hyper), saving, ends, enable_checkpointing=True, validate=True)
    expected = averaged([start, *ends.seen])
    torch.testing.assert_close(module.evaluated[-1], expected, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(flat(module), expected, rtol=1e-5, atol=1e-6)
    saved = torch.load(tmp_path / "epoch=1.ckpt", weights_only=False)["state_dict"]
    assert torch.equal(torch.cat([saved[key].flatten() for key, _ in module.named_parameters()]), ends.seen[-1])
    plain = Net("adamw")
    by_hand(plain)
    assert torch.equal(ends.seen[-1], flat(plain)), "an average changes no training"


def test_lookahead_by_hand() -> None:
    ends, module, plain = Ends(), Net("sgd"), Net("sgd")
    fit(module, tl.callback("lookahead", k=5, alpha=0.5), ends, validate=True)
    optimizer = tl.optimizer(plain, "sgd")
    slow = flat(plain)
    for update, (x, y) in enumerate([*loader(), *loader()], start=1):
        optimizer.zero_grad()
        F.cross_entropy(plain.net(x), y).backward()
        optimizer.step()
        if update % 5 == 0:
            slow = slow + 0.5 * (flat(plain) - slow)
            torch.nn.utils.vector_to_parameters(slow.clone(), plain.parameters())
        torch.testing.assert_close(ends.seen[update - 1], flat(plain), rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(module.evaluated[-1], slow, rtol=1e-5, atol=1e-6)
    assert (slow - flat(plain)).abs().max() > 1e-4


# Refused, also where nothing of ours stands beside the Trainer


def test_a_line_search_is_refused_where_lightnings_closure_would_mislead_it() -> None:
    refused("accumulate_grad_batches=3 would add them up", Net("lbfgs"), accumulate_grad_batches=3)
    refused("gradient_clip_val=0.5 would change each of them", Net("lbfgs"), gradient_clip_val=0.5)
    refused("fp16's scaling may make any of them infinite", Net("lbfgs"), **precision_words("fp16"))


def test_nothing_that_would_switch_to_the_evaluation_weights_is_told() -> None:
    class Forgets(Net):
        def configure_optimizers(self) -> torch.optim.Optimizer:
            return tl.optimizer(self, "schedule_free_adamw")

    refused(r"nothing switches to them; add tl.callback\(\)", Forgets("forgets"), validate=True)
    refused("collects no BatchNorm statistics", Net("schedule_free_adamw", norm=True))


@pytest.mark.parametrize("name", CURVED)
def test_curvature_without_a_callback_is_told(name: str) -> None:
    class Forgets(Net):
        def configure_optimizers(self) -> torch.optim.Optimizer:
            return tl.optimizer(self, name)

    refused(r"no graph to take it from; .*add tl.callback\(\)", Forgets("forgets"))
