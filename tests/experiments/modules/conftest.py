"""A researcher's folder to work in: what is imported from it is forgotten after the test."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from experiments.modules import loading, reference

LAYERS = "WIDTH = 32\n"
NET = '''"""A net and its data, as their author wrote them."""

import lightning.pytorch as pl
import torch
from layers import WIDTH


class Net(pl.LightningModule):
    """A small net."""

    def __init__(self, width: int = WIDTH, lr: float = 1e-2, betas=(0.9, 0.95), sizes=[8, 4], act=torch.relu):
        super().__init__()
        assert isinstance(sizes, list)
        self.save_hyperparameters(ignore=["act"])
        self.layer = torch.nn.Linear(32, width)

    def training_step(self, batch, index):
        return self.layer(batch).square().mean()

    def validation_step(self, batch, index):
        self.log("val/acc", self.layer(batch).mean())

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=self.hparams.lr)


class Data(pl.LightningDataModule):
    def __init__(self, root: str, batch_size: int = 16):
        super().__init__()
        self.batch_size = batch_size

    def train_dataloader(self):
        return torch.utils.data.DataLoader(torch.randn(64, 32), self.batch_size)

    val_dataloader = train_dataloader


class Ema(pl.Callback):
    pass


def make(width: int = 3):
    return Net(width)


def wrong():
    return 3


def callbacks():
    return [Ema(), Ema()]


net = make()
'''


@pytest.fixture(autouse=True)
def _forgotten(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in ("_imported", "_folders", "_hashes"):
        monkeypatch.setattr(loading, name, type(getattr(loading, name))())
    monkeypatch.setattr(reference, "_kept", {})
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = set(sys.modules)
    yield
    for name in [name for name in sys.modules if name not in before]:
        file = getattr(sys.modules[name], "__file__", None) or ""
        if not loading.installed(Path(file)) and not name.startswith(("algos", "reports", "trainlab")):
            if name.startswith("experiments") and "private." not in name:
                continue
            del sys.modules[name]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with my_module.py (Net, Data, Ema, ...) and its sibling layers.py."""
    (tmp_path / "layers.py").write_text(LAYERS)
    (tmp_path / "my_module.py").write_text(NET)
    monkeypatch.chdir(tmp_path)
    return tmp_path
