"""Modules, callbacks and data that keep things where Lightning's checkpoints do not look: resumed, they are equal."""

from __future__ import annotations

import copy
import functools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import numpy
import pytest
import torch
from lightning.pytorch.callbacks import BackboneFinetuning, GradientAccumulationScheduler, StochasticWeightAveraging
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, IterableDataset, Sampler, random_split
from torchmetrics.regression import MeanSquaredError

from experiments.config import resolve
from experiments.modules.task import Task
from experiments.stopping import Stop
from experiments.store.home import Home
from experiments.training import resume, train

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


class Augmented(Dataset[Any]):
    def __len__(self) -> int:
        return 22

    def __getitem__(self, index: int) -> Any:
        image = torch.randn(4, generator=torch.Generator().manual_seed(index))
        return image + 0.1 * torch.randn(4), index % 3


class Data(pl.LightningDataModule):
    def train_dataloader(self) -> Any:
        return DataLoader(Augmented(), batch_size=4, shuffle=True)

    def val_dataloader(self) -> Any:
        return DataLoader(Augmented(), batch_size=11)


class Net(pl.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.backbone = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Dropout(0.3), nn.ReLU())
        self.head = nn.Linear(8, 3)

    def loss(self, batch: Any) -> Tensor:
        return nn.functional.cross_entropy(self.head(self.backbone(batch[0])), batch[1])

    def training_step(self, batch: Any, index: int) -> Tensor:
        loss = self.loss(batch)
        self.log("train_loss", loss, on_step=True, on_epoch=True)
        return loss

    def validation_step(self, batch: Any, index: int) -> None:
        self.log("val_loss", self.loss(batch))

    def configure_optimizers(self) -> Any:
        return torch.optim.AdamW(self.parameters(), lr=0.01)


class Frozen(Net):
    def on_train_epoch_start(self) -> None:
        if self.current_epoch == 1:
            self.backbone[0].requires_grad_(False)
            self.backbone[1].eval()


class Drawing(Net):
    """Noise of generators of its own, and an array that is changed in place."""

    def __init__(self) -> None:
        super().__init__()
        self.ours, self.theirs = torch.Generator().manual_seed(1), numpy.random.default_rng(2)
        self.seen = numpy.zeros(2)

    def training_step(self, batch: Any, index: int) -> Tensor:
        self.seen += self.theirs.normal(size=2)
        noise = torch.randn((), generator=self.ours) + float(self.seen.sum())
        return super().training_step((batch[0] + 0.1 * noise, batch[1]), index)


class Inside(Net):
    """A counter and a buffer of a layer, neither in a state_dict; a setting that moves; old weights in a list."""

    def __init__(self) -> None:
        super().__init__()
        self.head.seen = 0  # type: ignore[assignment]
        self.head.register_buffer("passing", torch.zeros(3), persistent=False)
        self.old: list[nn.Module] = []

    def training_step(self, batch: Any, index: int) -> Tensor:
        self.head.seen += 1  # type: ignore[operator]
        self.head.passing += self.head.seen  # type: ignore[operator]
        self.backbone[2].p = 0.3 / float(self.head.seen)  # type: ignore[arg-type]
        self.old = [*self.old[-1:], copy.deepcopy(self.head)]
        pull = sum(((self.head.weight - each.weight) ** 2).sum() for each in self.old)  # type: ignore[operator]
        return super().training_step(batch, index) + pull + self.head(torch.zeros(8)).dot(self.head.passing) * 1e-3


class Waiting(Net):
    """Automatic optimization that adds up two batches by itself."""

    def optimizer_zero_grad(self, epoch: int, batch_idx: int, optimizer: Any) -> None:
        if batch_idx % 2 == 0:
            optimizer.zero_grad()


class Metered(Net):
    """torchmetrics, means over an epoch that are logged now and then, and in hooks."""

    def __init__(self) -> None:
        super().__init__()
        self.error = MeanSquaredError()

    def training_step(self, batch: Any, index: int) -> Tensor:
        loss = super().training_step(batch, index)
        self.error(loss.detach()[None], torch.zeros(1))
        self.log("error", self.error, on_step=False, on_epoch=True)
        if index == 1:
            self.log("now_and_then", float(self.current_epoch), on_step=False, on_epoch=True)
        return loss

    def on_train_epoch_start(self) -> None:
        self.log("begun", float(torch.rand(())), on_step=False, on_epoch=True)

    def on_train_batch_end(self, *rest: Any) -> None:
        self.log("ended", self.head.weight.sum(), on_step=False, on_epoch=True)


class Plateau(Net):
    def configure_optimizers(self) -> Any:
        optimizer = torch.optim.AdamW(self.parameters(), lr=0.01)
        scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, mode="max", patience=0)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": scheduler, "monitor": "val_loss"}}


class LookingBack(Net):
    def training_step(self, batch: Any, index: int) -> Tensor:
        return super().training_step(batch, index) * self.trainer.callback_metrics.get("val_loss", 1.0)


class Shadow(pl.Callback):
    """An average that is a module, which the callback does not say in a state_dict."""

    def on_train_batch_end(self, trainer: Any, pl_module: Any, *rest: Any) -> None:
        if not hasattr(self, "shadow"):
            self.shadow = copy.deepcopy(pl_module.head)
        for mine, theirs in zip(self.shadow.parameters(), pl_module.head.parameters(), strict=True):
            mine.data.lerp_(theirs.data, 0.1)
            theirs.data.lerp_(mine.data, 0.05)


class Patient(pl.Callback):
    def on_train_epoch_start(self, trainer: Any, pl_module: Any) -> None:
        trainer.accumulate_grad_batches = 1 + trainer.current_epoch % 2


class SplitLate(Data):
    def val_dataloader(self) -> Any:
        return DataLoader(random_split(Augmented(), [16, 6])[0], batch_size=8)


class ValidatedAtRandom(Data):
    def val_dataloader(self) -> Any:
        generator = torch.Generator().manual_seed(7)
        return DataLoader(Augmented(), batch_size=5, shuffle=True, drop_last=True, generator=generator)


class ByEpoch(Sampler[int]):
    epoch = 0

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __len__(self) -> int:
        return 22

    def __iter__(self) -> Iterator[int]:
        return iter(torch.randperm(22, generator=torch.Generator().manual_seed(self.epoch)).tolist())


class SampledByEpoch(Data):
    def train_dataloader(self) -> Any:
        return DataLoader(Augmented(), batch_size=4, sampler=ByEpoch())


class Buffered(IterableDataset[Any]):
    """A stream that is shuffled in a buffer, with random numbers drawn as it goes."""

    def __iter__(self) -> Iterator[Any]:
        whole, buffer = Augmented(), list(range(8))
        for index in range(8, 22):
            place = int(torch.randint(8, ()))
            yield whole[buffer[place]]
            buffer[place] = index
        yield from (whole[index] for index in buffer)


class Streamed(Data):
    def train_dataloader(self) -> Any:
        return DataLoader(Buffered(), batch_size=4)


def backbone() -> pl.Callback:
    return BackboneFinetuning(unfreeze_backbone_at_epoch=1, verbose=False)


def accumulating() -> pl.Callback:
    return GradientAccumulationScheduler({0: 2, 1: 3})


def told(home: Home, run_id: str) -> dict[str, Any]:
    folder = home.folder(run_id)
    record = folder.record()
    assert record.status == "completed", record.traceback or record.reason
    weights = (folder.path / "model.safetensors").read_bytes()
    kept = [line for line in folder.series() if not line.metric.startswith("time/")]
    return {
        "weights": weights,
        "final": dict(record.final),
        **{line.metric: (line.updates, line.values) for line in kept},
    }


class Stopping(pl.Callback):
    """Asks for a stop as Ctrl-C does, after so many batches."""

    def __init__(self, stop: Stop, batches: int):
        self._stop, self._left = stop, batches

    def on_train_batch_end(self, *rest: Any) -> None:
        self._left -= 1
        if self._left == 0:
            self._stop.request("Ctrl-C")

    def state_dict(self) -> dict[str, Any]:
        return {"nothing": 0}


CASES: dict[str, tuple[Any, Any, list[Any], dict[str, Any]]] = {
    "frozen and evaluating": (Frozen, Data, [], {}),
    "a backbone that is unfrozen": (Net, Data, [backbone], {}),
    "accumulation that changes": (Net, Data, [accumulating], {}),
    "accumulation that a callback sets": (Net, Data, [Patient], {}),
    "generators and arrays": (Drawing, Data, [], {}),
    "inside of layers": (Inside, Data, [], {}),
    "gradients that wait": (Waiting, Data, [], {}),
    "sums of an epoch": (Metered, Data, [], {}),
    "plateau that falls": (Plateau, Data, [], {"max_epochs": 4}),
    "the last metrics": (LookingBack, Data, [], {}),
    "a callback's module": (Net, Data, [Shadow], {}),
    "validation split late": (Net, SplitLate, [], {}),
    "validation shuffled": (Net, ValidatedAtRandom, [], {}),
    "a sampler that is told the epoch": (Net, SampledByEpoch, [], {}),
    "a buffered stream": (Net, Streamed, [], {"val_check_interval": 1.0}),
    "loaders made anew": (Net, Data, [], {"reload_dataloaders_every_n_epochs": 2, "max_epochs": 4}),
    "double precision": (Net, Data, [], {"precision": "64-true"}),
}


@pytest.mark.parametrize("case", CASES)
def test_resumed_it_is_bit_equal(case: str, tmp_path: Path) -> None:
    module, data, callbacks, words = CASES[case]
    home = Home(tmp_path)

    def config(more: list[Any]) -> Any:
        trainer = {"max_epochs": 3, **words}
        task = Task.from_lightning(module, data, metric="val_loss", callbacks=[*callbacks, *more], trainer=trainer)
        return resolve(task.overrides(), {"device": "cpu", "log_every": 3})

    whole = told(home, train(config([]), home=home).record.run_id)
    for batches in (2, 6, 7):
        stop = Stop()
        asked = config([functools.partial(Stopping, stop, batches)])
        first = train(asked, home=home, stop=stop).record
        assert first.status == "interrupted", first.traceback or first.reason
        resumed = told(home, resume(home.folder(first.run_id)).record.run_id)
        assert resumed.keys() == whole.keys()
        assert {name for name in whole if whole[name] != resumed[name]} == set(), batches


def test_what_lightning_itself_does_not_resume_is_named(tmp_path: Path) -> None:
    stop = Stop()
    callbacks = [StochasticWeightAveraging(0.05, swa_epoch_start=1), functools.partial(Stopping, stop, 3)]
    task = Task.from_lightning(Net, Data, metric="val_loss", callbacks=callbacks, budget={"epochs": 3})
    first = train(resolve(task.overrides(), {"device": "cpu"}), home=Home(tmp_path), stop=stop).record
    second = resume(Home(tmp_path).folder(first.run_id)).record
    assert any("StochasticWeightAveraging" in event.get("text", "") for event in second.events)
