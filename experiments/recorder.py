"""Recorder: a hand-written loop, or somebody else's trainer, gets the store: metrics, clock, status and objective.

    with tl.record(study="x", arm="mine", metric="val/acc", mode="max", config={"lr": 0.1}) as run:
        for update in range(1, 1001):
            ...
            run.log({"train/loss": loss}, update=update)
            if update % 100 == 0:
                with run.evaluating():
                    accuracy = evaluate(model)
                run.log({"val/acc": accuracy}, update=update)

Loads no torch.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any

from algos.finding import InputError
from experiments.ledger import Ledger
from experiments.opening import OWN, as_mapping, check_metric, opened
from experiments.session import session
from experiments.store.home import Home
from experiments.store.metric_names import canonical_metric
from experiments.store.schema import Status
from experiments.termination import Terminated, terminating, undisturbed

__all__ = ["OWN", "Record", "canonical_metric", "opened", "record"]

_BUDGETS = ("updates", "epochs", "examples", "gradients", "seconds")


class Record:
    """A run that a block of code is: `with tl.record(...) as run`. Made by `record`."""

    def __init__(self, budget: Any, home: Home | None, **arguments: Any):
        self._arguments = {**arguments, "config": _with_budget(arguments["config"], budget)}
        self._home = home
        self._open: Ledger | None = None
        self._terminated: Callable[[], bool] = bool
        self._stack = ExitStack()

    def __enter__(self) -> Record:
        if self._open is not None:
            raise InputError("this record was used before", "call tl.record again for a new run", rule="record-over")
        with ExitStack() as stack:
            home = stack.enter_context(session(self._home, wait_s=0.0)).home
            folder = opened(**self._arguments, kind="plain", home=home)
            self._terminated = stack.enter_context(terminating())
            self._open = Ledger(folder)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        ledger = self._ledger
        if os.getpid() != ledger.pid:
            return  # a forked child that ran on to the end of the block
        with self._stack, undisturbed():
            # SIGTERM ended the run, whatever the block made of the exception.
            ledger.end(Terminated() if self._terminated() else error)

    @property
    def _ledger(self) -> Ledger:
        if self._open is None:
            raise InputError(
                "the run has not begun", "write `with tl.record(...) as run:` and log in that block", rule="record-over"
            )
        return self._open

    @property
    def run_id(self) -> str:
        """The run's id, from the block's start on."""
        return self._ledger.run_id

    @property
    def name(self) -> str:
        return self._ledger.folder.file.name

    @property
    def path(self) -> Path:
        """Its folder. What you save under path / "checkpoints" stays with the run."""
        return self._ledger.folder.path

    @property
    def status(self) -> Status:
        return self._ledger.status

    def log(
        self,
        values: Mapping[str, Any],
        *,
        update: int,
        examples: float | None = None,
        gradients: float | None = None,
        epochs: float | None = None,
    ) -> None:
        """See `Ledger.log`."""
        (self._open or self._ledger).log(values, update=update, examples=examples, gradients=gradients, epochs=epochs)

    def final(self, values: Mapping[str, Any]) -> None:
        """See `Ledger.final`."""
        self._ledger.final(values)

    def evaluating(self) -> AbstractContextManager[None]:
        """A context: time within it is evaluation, not training."""
        return self._ledger.evaluating()

    def apart(self) -> AbstractContextManager[None]:
        """A context: time within it is neither training nor evaluation (setting up, saving, drawing)."""
        return self._ledger.apart()

    def __repr__(self) -> str:
        return "Record (not begun)" if self._open is None else f"Record of run {self.run_id} ({self.status})"


def record(
    study: str = "",
    *,
    task: str = "",
    arm: str = "",
    seed: int = 1,
    config: Any = None,
    metric: str = "",
    mode: str = "",
    target: float | None = None,
    name: str = "",
    budget: int | Mapping[str, float] | None = None,
    home: Home | None = None,
) -> Record:
    """A run for a loop of your own: `with tl.record(...) as run`, then `run.log({...}, update=i)`.

    study, task, arm, seed: where the run belongs; in a report, arms are compared on a task, paired by seed. config:
    whatever the run was asked (a mapping, a dataclass, argparse's namespace). metric, mode: what counts and which way
    ("val/acc", "max"); the mode is told from the name where that says it, and the last value is the run's objective.
    target: a value of it worth timing. budget: what the loop means to use, {"updates": 1000} or just 1000; reports
    compare arms of equal budgets.

    The run ends as the block does: completed; diverged where the last train/loss or metric is not finite; interrupted
    by Ctrl-C and SIGTERM; crashed, with its traceback, by any other exception, which goes on; lost by kill -9. A metric
    that was never logged is a warning, and the run has no objective. It is mirrored to MLflow in the background, and
    the block's end does not wait for that.

    time/train_s is the time of the block but for what is within `run.evaluating()` (time/evaluate_s) and `run.apart()`:
    load data before the block, and save checkpoints in `with run.apart():`.

    A record inside a record is a run of its own, and its time is part of the outer one's. Threads may share a record or
    open their own; outside the main thread SIGTERM is not caught, and the run then reads as lost. A forked child has no
    part in its parent's record: to log there is an error. Under torchrun, open it on rank 0 only.
    """
    mode = check_metric(metric, mode, target)
    return Record(
        budget, home, study=study, task=task, arm=arm, seed=seed, config=config, metric=metric, mode=mode,
        target=target, name=name,
    )  # fmt: skip


def _with_budget(config: Any, budget: Any) -> Any:
    if budget is None:
        return config
    amounts = dict(budget) if isinstance(budget, Mapping) else {"updates": budget}
    for unit, amount in amounts.items():
        if unit not in _BUDGETS:
            raise InputError(f"budget in '{unit}'", f"give one of {', '.join(_BUDGETS)}", place="budget")
        if isinstance(amount, bool) or not isinstance(amount, (int, float)) or not amount > 0:
            raise InputError(
                f"budget={amount!r} is not an amount", "give e.g. budget={'updates': 1000}", place="budget"
            )
    return {**as_mapping(config), "budget": amounts}
