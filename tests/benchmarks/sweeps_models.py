"""The hand-written sweep of `sweeps_peer` with larger models, where training together does not pay: the same modules as
ours, on the same data, under Optuna, Lightning and MLFlowLogger."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import optuna
import torch
from lightning.pytorch.loggers import MLFlowLogger
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

#: What -> settings of a run, as ours takes them.
CASES: dict[str, dict[str, Any]] = {
    "a ResNet on the digits' images": {
        "task": "digits", "model": {"name": "resnet", "width": 32, "stages": 2}, "batch_size": 64, "updates": 80,
        "evaluate_every": 40,
    },
    "a transformer on Python's documentation": {
        "task": "python_docs", "model": {"name": "gpt", "width": 128, "depth": 2, "heads": 4}, "batch_size": 8,
        "updates": 60, "evaluate_every": 60,
    },
}  # fmt: skip


class Net(pl.LightningModule):
    """Any model that predicts classes."""

    def __init__(self, model: nn.Module, lr: float, weight_decay: float):
        super().__init__()
        self.save_hyperparameters(ignore=["model"])
        self.model = model

    def _loss(self, batch: Any) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        predictions = self.model(batch[0])
        predictions, targets = predictions.reshape(-1, predictions.shape[-1]), batch[1].reshape(-1)
        return nn.functional.cross_entropy(predictions, targets), predictions, targets

    def training_step(self, batch: Any, batch_idx: int) -> torch.Tensor:
        loss = self._loss(batch)[0]
        self.log("train_loss", loss)
        return loss

    def validation_step(self, batch: Any, batch_idx: int) -> None:
        loss, predictions, targets = self._loss(batch)
        self.log("val_loss", loss)
        self.log("val_acc", (predictions.argmax(-1) == targets).float().mean())

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(
            self.parameters(), lr=self.hparams["lr"], weight_decay=self.hparams["weight_decay"], fused=True
        )


def sweep(config: Mapping[str, Any], trials: int, updates: int, folder: Path) -> None:
    """The study."""
    from algos import catalogue
    from experiments.training import load_data

    data = load_data(config["task"], None)
    train, held = _loaders(data, config["batch_size"], updates)
    model = dict(config["model"])
    build = catalogue.load("architectures", model.pop("name")).build

    def objective(trial: optuna.Trial) -> float:
        lr = trial.suggest_float("lr", 1e-4, 1e-1, log=True)
        weight_decay = trial.suggest_float("weight_decay", 1e-4, 1e-1, log=True)
        pl.seed_everything(trial.number, verbose=False)
        logger = MLFlowLogger("models", run_name=f"{trial.number}", tracking_uri=f"sqlite:///{folder / 'mlflow.db'}")
        trainer = pl.Trainer(
            accelerator="cpu", logger=logger, max_steps=updates, check_val_every_n_epoch=None,
            val_check_interval=min(config["evaluate_every"], updates), log_every_n_steps=10,
            enable_progress_bar=False, enable_model_summary=False, default_root_dir=folder,
        )  # fmt: skip
        trainer.fit(Net(build(data.signature, **model), lr, weight_decay), train, held)
        return float(trainer.callback_metrics["val_loss"])

    study = optuna.create_study(
        storage=f"sqlite:///{folder / 'optuna.db'}", sampler=optuna.samplers.RandomSampler(seed=1)
    )
    study.optimize(objective, n_trials=trials)


def _loaders(data: Any, batch_size: int, updates: int) -> tuple[DataLoader[Any], DataLoader[Any]]:
    """As many training rows as the updates need, and the validation split in our batches."""
    source = data.training(batch_size, 1, torch.device("cpu"))
    parts = [source.next() for _ in range(updates)]
    rows = TensorDataset(torch.cat([part.inputs[0] for part in parts]), torch.cat([part.targets for part in parts]))
    held = [(part.inputs[0], part.targets) for part in data.evaluation("validation", torch.device("cpu"))]
    return DataLoader(rows, batch_size, shuffle=True), DataLoader(held, batch_size=None)  # type: ignore[arg-type]
