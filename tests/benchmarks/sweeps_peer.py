"""The sweep that `sweeps` is measured against, as a good user of the same libraries writes it by hand.

Optuna's RandomSampler with its storage on SQLite, a LightningModule, a Trainer and an MLFlowLogger a trial, its store
on SQLite. The data are tensors in memory, the optimizer is torch's fused AdamW, and what a user reads afterwards is
logged: losses, validation accuracy, hyperparameters, the last checkpoint. It imports nothing of trainlab:

    python sweeps_peer.py [TRIALS [UPDATES]]        (leaves optuna.db and mlflow.db in the working folder)
"""

from __future__ import annotations

import logging
import sys
import warnings
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import optuna
import torch
from lightning.pytorch.loggers import MLFlowLogger
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

BATCH, EVERY = 64, 100


class Net(pl.LightningModule):
    """A 64-64-10 MLP under AdamW."""

    def __init__(self, lr: float, weight_decay: float):
        super().__init__()
        self.save_hyperparameters()
        self.model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))

    def training_step(self, batch: Any, batch_idx: int) -> torch.Tensor:
        loss = nn.functional.cross_entropy(self.model(batch[0]), batch[1])
        self.log("train_loss", loss)
        return loss

    def validation_step(self, batch: Any, batch_idx: int) -> None:
        predictions = self.model(batch[0])
        self.log("val_loss", nn.functional.cross_entropy(predictions, batch[1]))
        self.log("val_acc", (predictions.argmax(-1) == batch[1]).float().mean())

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(
            self.parameters(), lr=self.hparams["lr"], weight_decay=self.hparams["weight_decay"], fused=True
        )


def loaders() -> tuple[DataLoader[Any], DataLoader[Any]]:
    """1,200 digits to train on, the rest for validation."""
    found = load_digits()
    split = train_test_split(found.data / 16, found.target, train_size=1200, stratify=found.target, random_state=0)
    train, held, train_labels, held_labels = (torch.as_tensor(part) for part in split)
    return (
        DataLoader(TensorDataset(train.float(), train_labels), BATCH, shuffle=True),
        DataLoader(TensorDataset(held.float(), held_labels), 1000),
    )


def sweep(name: str, trials: int, updates: int, folder: Path) -> float:
    """The study; returns its best validation accuracy."""
    train, held = loaders()

    def objective(trial: optuna.Trial) -> float:
        lr = trial.suggest_float("lr", 1e-4, 1e-1, log=True)
        weight_decay = trial.suggest_float("weight_decay", 1e-4, 1e-1, log=True)
        pl.seed_everything(trial.number, verbose=False)
        logger = MLFlowLogger(name, run_name=f"trial {trial.number}", tracking_uri=f"sqlite:///{folder / 'mlflow.db'}")
        trainer = pl.Trainer(
            accelerator="cpu", logger=logger, max_steps=updates, val_check_interval=EVERY,
            check_val_every_n_epoch=None, log_every_n_steps=10, enable_progress_bar=False, enable_model_summary=False,
            default_root_dir=folder,
        )  # fmt: skip
        trainer.fit(Net(lr, weight_decay), train, held)
        return float(trainer.callback_metrics["val_acc"])

    study = optuna.create_study(
        study_name=name, storage=f"sqlite:///{folder / 'optuna.db'}", direction="maximize",
        sampler=optuna.samplers.RandomSampler(seed=1),
    )  # fmt: skip
    study.optimize(objective, n_trials=trials)
    return study.best_value


def hush() -> None:
    """Without greetings and hints."""
    warnings.filterwarnings("ignore")
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    for name in ("lightning.pytorch", "lightning.fabric", "alembic", "mlflow"):
        logging.getLogger(name).setLevel(logging.ERROR)


if __name__ == "__main__":
    hush()
    asked = [int(argument) for argument in sys.argv[1:]]
    print(sweep("peer", *(asked or [32]), *([600] if len(asked) < 2 else []), Path.cwd()))
