"""A precision of the catalogue in Lightning: autocast is on in the forward pass, and nowhere else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import pytest
import torch
from lightning.pytorch.demos.boring_classes import BoringModel

from algos.finding import InputError
from algos.optimizers.adamw import AdamW
from algos.optimizers.lbfgs import LBFGS
from experiments.modules.precision import plugin


class Watched(BoringModel):
    """Notes where autocast is on."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: dict[str, set[Any]] = {}

    def note(self, where: str) -> None:
        on = torch.is_autocast_enabled("cpu")
        self.seen.setdefault(where, set()).add(torch.get_autocast_dtype("cpu") if on else False)

    def training_step(self, batch: Any, batch_idx: int) -> Any:
        self.note("training_step")
        (on,) = self.seen["training_step"]
        assert self.layer(batch).dtype == (on or torch.float32)
        return super().training_step(batch, batch_idx)

    def validation_step(self, batch: Any, batch_idx: int) -> Any:
        self.note("validation_step")
        return super().validation_step(batch, batch_idx)

    def backward(self, loss: torch.Tensor, *rest: Any, **more: Any) -> None:
        self.note("backward")
        super().backward(loss, *rest, **more)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        note = self.note

        class Watching(torch.optim.SGD):
            def step(self, closure: Any = None) -> Any:
                if closure is not None:  # a scaler has called it
                    closure()
                note("optimizer")
                return super().step()

        return Watching(self.parameters(), lr=0.1)


def fit(name: str, module: BoringModel, **hyper: Any) -> pl.Trainer:
    trainer = pl.Trainer(
        max_steps=3, limit_val_batches=1, num_sanity_val_steps=0, logger=False, enable_checkpointing=False,
        val_check_interval=2, enable_progress_bar=False, enable_model_summary=False, accelerator="cpu",
        plugins=[plugin(name, **hyper)],
    )  # fmt: skip
    trainer.fit(module)
    return trainer


@pytest.mark.filterwarnings("ignore:The '.*_dataloader' does not have many workers")
@pytest.mark.parametrize(
    ("name", "on", "called"),
    [("bf16", torch.bfloat16, "bf16-mixed"), ("fp16", torch.float16, "16-mixed"), ("fp32", False, "32-true")],
)
def test_only_the_forward_pass_is_under_autocast(name: str, on: Any, called: str) -> None:
    torch.manual_seed(0)  # with some weights float16 overflows at the scale it begins with, three times on end
    module = Watched()
    trainer = fit(name, module)
    assert module.seen == {"training_step": {on}, "validation_step": {on}, "backward": {False}, "optimizer": {False}}
    assert trainer.precision == called
    assert module.layer.weight.dtype == torch.float32


def test_wrong_names_are_told() -> None:
    with pytest.raises(InputError, match="did you mean 'bf16'"):
        plugin("bf-16")
    with pytest.raises(InputError, match="unknown hyperparameter"):
        plugin("bf16", scale=2)


class Overflows(BoringModel):
    """Its gradient is not finite in the second batch."""

    def __init__(self, make: Any = None) -> None:
        super().__init__()
        self.make = make or (lambda params: AdamW(params, lr=0.1))
        self.weights: list[torch.Tensor] = []

    def training_step(self, batch: Any, batch_idx: int) -> Any:
        return {"loss": self.layer(batch).float().square().mean() * (torch.inf if batch_idx == 1 else 1.0)}

    def on_train_batch_end(self, *_: Any) -> None:
        self.weights.append(self.layer.weight.detach().clone())

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return self.make(self.layer.parameters())


@pytest.mark.filterwarnings("ignore:The '.*_dataloader' does not have many workers")
def test_fp16_has_a_real_scaler_on_the_cpu_that_skips_what_is_not_finite_and_is_saved(tmp_path: Path) -> None:
    module = Overflows()
    trainer = fit("fp16", module, init_scale=256.0)
    scaler: Any = trainer.precision_plugin.scaler
    assert isinstance(scaler, torch.amp.GradScaler)
    assert scaler.is_enabled()
    assert scaler.get_scale() == 128, "one skip halves it"
    first, second, third = module.weights
    assert torch.equal(first, second)
    assert not torch.equal(second, third)
    optimizer: Any = trainer.optimizers[0]
    assert int(optimizer.state[module.layer.weight]["step"]) == 2
    trainer.save_checkpoint(tmp_path / "saved.ckpt")
    (saved,) = [v for k, v in torch.load(tmp_path / "saved.ckpt")["ScaledPrecision"].items() if k == "scale"]
    assert saved == 128


@pytest.mark.filterwarnings("ignore:The '.*_dataloader' does not have many workers")
def test_fp16_refuses_an_optimizer_that_needs_a_closure() -> None:
    for make in (LBFGS, torch.optim.LBFGS):
        with pytest.raises(InputError, match="LBFGS asks for several gradients in one update, and fp16's scaling"):
            fit("fp16", Overflows(make))
