"""What a run of a user's module comes to: its metric, its objective, its weights, its last word."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import pytest
import torch
from lightning.pytorch.callbacks import WeightAveraging
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from algos.finding import InputError
from experiments import checkpoint
from experiments.config import resolve
from experiments.modules.task import Task
from experiments.progress import RunProgress
from experiments.stopping import Stop
from experiments.store.home import Home, RunFolder
from experiments.training import load_model, resume, train

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


class Net(pl.LightningModule):
    """Logs each epoch's number as `epoch_score`, and its validation loss; ends as it is told."""

    def __init__(self, leaves: str = "") -> None:
        super().__init__()
        self.leaves = leaves
        self.layer = nn.Linear(4, 2)

    def training_step(self, batch: Any, index: int) -> Tensor:
        if self.leaves == "exit":
            sys.exit(3)
        if self.leaves == "Ctrl-C":
            raise KeyboardInterrupt
        if self.leaves == "nan" and self.global_step == 5:
            return self.layer(batch[0]).sum() * float("nan")
        loss = nn.functional.cross_entropy(self.layer(batch[0]), batch[1])
        self.log("train_loss", loss)
        return loss

    def on_train_epoch_end(self) -> None:
        self.log("epoch_score", [1.0, 3.0, 9.0, 4.0, 5.0][self.current_epoch])

    def validation_step(self, batch: Any, index: int) -> None:
        self.log("val/loss", nn.functional.cross_entropy(self.layer(batch[0]), batch[1]))

    def test_step(self, batch: Any, index: int) -> None:
        self.log("test/loss", nn.functional.cross_entropy(self.layer(batch[0]), batch[1]))

    def configure_optimizers(self) -> Any:
        return torch.optim.SGD(self.parameters(), 0.1)

    def train_dataloader(self) -> Any:
        inputs = torch.randn(32, 4, generator=torch.Generator().manual_seed(1))
        return DataLoader(TensorDataset(inputs, (inputs.sum(1) > 0).long()), batch_size=8)

    def val_dataloader(self) -> Any:
        return self.train_dataloader()

    def test_dataloader(self) -> Any:
        return self.train_dataloader()


def run(folder: Path, **said: Any) -> RunFolder:
    task = Task.from_lightning(Net, metric=said.pop("metric", "val/loss"), mode=said.pop("mode", "min"))
    finished = train(resolve(task.overrides(), {"device": "cpu", "budget": {"epochs": 2}, **said}), home=Home(folder))
    return Home(folder).folder(finished.record.run_id)


def points(folder: RunFolder, metric: str) -> dict[int, float]:
    return {u: v for line in folder.series([metric]) for u, v in zip(line.updates, line.values, strict=True)}


def loss_of(folder: RunFolder) -> float:
    """The validation loss of the weights that were stored."""
    net = Net()
    net.load_state_dict(load_file(folder.path / "model.safetensors"))
    inputs, labels = next(iter(DataLoader(net.train_dataloader().dataset, batch_size=32)))
    return float(nn.functional.cross_entropy(net.layer(inputs), labels))


@pytest.mark.parametrize(
    "arm",
    [
        {},
        {"wrappers": "ema"},
        {"compression": "magnitude_pruning", "compression.magnitude_pruning.end": 1.0},
        {"compression": "magnitude_pruning", "wrappers": "ema", "evaluate_every": 3},
        {"optimizer": "schedule_free_adamw", "optimizer.lr": 0.1},
        {"wrappers": "ema", "select": "best"},
        {"budget": {"updates": 6}},
    ],
)
def test_the_objective_and_the_test_are_of_the_stored_weights(arm: dict[str, Any], tmp_path: Path) -> None:
    folder = run(tmp_path, **arm)
    record = folder.record()
    assert record.status == "completed", record.traceback or record.reason
    assert record.final["objective"] == pytest.approx(loss_of(folder), rel=1e-6)
    assert record.final["test/loss"] == pytest.approx(record.final["objective"], rel=1e-6)


class Swapping(pl.Callback):
    """Evaluates at an average; from `ends` on the trained weights are back."""

    ends = "on_validation_end"

    def on_train_batch_end(self, trainer: Any, pl_module: Any, *rest: Any) -> None:
        now = pl_module.layer.weight.detach().clone()
        self.average = self.average.lerp(now, 0.2) if hasattr(self, "average") else now

    def on_validation_start(self, trainer: Any, pl_module: Any) -> None:
        if hasattr(self, "average"):
            self.kept = pl_module.layer.weight.detach().clone()
            pl_module.layer.weight.data.copy_(self.average)

    def on_validation_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        if hasattr(self, "average"):
            pl_module.layer.weight.data.copy_(self.kept)


class AtTheEnd(pl.Callback):
    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        pl_module.layer.weight.data.mul_(0.5)


@pytest.mark.parametrize("select", ["last", "best"])
@pytest.mark.parametrize("callback", [Swapping, AtTheEnd, WeightAveraging])
def test_whoever_changes_the_weights_the_objective_is_of_the_stored_ones(
    callback: Any, select: str, tmp_path: Path
) -> None:
    task = Task.from_lightning(Net, metric="val/loss", callbacks=[callback], budget={"epochs": 3})
    record = train(resolve(task.overrides(), {"device": "cpu", "select": select}), home=Home(tmp_path)).record
    assert record.status == "completed", record.traceback or record.reason
    assert record.final["objective"] == pytest.approx(loss_of(Home(tmp_path).folder(record.run_id)), rel=1e-6)


def test_optimizers_stepped_past_lightning_are_refused(tmp_path: Path) -> None:
    class Past(Net):
        def __init__(self) -> None:
            super().__init__()
            self.automatic_optimization = False

        def training_step(self, batch: Any, index: int) -> Tensor:
            optimizer: Any = self.optimizers(use_pl_optimizer=False)
            loss = nn.functional.cross_entropy(self.layer(batch[0]), batch[1])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            return loss

    task = Task.from_lightning(Past, metric="val/loss", budget={"epochs": 3})
    record = train(resolve(task.overrides(), {"device": "cpu"}), home=Home(tmp_path)).record
    assert record.status == "crashed"
    assert "steps its optimizers past Lightning, so updates cannot be counted" in record.reason


def test_what_a_module_sets_for_its_process_does_not_leak(tmp_path: Path) -> None:
    class Setting(Net):
        def __init__(self) -> None:
            pl.seed_everything(7, workers=True, verbose=False)
            torch.set_default_dtype(torch.float64)
            torch.use_deterministic_algorithms(True)
            super().__init__()

    before = dict(os.environ)
    task = Task.from_lightning(Setting, metric="val/loss", budget={"epochs": 1})
    alone = run(tmp_path / "alone").record().final
    train(resolve(task.overrides(), {"device": "cpu"}), home=Home(tmp_path / "a"))
    assert torch.get_default_dtype() == torch.float32
    assert not torch.are_deterministic_algorithms_enabled()
    assert dict(os.environ) == before
    assert run(tmp_path / "after").record().final == alone


def test_a_metric_of_epochs_is_taken_anew_at_every_epochs_end(tmp_path: Path) -> None:
    words = {"trainer.check_val_every_n_epoch": 2}
    folder = run(tmp_path, metric="epoch_score", mode="max", budget={"epochs": 5}, select="best", **words)
    assert points(folder, "val/epoch_score") == {4: 1.0, 8: 3.0, 12: 9.0, 16: 4.0, 20: 5.0}
    assert folder.record().final["objective"] == 9.0
    twelve = run(tmp_path, budget={"epochs": 3})  # the weights after the third epoch
    assert loss_of(folder) == loss_of(twelve)


@pytest.mark.parametrize(
    ("leaves", "status", "reason"),
    [("exit", "crashed", "SystemExit: 3"), ("nan", "diverged", "the training loss was nan at update 6 (bound 1e+06)")],
)
def test_whatever_their_code_does_the_run_has_a_last_word(
    leaves: str, status: str, reason: str, tmp_path: Path
) -> None:
    record = run(tmp_path, **{"model.leaves": leaves}).record()
    assert (record.status, record.reason) == (status, reason)


def test_ctrl_c_where_nobody_listens_is_passed_on_and_the_run_can_be_resumed(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, **{"model.leaves": "Ctrl-C"})
    (record,) = Home(tmp_path).records()
    assert (record.status, record.reason) == ("interrupted", "Ctrl-C")


def test_a_metric_of_steps_is_taken_at_the_ends_of_epochs(tmp_path: Path) -> None:
    folder = run(tmp_path, metric="train_loss")
    record = folder.record()
    assert record.status == "completed", record.reason
    assert points(folder, "val/train_loss").keys() == {4, 8}


def test_no_data_are_one_line(tmp_path: Path) -> None:
    record = run(tmp_path, **{"trainer.limit_train_batches": 0}).record()
    assert record.status == "crashed"
    assert record.reason == "data: the training data gave no batch; give more of them, or a smaller batch size"


def test_what_a_stop_at_the_target_says(tmp_path: Path) -> None:
    folder = run(tmp_path, target=10.0, stop="target")
    record = folder.record()
    assert (record.status, record.reason) == ("completed", "reached its target")
    assert record.reached is not None
    assert record.reached["update"] == record.last["count/updates"] == 4
    assert "test/loss" not in record.final


def test_a_checkpoint_that_no_longer_fits_leaves_the_run_as_it_was(tmp_path: Path) -> None:
    """Their file was edited between the attempts; put back, the run goes on."""
    source = Path(__file__).with_name("resumable.py").read_text()
    file = tmp_path / "theirs.py"
    file.write_text(source)
    stop = Stop()
    home = Home(tmp_path / "home")
    config = resolve({"task": f"{file}:Net", "data": f"{file}:Data", "metric": "val_loss", "budget": {"epochs": 2}})

    def after_a_first_epoch(event: Any) -> None:
        if isinstance(event, RunProgress):
            stop.request("Ctrl-C")

    first = train(config, home=home, stop=stop, listener=after_a_first_epoch)
    assert first.record.status == "interrupted"
    folder = home.folder(first.record.run_id)
    path = folder.checkpoints / "last.pt"
    saved = path.read_bytes()
    state = checkpoint.load(path, trusted=True)
    state["state_dict"]["net.0.weight"] = torch.zeros(5, 4)
    checkpoint.save(path, state)
    refused = resume(folder)
    assert refused.record.status == "interrupted"
    assert "the run cannot be gone on with: " in refused.record.reason
    assert isinstance(refused.error, InputError)
    path.write_bytes(saved)
    assert resume(folder).record.status == "completed"


def test_a_module_that_fetches_its_batches_itself_stops_and_starts_again(tmp_path: Path) -> None:
    stop = Stop()

    class Fetching(Net):
        def training_step(self, dataloader_iter: Any) -> Tensor:  # type: ignore[override]
            batch, index, _ = next(dataloader_iter)
            if index == 2:
                stop.request("Ctrl-C")
            return nn.functional.cross_entropy(self.layer(batch[0]), batch[1])

        def on_train_epoch_end(self) -> None:
            """Lightning lets such a module log only with a batch size."""

    task = Task.from_lightning(Fetching, metric="val/loss", budget={"epochs": 2})
    first = train(resolve(task.overrides(), {"device": "cpu"}), home=Home(tmp_path), stop=stop)
    assert first.record.status == "interrupted"
    second = resume(Home(tmp_path).folder(first.record.run_id))
    assert second.record.status == "completed", second.record.traceback or second.record.reason
    assert second.record.last["count/updates"] == 8


def test_a_run_that_died_after_training_only_tells_what_it_came_to(tmp_path: Path) -> None:
    whole = run(tmp_path)
    folder = run(tmp_path)
    spool = folder.path / "spool.1.jsonl"
    lines = spool.read_text().splitlines(keepends=True)
    spool.write_text("".join(line for line in lines if '"ended"' not in line and '"final"' not in line))
    (folder.path / "record.json").unlink(missing_ok=True)
    (folder.path / "model.safetensors").unlink()
    again = resume(folder).record
    assert (again.status, again.attempts) == ("completed", 2)
    assert again.final == whole.record().final
    assert loss_of(folder) == loss_of(whole)


class Teaching(Net):
    """A frozen layer that thaws, which its optimizer leaves out; a loss that is only logged; a rate set by hand."""

    def __init__(self, by_hand: bool = False) -> None:
        super().__init__()
        self.by_hand = by_hand
        self.teacher = nn.Linear(4, 2).requires_grad_(False)
        self.shown = nn.CrossEntropyLoss()

    def training_step(self, batch: Any, index: int) -> Tensor:
        self.teacher.requires_grad_(True)
        with torch.no_grad():
            self.log("shown", self.shown(self.layer(batch[0]), batch[1]))
        return nn.functional.cross_entropy(self.layer(batch[0]) + self.teacher(batch[0]), batch[1])

    def on_train_batch_start(self, *rest: Any) -> None:
        if self.by_hand:
            optimizer: Any = self.optimizers()
            optimizer.param_groups[0]["lr"] = 0.01

    def configure_optimizers(self) -> Any:
        return torch.optim.SGD(self.layer.parameters(), 0.1)


class Waiting(Net):
    def optimizer_zero_grad(self, *rest: Any) -> None:
        """Never."""


def ended(module: Any, folder: Path, **said: Any) -> Any:
    task = Task.from_lightning(module, metric="val/loss", budget={"epochs": 2})
    return train(resolve(task.overrides(), {"device": "cpu", **said}), home=Home(folder))


def test_an_arm_trains_what_their_optimizer_trains_and_no_more(tmp_path: Path) -> None:
    finished = ended(Teaching, tmp_path, optimizer="adamw")
    assert finished.model is not None
    checkpoint.seed_everything(1)
    assert torch.equal(finished.model.teacher.weight, Teaching().teacher.weight)  # type: ignore[union-attr, arg-type]


@pytest.mark.parametrize(
    ("said", "line"),
    [
        ({"loss": "focal"}, "self.shown is not the training loss"),
        ({"optimizer": "sgd", "model.by_hand": True}, "something else set the learning rate to 0.01"),
    ],
)
def test_an_arm_that_would_change_nothing_is_refused(said: dict[str, Any], line: str, tmp_path: Path) -> None:
    record = ended(Teaching, tmp_path, **said).record
    assert record.status == "crashed"
    assert line in record.reason


def test_what_says_itself_what_a_gradient_is_takes_no_sam(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="the module's own optimizer_zero_grad says what an update's gradient"):
        ended(Waiting, tmp_path, wrappers="sam")


def test_evaluations_are_not_counted_in_updates_under_accumulation(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="not whole updates under accumulation"):
        ended(Net, tmp_path, evaluate_every=2, **{"trainer.accumulate_grad_batches": 2})


def test_the_best_weights_of_a_run_begin_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRAINLAB_HOME", str(tmp_path))
    first = ended(Net, tmp_path, select="best").record
    second = ended(Net, tmp_path, init=f"run:{first.run_id}@best", optimizer="sgd", **{"optimizer.lr": 1e-12})
    assert second.record.status == "completed", second.record.reason
    assert second.record.final["objective"] == pytest.approx(first.final["objective"], rel=1e-6)


def test_a_run_in_another_precision_gives_its_model_in_it(tmp_path: Path) -> None:
    folder = Home(tmp_path).folder(ended(Net, tmp_path, **{"trainer.precision": "64-true"}).record.run_id)
    assert {parameter.dtype for parameter in load_model(folder).parameters()} == {torch.float64}
