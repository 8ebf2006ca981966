"""Recording: what a run in Lightning's loop comes to (updates, examples, gradients, seconds, losses), as a callback.

It counts every batch and keeps its loss where it was computed; the device is waited for only when losses are read
(every two seconds, at evaluations, at checkpoints, at the end) and where a phase of the clock ends.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import math
import time
from collections.abc import Iterator, Mapping
from typing import Any

import lightning.pytorch as pl
import torch
from torch import Tensor

from algos import compiled
from experiments.clock import Clock
from experiments.clock import Phase as ClockPhase
from experiments.modules.components import ComponentCallback, check_evaluation_weights
from experiments.modules.epochs import epochs
from experiments.opening import Alias, same
from experiments.stopping import Interrupted
from experiments.store.spool import Attempt

#: Losses wait on the device for at most so long before they are read and spooled.
SPOOL_EVERY_S = 2.0
LOSS = "train/loss"
_OURS = ("time/", "count/")


class Recording(pl.Callback):
    """Counts, clock, training losses and metrics of one run, written to its attempt.

    log_every: train/loss is the mean over so many updates. divergence_bound: a training loss that is not finite, or
    above it, is divergence: `diverged` then says why, and train/loss ends there. strict=False: a loop may handle such a
    loss and go on; the run then has an event, and `diverged` says why only while the last loss is such a one. taken:
    the last value of every metric; of two told at one update the first has the point. batches: how many were trained
    on. Counts are of this fit: a Trainer that fits again begins anew, unless it takes up a checkpoint that has counts.

    clock: the run's clock, on which others may open phases. Training is all between its start and its end but
    validations, what callbacks do after them and after an epoch, and checkpoints that the Trainer saves; what other
    loggers do with a batch's metrics counts as training. Put the recording first among the callbacks: what the others
    do after an evaluation is then no training.
    """

    def __init__(self, attempt: Attempt, *, log_every: int = 10, divergence_bound: float = 1e6, strict: bool = True):
        self.diverged = ""
        self.taken: dict[str, float] = {}
        self.clock = Clock()
        self._attempt, self._log_every, self._bound = attempt, log_every, divergence_bound
        self._strict = strict
        self._alias: Alias | None = None
        self._running: contextlib.ExitStack | None = None  # open from the start to the end of training
        self._aside: contextlib.ExitStack | None = None  # open while an evaluation or what follows it goes on
        self._trainer: pl.Trainer | None = None
        self._ranks = 1
        self.batches = self._examples = self._gradients = 0
        self._epochs_before = 0.0
        self._start = self._caused_before = 0  # what the Trainer and its callbacks had counted before the fit
        self._goes_on = False  # from a checkpoint that has counts
        self._fresh: list[tuple[int, Tensor, int]] = []  # update, loss, what Lightning divided it by
        self._fresh_since = time.monotonic()
        self._window: list[float] = []
        self._window_update = 0
        self._last_loss: float | None = None
        self._logs_loss: bool | None = None  # whether the module logs train/loss itself; None: not looked yet
        self._counted_at = -1
        self._taken_at: dict[str, tuple[int, float]] = {}  # what two tell of one update is written once
        self._warned: set[str] = set()

    # What others ask

    @property
    def update(self) -> int:
        """Updates completed in this fit."""
        return self._trainer.global_step - self._start if self._trainer is not None else 0

    @property
    def called(self) -> bool:
        """Whether a fit has called it."""
        return self._trainer is not None

    def counts(self, trainer: pl.Trainer) -> dict[str, float]:
        """The run's counts so far. Cheap: does not wait for the device.

        Epochs are counted in parts where an epoch's length is known. Gradients are
        gradient evaluations: one an optimizer step, one for each evaluation of a closure, and those that components
        caused.
        """
        return {
            "time/train_s": self.clock.seconds("train"),
            "time/evaluate_s": self.clock.seconds("evaluate"),
            "count/updates": trainer.global_step - self._start,
            "count/epochs": epochs(trainer) - self._epochs_before,
            "count/examples": self._examples,
            "count/gradients": self._gradients + _caused(trainer) - self._caused_before,
        }

    @property
    def loss(self) -> float | None:
        """The training loss of late: the mean since train/loss was last spooled, else that."""
        return sum(self._window) / len(self._window) if self._window else self._last_loss

    def alias(self, name: str, stands_for: str) -> None:
        """The metric `stands_for` is taken as `name` too, at once or later, with the same value. InputError from `take`
        once the user's own code logs another metric of that name."""
        self._alias = Alias(name, stands_for)

    def take(self, metrics: Mapping[str, Any], update: int) -> None:
        """Metrics that the module logged, under their own names. Names of ours among them become module/<name>."""
        kept: dict[str, float] = {}
        for name, value in metrics.items():
            if name == "epoch":
                continue
            if name.startswith(_OURS) or name == "objective":
                self._warn(f"the module logs '{name}', a name of ours: kept as 'module/{name}'")
                name = f"module/{name}"
            elif name == LOSS:
                self._logs_loss = True
            try:
                kept[name] = float(value)
            except (TypeError, ValueError):
                self._warn(f"the metric '{name}' is not a number ({type(value).__name__}): left out")
        if self._alias is not None:
            self._alias.check(kept)
        self.taken.update(kept)
        fresh, twice = self.first(kept, update)
        for name in twice:
            if self._alias is None or name != self._alias.name:
                self._warn(f"'{name}' was logged with two values at one update: its first point there is kept")
        self._attempt.points(update, fresh)

    def first(self, numbers: Mapping[str, float], update: int) -> tuple[dict[str, float], list[str]]:
        """Those that have no point at this update yet, and the names of those that have one of another value."""
        fresh, twice = {}, []
        for name, value in numbers.items():
            at, before = self._taken_at.get(name, (-1, value))
            if at != update:
                fresh[name] = value
                self._taken_at[name] = (update, value)
            elif not same(before, value):
                twice.append(name)
        return fresh, twice

    def flush(self, trainer: pl.Trainer) -> None:
        """Reads the losses that wait on the device, spools them, finds divergence. Waits for the device."""
        self._look(trainer)
        with self.clock.phase("log"):
            self._drain()

    def state_dict(self) -> dict[str, Any]:
        """Plain numbers and text. Losses that wait are read and spooled first: a checkpoint is behind no point."""
        self._drain()
        return {
            "batches": self.batches,
            "epochs_before": self._epochs_before,
            "examples": self._examples,
            "gradients": self._gradients,
            "window": list(self._window),
            "window_update": self._window_update,
            "last_loss": self._last_loss,
            "taken": dict(self.taken),
            "warned": sorted(self._warned),
            "clock": self.clock.state_dict(),
            "start": self._start,
            "caused_before": self._caused_before,
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on counting from there."""
        state = state_dict
        self.batches, self._epochs_before = state["batches"], state.get("epochs_before", 0.0)
        self._examples, self._gradients = state["examples"], state["gradients"]
        self._window, self._window_update = list(state["window"]), state["window_update"]
        self._last_loss = state["last_loss"]
        self.taken, self._warned = dict(state["taken"]), set(state["warned"])
        self.clock.load_state_dict(state["clock"])
        self._start, self._caused_before = state.get("start", 0), state.get("caused_before", 0)
        self._goes_on = True

    # What Lightning tells

    #: Lightning calls no hook that is not callable, and each call costs it three microseconds a batch.
    on_train_batch_start: Any = None  # called for one batch after a step aside
    on_before_zero_grad: Any = None
    on_before_backward: Any = None
    on_after_backward: Any = None

    def setup(self, trainer: pl.Trainer, pl_module: pl.LightningModule, stage: str) -> None:
        self._trainer = trainer
        if stage == "fit" and not self._goes_on:
            self._start = trainer.global_step

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        so_far = self.clock.state_dict()
        self.clock = Clock(trainer.strategy.root_device)
        self.clock.load_state_dict(so_far)
        self._trainer, self._ranks = trainer, trainer.world_size
        if not self._goes_on:  # now the Trainer has what it took from a checkpoint
            self._start, self._caused_before = trainer.global_step, _caused(trainer)
            self._epochs_before = epochs(trainer)
        self._fresh_since = time.monotonic()
        self._running = contextlib.ExitStack()
        self._running.enter_context(self.clock.running())
        self._running.enter_context(compiled.watching(lambda what: self.clock.phase("compile")))
        self._running.enter_context(self._saving_apart(trainer))

    def on_train_epoch_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self._return()

    def on_before_optimizer_step(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, optimizer: torch.optim.Optimizer
    ) -> None:
        self._gradients += 1

    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        self.batches += 1
        examples = examples_in(batch)
        if examples is None:
            self._warn("no tensor was found in the batches: examples are not counted")
        else:
            self._examples += examples * self._ranks
        loss = outputs.get("loss") if isinstance(outputs, (dict, Mapping)) else outputs
        if loss is not None and not (self.diverged and self._strict):
            if loss.dim():
                loss = loss.float().mean()
            divided = trainer.accumulate_grad_batches if pl_module.automatic_optimization else 1
            self._fresh.append((trainer.global_step - self._start, loss, divided))
        if self._logs_loss is None or time.monotonic() - self._fresh_since > SPOOL_EVERY_S:
            self.flush(trainer)

    def on_validation_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        check_evaluation_weights(trainer)
        if self._running is not None:  # neither a sanity check nor a validation outside training
            self._step_aside("evaluate")
            self.flush(trainer)

    def on_validation_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        if self._running is not None:
            self._step_aside("log")  # other callbacks save and draw now
            self._spool_counts(trainer)

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self._step_aside("log")
        self.flush(trainer)
        self._spool_counts(trainer)

    def on_train_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self._stop()
        self.flush(trainer)
        self._spool_counts(trainer)

    def on_exception(self, trainer: pl.Trainer, pl_module: pl.LightningModule, exception: BaseException) -> None:
        self._trainer = trainer
        with contextlib.suppress(Exception):  # the device or the disk may be what failed: that exception is the news
            self._stop()
            self.flush(trainer)
            if not isinstance(exception, Interrupted):  # it goes on, and counts when it next would have
                self._spool_counts(trainer)

    # The clock

    def _step_aside(self, phase: ClockPhase) -> None:
        self._return()
        self._aside = contextlib.ExitStack()
        self._aside.enter_context(self.clock.phase(phase))
        self.on_train_batch_start = self._return

    def _return(self, *_: Any) -> None:
        """Back to training."""
        if self._aside is not None:
            del self.on_train_batch_start
            aside, self._aside = self._aside, None
            aside.close()

    @contextlib.contextmanager
    def _saving_apart(self, trainer: pl.Trainer) -> Iterator[None]:
        """Checkpoints that this Trainer saves within it are no training; no hook says when one begins and ends."""
        own, save = vars(trainer).get("save_checkpoint"), trainer.save_checkpoint

        @functools.wraps(save)
        def timed(*given: Any, **named: Any) -> None:
            with self.clock.phase("checkpoint"):
                save(*given, **named)

        trainer.save_checkpoint = timed  # type: ignore[method-assign]
        yield
        if vars(trainer).get("save_checkpoint") is timed:
            del trainer.save_checkpoint
            if own is not None:
                trainer.save_checkpoint = own  # type: ignore[method-assign]

    def _stop(self) -> None:
        self._return()
        if self._running is not None:
            running, self._running = self._running, None
            running.close()

    # The spool

    def _spool_counts(self, trainer: pl.Trainer) -> None:
        """Once an update: validation, an epoch and training may end together."""
        update = trainer.global_step - self._start
        if update != self._counted_at:
            self._counted_at = update
            self._attempt.points(update, self.counts(trainer))
        self._attempt.flush()

    def _look(self, trainer: pl.Trainer) -> None:
        """Whether the module logs train/loss itself: Lightning knows once a first batch is done."""
        if not self._logs_loss:
            logged = [result.meta for result in trainer.fit_loop.epoch_loop._results.values()]
            self._logs_loss = any(meta.name == LOSS and meta.logger and not meta.forked for meta in logged)

    def _drain(self) -> None:
        self._fresh_since = time.monotonic()
        fresh, self._fresh = self._fresh, []
        if not fresh:
            return
        values = torch.stack([loss for _, loss, _ in fresh]).tolist()
        for (update, _, divided), value in zip(fresh, values, strict=True):
            loss = value * divided
            if not loss <= self._bound or not math.isfinite(loss):
                if not self.diverged:
                    self._depart(update, loss)
                if self._strict:
                    return
                continue
            if not self._strict:
                self.diverged = ""
            self._window.append(loss)
            if update // self._log_every > self._window_update // self._log_every:
                self._spool_loss(update, sum(self._window) / len(self._window))
                self._window.clear()
            self._window_update = update

    def _depart(self, update: int, loss: float) -> None:
        bound = f" (bound {self._bound:g})" if math.isfinite(self._bound) else ""
        if self._strict:
            self._spool_loss(update, loss)
            self.diverged = f"the training loss was {loss:g} at update {update}{bound}"
            self._attempt.event("diverged", update=update, reason=self.diverged)
        else:
            self.diverged = f"the training loss was {loss:g} from update {update} on{bound}"
            if not math.isfinite(loss):
                self._attempt.points(update, {LOSS: loss})  # spooled as an event

    def _spool_loss(self, update: int, value: float) -> None:
        self._last_loss = value
        if not self._logs_loss:
            self._attempt.points(update, self.first({LOSS: value}, update)[0])

    def _warn(self, text: str) -> None:
        if text not in self._warned:
            self._warned.add(text)
            self._attempt.event("warning", text=text)


def _caused(trainer: pl.Trainer) -> int:
    """Gradient evaluations that components caused beyond the loop's own."""
    callbacks: list[pl.Callback] = trainer.callbacks  # type: ignore[attr-defined]
    return sum(callback.gradients for callback in callbacks if isinstance(callback, ComponentCallback))


def examples_in(batch: Any) -> int | None:
    """How many examples a batch holds: the first dimension of the first tensor in it; None where there is none.

    Looks into sequences, mappings and dataclasses. A batch of graphs (torch-geometric) holds so many graphs; one graph,
    so many nodes.

    >>> examples_in({"id": "a", "x": (torch.zeros(3, 2), torch.zeros(4))})
    3
    """
    if isinstance(batch, Tensor):
        return batch.size(0) if batch.dim() else None
    if isinstance(batch, (list, tuple)):
        parts: Any = batch
    elif isinstance(batch, (dict, Mapping)):
        parts = batch.values()
    else:
        for name in ("num_graphs", "num_nodes"):
            count = getattr(batch, name, None)
            if isinstance(count, int):
                return count
        if not dataclasses.is_dataclass(batch):
            return None
        parts = (getattr(batch, item.name) for item in dataclasses.fields(batch))
    for part in parts:
        if (found := examples_in(part)) is not None:
            return found
    return None
