"""Hugging Face: a callback that makes each `train()` of their Trainer a run in the store, with the right status.

    trainer = Trainer(..., callbacks=[tl.huggingface_callback(study="x", arm="muon", metric="eval_loss", mode="min")])

Their callbacks are told of no crash, so this one stands around the `train` of the Trainer that it is given to: what
`train` raises is what ended the run.
"""

from __future__ import annotations

import json
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from algos.finding import InputError
from experiments.ledger import Ledger, flatten, wait_for_device
from experiments.opening import as_mapping, check_metric, opened
from experiments.session import session
from experiments.store.home import Home
from experiments.store.schema import RESUMABLE
from experiments.termination import Terminated, terminating, undisturbed

if TYPE_CHECKING:
    from transformers import TrainerCallback
else:
    try:
        from transformers import TrainerCallback
    except ImportError:
        TrainerCallback = None

#: Beside each checkpoint of theirs: which run it belongs to, so that their resume goes on with it.
MARK = "trainlab_run.json"


def huggingface_callback(
    study: str = "",
    *,
    task: str = "",
    arm: str = "",
    seed: int | None = None,
    config: Any = None,
    metric: str = "",
    mode: str = "",
    target: float | None = None,
    name: str = "",
    home: Home | None = None,
) -> TrainerCallback:
    """For `Trainer(..., callbacks=[...])`: each `train()` is a run, as in `recorder.record`.

    metric: as their logs name it ("eval_loss"). seed: their arguments' by default. What they log arrives under its own
    name, and their loss as train/loss too. What `predict`, or `evaluate(metric_key_prefix="test")`, measures once
    `train` is over is the run's test result. Evaluation and saving are timed apart. A run that was interrupted or lost
    goes on where their `resume_from_checkpoint` does. A metric that was never logged is a warning. With several
    processes rank 0 records. InputError where transformers is not installed, and, from `train`, where they log another
    metric by the name that the metric is stored under (`val/loss` for eval_loss).
    """
    if TrainerCallback is None:
        raise InputError("transformers is not installed", "pip install 'trainlab[huggingface]'", rule="package-missing")
    mode = check_metric(metric, mode, target)
    return TrainlabCallback(
        home, seed, study=study, task=task, arm=arm, config=config, metric=metric, mode=mode, target=target, name=name
    )


class TrainlabCallback(TrainerCallback or object):  # type: ignore[misc]
    """Made by `huggingface_callback`. run_id: of the run under way, or the last one."""

    def __init__(self, home: Home | None, seed: int | None, **arguments: Any):
        self._home, self._seed, self._arguments = home, seed, arguments
        self._trainers: set[int] = set()
        self._resume: Path | None = None
        self._ledger: Ledger | None = None
        self._over: Ledger | None = None
        self._stack = ExitStack()
        self._since = 0.0  # what comes between the last event and on_save is saving
        self._began = False
        self.run_id = ""

    # Their events

    def on_init_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        trainer = _trainer_of(self)
        self._trainers.add(id(trainer))
        trainer.train = self._around(trainer, trainer.train)

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if not state.is_world_process_zero:
            return
        if not self._trainers:
            raise InputError(
                "the callback was added to a Trainer that was made already, where it can see no crash",
                "give it as Trainer(..., callbacks=[...])", rule="callback-late",
            )  # fmt: skip
        if self._ledger is not None:  # auto_find_batch_size
            self._end(RuntimeError("training began again, with a smaller batch"))
        with ExitStack() as stack:
            home = stack.enter_context(session(self._home, wait_s=0.0)).home
            self._ledger = self._resumed(home, state.global_step) or self._fresh(home, args, state, **kwargs)
            self._stack = stack.pop_all()
        self.run_id = self._ledger.run_id
        self._began = True

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._mark(control)

    def on_epoch_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._mark(control)

    def on_evaluate(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._mark(control)

    def on_log(self, args: Any, state: Any, control: Any, logs: Mapping[str, Any] | None = None, **kwargs: Any) -> None:
        if self._ledger is None:
            self._amend(logs)
            return
        if not logs:
            return
        for name, value in logs.items():
            if name.endswith("_runtime") and name != "train_runtime":
                self._ledger.passed("evaluate", value)
        numbers: dict[str, float] = {}
        for name, value in logs.items():
            with suppress(InputError):  # what is no number is not ours to refuse
                flatten(name, value, numbers)
        if "loss" in numbers:
            numbers["train/loss"] = numbers["loss"]
        step = state.global_step
        self._ledger.log(numbers, update=step, gradients=step, epochs=state.epoch)
        self._mark(control)

    def on_predict(self, args: Any, state: Any, control: Any, metrics: Any = None, **kwargs: Any) -> None:
        self._amend(metrics)

    def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if self._ledger is None:
            return
        self._ledger.passed("apart", time.perf_counter() - self._since)
        folder = Path(args.output_dir, f"checkpoint-{state.global_step}")
        if folder.is_dir():
            train, evaluate = self._ledger.seconds()
            (folder / MARK).write_text(json.dumps({"run_id": self.run_id, "train_s": train, "evaluate_s": evaluate}))

    # What they are made of

    def _around(self, trainer: Any, train: Callable[..., Any]) -> Callable[..., Any]:
        def recorded(resume_from_checkpoint: Any = None, *given: Any, **named: Any) -> Any:
            self._resume = _checkpoint(trainer.args, resume_from_checkpoint)
            self._began = False
            with terminating() as came, _noticing_sigterm() as seen:
                try:
                    result = train(resume_from_checkpoint, *given, **named)
                except BaseException as error:
                    if not self._began and trainer.is_world_process_zero():
                        self._begin_late(trainer)
                    self._end(Terminated() if came() else error)
                    raise
                self._end(Terminated() if seen or came() else None)
            return result

        return recorded

    def _begin_late(self, trainer: Any) -> None:
        """The run of a `train` that failed before on_train_begin, which alone knows optimizer and budget."""
        with suppress(InputError, OSError), ExitStack() as stack:  # what `train` raised is the news
            home = stack.enter_context(session(self._home, wait_s=0.0)).home
            self._ledger = self._fresh(home, trainer.args, None, trainer.model)
            self.run_id = self._ledger.run_id
            self._stack = stack.pop_all()

    def _mark(self, control: Any) -> None:
        if self._ledger is not None:
            if control.should_save:
                wait_for_device()
            self._since = time.perf_counter()

    def _end(self, error: BaseException | None) -> None:
        ledger, self._ledger, self._over = self._ledger, None, self._ledger
        if ledger is not None:
            with self._stack, undisturbed():
                ledger.end(error)

    def _amend(self, metrics: Mapping[str, Any] | None) -> None:
        """Test metrics, which are measured once `train` is over."""
        tested = {name: value for name, value in (metrics or {}).items() if name.startswith("test_")}
        if tested and self._ledger is not None:
            self._ledger.final(tested)
        elif tested and self._over is not None:
            self._over.amend(tested)

    def _fresh(self, home: Home, args: Any, state: Any | None, model: Any = None, **kwargs: Any) -> Ledger:
        arguments = {
            **self._arguments,
            "seed": args.seed if self._seed is None else self._seed,
            "config": {**_settings(args, state, model, **kwargs), **as_mapping(self._arguments["config"])},
            "facts": {"parameters": sum(each.numel() for each in model.parameters())} if model is not None else {},
        }
        return Ledger(opened(**arguments, kind="huggingface", home=home, device=str(args.device)))

    def _resumed(self, home: Home, step: int) -> Ledger | None:
        """The run that their checkpoint belongs to, where it is in this home and not over."""
        try:
            told = json.loads((self._resume / MARK).read_bytes()) if self._resume else None
        except (OSError, ValueError):
            told = None
        if told is None or not step or told["run_id"] not in home.run_ids():
            return None
        folder = home.folder(told["run_id"])
        if folder.record().status not in RESUMABLE:
            return None
        return Ledger(folder, step, (told["train_s"], told["evaluate_s"]))


def _trainer_of(callback: Any) -> Any:
    """The Trainer whose constructor is telling the callback that it is done: the event does not say."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        owner = frame.f_locals.get("self")
        if callback in getattr(getattr(owner, "callback_handler", None), "callbacks", ()):
            return owner
        frame = frame.f_back
    raise AssertionError("on_init_end came from no Trainer")


def _checkpoint(args: Any, given: Any) -> Path | None:
    """The folder that `resume_from_checkpoint` means."""
    from transformers.trainer_utils import get_last_checkpoint

    if given is True:
        given = get_last_checkpoint(args.output_dir) if Path(args.output_dir).is_dir() else None
    return Path(given) if given else None


def _settings(
    args: Any, state: Any, model: Any, optimizer: Any = None, lr_scheduler: Any = None, **_: Any
) -> dict[str, Any]:
    """What a report compares, in our words. state: None where training has not begun."""
    optimizer = getattr(optimizer, "optimizer", optimizer)  # inside accelerate's
    lr_scheduler = getattr(lr_scheduler, "scheduler", lr_scheduler)
    begun = {
        "optimizer": {"name": type(optimizer).__name__, **getattr(optimizer, "defaults", {})},
        "schedule": {"name": type(lr_scheduler).__name__},
        "budget": {"updates": state.max_steps},
    } if state is not None else {}  # fmt: skip
    return {
        "model": {"name": type(model).__name__},
        "precision": {"name": "bf16" if args.bf16 else "fp16" if args.fp16 else "fp32"},
        "batch_size": args.train_batch_size * args.world_size,
        "accumulate": args.gradient_accumulation_steps,
        "max_grad_norm": args.max_grad_norm,
        **begun,
    }


@contextmanager
def _noticing_sigterm() -> Iterator[list[int]]:
    """Which SIGTERMs came to a handler that is not ours: with enable_jit_checkpoint theirs ends `train` normally."""
    handler = signal.getsignal(signal.SIGTERM)
    seen: list[int] = []
    if not callable(handler) or getattr(handler, "__module__", "") == terminating.__module__:
        yield seen
        return

    def handle(number: int, frame: FrameType | None) -> None:
        seen.append(number)
        handler(number, frame)

    try:
        signal.signal(signal.SIGTERM, handle)
    except ValueError:  # not the main thread
        yield seen
        return
    try:
        yield seen
    finally:
        if signal.getsignal(signal.SIGTERM) is handle:
            signal.signal(signal.SIGTERM, handler)
