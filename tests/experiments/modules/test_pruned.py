"""A run of a user's module is judged after each validation, by its own metric, and ends where the judge says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from experiments.config import resolve
from experiments.modules.task import Task
from experiments.stopping import Stop
from experiments.store.home import Home
from experiments.training import Finished, resume, train
from experiments.tuning.pruning import Judge

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")
Asked = list[tuple[int, float]]


class Net(pl.LightningModule):
    """Its metric is the number of updates, in hundreds."""

    def __init__(self, stops_at: int = 0) -> None:
        super().__init__()
        self.stops_at = stops_at
        self.layer = nn.Linear(4, 2)

    def training_step(self, batch: Any, index: int) -> Tensor:
        return nn.functional.cross_entropy(self.layer(batch[0]), batch[1])

    def on_train_epoch_end(self) -> None:
        self.log("epoch_score", self.global_step / 100)

    def validation_step(self, batch: Any, index: int) -> None:
        self.log("val/score", self.global_step / 100)

    def configure_optimizers(self) -> Any:
        return torch.optim.SGD(self.parameters(), 0.1)

    def train_dataloader(self) -> Any:
        inputs = torch.randn(32, 4, generator=torch.Generator().manual_seed(1))
        return DataLoader(TensorDataset(inputs, (inputs.sum(1) > 0).long()), batch_size=8)

    def val_dataloader(self) -> Any:
        return self.train_dataloader()


def _asks(asked: Asked, prunes_at: int) -> Judge:
    def judge(update: int, value: float) -> bool:
        asked.append((update, round(value, 6)))
        return update == prunes_at

    return judge


def run(folder: Path, asked: Asked, prunes_at: int = -1, **said: Any) -> Finished:
    task = Task.from_lightning(Net, metric=said.pop("metric", "val/score"), mode="max")
    config = resolve(task.overrides(), {"device": "cpu", "budget": {"epochs": 3}, **said})
    return train(config, home=Home(folder), judge=_asks(asked, prunes_at))


@pytest.mark.parametrize(
    ("said", "updates"),
    [
        ({}, [4, 8]),  # four updates an epoch; at the end of the budget there is nothing left to prune
        ({"evaluate_every": 3}, [3, 6, 9]),
        ({"budget": {"updates": 6}, "evaluate_every": 2}, [2, 4]),
        ({"budget": {"examples": 80}, "evaluate_every": 2}, [2, 4, 6, 8]),
        ({"metric": "epoch_score"}, [4, 8]),
    ],
)
def test_it_is_asked_after_each_validation_but_the_last(
    said: dict[str, Any], updates: list[int], tmp_path: Path
) -> None:
    asked: Asked = []
    finished = run(tmp_path, asked, **said)
    assert finished.record.status == "completed", finished.record.traceback or finished.record.reason
    assert asked == [(update, update / 100) for update in updates]


def test_a_pruned_run_ends_there_and_says_so(tmp_path: Path) -> None:
    asked: Asked = []
    finished = run(tmp_path, asked, prunes_at=6, evaluate_every=3)
    record = finished.record
    assert (record.status, record.reason) == ("pruned", "the pruner ended it at update 6")
    assert record.last["count/updates"] == 6
    assert record.last["val/score"] == pytest.approx(0.06)
    assert record.final == {}
    assert asked == [(3, 0.03), (6, 0.06)]
    assert finished.model is None
    assert finished.error is None
    assert not (Home(tmp_path).folder(record.run_id).path / "model.safetensors").exists()


class Stopping(pl.Callback):
    stop: Stop | None = None

    def on_train_batch_end(self, trainer: Any, *rest: Any) -> None:
        if self.stop and trainer.global_step == 5:
            self.stop.request("enough")


def test_after_a_resume_it_goes_on_being_asked(tmp_path: Path) -> None:
    asked: Asked = []
    Stopping.stop = stop = Stop()
    task = Task.from_lightning(Net, metric="val/score", mode="max")
    words = {"device": "cpu", "budget": {"epochs": 3}, "evaluate_every": 2, "trainer.callbacks": Stopping}
    try:
        config = resolve(task.overrides(), words)
        first = train(config, home=Home(tmp_path), stop=stop, judge=_asks(asked, prunes_at=-1))
    finally:
        Stopping.stop = None
    assert first.record.status == "interrupted"
    assert [update for update, _ in asked] == [2, 4]
    folder = Home(tmp_path).folder(first.record.run_id)
    done = resume(folder, judge=_asks(asked, prunes_at=8))
    assert [update for update, _ in asked] == [2, 4, 6, 8]
    assert done.record.status == "pruned"
