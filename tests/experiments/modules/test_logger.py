from __future__ import annotations

import copy
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import pytest
import torch
from lightning.pytorch.callbacks import EarlyStopping
from lightning.pytorch.demos import LightningLSTM
from lightning.pytorch.demos.boring_classes import BoringDataModule, BoringModel
from lightning.pytorch.loggers import CSVLogger
from torch.utils.data import DataLoader

from algos.finding import InputError
from experiments.modules import fitted
from experiments.modules.logger import Logger
from experiments.modules.recording import Recording
from experiments.store import spool
from experiments.store.home import Home
from experiments.store.schema import RunRecord
from trainlab.parts import callback

ROOT = Path(__file__).parents[3]
pytestmark = pytest.mark.filterwarnings("ignore:.*smaller than the logging interval:UserWarning")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    """A home of the test's own, without a mirror."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TRAINLAB_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    monkeypatch.delenv("PL_GLOBAL_SEED", raising=False)
    monkeypatch.setattr(fitted, "start_uploader", lambda home, uri: None)
    return Home.default()


class Net(BoringModel):
    """BoringModel logs nothing; this one does, and its validation loss is 3, 2, 1, ..."""

    def __init__(self, width: int = 3, task: str = "binary"):
        super().__init__()
        self.save_hyperparameters()
        self.left = 4.0

    def training_step(self, batch: Any, batch_idx: int) -> Any:
        loss = self.step(batch)
        self.log("loss", loss)
        return loss

    def validation_step(self, batch: Any, batch_idx: int) -> Any:
        self.log("val_loss", self.left)

    def on_validation_epoch_start(self) -> None:
        if not self.trainer.sanity_checking:
            self.left -= 1

    def test_step(self, batch: Any, batch_idx: int) -> Any:
        self.log("test_loss", 0.5)
        self.log("test/other", 8.0)


def trainer(logger: Any, **given: Any) -> pl.Trainer:
    quiet: dict[str, Any] = {"enable_progress_bar": False, "enable_model_summary": False, "accelerator": "cpu"}
    limits = {"max_epochs": 3, "limit_train_batches": 4, "limit_val_batches": 1, "limit_test_batches": 2}
    return pl.Trainer(**{**quiet, **limits, "enable_checkpointing": False, "logger": logger, **given})


def only(home: Home) -> RunRecord:
    (found,) = home.records()
    return found


def test_a_fit_is_a_run(home: Home) -> None:
    logger = Logger("x", metric="val_loss", mode="min", target=2.0, config={"note": "first"})
    trainer(logger).fit(Net(5), datamodule=BoringDataModule())
    found = only(home)
    assert (found.run_id, found.status, found.attempts) == (logger.run_id, "completed", 1)
    assert found.labels.trial == "x/own/Net/final/0"
    assert found.final == {"objective": 1.0}
    assert found.last["val/loss"] == found.last["val_loss"] == 1.0
    assert (found.last["count/updates"], found.last["count/epochs"], found.last["count/gradients"]) == (12, 3, 12)
    assert found.reached is not None
    assert (found.reached["update"], found.reached["value"]) == (8, 2.0)
    assert {key: found.config[key] for key in ("width", "note", "budget")} == {
        "width": 5, "note": "first", "budget": {"epochs": 3},
    }  # fmt: skip
    assert found.config["task"] == "own"
    assert found.config["hparams"] == {"task": "binary"}
    code = found.task["module"]
    assert (Path(code["file"]).name, code["class"], code["parameters"]) == ("test_logger.py", "Net", 66)
    assert found.task["data"]["class"] == "BoringDataModule"


def test_a_module_that_logs_nothing_has_losses_and_counts(home: Home) -> None:
    trainer(Logger()).fit(BoringModel())
    found = only(home)
    assert (found.status, found.labels.study, found.labels.arm) == ("completed", "", "")
    assert found.last["train/loss"] > 0
    assert found.last["count/examples"] == 12


class Text(LightningLSTM):
    """Lightning's demo on text that is not downloaded."""

    def prepare_data(self) -> None: ...

    def train_dataloader(self) -> DataLoader[Any]:
        return DataLoader([(torch.randint(50, (12,)), torch.randint(50, (12,)))] * 20, 2)  # type: ignore[arg-type]


def test_a_recurrent_model_of_lightning_s_own(home: Home) -> None:
    trainer(Logger("x"), max_epochs=1).fit(Text(vocab_size=50))
    found = only(home)
    assert found.status == "completed"
    assert found.last["count/examples"] == 8
    assert found.task["module"]["class"] == "Text"


def test_a_test_after_the_fit_belongs_to_its_run(home: Home) -> None:
    logger = Logger("x", metric="val_loss", mode="min")
    run, module = trainer(logger), Net()
    run.fit(module)
    before = only(home)
    run.test(module)
    after = only(home)
    assert (after.status, after.attempts, after.ended) == ("completed", 1, before.ended)
    assert after.final == {"objective": 1.0, "test/loss": 0.5, "test/other": 8.0}
    assert after.last["test_loss"] == 0.5
    assert {line.metric: line.updates for line in home.series([after.run_id]) if "test" in line.metric} == {
        "test_loss": (12,), "test/loss": (12,), "test/other": (12,),
    }  # fmt: skip


def test_a_test_of_a_crashed_fit_leaves_it_crashed(home: Home) -> None:
    logger = Logger("x")
    run = trainer(logger, max_epochs=1)
    with pytest.raises(ZeroDivisionError):
        run.fit(Crashing())
    trainer(logger).test(Net())
    found = only(home)
    assert (found.status, found.last["test_loss"]) == ("crashed", 0.5)
    assert "1 / 0" in found.traceback


def test_another_fit_with_the_same_logger_is_another_run(home: Home) -> None:
    logger = Logger("x")
    run = trainer(logger)
    run.fit(Net())
    first = logger.run_id
    run.fit_loop.max_epochs = 5
    run.fit(Net())
    assert [record.labels.number for record in home.records() if record.run_id in (first, logger.run_id)] in (
        [0, 1], [1, 0],
    )  # fmt: skip
    assert {record.status for record in home.records()} == {"completed"}
    assert sum(isinstance(each, Recording) for each in run.callbacks) == 1  # type: ignore[attr-defined]


def test_every_count_of_another_fit_is_of_that_fit(home: Home) -> None:
    """Lightning's own count goes on: three epochs of four updates, then two more."""
    logger = Logger("x", metric="val_loss", mode="min")
    run = trainer(logger, callbacks=[callback("sam")])
    run.fit(Net())
    run.fit_loop.max_epochs = 5
    run.fit(Net())
    assert run.global_step == 20
    found = home.folder(logger.run_id).record()
    names = ("updates", "epochs", "examples", "gradients")
    assert [found.last[f"count/{name}"] for name in names] == [8, 2, 8, 16]
    assert found.config["budget"] == {"epochs": 2}
    assert {each.metric: each.updates for each in home.series([logger.run_id])}["val_loss"] == (4, 8)
    assert not found.events


@pytest.mark.filterwarnings("ignore::UserWarning")  # the checkpoint's directory is not empty
def test_counts_go_on_from_a_checkpoint_that_has_them(home: Home, tmp_path: Path) -> None:
    first = trainer(Logger("x"), max_epochs=1)
    first.fit(Net())
    first.save_checkpoint(tmp_path / "saved.ckpt")
    logger = Logger("x")
    trainer(logger, max_epochs=3).fit(Net(), ckpt_path=tmp_path / "saved.ckpt")
    last = home.folder(logger.run_id).record().last
    names = ("updates", "epochs", "examples", "gradients")
    assert [last[f"count/{name}"] for name in names] == [12, 3, 12, 12]


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_counts_begin_anew_from_a_checkpoint_that_has_none(home: Home, tmp_path: Path) -> None:
    first = trainer(False, max_epochs=1)
    first.fit(Net())
    first.save_checkpoint(tmp_path / "saved.ckpt")
    trainer(Logger("x"), max_epochs=3).fit(Net(), ckpt_path=tmp_path / "saved.ckpt")
    last = only(home).last
    assert [last[f"count/{name}"] for name in ("updates", "epochs", "examples", "gradients")] == [8, 2, 8, 8]


def test_a_fit_that_ends_without_a_word_is_crashed_when_the_next_begins(home: Home) -> None:
    """Lightning tells its loggers nothing where a callback's on_exception raises too."""

    class Twice(pl.Callback):
        def on_train_batch_end(self, *given: Any) -> None:
            raise RuntimeError("first")

        def on_exception(self, *given: Any) -> None:
            raise RuntimeError("second")

    logger, handler = Logger("x"), signal.getsignal(signal.SIGTERM)
    with pytest.raises(RuntimeError, match="second"):
        trainer(logger, callbacks=[Twice()]).fit(Net())
    signal.signal(signal.SIGTERM, handler)  # Lightning leaves its own
    first = logger.run_id
    trainer(logger).fit(Net())
    assert sorted((record.run_id == first, record.status, record.reason) for record in home.records()) == [
        (False, "completed", ""),
        (True, "crashed", "its fit ended without a word"),
    ]


class NoData(Net):
    def prepare_data(self) -> None:
        raise OSError("no network")


def test_a_fit_that_fails_before_lightning_asks_for_the_run_is_one(home: Home) -> None:
    logger = Logger("x")
    for _ in range(2):
        with pytest.raises(OSError, match="no network"):
            trainer(logger).fit(NoData())
    assert [(found.status, found.reason) for found in home.records()] == [("crashed", "OSError: no network")] * 2
    assert all("prepare_data" in found.traceback for found in home.records())
    assert home.folder(logger.run_id).record().task["module"]["class"] == "NoData"
    with pytest.raises(OSError, match="no network"):
        trainer(logger).test(NoData())
    assert len(home.records()) == 2


def test_what_fails_after_the_run_is_over_is_no_other_run(home: Home) -> None:
    class Failing(CSVLogger):
        def finalize(self, status: str) -> None:
            raise OSError("no space")

    with pytest.raises(OSError, match="no space"):
        trainer([Logger("x"), Failing(".")]).fit(Net())
    assert only(home).status == "completed"


def test_a_config_that_cannot_be_right_stops_the_fit_with_its_own_words(home: Home) -> None:
    with pytest.raises(InputError, match="config is a list"):
        trainer(Logger("x", config=[1])).fit(Net())
    assert not home.run_ids()


def test_where_lightning_logs_no_hyperparameters_there_is_a_run(home: Home) -> None:
    trainer(Logger("x"), enable_autolog_hparams=False).fit(Net())
    assert (only(home).status, only(home).last["count/updates"]) == ("completed", 12)


class Accumulating(Net):
    """By hand, four batches an update; it logs each batch."""

    def __init__(self) -> None:
        super().__init__()
        self.automatic_optimization = False

    def training_step(self, batch: Any, batch_idx: int) -> None:
        self.log("batch", float(batch_idx))
        self.manual_backward(self.step(batch))
        if batch_idx % 4 == 3:
            optimizer: Any = self.optimizers()
            optimizer.step()
            optimizer.zero_grad()


def test_of_two_values_at_one_update_the_first_is_kept_and_it_is_said_once(home: Home) -> None:
    logger = Logger("x", metric="batch", mode="min")
    trainer(logger, max_epochs=1, limit_train_batches=12, log_every_n_steps=1).fit(Accumulating())
    curves = {each.metric: dict(zip(each.updates, each.values)) for each in home.series([logger.run_id])}
    assert curves["batch"] == curves["val/batch"]
    assert list(curves["batch"]) == [0, 1, 2, 3]
    assert curves["batch"][0] == 0.0
    assert only(home).final["objective"] == 11.0
    told = "'batch' was logged with two values at one update: its first point there is kept"
    assert [event["text"] for event in only(home).events] == [told]


@pytest.mark.parametrize("order", [("loss", "val/loss"), ("val/loss", "loss")])
def test_another_metric_of_the_name_that_ours_is_stored_under_is_refused(home: Home, order: tuple[str, str]) -> None:
    class Both(BoringModel):
        def on_train_epoch_end(self) -> None:
            self.log(order[0], 1.0)

        def on_train_batch_start(self, batch: Any, batch_idx: int) -> None:
            if self.current_epoch == 1:
                self.log(order[1], 2.0)

    said = "metric='loss' would be stored as 'val/loss', which is logged too; give metric='val/loss', or rename"
    with pytest.raises(InputError, match=said):
        trainer(Logger("x", metric="loss", mode="min"), log_every_n_steps=1).fit(Both())
    assert only(home).status == "crashed"
    trainer(Logger("y", metric="val/loss", mode="min"), log_every_n_steps=1).fit(Both())


class Once(Net):
    """One training loss is not finite, and the module's own hook keeps it from the weights."""

    def training_step(self, batch: Any, batch_idx: int) -> Any:
        return super().training_step(batch, batch_idx) * (torch.inf if batch_idx == 1 else 1)

    def on_before_optimizer_step(self, optimizer: Any) -> None:
        for parameter in self.parameters():
            assert parameter.grad is not None
            parameter.grad.nan_to_num_(0, 0, 0)


def test_a_loss_that_the_loop_goes_on_from_is_an_event(home: Home) -> None:
    trainer(Logger("x", metric="val_loss", mode="min"), log_every_n_steps=1).fit(Once())
    found = only(home)
    assert (found.status, found.final) == ("completed", {"objective": 1.0})
    assert "train/loss" in found.nonfinite
    assert not found.events


def test_a_metric_whose_last_value_is_not_finite_is_divergence(home: Home) -> None:
    class Last(Net):
        def validation_step(self, batch: Any, batch_idx: int) -> Any:
            self.log("val_loss", torch.nan if self.left == 1 else self.left)

    trainer(Logger("x", metric="val_loss", mode="min")).fit(Last())
    found = only(home)
    assert (found.status, found.reason, dict(found.final)) == ("diverged", "the last val_loss was nan", {})
    assert [event["name"] for event in found.events] == ["diverged"]


def test_a_test_without_a_fit_and_a_fast_dev_run_are_no_runs(home: Home) -> None:
    with pytest.warns(UserWarning, match="before a fit is not stored"):
        trainer(Logger()).test(Net())
    trainer(Logger(), fast_dev_run=True).fit(Net())
    assert not home.records()


class Crashing(Net):
    def training_step(self, batch: Any, batch_idx: int) -> Any:
        return super().training_step(batch, batch_idx) if self.global_step < 2 else 1 / 0


class CrashingSetup(Net):
    def configure_optimizers(self) -> Any:
        raise ValueError("no optimizer today")


class Leaving(Net):
    def training_step(self, batch: Any, batch_idx: int) -> Any:
        sys.exit()


class Broken(Net):
    def training_step(self, batch: Any, batch_idx: int) -> Any:
        return super().training_step(batch, batch_idx) * torch.nan


@pytest.mark.parametrize(
    ("kind", "raised", "status", "reason"),
    [
        (Crashing, ZeroDivisionError, "crashed", "ZeroDivisionError: division by zero"),
        (CrashingSetup, ValueError, "crashed", "ValueError: no optimizer today"),
        (Leaving, SystemExit, "interrupted", "the program ended in its fit"),
    ],
)
def test_how_a_fit_ended(home: Home, kind: type[Net], raised: type[BaseException], status: str, reason: str) -> None:
    with pytest.raises(raised):
        trainer(Logger("x")).fit(kind())
    found = only(home)
    assert (found.status, found.reason) == (status, reason)
    assert ("test_logger.py" in found.traceback) == (status == "crashed")


def test_a_loss_that_is_not_finite_is_divergence(home: Home) -> None:
    trainer(Logger("x")).fit(Broken())
    found = only(home)
    assert (found.status, found.reason) == ("diverged", "the training loss was nan from update 1 on")


def test_a_large_loss_is_not(home: Home) -> None:
    class Large(Net):
        def training_step(self, batch: Any, batch_idx: int) -> Any:
            return self.layer(batch).sum() * 0 + 1e9

    trainer(Logger("x")).fit(Large())
    assert only(home).status == "completed"


def test_a_metric_that_never_appears_is_said_and_costs_no_run(home: Home) -> None:
    with pytest.warns(UserWarning, match=r"'val_los' was never logged \(logged: val_loss\); did you mean 'val_loss'"):
        trainer(Logger("x", metric="val_los", mode="min")).fit(Net())
    assert (only(home).status, dict(only(home).final)) == ("completed", {})


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"metric": "reward"}, "cannot be told from its name; give mode"),
        ({"mode": "max"}, "without a metric"),
        ({"metric": "validation_step:loss", "mode": "min"}, r"sees only what is logged; .*self.log\('val/loss'"),
    ],
)
def test_what_cannot_be_right_is_refused_at_once(given: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        Logger("x", **given)


def test_early_stopping_is_told(home: Home) -> None:
    stop = EarlyStopping("val_loss", stopping_threshold=2.5)
    trainer(Logger("x"), max_epochs=9, callbacks=[stop]).fit(Net())
    found = only(home)
    assert found.status == "completed"
    assert [(event["name"], event["update"]) for event in found.events] == [("stopped_early", 8)]


def test_checkpoints_lie_in_the_run_s_folder(home: Home) -> None:
    logger = Logger("x")
    run = trainer(logger, enable_checkpointing=True)
    run.fit(Net())
    assert Path(run.checkpoint_callback.best_model_path).parent == home.folder(logger.run_id).checkpoints  # type: ignore[union-attr]
    assert run.log_dir == logger.save_dir == str(home.folder(logger.run_id).path)


def test_layers_made_in_setup_are_counted(home: Home) -> None:
    class Late(BoringModel):
        def setup(self, stage: str) -> None:
            self.more = torch.nn.Linear(9, 1)

    trainer(Logger()).fit(Late())
    found = only(home)
    assert [(event["name"], event["total"]) for event in found.events] == [("parameters", 76)]


def test_a_seed_that_is_not_given_is_seed_everything_s(home: Home) -> None:
    pl.seed_everything(7, verbose=False)
    trainer(Logger("x")).fit(Net())
    trainer(Logger("x", seed=3)).fit(Net())
    assert sorted(record.labels.seed for record in home.records()) == [3, 7]


def test_a_copy_of_a_logger_opens_runs_of_its_own(home: Home) -> None:
    logger = Logger("x")
    trainer(logger).fit(Net())
    other = copy.deepcopy(logger)
    assert other.run_id == ""
    trainer(other).fit(Net())
    assert len(home.records()) == 2


def test_ranks_but_the_first_write_nothing(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    from lightning.pytorch.utilities.rank_zero import rank_zero_only

    monkeypatch.setattr(rank_zero_only, "rank", 1)
    logger = Logger("x")
    monkeypatch.setattr(pl.strategies.SingleDeviceStrategy, "setup_environment", lambda self: None)
    trainer(logger).fit(Net())
    assert (home.run_ids(), logger.save_dir) == ([], None)


# What only a process of its own can show

_SCRIPT = """
    import sys, time, torch
    import lightning.pytorch as pl
    from lightning.pytorch.demos.boring_classes import BoringModel
    from experiments.modules import fitted
    fitted.start_uploader = lambda home, uri: None
    from experiments.modules.logger import Logger

    class Net(BoringModel):
        def training_step(self, batch, batch_idx):
            if self.global_step == 20:
                print("ready", flush=True)
            if self.global_step >= 20:
                {at_20}
            return super().training_step(batch, batch_idx)

    logger = Logger("x")
    trainer = pl.Trainer(
        logger=logger, max_steps=2000, accelerator="cpu", enable_progress_bar=False, enable_model_summary=False,
        enable_checkpointing=False, limit_val_batches=0,
    )
    {fit}
"""


def start(at_20: str = "time.sleep(0.02)", fit: str = "trainer.fit(Net())") -> subprocess.Popen[str]:
    script = textwrap.dedent(_SCRIPT).format(at_20=at_20, fit=fit)
    Path("script.py").write_text(script)
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        [sys.executable, "script.py"], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


@pytest.fixture
def running() -> Iterator[subprocess.Popen[str]]:
    process = start()
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line.strip() == "ready", (line, process.communicate(timeout=200))
    yield process
    process.kill()
    process.communicate()


@pytest.mark.parametrize(
    ("number", "status", "reason"),
    [
        (signal.SIGTERM, "interrupted", "SIGTERM"),
        (signal.SIGINT, "interrupted", "Ctrl-C"),
        (signal.SIGKILL, "lost", "its process vanished"),
    ],
)
def test_how_a_killed_fit_ended(
    running: subprocess.Popen[str], home: Home, number: signal.Signals, status: str, reason: str
) -> None:
    assert only(home).status == "running"
    running.send_signal(number)
    running.communicate(timeout=200)
    found = only(home)
    assert (found.status, found.reason) == (status, reason)
    if number != signal.SIGKILL:
        assert found.last["count/updates"] >= 20


def test_a_script_that_crashes(home: Home) -> None:
    _, told = start(at_20="raise ValueError('at twenty')").communicate(timeout=200)
    found = only(home)
    assert (found.status, found.reason, found.last["count/updates"]) == ("crashed", "ValueError: at twenty", 20)
    assert 'script.py", line' in found.traceback
    assert told.rstrip().endswith("ValueError: at twenty")  # and the script's own traceback is as ever
    assert Path(found.task["module"]["file"]).name == "script.py"


def test_a_program_that_ends_while_its_fit_goes_on(home: Home) -> None:
    fit = "threading.Thread(target=trainer.fit, args=(Net(),), daemon=True).start(); at_20.wait()"
    start("at_20.set(); time.sleep(0.02)", f"import threading; at_20 = threading.Event(); {fit}").communicate(
        timeout=200
    )
    assert (only(home).status, only(home).reason) == ("interrupted", "the program ended before its fit did")


def test_what_a_test_adds_is_followed_by_the_same_last_words(home: Home) -> None:
    logger = Logger("x", metric="val_loss", mode="min")
    run, module = trainer(logger), Net()
    run.fit(module)
    path = spool.spools(home.folder(logger.run_id).path)[0][1]
    size = path.stat().st_size
    run.test(module)
    assert path.stat().st_size > size
    lines = list(spool.read(path))
    assert [line["kind"] for line in lines][-4:] == ["ended", "points", "final", "ended"]
    assert lines[-1] == lines[-4]


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["ddp", "ddp_spawn"])
def test_two_processes_are_one_run(home: Home, strategy: str) -> None:
    guarded = f"""
    if __name__ == '__main__':
        trainer = pl.Trainer(
            logger=logger, max_epochs=1, limit_train_batches=6, accelerator="cpu", devices=2, strategy="{strategy}",
            enable_progress_bar=False, enable_model_summary=False,
        )
        trainer.fit(Net())
    """
    process = start(fit=textwrap.dedent(guarded))
    assert (process.communicate(timeout=120), process.returncode)[1] == 0
    found = only(home)
    assert found.status == "completed"
    assert (found.last["count/updates"], found.last["count/examples"]) == (6, 12)
    assert list(home.folder(found.run_id).checkpoints.glob("*.ckpt"))


@pytest.mark.slow
def test_a_fit_and_its_test_arrive_in_mlflow(home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from experiments.store import uploads

    monkeypatch.setattr(fitted, "start_uploader", uploads.start_uploader)
    uri = f"sqlite:///{tmp_path / 'own.db'}"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    logger = Logger("x", metric="val_loss", mode="min")
    run, module = trainer(logger), Net()
    run.fit(module)
    uploader = uploads.start_uploader(home, uri)
    assert not uploader.finish(120)
    run.test(module)
    assert not uploader.finish(60)
    from experiments.store.mirror import connect

    client = connect(uri)
    (found,) = client.search_runs([item.experiment_id for item in client.search_experiments()])
    assert found.info.status == "FINISHED"
    assert found.info.end_time == only(home).ended
    assert {key: found.data.metrics[key] for key in ("test_loss", "test/loss", "val_loss", "objective")} == {
        "test_loss": 0.5, "test/loss": 0.5, "val_loss": 1.0, "objective": 1.0,
    }  # fmt: skip
    assert len(client.get_metric_history(found.info.run_id, "test_loss")) == 1
    uploader.stop()
