"""A precision of the catalogue in Lightning: autocast is on in the forward pass, and nowhere else."""

from __future__ import annotations

from typing import Any

import lightning.pytorch as pl
import pytest
import torch
from lightning.pytorch.demos.boring_classes import BoringModel

from algos.finding import InputError
from experiments.modules.precision import plugin


class Watched(BoringModel):
    """Notes where autocast is on."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: dict[str, set[bool]] = {}

    def note(self, where: str) -> None:
        self.seen.setdefault(where, set()).add(torch.is_autocast_enabled("cpu"))

    def training_step(self, batch: Any, batch_idx: int) -> Any:
        self.note("training_step")
        assert self.layer(batch).dtype == (torch.bfloat16 if torch.is_autocast_enabled("cpu") else torch.float32)
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
                closure()
                note("optimizer")
                return super().step()

        return Watching(self.parameters(), lr=0.1)


def fit(name: str, module: BoringModel) -> pl.Trainer:
    trainer = pl.Trainer(
        max_steps=3, limit_val_batches=1, num_sanity_val_steps=0, logger=False, enable_checkpointing=False,
        val_check_interval=2, enable_progress_bar=False, enable_model_summary=False, accelerator="cpu",
        plugins=[plugin(name)],
    )  # fmt: skip
    trainer.fit(module)
    return trainer


@pytest.mark.filterwarnings("ignore:The '.*_dataloader' does not have many workers")
@pytest.mark.parametrize(("name", "on", "called"), [("bf16", True, "bf16-mixed"), ("fp32", False, "32-true")])
def test_only_the_forward_pass_is_under_autocast(name: str, on: bool, called: str) -> None:
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
