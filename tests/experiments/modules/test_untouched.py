"""A user's module runs as without us: the same losses bit for bit, and every callback of theirs as often."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import pytest
import torch
from lightning.pytorch.callbacks import (
    EarlyStopping,
    GradientAccumulationScheduler,
    LearningRateMonitor,
    ModelCheckpoint,
    RichProgressBar,
    StochasticWeightAveraging,
)
from lightning.pytorch.demos import LightningTransformer
from lightning.pytorch.demos.boring_classes import (
    BoringDataModule,
    BoringDataModuleNoLen,
    BoringModel,
    DemoModel,
    IterableBoringDataModule,
    ManualOptimBoringModel,
)
from lightning.pytorch.demos.lstm import LightningLSTM
from lightning.pytorch.loggers import CSVLogger
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset
from torch_geometric.data import Data
from torch_geometric.data.lightning import LightningDataset, LightningNodeData
from torch_geometric.nn import GCNConv, global_mean_pool

from experiments import checkpoint
from experiments.config import resolve
from experiments.modules.task import Task
from experiments.store.home import Home
from experiments.store.schema import RunRecord
from experiments.training import train

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")
Losses = list[float]


class Gan(pl.LightningModule):
    """Two optimizers, stepped by hand."""

    def __init__(self) -> None:
        super().__init__()
        self.automatic_optimization = False
        self.generator, self.critic = nn.Linear(4, 2), nn.Linear(2, 1)

    def training_step(self, batch: Any, index: int) -> dict[str, Tensor]:
        (real,) = batch
        for_critic, for_generator = self.optimizers()  # type: ignore[misc, union-attr]
        fake = self.generator(torch.randn(len(real), 4))
        told = nn.functional.softplus(self.critic(fake.detach())) + nn.functional.softplus(-self.critic(real))
        for_critic.zero_grad()
        self.manual_backward(told.mean())
        for_critic.step()
        loss = nn.functional.softplus(-self.critic(fake)).mean()
        for_generator.zero_grad()
        self.manual_backward(loss)
        for_generator.step()
        self.log("generator", loss)
        return {"loss": loss.detach()}

    def validation_step(self, batch: Any, index: int) -> None:
        self.log("val/gap", (self.critic(batch[0]).mean() - self.critic(self.generator(torch.zeros(1, 4)))).abs())

    def configure_optimizers(self) -> Any:
        return [torch.optim.Adam(part.parameters(), 0.01) for part in (self.critic, self.generator)]

    def train_dataloader(self) -> Any:
        return DataLoader(TensorDataset(torch.randn(32, 2)), batch_size=8, shuffle=True)

    def val_dataloader(self) -> Any:
        return DataLoader(TensorDataset(torch.ones(8, 2)), batch_size=8)


class Ema(pl.Callback):
    """A user's moving average, evaluated in the place of the weights."""

    def __init__(self) -> None:
        self.average: dict[str, Tensor] = {}

    def on_train_batch_end(self, trainer: Any, pl_module: Any, *rest: Any) -> None:
        for name, weight in pl_module.state_dict().items():
            self.average[name] = self.average.get(name, weight.clone()).lerp(weight, 0.1)

    def on_validation_start(self, trainer: Any, pl_module: Any) -> None:
        if self.average:
            self.kept = copy.deepcopy(pl_module.state_dict())
            pl_module.load_state_dict(self.average)

    def on_validation_end(self, trainer: Any, pl_module: Any) -> None:
        if self.average:
            pl_module.load_state_dict(self.kept)


class WithHooks(BoringModel):
    """Logs, has hooks of its own, and draws random numbers in them."""

    def __init__(self) -> None:
        super().__init__()
        self.ended = 0
        self.drawn = 0.0

    def training_step(self, batch: Any, index: int) -> Any:
        loss = self.step(nn.functional.dropout(batch, 0.2))
        self.log("train_loss", loss, on_step=True, on_epoch=True)
        return loss

    def validation_step(self, batch: Any, index: int) -> Any:
        self.log("val_loss", self.step(batch))

    def on_train_batch_end(self, *rest: Any) -> None:
        self.ended += 1
        self.drawn += float(torch.rand(()))

    def on_train_epoch_end(self) -> None:
        assert self.ended % self.trainer.num_training_batches == 0
        self.log("drawn", self.drawn)


class Several(BoringModel):
    """Two training loaders at once, two validation loaders one after the other, one of each without a length."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 2)

    def training_step(self, batch: Any, index: int) -> Tensor:
        return self.step(batch[0]) + self.step(batch[1])

    def validation_step(self, batch: Any, index: int, dataloader_idx: int = 0) -> Any:
        return {"x": self.step(batch)}

    def test_step(self, batch: Any, index: int, dataloader_idx: int = 0) -> Any:
        return {"y": self.step(batch)}


class GraphNet(pl.LightningModule):
    """Graphs in batches, as torch-geometric's Lightning wrappers give them."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.head = GCNConv(3, 8), nn.Linear(8, 2)

    def training_step(self, batch: Any, index: int) -> Tensor:
        nodes = self.conv(batch.x, batch.edge_index).relu()
        return nn.functional.cross_entropy(self.head(global_mean_pool(nodes, batch.batch)), batch.y)

    def validation_step(self, batch: Any, index: int) -> Tensor:
        return self.training_step(batch, index)

    def configure_optimizers(self) -> Any:
        return torch.optim.Adam(self.parameters())


def graphs() -> LightningDataset:
    ring = torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]])
    made = [Data(x=torch.randn(4, 3), edge_index=ring, y=torch.tensor([index % 2])) for index in range(24)]
    return LightningDataset(made[:16], made[16:], batch_size=4)


class NodeNet(pl.LightningModule):
    """One graph, its nodes in three parts."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = GCNConv(3, 2)

    def training_step(self, batch: Any, index: int) -> Tensor:
        return nn.functional.cross_entropy(
            self.conv(batch.x, batch.edge_index)[batch.train_mask], batch.y[batch.train_mask]
        )

    def validation_step(self, batch: Any, index: int) -> None:
        found = self.conv(batch.x, batch.edge_index)[batch.val_mask]
        self.log("val_loss", nn.functional.cross_entropy(found, batch.y[batch.val_mask]), batch_size=4)

    def configure_optimizers(self) -> Any:
        return torch.optim.Adam(self.parameters())


def nodes() -> LightningNodeData:
    ring = torch.stack([torch.arange(12), torch.arange(12).roll(1)])
    one = Data(x=torch.randn(12, 3), edge_index=ring, y=torch.arange(12) % 2)
    parts = torch.arange(12) % 3
    one.train_mask, one.val_mask, one.test_mask = parts == 0, parts == 1, parts == 2
    return LightningNodeData(one, loader="full")


COUNTS: Counter[str] = Counter()
LOSSES: Losses = []


class Listening(pl.Callback):
    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, *rest: Any) -> None:
        LOSSES.append(float(outputs["loss"]))


def counted(callback: pl.Callback) -> pl.Callback:
    """The callback, every hook of it counted."""
    kind = type(callback)

    def hook(name: str) -> Callable[..., Any]:
        def called(self: Any, *rest: Any, **more: Any) -> Any:
            if not name.startswith(("on_test", "on_save", "on_load")):
                COUNTS[f"{kind.__name__}.{name}"] += 1
            return getattr(kind, name)(self, *rest, **more)

        return called

    names = [name for name in dir(pl.Callback) if name.startswith("on_")]
    callback.__class__ = type(kind.__name__, (kind,), {name: hook(name) for name in names})
    return callback


def plainly(
    module: Callable[[], Any],
    data: Callable[[], Any] | None,
    callbacks: list[pl.Callback],
    words: Mapping[str, Any],
    folder: Path,
) -> tuple[Losses, Counter[str], dict[str, Tensor]]:
    """The same Trainer without us."""
    COUNTS.clear()
    LOSSES.clear()
    checkpoint.seed_everything(1)
    net = module()
    held = data() if data else None
    theirs = [*copy.deepcopy(callbacks), Listening()]
    saves = any(isinstance(callback, ModelCheckpoint) for callback in theirs)
    trainer = pl.Trainer(
        accelerator="cpu", logger=CSVLogger(folder), default_root_dir=folder, callbacks=theirs,
        enable_checkpointing=saves, enable_model_summary=False,
        enable_progress_bar=any(isinstance(c, RichProgressBar) for c in theirs), **words,
    )  # fmt: skip
    trainer.fit(net, datamodule=held)
    return list(LOSSES), Counter(COUNTS), net.state_dict()


def through_us(
    module: Callable[[], Any],
    data: Callable[[], Any] | None,
    callbacks: list[pl.Callback],
    words: Mapping[str, Any],
    folder: Path,
    metric: str,
) -> tuple[Losses, Counter[str], RunRecord, dict[str, Tensor]]:
    COUNTS.clear()
    LOSSES.clear()
    task = Task.from_lightning(
        module, data, metric=metric, mode="min", callbacks=[*callbacks, Listening()], trainer=words
    )
    finished = train(resolve(task.overrides(), {"device": "cpu"}), home=Home(folder))
    assert finished.record.status == "completed", finished.record.traceback or finished.record.reason
    assert finished.model is not None
    return list(LOSSES), Counter(COUNTS), finished.record, finished.model.state_dict()


@pytest.fixture
def text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What Lightning's language models would fetch: a text of the same form, where they look for it."""
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "wikitext-2.txt").write_text(("the cat sat on the mat <eos> and so did the dog " * 400) + "\n")
    monkeypatch.chdir(tmp_path)


def lstm() -> LightningLSTM:
    return LightningLSTM(vocab_size=40)


def transformer() -> LightningTransformer:
    return LightningTransformer(vocab_size=40)


TWO = {"max_epochs": 2, "limit_train_batches": 6, "limit_val_batches": 3}


@pytest.mark.parametrize(
    ("module", "data", "metric", "words"),
    [
        (BoringModel, None, "validation_step:x", TWO),
        (BoringModel, BoringDataModule, "validation_step:x", TWO),
        (
            BoringModel,
            BoringDataModule,
            "validation_step:x",
            {**TWO, "accumulate_grad_batches": 4, "gradient_clip_val": 0.1},
        ),
        (BoringModel, None, "validation_step:x", {"max_steps": 9, "limit_train_batches": 6, "val_check_interval": 2}),
        (ManualOptimBoringModel, None, "validation_step:x", TWO),
        (DemoModel, BoringDataModule, "train/loss", TWO),
        (WithHooks, None, "val_loss", {**TWO, "val_check_interval": 0.5}),
        (Gan, None, "val/gap", {"max_epochs": 2}),
        (BoringModel, BoringDataModuleNoLen, "validation_step:x", TWO),
        (Several, IterableBoringDataModule, "validation_step:x/dataloader_idx_1", TWO),
        (GraphNet, graphs, "validation_step:loss", {"max_epochs": 2}),
        (NodeNet, nodes, "val_loss", {"max_epochs": 3}),
        (lstm, None, "train_loss", {"max_epochs": 1}),
        (transformer, None, "train/loss", {"max_epochs": 1, "limit_train_batches": 5}),
    ],
)
def test_losses_and_weights_are_bit_equal_to_the_same_trainer_without_us(
    module: Any, data: Any, metric: str, words: dict[str, Any], tmp_path: Path, text: None
) -> None:
    losses, _, weights = plainly(module, data, [], words, tmp_path / "plain")
    ours, _, record, model = through_us(module, data, [], words, tmp_path / "home", metric)
    assert len(losses) > 1
    assert ours == losses
    assert model.keys() == weights.keys()
    assert all(torch.equal(model[name], weights[name]) for name in weights)
    assert record.last["count/updates"] > 0


@pytest.mark.parametrize(
    "callback",
    [
        ModelCheckpoint(monitor="val_loss", save_top_k=2, save_last=True),
        ModelCheckpoint(every_n_train_steps=2, save_top_k=-1),
        EarlyStopping("val_loss", patience=1, min_delta=10.0),
        LearningRateMonitor("step"),
        StochasticWeightAveraging(swa_lrs=0.05, swa_epoch_start=1),
        GradientAccumulationScheduler({0: 2, 1: 3}),
        RichProgressBar(),
        Ema(),
    ],
    ids=lambda callback: type(callback).__name__,
)
def test_their_callbacks_fire_as_often_and_do_the_same(callback: pl.Callback, tmp_path: Path) -> None:
    words = {"max_epochs": 4, "limit_train_batches": 6, "limit_val_batches": 3}
    theirs = [counted(copy.deepcopy(callback))]
    losses, fired, weights = plainly(WithHooks, None, theirs, words, tmp_path / "plain")
    ours, fired_too, record, model = through_us(WithHooks, None, theirs, words, tmp_path / "home", "val_loss")
    assert sum(fired.values()) > 20
    assert fired_too == fired
    assert ours == losses
    if not isinstance(callback, Ema):  # what it evaluates is what is kept: its average
        assert all(torch.equal(model[name], weights[name]) for name in weights)
    if isinstance(callback, EarlyStopping):
        assert record.last["count/epochs"] < 4
        assert f"stopped it at {record.last['count/epochs'] / 4:.0%} of its budget" in record.reason
        assert [event["name"] for event in record.events if event["name"] == "stopped_early"] == ["stopped_early"]
    if isinstance(callback, ModelCheckpoint):
        saved = {path.name for path in (tmp_path / "plain").rglob("*.ckpt")}
        folder = tmp_path / "home" / "runs" / record.run_id / "checkpoints"
        assert {path.name for path in folder.glob("*.ckpt")} == saved != set()


def test_what_they_log_arrives_under_its_own_name(tmp_path: Path) -> None:
    record = through_us(WithHooks, None, [], TWO, tmp_path / "home", "val_loss")[2]
    assert {"val_loss", "train_loss_epoch", "drawn", "val/loss", "train/loss"} <= record.last.keys()
    assert record.last["val/loss"] == record.last["val_loss"] == record.final["objective"]
    series = {line.metric: line for line in Home(tmp_path / "home").series([record.run_id])}
    assert series["val_loss"].updates == (6, 12)
    assert series["count/updates"].updates[-1] == 12
    assert not any(name == "epoch" for name in series)
