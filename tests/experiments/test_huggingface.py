from __future__ import annotations

import functools
import json
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from algos import catalogue
from algos.finding import InputError
from experiments.modules.schedule import scheduled
from experiments.store.home import Home
from experiments.store.schema import RunRecord

transformers = pytest.importorskip("transformers")
pytest.importorskip("accelerate")

from experiments import huggingface  # noqa: E402
from experiments.huggingface import huggingface_callback  # noqa: E402

STEPS = 12
_CLOCKS = ("runtime", "per_second")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    """A home without a mirror."""
    monkeypatch.setattr(huggingface, "session", functools.partial(huggingface.session, mirror=False))
    return Home(tmp_path / "home")


def examples(count: int, seed: int) -> list[dict[str, torch.Tensor]]:
    tokens = torch.randint(0, 64, (count, 16), generator=torch.Generator().manual_seed(seed))
    return [{"input_ids": row, "labels": row} for row in tokens]


def trainer(folder: Path, *callbacks: Any, optimizer: str = "adamw", **words: Any) -> Any:
    torch.manual_seed(0)
    shape = {"n_positions": 16, "n_embd": 32, "n_layer": 2, "n_head": 2, "bos_token_id": 0, "eos_token_id": 0}
    model = transformers.GPT2LMHeadModel(transformers.GPT2Config(vocab_size=64, **shape))
    ours = catalogue.load("optimizers", optimizer).build(model, lr=1e-2)
    args = transformers.TrainingArguments(
        output_dir=str(folder),
        **{
            "use_cpu": True, "report_to": "none", "disable_tqdm": True, "max_steps": STEPS, "logging_steps": 1,
            "per_device_train_batch_size": 4, "eval_strategy": "steps", "eval_steps": 4, "save_steps": 6, **words,
        },
    )  # fmt: skip
    return transformers.Trainer(
        model=model, args=args, train_dataset=examples(32, 0), eval_dataset=examples(8, 1),
        optimizers=(ours, scheduled(ours, "warmup_cosine", updates=STEPS)), callbacks=list(callbacks),
    )  # fmt: skip


def callback(home: Home, **words: Any) -> Any:
    return huggingface_callback("s", **{"arm": "a", "metric": "eval_loss", "mode": "min", "home": home, **words})


def only(home: Home) -> RunRecord:
    (found,) = home.records()
    return found


def in_order(home: Home) -> list[RunRecord]:
    return sorted(home.records(), key=lambda record: record.labels.number)


def logged(trained: Any) -> list[dict[str, float]]:
    """What the Trainer logged, without its clocks."""
    return [
        {name: value for name, value in line.items() if not name.endswith(_CLOCKS)}
        for line in trained.state.log_history
    ]


class Raising(transformers.TrainerCallback):  # type: ignore[misc, name-defined]
    """Raises in the middle of an update."""

    def __init__(self, error: BaseException, at: int = 7):
        self.error, self.at = error, at

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if state.global_step == self.at:
            raise self.error


@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
def test_losses_are_those_of_the_same_trainer_without_us(home: Home, tmp_path: Path, optimizer: str) -> None:
    ours = callback(home)
    without = trainer(tmp_path / "a", optimizer=optimizer)
    without.train()
    within = trainer(tmp_path / "b", ours, optimizer=optimizer)  # seeds dropout anew
    within.train()
    assert logged(within) == logged(without)
    found = only(home)
    assert (found.status, found.run_id) == ("completed", ours.run_id)
    curves = {each.metric: dict(zip(each.updates, each.values)) for each in home.folder(ours.run_id).series()}
    for theirs, name in (("loss", "train/loss"), ("loss", "loss"), ("eval_loss", "val/loss")):
        assert curves[name] == {line["step"]: line[theirs] for line in within.state.log_history if theirs in line}
    assert found.final == {"objective": curves["eval_loss"][STEPS]}
    assert found.config["optimizer"]["lr"] == 0.01
    assert found.config["budget"] == {"updates": STEPS}
    assert not [event for event in found.events if event["name"] == "warning"]


def test_counts_and_clocks(home: Home, tmp_path: Path) -> None:
    words: dict[str, Any] = {"gradient_accumulation_steps": 2, "include_num_input_tokens_seen": "all", "seed": 5}
    trained = trainer(tmp_path / "a", callback(home, target=100.0), **words)
    trained.train()
    found = only(home)
    assert found.last.items() >= {"count/updates": STEPS, "count/gradients": STEPS, "count/epochs": 3.0}.items()
    assert found.last["num_input_tokens_seen"] == STEPS * 2 * 4 * 16
    spent = [line["eval_runtime"] for line in trained.state.log_history if "eval_runtime" in line]
    assert found.last["time/evaluate_s"] == pytest.approx(sum(spent))
    assert 0 < found.last["time/train_s"] < found.last["train_runtime"]
    assert found.reached is not None
    assert found.reached["update"] == 4
    assert found.labels.seed == 5


@pytest.mark.parametrize(
    ("error", "status", "reason"),
    [(ValueError("broken"), "crashed", "ValueError: broken"), (KeyboardInterrupt(), "interrupted", "Ctrl-C")],
)
def test_what_train_raises_is_what_ended_the_run(
    home: Home, tmp_path: Path, error: BaseException, status: str, reason: str
) -> None:
    with pytest.raises(type(error)) as raised:
        trainer(tmp_path / "a", callback(home), Raising(error)).train()
    found = only(home)
    assert raised.value is error
    assert (found.status, found.reason) == (status, reason)
    assert ("on_step_end" in found.traceback) == (status == "crashed")
    assert found.last["eval_loss"] > 0
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_a_resumed_run_is_the_run_that_was_never_stopped(home: Home, tmp_path: Path) -> None:
    """Bit for bit: our optimizer's and schedule's states go through accelerate and their checkpoint."""
    whole = trainer(tmp_path / "whole", optimizer="muon")
    whole.train()
    folder = tmp_path / "a"
    with pytest.raises(KeyboardInterrupt):
        trainer(folder, callback(home), Raising(KeyboardInterrupt(), at=9), optimizer="muon").train()
    assert only(home).status == "interrupted"
    assert json.loads((folder / "checkpoint-6" / huggingface.MARK).read_text())["run_id"] == only(home).run_id
    again = trainer(folder, callback(home), optimizer="muon")
    again.train(resume_from_checkpoint=True)
    steps = [line for line in logged(whole) if "train_loss" not in line]
    assert [line for line in logged(again) if "train_loss" not in line] == steps
    found = only(home)
    assert (found.status, found.attempts) == ("completed", 2)
    (curve,) = home.folder(found.run_id).series(["loss"])
    assert dict(zip(curve.updates, curve.values)) == {line["step"]: line["loss"] for line in steps if "loss" in line}


def test_a_smaller_batch_after_running_out_of_memory_is_another_run(home: Home, tmp_path: Path) -> None:
    full = Raising(RuntimeError("CUDA out of memory."), at=3)

    def once(args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if state.global_step == full.at:
            full.at = 0
            raise full.error

    full.on_step_end = once  # type: ignore[method-assign]
    trainer(tmp_path / "a", callback(home), full, auto_find_batch_size=True).train()
    first, second = in_order(home)
    assert (first.status, first.reason) == ("crashed", "RuntimeError: training began again, with a smaller batch")
    assert (second.status, second.last["count/updates"]) == ("completed", STEPS)


def test_what_is_logged_and_no_number_stops_nothing(home: Home, tmp_path: Path) -> None:
    class Odd(transformers.TrainerCallback):  # type: ignore[misc, name-defined]
        def on_evaluate(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            trained.log({"note": "half way", "nothing": None, "vector": [1.0, 2.0], "objective": 1.0, "odd": 3.0})

    trained = trainer(tmp_path / "a", callback(home), Odd())
    trained.train()
    found = only(home)
    assert (found.status, found.last["odd"]) == ("completed", 3.0)
    assert not found.last.keys() & {"note", "nothing", "vector"}


def test_each_train_is_a_run_and_evaluation_outside_is_none(home: Home, tmp_path: Path) -> None:
    trained = trainer(tmp_path / "a", callback(home))
    trained.evaluate()
    assert home.run_ids() == []
    trained.train()
    trained.evaluate()
    trained.train()
    assert [(r.status, r.labels.number) for r in in_order(home)] == [("completed", 0), ("completed", 1)]


def test_what_is_tested_after_training_is_the_runs_test_result(home: Home, tmp_path: Path) -> None:
    trained = trainer(tmp_path / "a", callback(home))
    trained.train()
    before = only(home)
    tested = trained.predict(examples(8, 2)).metrics["test_loss"]
    found = only(home)
    assert found.final["test/loss"] == found.last["test_loss"] == tested
    assert (found.status, found.ended, found.final["objective"]) == (
        "completed",
        before.ended,
        before.final["objective"],
    )
    trained.evaluate(examples(8, 2), metric_key_prefix="test")
    assert only(home).final["test/loss"] == tested


def test_a_metric_that_is_never_logged_names_those_that_are(home: Home, tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match=r"the metric 'eval_los' was never logged .* did you mean 'eval_loss'"):
        result = trainer(tmp_path / "a", callback(home, metric="eval_los")).train()
    assert result.global_step == STEPS
    assert (only(home).status, dict(only(home).final)) == ("completed", {})


@pytest.mark.parametrize(
    ("error", "status"), [(ValueError("no such optimizer"), "crashed"), (KeyboardInterrupt(), "interrupted")]
)
def test_what_fails_before_training_begins_is_a_run(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException, status: str
) -> None:
    def failing(*given: Any, **named: Any) -> None:
        raise error

    trained = trainer(tmp_path / "a", callback(home))
    monkeypatch.setattr(trained, "create_optimizer", failing)
    monkeypatch.setattr(trained, "create_optimizer_and_scheduler", failing)
    with pytest.raises(type(error)) as raised:
        trained.train()
    assert raised.value is error
    found = only(home)
    assert (found.status, found.config["batch_size"]) == (status, 4)
    assert ("in failing" in found.traceback) == (status == "crashed")
    monkeypatch.undo()


def test_saving_is_no_training(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, jump: Callable[[float], None]
) -> None:
    def clocks(**words: Any) -> float:
        ours = callback(home, metric="", mode="")
        trained = trainer(tmp_path / "a", ours, **words)
        save = trained.save_model

        def slow(*given: Any, **named: Any) -> None:
            jump(1000)
            save(*given, **named)

        monkeypatch.setattr(trained, "save_model", slow)
        trained.train()
        return home.folder(ours.run_id).record().last["time/train_s"]

    assert clocks(save_steps=6) < 500  # two saves
    assert clocks(save_strategy="epoch", max_steps=8, eval_strategy="no", logging_steps=3) < 500


def test_a_callback_added_late_is_refused(home: Home, tmp_path: Path) -> None:
    trained = trainer(tmp_path / "a")
    trained.add_callback(callback(home))
    with pytest.raises(InputError, match=r"give it as Trainer\(..., callbacks=\[...\]\)"):
        trained.train()
    assert home.run_ids() == []


def test_without_transformers_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(huggingface, "TrainerCallback", None)
    with pytest.raises(InputError, match=r"transformers is not installed; pip install 'trainlab\[huggingface\]'"):
        huggingface_callback("s")


_TRAIN = """
    import functools, sys, time
    sys.path.insert(0, sys.argv[1])
    from experiments import huggingface
    huggingface.session = functools.partial(huggingface.session, mirror=False)
    from pathlib import Path
    from experiments.store.home import Home
    from test_huggingface import callback, trainer, transformers

    class Slow(transformers.TrainerCallback):
        def on_step_end(self, args, state, control, **kwargs):
            print("step", state.global_step, flush=True)
            time.sleep(0.2)

    jit = sys.argv[3] == "jit"
    if jit:
        from transformers import trainer_jit_checkpoint as theirs
        theirs.CheckpointManager.__init__.__defaults__ = (0,)
    trained = trainer(Path(sys.argv[2]) / "a", callback(Home(Path(sys.argv[2]) / "home")), Slow(), max_steps=100,
        enable_jit_checkpoint=jit)
    trained.train()
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "jit", "status", "code"),
    [
        (signal.SIGTERM, "", "interrupted", 143),
        (signal.SIGTERM, "jit", "interrupted", 0),
        (signal.SIGKILL, "", "lost", -signal.SIGKILL),
    ],
)
def test_real_signals(tmp_path: Path, number: int, jit: str, status: str, code: int) -> None:
    """With enable_jit_checkpoint their own handler stops `train` after a checkpoint, and the process ends well."""
    command = [sys.executable, "-c", textwrap.dedent(_TRAIN), str(Path(__file__).parent), str(tmp_path), jit]
    started = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=os.environ)
    assert started.stdout is not None
    next(line for line in started.stdout if line == "step 5\n")
    started.send_signal(number)
    started.communicate(timeout=300)
    assert started.returncode == code
    found = only(Home(tmp_path / "home"))
    assert found.status == status
    assert 4 <= found.last["count/updates"] < 100
