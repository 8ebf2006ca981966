"""A user's module as they come: dropout, BatchNorm, augmentation, a schedule, an average in a hook, epoch means."""

from __future__ import annotations

import os
import signal
from typing import Any

import lightning.pytorch as pl
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

#: 22 examples in batches of 4: 6 batches an epoch, the last one smaller.
SIZE = 22


class Augmented(Dataset[Any]):
    def __len__(self) -> int:
        return SIZE

    def __getitem__(self, index: int) -> Any:
        image = torch.randn(4, generator=torch.Generator().manual_seed(index))
        return image + 0.1 * torch.randn(4), index % 3


class Data(pl.LightningDataModule):
    def __init__(self, workers: int = 0):
        super().__init__()
        self.workers = workers

    def train_dataloader(self) -> Any:
        return DataLoader(Augmented(), batch_size=4, shuffle=True, num_workers=self.workers)

    def val_dataloader(self) -> Any:
        return DataLoader(Augmented(), batch_size=11)


class Net(pl.LightningModule):
    def __init__(self, manual: bool = False, plateau: bool = False):
        super().__init__()
        self.automatic_optimization = not manual
        self.plateau = plateau
        self.net = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Dropout(0.3), nn.ReLU(), nn.Linear(8, 3))
        self.average = torch.zeros(())
        self.batches = 0

    def training_step(self, batch: Any, index: int) -> Tensor:
        images, labels = batch
        loss = nn.functional.cross_entropy(self.net(images), labels)
        self.log("train_loss", loss, on_step=True, on_epoch=True)
        if not self.automatic_optimization:
            optimizer: Any = self.optimizers()
            optimizer.zero_grad()
            self.manual_backward(loss)
            optimizer.step()
        return loss

    def on_train_batch_end(self, *rest: Any) -> None:
        self.batches += 1
        self.average = self.average.lerp(self.net[0].weight.detach().sum(), 0.1)
        _killed("batch", self.batches)

    def on_train_epoch_end(self) -> None:
        self.log("average", self.average)
        self.log("batches", float(self.batches))
        _killed("epoch", self.current_epoch + 1)

    def validation_step(self, batch: Any, index: int) -> None:
        images, labels = batch
        self.log("val_loss", nn.functional.cross_entropy(self.net(images), labels))
        if not self.trainer.sanity_checking:
            _killed("validation", self.batches)

    def configure_optimizers(self) -> Any:
        optimizer = torch.optim.AdamW(self.parameters(), lr=0.01)
        if self.plateau:
            scheduler: Any = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=0)
            return {"optimizer": optimizer, "lr_scheduler": {"scheduler": scheduler, "monitor": "val_loss"}}
        scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 20)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": scheduler, "interval": "step"}}


def _killed(what: str, count: int) -> None:
    """kill -9, where the environment says so."""
    if os.environ.get("KILL_AT") == f"{what} {count}":
        os.kill(os.getpid(), signal.SIGKILL)


class Tested(Net):
    """With a test split."""

    def test_step(self, batch: Any, index: int) -> None:
        images, labels = batch
        self.log("test_loss", nn.functional.cross_entropy(self.net(images), labels))


class TestedData(Data):
    __test__ = False  # no test case

    def test_dataloader(self) -> Any:
        return self.val_dataloader()
