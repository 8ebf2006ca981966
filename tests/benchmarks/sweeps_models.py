"""The hand-written sweep of `sweeps_peer` with larger models, where training together does not pay: the same modules as
ours, on the same data, at the same rates, under Optuna, Lightning and MLFlowLogger.

The rates are ours because they decide what an update costs: at a rate of 0.1 one of the transformer's takes twice as
long as at 0.001, in plain torch too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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

    test_step = validation_step

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(
            self.parameters(), lr=self.hparams["lr"], weight_decay=self.hparams["weight_decay"], fused=True
        )


def sweep(
    config: Mapping[str, Any], chosen: Sequence[tuple[float, float]], updates: int, folder: Path, *, whole: bool = False
) -> None:
    """The study. chosen: (lr, weight_decay) of each run. whole: evaluated as ours is, before the first update (by the
    whole split, where Lightning takes two batches) and, the last run, on the test split."""
    from algos import catalogue
    from experiments.training import load_data

    data = load_data(config["task"], None)
    train = _training(data, config["batch_size"], updates)
    held, test = (_evaluation(data, split) for split in ("validation", "test"))
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
            num_sanity_val_steps=-1 if whole else 2,
        )  # fmt: skip
        net = Net(build(data.signature, **model), lr, weight_decay)
        trainer.fit(net, train, held)
        loss = float(trainer.callback_metrics["val_loss"])
        if whole and trial.number == len(chosen) - 1:
            trainer.test(net, test, verbose=False)
        return loss

    study = optuna.create_study(
        storage=f"sqlite:///{folder / 'optuna.db'}", sampler=optuna.samplers.RandomSampler(seed=1)
    )
    for lr, weight_decay in chosen:
        study.enqueue_trial({"lr": lr, "weight_decay": weight_decay})
    study.optimize(objective, n_trials=len(chosen))


def _training(data: Any, batch_size: int, updates: int) -> DataLoader[Any]:
    """As many rows as the updates need."""
    source = data.training(batch_size, 1, torch.device("cpu"))
    parts = [source.next() for _ in range(updates)]
    rows = TensorDataset(torch.cat([part.inputs[0] for part in parts]), torch.cat([part.targets for part in parts]))
    return DataLoader(rows, batch_size, shuffle=True)


def _evaluation(data: Any, split: str) -> DataLoader[Any]:
    """The split in our batches."""
    held = [(part.inputs[0], part.targets) for part in data.evaluation(split, torch.device("cpu"))]
    return DataLoader(held, batch_size=None)  # type: ignore[arg-type]
