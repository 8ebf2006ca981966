"""A user's module on the command line: from a folder with one file to runs, studies and reports; and what is wrong."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import trainlab as tl
from algos.finding import InputError
from experiments.overrides import parse
from experiments.store.home import Home
from trainlab.cli import main
from trainlab.differences import differences
from trainlab.running import resolved

pytestmark = [pytest.mark.usefixtures("place"), pytest.mark.filterwarnings("ignore::UserWarning")]
Said = Callable[..., tuple[int, str, str]]
MODULE = """\
import lightning.pytorch as pl
import torch
from torch.utils.data import DataLoader, TensorDataset


class Data(pl.LightningDataModule):
    def __init__(self, size=32, loaders=1, faulty=False):
        super().__init__()
        self.size, self.loaders, self.faulty = size, loaders, faulty

    def setup(self, stage):
        if self.faulty:
            raise FileNotFoundError("images.npy is not where it was")
        inputs = torch.randn(self.size, 4, generator=torch.Generator().manual_seed(0))
        self.data = TensorDataset(inputs, (inputs.sum(1) > 0).long())

    def train_dataloader(self):
        return DataLoader(self.data, batch_size=8, shuffle=True)

    def val_dataloader(self):
        loaders = [DataLoader(self.data, batch_size=16) for _ in range(self.loaders)]
        return loaders if self.loaders > 1 else loaders[0]


class Net(pl.LightningModule):
    def __init__(self, width=4, lr=0.1, bug="", slow_s=0.0):
        super().__init__()
        self.save_hyperparameters()
        if bug == "constructor":
            width = width / 0
        self.net = torch.nn.Sequential(torch.nn.Linear(4, width), torch.nn.ReLU(), torch.nn.Linear(width, 2))
        self.loss = torch.nn.CrossEntropyLoss()

    def training_step(self, batch, index):
        inputs, labels = batch
        if self.hparams.bug == "step" and index == 2:
            inputs = inputs[:, :3]
        if self.hparams.slow_s:
            import time
            time.sleep(self.hparams.slow_s)
        return self.loss(self.net(inputs), labels)

    def validation_step(self, batch, index, dataloader_idx=0):
        inputs, labels = batch
        predicted = self.net(inputs)
        self.log("val/acc", (predicted.argmax(1) == labels).float().mean())
        return {"loss": self.loss(predicted, labels)}

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=self.hparams.lr)
"""
STUDY = """\
name: theirs
question: Which optimizer trains my module best?
tasks: {signs: {task: my_module.py:Net, data: my_module.py:Data, metric: val/acc}}
budget: {epochs: 2}
arms:
  own: {model.lr: 1e-3:1:log}
  muon: {optimizer: muon, optimizer.lr: 1e-3:1:log}
tune: {trials: 2}
seeds: 2
"""
RUN = ("run", "task=my_module.py:Net", "data=my_module.py:Data", "metric=val/acc", "budget.epochs=2", "device=cpu")


@pytest.fixture(autouse=True)
def module(place: Path) -> None:
    (place / "my_module.py").write_text(MODULE)


@pytest.fixture
def said(capsys: pytest.CaptureFixture[str]) -> Said:
    """Runs a command; (exit code, stdout, stderr)."""

    def call(*arguments: str) -> tuple[int, str, str]:
        code = main(list(arguments))
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


def newest() -> Any:
    return max(Home.default().records(), key=lambda record: record.file.created)


def test_a_run_of_ones_own_module(said: Said) -> None:
    code, out, err = said(*RUN, "model.width=8")
    assert code == 0, err
    record = newest()
    assert record.status == "completed"
    assert record.config["model"] == {"name": "Net", "width": 8, "lr": 0.1, "bug": "", "slow_s": 0.0}
    assert record.labels.task == "Net"
    assert record.final["objective"] == record.last["val/acc"]
    assert record.last["count/updates"] == 8
    assert record.last["count/examples"] == 64
    facts = record.task["module"]
    assert (facts["class"], Path(facts["file"]).name, len(facts["sha256"])) == ("Net", "my_module.py", 64)
    assert record.run_id in out


def test_constructor_arguments_are_swept(said: Said) -> None:
    before = Home.default().run_ids()
    code, _, err = said(*RUN, "model.width=4,8", "data.size=16,32")
    assert code == 0, err
    records = [record for record in Home.default().records() if record.run_id not in before]
    widths = [(record.config["model"]["width"], record.config["data"]["size"]) for record in records]
    assert sorted(widths) == [(4, 16), (4, 32), (8, 16), (8, 32)]


def test_runs_of_one_command_are_told_apart_by_their_names(said: Said) -> None:
    before = Home.default().run_ids()
    code, out, err = said(*RUN, "model.width=4,8", "wrappers=none,ema")
    assert code == 0, err
    names = {each.file.name for each in Home.default().records() if each.run_id not in before}
    assert names == {f"Net own width={w} wrappers={wrapper} seed 1" for w in (4, 8) for wrapper in ("none", "ema")}
    assert all(name in out for name in names)
    both = [*RUN[1:], "optimizer=adamw", "optimizer.lr=0.1,0.2", "model.lr=1,2"]
    assert differences(resolved(parse(both)))[0] == "model.lr=1 optimizer.lr=0.1"


def test_tune_on_the_command_line(said: Said) -> None:
    """What belongs to the task is the task's: an arm is what is searched."""
    command = ["tune", *RUN[1:-1], "data.size=16", "model.lr=1e-4:1e-1:log", "--trials", "2", "seed=1,2"]
    code, out, err = said(*command)
    assert code == 0, err
    study = next(word for word in out.split() if word.startswith("tune-Net-own-"))
    records = [record for record in Home.default().records() if record.labels.study == study]
    assert sorted(record.labels.phase for record in records) == ["final", "final", "tune", "tune"]
    assert {record.config["data"]["size"] for record in records} == {16}
    assert len({record.config["model"]["lr"] for record in records if record.labels.phase == "tune"}) == 2
    code, _, err = said(*[word.replace("model.lr", "model.lrr") for word in command])
    assert (code, "unknown argument of Net 'lrr'; did you mean 'lr'?" in err) == (2, True)
    code, _, err = said(*[word for word in command if not word.startswith("model.")])
    assert (code, "nothing says what to search on Net; give a range" in err) == (2, True)


@pytest.mark.parametrize("plan", [["--plan"], []])
def test_an_arm_that_the_module_cannot_take_is_refused_before_anything_runs(
    plan: list[str], said: Said, place: Path
) -> None:
    bare = MODULE.replace("self.loss = torch.nn.CrossEntropyLoss()", "")
    (place / f"bare{len(plan)}.py").write_text(bare)
    tasks = f"tasks: {{signs: {{task: bare{len(plan)}.py:Net, data: my_module.py:Data, metric: val/acc}}}}\n"
    arms = "arms: {own: {}, focal: {loss: focal}}\n"
    (place / "focal.yaml").write_text(f"name: focal\n{tasks}budget: {{epochs: 1}}\nseeds: 2\n{arms}")
    before, state = Home.default().run_ids(), torch.get_rng_state()
    code, _, err = said("sweep", "focal.yaml", *plan)
    assert code == 2
    assert "arms.focal.loss: the module holds no classification loss as an attribute" in err
    assert Home.default().run_ids() == before
    assert torch.equal(torch.get_rng_state(), state)


def test_a_manual_module_with_another_optimizer_is_refused_before_anything_runs(said: Said, place: Path) -> None:
    manual = MODULE.replace("self.save_hyper", "self.automatic_optimization = False\n        self.save_hyper")
    (place / "manual.py").write_text(manual)
    before = Home.default().run_ids()
    arguments = [word.replace("my_module.py:Net", "manual.py:Net") for word in RUN]
    code, _, err = said(*arguments, "optimizer=adamw")
    assert (code, "automatic_optimization=False" in err) == (2, True)
    assert Home.default().run_ids() == before


def test_a_fault_of_their_constructor_is_left_to_the_run(said: Said) -> None:
    code, _, err = said(*RUN, "model.bug=constructor", "optimizer=adamw")
    assert (code, newest().status) == (1, "crashed")
    assert "ZeroDivisionError" in err


def test_show_takes_a_module_with_and_without_its_key(said: Said) -> None:
    shown = [said("show", word) for word in ("my_module.py:Net", "task=my_module.py:Net")]
    assert shown[0] == shown[1]
    assert "width" in shown[0][1]
    assert said("show", "task=digits")[1] == said("show", "digits")[1]


def test_a_query_without_a_value_is_one_line(said: Said) -> None:
    code, _, err = said("runs", "metric<")
    assert (code, err) == (2, "error: 'metric<' has no value; write it without spaces, e.g. metric<0.9\n")


INTERRUPTED = """
import os, signal, sys
import lightning.pytorch as pl, trainlab as tl
from my_module import Data, Net
class Wide(Net):
    pass
class Halt(pl.Callback):
    def on_train_batch_end(self, trainer, *rest):
        if trainer.global_step == 3 and sys.argv[2:] != ["resume"]:
            os.kill(os.getpid(), signal.SIGINT)
net = {"by-value": Wide, "named": Net}[sys.argv[1]]
task = tl.Task.from_lightning(net, Data, metric="val/acc", budget={"epochs": 2}, callbacks=[Halt])
if sys.argv[1] == "named":
    task = tl.Task.from_lightning(net, Data, metric="val/acc", budget={"epochs": 2}, callbacks=["halt.py:Halt"])
print(tl.resume(os.environ["RUN"]).status if sys.argv[2:] == ["resume"] else tl.run(task=task))
"""


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["by-value", "named"])
def test_ctrl_c_in_a_script_says_how_to_go_on_and_that_works(kind: str, said: Said, place: Path) -> None:
    (place / "script.py").write_text(INTERRUPTED)
    (place / "halt.py").write_text(INTERRUPTED[: INTERRUPTED.index("net = ")].replace('"resume"', '"x"'))
    before = set(Home.default().run_ids())
    command = [sys.executable, "-W", "ignore", "script.py", kind]
    done = subprocess.run(command, cwd=place, capture_output=True, text=True, check=False)
    (run_id,) = set(Home.default().run_ids()) - before
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith(f"KeyboardInterrupt: Ctrl-C: run {run_id} is stored; go on with ")
    if kind == "named":
        assert last.endswith(f"`trainlab resume {run_id}`")
        (place / "halt.py").unlink()
        return
    assert last.endswith(f'tl.resume("{run_id}") in a script or notebook that makes the same Task first')
    code, _, err = said("resume", run_id)
    assert code == 2
    assert f'make the same Task in a script or notebook, and then call tl.resume("{run_id}") there' in err
    environment = {**os.environ, "RUN": run_id}
    again = subprocess.run(
        [*command, "resume"], cwd=place, env=environment, capture_output=True, text=True, check=False
    )
    assert again.stdout.strip().splitlines()[-1] == "completed", again.stderr


def test_in_python_a_task_says_it_all() -> None:
    task = tl.Task.from_lightning("my_module.py:Net", "my_module.py:Data", metric="val/acc", budget={"epochs": 1})
    run = tl.run(task=task, seed=3, device="cpu")
    assert isinstance(run, tl.Run)
    assert run.status == "completed"
    assert run.history["val/acc"].dropna().size == 1
    assert type(run.model).__name__ == "Net"
    assert not run.model.training


def test_a_study_of_their_module_is_tuned_rerun_and_reported(said: Said, place: Path) -> None:
    (place / "study.yaml").write_text(STUDY)
    code, _, err = said("sweep", "study.yaml")
    assert code == 0, err
    records = [record for record in Home.default().records() if record.labels.study == "theirs"]
    assert [record.labels.phase for record in records].count("tune") == 4
    assert [record.labels.phase for record in records].count("final") == 4
    assert {record.labels.task for record in records} == {"signs"}
    with (place / "my_module.py").open("a") as file:
        file.write("# changed since\n")
    code, _, err = said("report", "theirs", "-o", "report")
    assert code == 0, err
    page = (place / "report" / "report.html").read_text()
    digest = records[0].task["module"]["sha256"][:12]
    assert all(word in page for word in ("my_module.py", "Net", digest))
    assert "changed" in page


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        (["task=my_module.py:Ned"], "my_module.py has no 'Ned'; did you mean 'Net'?"),
        (["task=no_module.py:Net"], "no_module.py"),
        (["model.widht=8"], "unknown argument of Net 'widht'; did you mean 'width'?"),
        (["data=my_module.py:Net"], "not a LightningDataModule"),
        (["metric=val/accuracy"], "the metric 'val/accuracy' never appeared; these did: train/loss, val/acc"),
        (["metric=validation_step:los", "mode=min"], "metric=validation_step:loss"),
        (["data.loaders=2"], "metric=val/acc/dataloader_idx_0 or metric=val/acc/dataloader_idx_1"),
        (["wrappers=sam", "trainer.accumulate_grad_batches=2"], "accumulat"),
        (["loss=focal", "optimizer=nadaw"], "did you mean"),
        (["metric="], "give metric=NAME"),
        (["trainer.max_epoch=3"], "max_epochs"),
    ],
)
def test_what_is_wrong_is_one_line_and_exit_code_2(changes: list[str], line: str, said: Said) -> None:
    keys = {change.partition("=")[0] for change in changes}
    kept = [argument for argument in RUN if argument.partition("=")[0] not in keys]
    code, _, err = said(*kept, *changes)
    last = err.strip().splitlines()[-1]
    assert (code, last[:7]) == (2, "error: "), err
    assert line in last
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("change", "fault", "place_of_it"),
    [
        ("model.bug=constructor", "ZeroDivisionError: division by zero", "in __init__"),
        ("model.bug=step", "RuntimeError: mat1 and mat2 shapes cannot be multiplied", "in training_step"),
        ("data.faulty=true", "FileNotFoundError: images.npy is not where it was", "in setup"),
    ],
)
def test_a_fault_in_their_code_is_their_traceback_and_a_crashed_run(
    change: str, fault: str, place_of_it: str, said: Said
) -> None:
    code, _, err = said(*RUN, change)
    record = newest()
    assert (code, record.status) == (1, "crashed")
    assert fault in record.reason
    frames = [line for line in record.traceback.splitlines() if line.startswith("  File ")]
    assert frames
    assert all("my_module.py" in frame for frame in frames)
    assert place_of_it in frames[-1]
    assert record.traceback.rstrip() in err


def test_what_is_wrong_only_while_training_stops_a_sweep(said: Said, place: Path) -> None:
    (place / "wrong.yaml").write_text(STUDY.replace("val/acc", "val/accuracy").replace("theirs", "wrong"))
    code, _, err = said("sweep", "wrong.yaml")
    assert code == 2
    assert "never appeared" in err
    assert [r.status for r in Home.default().records() if r.labels.study == "wrong"] == ["crashed"]


def test_python_raises_what_the_command_line_says() -> None:
    with pytest.raises(InputError, match="never appeared"):
        tl.run(task="my_module.py:Net", data="my_module.py:Data", metric="val/nothing_acc", budget={"epochs": 1})


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_and_sigterm_leave_a_run_that_goes_on(number: signal.Signals, said: Said, place: Path) -> None:
    command = [sys.executable, "-m", "trainlab", *RUN, "model.slow_s=0.05", "budget.epochs=20", "--json"]
    command = [word for word in command if word != "budget.epochs=2"]
    before = set(Home.default().run_ids())
    process = subprocess.Popen(command, cwd=place, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def trained() -> bool:
        started = set(Home.default().run_ids()) - before
        last = Home.default().folder(next(iter(started))).record().last if started else {}
        return last.get("count/updates", 0) > 0

    deadline = time.monotonic() + 200
    while not trained():
        assert time.monotonic() < deadline
        assert process.poll() is None
        time.sleep(0.1)
    process.send_signal(number)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 130, err
    (run_id,) = set(Home.default().run_ids()) - before
    record = Home.default().folder(run_id).record()
    assert record.status == "interrupted"
    stopped_at = record.last["count/updates"]
    assert 0 < stopped_at < 80
    code, out, err = said("resume", run_id, "--json")
    assert code == 0, err
    (row,) = json.loads(out)
    assert (row["status"], row["updates"], row["attempts"]) == ("completed", 80, 2)


@pytest.mark.slow
def test_a_folder_with_an_experiments_of_its_own(tmp_path: Path) -> None:
    """The command works on a module there; what would silently be the wrong package is one line."""
    (tmp_path / "experiments").mkdir()
    (tmp_path / "experiments" / "__init__.py").write_text("OWN = 3\n")
    (tmp_path / "my_module.py").write_text(MODULE)
    (tmp_path / "importing.py").write_text("from experiments import OWN\n" + MODULE)
    environment = {
        **os.environ,
        "TRAINLAB_HOME": str(tmp_path / "home"),
        "MLFLOW_TRACKING_URI": f"sqlite:///{tmp_path}/m.db",
    }

    def run(*command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)

    trainlab = str(Path(sys.executable).with_name("trainlab"))
    done = run(trainlab, *RUN)
    assert done.returncode == 0, done.stderr
    done = run(trainlab, *[word.replace("my_module", "importing") for word in RUN])
    assert done.returncode == 2
    assert "experiments" in done.stderr.strip().splitlines()[-1]
    assert "Traceback" not in done.stderr
    done = run(sys.executable, "-c", "import trainlab")
    assert done.returncode == 1
    assert "trainlab needs its own package 'experiments'" in done.stderr
