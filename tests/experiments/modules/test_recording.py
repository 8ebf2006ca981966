from __future__ import annotations

import dataclasses
import itertools
import json
import math
import timeit
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import lightning.pytorch as pl
import pytest
import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from lightning.pytorch.demos import LightningTransformer
from lightning.pytorch.demos.boring_classes import BoringModel
from lightning.pytorch.loggers import CSVLogger
from torch import Tensor
from torch.utils.data import DataLoader, IterableDataset

from algos.finding import InputError
from algos.wrappers.sam import Sam
from experiments.modules.components import ComponentCallback
from experiments.modules.logger import Logger
from experiments.modules.recording import Recording, examples_in
from experiments.store import spool
from experiments.store.home import Home, RunFolder, new_run_id
from experiments.store.schema import Labels, RunFile


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    return Home(tmp_path / "home").create(RunFile(new_run_id(), "x", Labels("own"), {}, ""))


@pytest.fixture
def attempt(folder: RunFolder) -> Iterator[spool.Attempt]:
    found = folder.begin()
    yield found
    found.release()


class Counted(BoringModel):
    """The loss of the i-th batch is i, from 1: every mean can be told by hand."""

    def __init__(self, batches: int = 24, batch: int = 4):
        super().__init__()
        self.batches, self.batch, self.seen = batches, batch, 0

    def training_step(self, batch: Any, batch_idx: int) -> Any:
        self.seen += 1
        return {"loss": 0.0 * self.layer(batch).sum() + self.seen}

    def train_dataloader(self) -> DataLoader[Any]:
        return DataLoader(torch.zeros(self.batches * self.batch, 32), self.batch)  # type: ignore[arg-type]


def trainer(*callbacks: pl.Callback, **given: Any) -> pl.Trainer:
    quiet: dict[str, Any] = {"enable_progress_bar": False, "enable_model_summary": False, "logger": False}
    return pl.Trainer(
        **{"accelerator": "cpu", "max_epochs": 1, "enable_checkpointing": False, **quiet, **given},
        callbacks=list(callbacks),
    )


def points(attempt: spool.Attempt, metric: str) -> list[tuple[int, float]]:
    attempt.flush()
    lines = itertools.chain.from_iterable(spool.read(path) for _, path in spool.spools(attempt.folder))
    return [(line["update"], line["values"][metric]) for line in lines if metric in line.get("values", {})]


def events(attempt: spool.Attempt) -> list[dict[str, Any]]:
    attempt.flush()
    return [line for _, path in spool.spools(attempt.folder) for line in spool.read(path) if line["kind"] == "event"]


def test_train_loss_is_the_mean_over_ten_updates(attempt: spool.Attempt) -> None:
    trainer(Recording(attempt)).fit(Counted(24))
    assert points(attempt, "train/loss") == [(10, 5.5), (20, 15.5)]


def test_under_accumulation_the_loss_is_the_batch_s_own_and_x_counts_updates(attempt: spool.Attempt) -> None:
    recording = Recording(attempt, log_every=2)
    run = trainer(recording, accumulate_grad_batches=4)
    run.fit(Counted(18))  # five updates: the last is of two batches
    assert points(attempt, "train/loss") == [(2, 4.5), (4, 12.5)]
    found = recording.counts(run)
    assert (found["count/updates"], found["count/gradients"], found["count/examples"]) == (5, 5, 72)


def test_counts_of_a_finished_fit_and_of_half_an_epoch(attempt: spool.Attempt) -> None:
    recording = Recording(attempt)
    run = trainer(recording, max_steps=36, max_epochs=-1)
    run.fit(Counted(24))
    found = recording.counts(run)
    assert found["count/epochs"] == 1.5
    assert found["count/updates"] == found["count/gradients"] == 36
    assert found["count/examples"] == 144
    assert found["time/train_s"] > 0
    assert [value for _, value in points(attempt, "count/updates")] == [24, 36]


def test_lbfgs_is_counted_by_its_closure(attempt: spool.Attempt) -> None:
    class Newtonian(BoringModel):
        evaluations = 0

        def training_step(self, batch: Any, batch_idx: int) -> Any:
            self.evaluations += 1
            return super().training_step(batch, batch_idx)

        def configure_optimizers(self) -> Any:
            return torch.optim.LBFGS(self.parameters(), max_iter=4)

    module, recording = Newtonian(), Recording(attempt)
    run = trainer(recording, max_steps=5, max_epochs=-1, limit_val_batches=0)
    run.fit(module)
    assert recording.counts(run)["count/gradients"] == module.evaluations > 5


class Gan(BoringModel):
    """Two optimizers, by hand; it returns nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.automatic_optimization = False
        self.other = torch.nn.Linear(32, 1)

    def training_step(self, batch: Any, batch_idx: int) -> None:  # type: ignore[override]
        for optimizer, layer in zip(self.optimizers(), (self.layer, self.other), strict=True):  # type: ignore[arg-type]
            optimizer.zero_grad()
            self.manual_backward(layer(batch).square().mean())
            optimizer.step()

    def configure_optimizers(self) -> Any:
        return [torch.optim.SGD(layer.parameters(), 0.1) for layer in (self.layer, self.other)]


def test_manual_optimization_counts_a_gradient_a_step(attempt: spool.Attempt) -> None:
    recording = Recording(attempt)
    run = trainer(recording, limit_train_batches=7, limit_val_batches=0)
    run.fit(Gan())
    found = recording.counts(run)
    assert found["count/updates"] == found["count/gradients"] == 14
    assert found["count/epochs"] == 1
    assert not points(attempt, "train/loss")
    assert not recording.diverged


def test_gradients_that_components_cause_are_counted_and_no_word_of_others(attempt: spool.Attempt) -> None:
    """SAM asks for a second gradient a step; that other callback logs gradients every hundred steps."""
    every = pl.Callback()
    every.gradients = 100  # type: ignore[attr-defined]
    recording = Recording(attempt)
    run = trainer(recording, every, ComponentCallback([Sam()]), limit_train_batches=3)
    run.fit(BoringModel())
    assert recording.counts(run)["count/gradients"] == 6


class Endless(IterableDataset[Tensor]):
    def __iter__(self) -> Iterator[Tensor]:
        return iter(torch.zeros(5, 32))


def test_without_a_length_epochs_are_whole(attempt: spool.Attempt) -> None:
    recording, run = Recording(attempt), trainer(max_epochs=3)
    run.callbacks.append(recording)  # type: ignore[attr-defined]
    run.fit(Counted(), DataLoader(Endless(), 5))
    assert recording.counts(run)["count/epochs"] == 3
    assert points(attempt, "count/examples") == [(1, 5), (2, 10), (3, 15)]


class Slow(BoringModel):
    def __init__(self, jump: Callable[[float], None]):
        super().__init__()
        self.jump = jump

    def training_step(self, batch: Any, batch_idx: int) -> Any:
        self.jump(10)
        return super().training_step(batch, batch_idx)

    def validation_step(self, batch: Any, batch_idx: int) -> Any:
        self.jump(50)


class SlowSave(pl.Callback):
    def __init__(self, jump: Callable[[float], None]):
        self.jump = jump

    def on_validation_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self.jump(500)


def test_the_clock_tells_training_from_evaluation_and_from_what_follows_it(
    attempt: spool.Attempt, jump: Callable[[float], None]
) -> None:
    recording = Recording(attempt)
    run = trainer(recording, SlowSave(jump), limit_train_batches=10, limit_val_batches=5, val_check_interval=5)
    run.fit(Slow(jump))  # sanity validation (600 s with its callback) is neither
    found = recording.counts(run)
    assert 100 <= found["time/train_s"] < 200
    assert 500 <= found["time/evaluate_s"] < 600
    assert [update for update, _ in points(attempt, "time/train_s")] == [5, 10]


def test_checkpoints_saved_while_training_are_no_training(
    attempt: spool.Attempt, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, jump: Callable[[float], None]
) -> None:
    save = pl.Trainer.save_checkpoint

    def slow(*given: Any, **named: Any) -> None:
        jump(200)
        save(*given, **named)

    monkeypatch.setattr(pl.Trainer, "save_checkpoint", slow)
    recording, saver = Recording(attempt), ModelCheckpoint(tmp_path / "saved", every_n_train_steps=2, save_top_k=-1)
    run = trainer(recording, saver, enable_checkpointing=True, limit_train_batches=10, limit_val_batches=0)
    run.fit(BoringModel())
    assert len(list(tmp_path.glob("saved/*.ckpt"))) == 5
    assert recording.counts(run)["time/train_s"] < 200
    assert recording.clock.seconds("checkpoint") >= 1000
    assert "save_checkpoint" not in vars(run)


def test_a_checkpoint_saver_of_the_trainer_s_own_is_put_back(attempt: spool.Attempt) -> None:
    class Failing(BoringModel):
        def training_step(self, batch: Any, batch_idx: int) -> Any:
            raise ZeroDivisionError

    run = trainer(Recording(attempt))
    run.save_checkpoint = own = lambda *given, **named: None  # type: ignore[method-assign]
    with pytest.raises(ZeroDivisionError):
        run.fit(Failing())
    assert run.save_checkpoint is own


class Diverging(Counted):
    def __init__(self, at: int, value: float):
        super().__init__()
        self.at, self.value = at, value

    def training_step(self, batch: Any, batch_idx: int) -> Any:
        found = super().training_step(batch, batch_idx)
        return {"loss": found["loss"] * 0 + (self.value if self.seen == self.at else 1.0)}


@pytest.mark.parametrize("value", [math.nan, math.inf, 1001.0, -math.inf])
def test_a_loss_that_is_not_finite_or_beyond_the_bound_is_divergence(attempt: spool.Attempt, value: float) -> None:
    recording = Recording(attempt, divergence_bound=1000.0)
    trainer(recording).fit(Diverging(13, value))
    assert recording.diverged == f"the training loss was {value:g} at update 13 (bound 1000)"
    (event,) = events(attempt)
    assert (event["name"], event["update"], event["reason"]) == ("diverged", 13, recording.diverged)
    assert [update for update, _ in points(attempt, "train/loss")] == ([10, 13] if math.isfinite(value) else [10])


def test_where_the_loop_goes_on_train_loss_does_and_the_last_loss_decides(attempt: spool.Attempt) -> None:
    recording = Recording(attempt, divergence_bound=math.inf, strict=False)
    trainer(recording).fit(Diverging(13, math.nan))
    assert not recording.diverged
    assert points(attempt, "train/loss") == [(10, 1.0), (20, 1.0)]
    lines = [line for _, path in spool.spools(attempt.folder) for line in spool.read(path)]
    assert [(line["metric"], line["update"]) for line in lines if line["kind"] == "nonfinite"] == [("train/loss", 13)]
    assert not events(attempt)
    again = Recording(attempt, divergence_bound=math.inf, strict=False)
    trainer(again).fit(Diverging(24, math.nan))
    assert again.diverged == "the training loss was nan from update 24 on"


def test_two_values_at_one_update_are_one_point_and_one_warning(attempt: spool.Attempt) -> None:
    recording = Recording(attempt)
    for update, value in ((1, 5.0), (1, 6.0), (1, 7.0), (2, 7.0), (2, 7.0), (3, math.nan), (3, math.nan), (4, 1.0)):
        recording.take({"loss": value}, update)
    assert points(attempt, "loss") == [(1, 5.0), (2, 7.0), (4, 1.0)]
    assert recording.taken["loss"] == 1.0
    assert [event["text"] for event in events(attempt)] == [
        "'loss' was logged with two values at one update: its first point there is kept"
    ]


def test_an_alias_is_ours_until_the_user_has_a_metric_of_that_name(attempt: spool.Attempt) -> None:
    recording = Recording(attempt)
    recording.alias("val/loss", stands_for="loss")
    recording.take({"loss": 2.0, "val/loss": 2.0}, 1)
    recording.take({"loss": math.nan, "val/loss": math.nan}, 2)
    with pytest.raises(InputError, match=r"^metric: metric='loss' would be stored as 'val/loss', which is logged too"):
        recording.take({"val/loss": 3.0}, 3)
    assert points(attempt, "val/loss") == [(1, 2.0)]


class Logs(Counted):
    def __init__(self, name: str, value: float = 7.0):
        super().__init__()
        self.logged = (name, value)

    def training_step(self, batch: Any, batch_idx: int) -> Any:
        self.log(*self.logged)
        return super().training_step(batch, batch_idx)


def test_a_module_s_own_train_loss_is_the_only_one(attempt: spool.Attempt, folder: RunFolder) -> None:
    recording = Recording(attempt)
    run = trainer(recording, logger=Logger.for_recording(recording, folder), log_every_n_steps=12)
    run.fit(Logs("train/loss"))
    assert points(attempt, "train/loss") == [(12, 7.0), (24, 7.0)]


def test_what_is_logged_arrives_under_its_own_name_at_the_update(attempt: spool.Attempt, folder: RunFolder) -> None:
    recording = Recording(attempt)
    run = trainer(recording, logger=Logger.for_recording(recording, folder), log_every_n_steps=12)
    run.fit(Logs("speed (km/h)", 3.0))
    assert points(attempt, "speed (km/h)") == [(12, 3.0), (24, 3.0)]
    assert not points(attempt, "epoch")
    assert recording.taken == {"speed (km/h)": 3.0}


def test_names_of_ours_and_words_are_told_apart(attempt: spool.Attempt) -> None:
    recording = Recording(attempt)
    for update in (1, 2):
        recording.take({"time/step": 0.5, "objective": 2.0, "note": "fine", "epoch": 1, "loss": math.nan}, update)
    assert points(attempt, "module/time/step") == [(1, 0.5), (2, 0.5)]
    assert points(attempt, "module/objective") == [(1, 2.0), (2, 2.0)]
    assert [event["text"].partition(":")[0] for event in events(attempt)] == [
        "the module logs 'time/step', a name of ours",
        "the module logs 'objective', a name of ours",
        "the metric 'note' is not a number (str)",
    ]
    assert not points(attempt, "loss")
    assert math.isnan(recording.taken["loss"])


def test_batches_without_a_tensor_count_no_examples_and_say_so_once(attempt: spool.Attempt) -> None:
    class Words(BoringModel):
        def training_step(self, batch: Any, batch_idx: int) -> Any:
            return self.layer.weight.sum()

        def train_dataloader(self) -> Any:
            return DataLoader(["a", "b", "c"])  # type: ignore[arg-type]

    recording = Recording(attempt)
    run = trainer(recording, limit_val_batches=0)
    run.fit(Words())
    assert recording.counts(run)["count/examples"] == 0
    assert [event["name"] for event in events(attempt)] == ["warning"]


@pytest.mark.filterwarnings("ignore::UserWarning")  # the loader starts anew, and other callbacks are missing
def test_a_resumed_recording_goes_on_where_the_checkpoint_was(
    attempt: spool.Attempt, folder: RunFolder, tmp_path: Path
) -> None:
    """Ten updates a window, saved after fifteen: the second window is half before and half after the checkpoint."""
    saver = ModelCheckpoint(tmp_path / "saved", every_n_train_steps=15, save_top_k=-1)
    trainer(Recording(attempt), saver, enable_checkpointing=True).fit(Counted(24))
    whole = points(attempt, "train/loss")
    attempt.release()
    second = Home(tmp_path / "other").create(RunFile(new_run_id(), "x", Labels("own"), {}, "")).begin()
    module = Counted(24)
    module.seen = 15
    recording = Recording(second)
    run = trainer(recording)
    run.fit(module, ckpt_path=saver.best_model_path)
    assert points(second, "train/loss")[:1] == whole[1:] == [(20, 15.5)]
    assert recording.counts(run)["count/gradients"] == recording.counts(run)["count/updates"]
    second.release()


def test_the_state_is_plain(attempt: spool.Attempt) -> None:
    recording = Recording(attempt)
    trainer(recording).fit(Counted(24))
    state = recording.state_dict()
    other = Recording(attempt)
    other.load_state_dict(json.loads(json.dumps(state)))
    assert other.state_dict() == state


class Text(LightningTransformer):
    """Lightning's demo on text that is not downloaded."""

    def __init__(self) -> None:
        super().__init__(vocab_size=50)
        self.text = [(torch.randint(50, (12,)), torch.randint(50, (12,))) for _ in range(20)]

    def prepare_data(self) -> None: ...

    def train_dataloader(self) -> DataLoader[Any]:
        return DataLoader(self.text, 2, shuffle=True)  # type: ignore[arg-type]


def weights(kind: type[pl.LightningModule], *callbacks: pl.Callback) -> list[Tensor]:
    pl.seed_everything(1, verbose=False)
    module = kind()
    trainer(*callbacks, limit_train_batches=30, max_epochs=2).fit(module)
    return list(module.parameters())


@pytest.mark.parametrize("kind", [BoringModel, Text, Gan])
def test_training_is_bit_equal_to_training_without_it(attempt: spool.Attempt, kind: type[pl.LightningModule]) -> None:
    for one, other in zip(weights(kind), weights(kind, Recording(attempt)), strict=True):
        assert torch.equal(one, other)


@dataclasses.dataclass
class Pair:
    name: str
    x: Tensor


@pytest.mark.parametrize(
    ("batch", "count"),
    [
        (torch.zeros(6, 2), 6),
        ([torch.zeros(3, 2), torch.zeros(5)], 3),
        ({"ids": ["a"], "x": {"y": torch.zeros(4)}}, 4),
        (Pair("a", torch.zeros(7)), 7),
        ((torch.tensor(1.0), torch.zeros(2)), 2),
        (SimpleNamespace(num_graphs=8, num_nodes=99), 8),
        (SimpleNamespace(num_nodes=99), 99),
        (["a", "b"], None),
        (torch.tensor(1.0), None),
        (None, None),
    ],
)
def test_examples_in_a_batch(batch: Any, count: int | None) -> None:
    assert examples_in(batch) == count


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch-geometric scripts functions when it is imported
def test_examples_in_a_batch_of_graphs() -> None:
    from torch_geometric.data import Batch, Data

    graphs = [Data(x=torch.zeros(n, 2), edge_index=torch.zeros(2, 0, dtype=torch.long)) for n in (3, 4)]
    assert examples_in(Batch.from_data_list(graphs)) == 2  # type: ignore[attr-defined]
    assert examples_in(graphs[1]) == 4


def test_a_batch_costs_a_few_microseconds(attempt: spool.Attempt) -> None:
    """5 on an idle machine; four times that is still nobody's 1 ms."""
    recording, module = Recording(attempt), SimpleNamespace(automatic_optimization=True)
    fake: Any = SimpleNamespace(global_step=5, accumulate_grad_batches=1)
    recording._logs_loss = False
    batch, outputs = [torch.zeros(4, 3), torch.zeros(4)], {"loss": torch.tensor(1.0)}

    def hooks() -> None:
        recording.on_before_optimizer_step(fake, module, None)  # type: ignore[arg-type]
        recording.on_train_batch_end(fake, module, outputs, batch, 0)  # type: ignore[arg-type]

    assert min(timeit.repeat(hooks, number=2000, repeat=5)) / 2000 < 20e-6


def test_a_batch_waits_for_no_device(attempt: spool.Attempt) -> None:
    """On the meta device nothing can be read: a loss that is only kept passes, one that is read raises."""
    recording, module = Recording(attempt), SimpleNamespace(automatic_optimization=True)
    fake: Any = SimpleNamespace(global_step=5, accumulate_grad_batches=1)
    recording._logs_loss = False
    batch = torch.zeros(4, device="meta")
    recording.on_train_batch_end(fake, module, {"loss": batch.sum()}, batch, 0)  # type: ignore[arg-type]
    with pytest.raises(NotImplementedError):
        recording.state_dict()


def test_other_loggers_see_what_they_always_saw(attempt: spool.Attempt, tmp_path: Path) -> None:
    seen: list[Mapping[str, Any]] = []
    for callbacks in ((), (Recording(attempt),)):
        logger = CSVLogger(tmp_path, version=len(seen))
        trainer(*callbacks, logger=logger, log_every_n_steps=4).fit(Logs("a"))
        seen.append({"rows": Path(logger.log_dir, "metrics.csv").read_text()})
    assert seen[0] == seen[1]
