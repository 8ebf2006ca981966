"""Keeper: the callback that keeps a run of a user's module to its budget, in Lightning's own loop.

It evaluates, records, stops, checkpoints and resumes.

It is the last callback of all, so that what it writes has what everyone else has done. Checkpoints are written where
nothing is half done: between two training batches, when the next one is fetched (see `replay`). So what is due after a
batch, a validation or an epoch (the module's own hooks too) has happened, and is not repeated when the run goes on.
"""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import lightning.pytorch as pl
import torch
from lightning.pytorch.callbacks import Checkpoint
from lightning.pytorch.loops.fetchers import _DataLoaderIterDataFetcher
from torch import Tensor

from algos.finding import InputError
from experiments.checkpoint import Checkpoints
from experiments.modules import state as kept
from experiments.modules.epochs import epochs
from experiments.modules.recording import LOSS, Recording, examples_in
from experiments.modules.replay import (
    RemadeSource,
    ReplayedLoader,
    ReplayedSource,
    drawing_workers,
    give_validation_states,
    validation_states,
)
from experiments.modules.watched import Moment, Watched
from experiments.partway import until
from experiments.progress import Listener, RunProgress
from experiments.stopping import Interrupted, Stop
from experiments.store.metric_names import canonical_metric
from experiments.store.spool import Attempt
from experiments.tuning.pruning import Judge
from experiments.weights import signature_of, weights_of

if TYPE_CHECKING:
    from experiments.config import RunConfig

#: A checkpoint is written when the last one is older, and when writing it took less than a twentieth of that.
CHECKPOINT_EVERY_S = 30.0
_PATIENCE = 20
#: After a stop was asked for, a validation is left in the middle only after so long.
VALIDATION_MAY_TAKE_S = 5.0


class Diverged(BaseException):
    """The training loss is not finite, or above the bound."""


class Pruned(BaseException):
    """The study's pruner has ended the run."""


class Keeper(Checkpoint):
    """One run's callback. saved: the checkpoint to go on from, or None. resuming: until its state is all in place."""

    def __init__(
        self, config: RunConfig, recording: Recording, attempt: Attempt, checkpoints: Checkpoints, *, stop: Stop,
        listener: Listener, saved: Mapping[str, Any] | None = None, judge: Judge | None = None,
    ):  # fmt: skip
        state = saved["trainlab"] if saved else None
        self.watched = Watched(config.metric)
        self.best: dict[str, Any] = {"value": None, "update": 0, "weights": {}}
        self.value: float | None = None
        self.reached = False
        self.completed = False
        self.resuming = False
        self.used, self.update = 0.0, 0
        self.weights: Mapping[str, Any] = saved["state_dict"] if saved and saved["trainlab"]["completed"] else {}
        self.resumed_completed = bool(self.weights)
        self._widened: Mapping[str, Any] = saved["state_dict"] if saved else {}
        self.batch_examples = 0
        self._config, self._recording, self._attempt, self.checkpoints = config, recording, attempt, checkpoints
        self._stop, self._listener, self._state, self._judge = stop, listener, state, judge
        self._evaluated_at, self._asked_at = -1, 0.0
        self._begins = False
        # The weights of the last validation in short: those evaluated, those trained; the first whole where needed.
        self.evaluated = self.trained = torch.zeros(0)
        self.evaluated_weights: dict[str, Tensor] = {}
        self._early: list[tuple[int, float]] = []  # the metric at the ends of epochs before the first validation
        self._name = f"val/{canonical_metric(config.metric)}"
        recording.alias(self._name, config.metric)
        unit, amount = config.budget.unit, config.budget.amount
        self._ends = unit != "updates" and not (unit == "epochs" and float(amount).is_integer())
        self._written_at, self._writing_s = time.monotonic(), 0.0
        if state:
            self._load(state)

    # The budget

    def fraction(self, trainer: pl.Trainer) -> float:
        """How much of the budget is used, in [0, 1]."""
        return min(1.0, self._used(trainer) / self._config.budget.amount)

    def _used(self, trainer: pl.Trainer) -> float:
        unit = self._config.budget.unit
        if unit == "updates":
            return trainer.global_step
        if unit == "epochs":
            return epochs(trainer)
        used = self._recording.counts(trainer)["time/train_s" if unit == "seconds" else f"count/{unit}"]
        progress: Any = trainer.fit_loop.epoch_loop.batch_progress.total
        if unit == "examples" and progress.processed > self._recording.batches:
            used += self.batch_examples  # trained, and counted when the batch's hooks are through
        return used

    @property
    def early(self) -> bool:
        """Whether the run reached its target and was to stop there."""
        return self.reached and self._config.stop == "target"

    # Lightning's hooks

    def setup(self, trainer: pl.Trainer, pl_module: pl.LightningModule, stage: str) -> None:
        if stage == "fit":
            position = self._state["position"] if self._state else None
            loop, between = trainer.fit_loop, functools.partial(self._between, trainer)
            loop._data_source = ReplayedSource(loop._data_source, between, position)
            made = self._state["validation"]["made"] if self._state else None
            self._remade = RemadeSource(loop.epoch_loop.val_loop._data_source, made)
            loop.epoch_loop.val_loop._data_source = self._remade

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        if self._state is not None:
            self._widen(pl_module)
            kept.give_metrics(trainer, self._state["kept"])

    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, outputs: Any, batch: Any, index: int
    ) -> None:
        self._own_signals(trainer)
        if self._blind(trainer) and self._stop.requested:
            raise Interrupted(self._stop.reason)
        if self._ends and not trainer.should_stop and self._used(trainer) >= self._config.budget.amount:
            trainer.should_stop = True  # Lightning validates once more, and ends

    def on_validation_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self.watched.begin(trainer)
        self._begins = not trainer.sanity_checking

    def on_validation_batch_end(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, outputs: Any, batch: Any, batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:  # fmt: skip
        self._own_signals(trainer)
        if self._stop.requested and trainer.state.fn == "fit" and self._has_waited():
            raise Interrupted(self._stop.reason)
        if self._begins:  # now the weights stand that are evaluated, whoever put them there
            self._begins, self.evaluated = False, signature_of(pl_module)
            keeps = self._config.select == "best" or not torch.equal(self.evaluated, self.trained)
            self.evaluated_weights = weights_of(pl_module) if keeps else {}
        loaders = trainer.num_val_batches if isinstance(trainer.num_val_batches, list) else [1]
        self.watched.validated(outputs, examples_in(batch) or 0, dataloader_idx, len(loaders))

    def on_validation_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        if not trainer.sanity_checking:
            self._evaluate(trainer, "validation")

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self._own_signals(trainer)
        if not self.watched.moment and trainer.enable_validation and not self._has_validated(trainer):
            value = self.watched.value(trainer, "epoch", self._recording.loss)  # the first validation may bring it yet
            self._early += [(trainer.global_step, value)] if value is not None else []
            return
        if not pl_module.automatic_optimization and not trainer.global_step:
            said = "the module steps its optimizers past Lightning, so updates cannot be counted"
            raise InputError(said, "step those of self.optimizers()", rule="uncounted", place="task")
        self._evaluate(trainer, "epoch")
        if not self.watched.moment:
            raise self.watched.absent(trainer)

    def on_train_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        if self.watched.moment == "epoch" or not trainer.enable_validation:
            self._evaluate(trainer, "epoch")

    def on_test_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        if self.resumed_completed:  # the module has just been made, and now all its layers
            pl_module.load_state_dict({**pl_module.state_dict(), **self.weights})

    # Evaluations

    def is_evaluated(self, trainer: pl.Trainer) -> bool:
        """Whether the last evaluation is of the weights as they are."""
        return self._evaluated_at == trainer.global_step

    def evaluate_again(self) -> None:
        self._evaluated_at = -1

    def _has_validated(self, trainer: pl.Trainer) -> bool:
        return bool(trainer.fit_loop.epoch_loop.val_loop._has_run)

    def _evaluate(self, trainer: pl.Trainer, moment: Moment) -> None:
        if self.is_evaluated(trainer) and self.watched.moment == moment:
            return
        self._recording.flush(trainer)
        value = self.watched.value(trainer, moment, self._recording.loss)
        if value is None:
            return
        self._settle(moment)
        self.value, self._evaluated_at = value, trainer.global_step
        counts = self._recording.counts(trainer)
        self._tell(value, trainer.global_step)
        if self._is_best(value):
            self._keep_best(trainer, value)
        if not self.reached and self._reaches(value):
            self._reach(trainer, value, counts)
        self._attempt.flush()
        self._listener(
            RunProgress(
                self._attempt.run_id,
                trainer.global_step,
                self.fraction(trainer),
                counts["time/train_s"],
                {self._name: value},
            )
        )
        going_on = trainer.state.fn == "fit" and not trainer.should_stop and 0 < self.fraction(trainer) < 1
        if going_on and self._judge is not None and self._judge(trainer.global_step, value):
            raise Pruned(f"the pruner ended it at update {trainer.global_step}")

    def _settle(self, moment: Moment) -> None:
        """From the first value on it is known when the metric is taken. Epochs before the first validation count where
        it is at the end of epochs."""
        if self.watched.moment:
            return
        self.watched.moment = moment
        for update, value in self._early if moment == "epoch" else ():
            self._tell(value, update)
        self._early = []

    def _tell(self, value: float, update: int) -> None:
        """The metric under its own name and as val/<canonical>; train/loss is spooled by the recording itself."""
        metric = self._config.metric
        own = {} if metric == LOSS and LOSS not in self._recording.taken else {metric: value}
        self._recording.take({**own, self._name: value}, update)

    def _is_best(self, value: float) -> bool:
        best = self.best["value"]
        if best is None or math.isnan(best):
            return True
        return bool(value > best if self._config.mode == "max" else value < best)

    def _keep_best(self, trainer: pl.Trainer, value: float) -> None:
        self.best |= {"value": value, "update": trainer.global_step}
        if self._config.select == "best":
            at_validation = self.watched.moment == "validation" and self.evaluated_weights
            self.best["weights"] = self.evaluated_weights if at_validation else weights_of(trainer.lightning_module)

    def _reaches(self, value: float) -> bool:
        target = self._config.target
        if target is None:
            return False
        return value >= target if self._config.mode == "max" else value <= target

    def _reach(self, trainer: pl.Trainer, value: float, counts: Mapping[str, float]) -> None:
        self.reached = True
        self._attempt.event(
            "reached_target", update=trainer.global_step, value=value, examples=counts["count/examples"],
            gradients=counts["count/gradients"], train_s=counts["time/train_s"],
        )  # fmt: skip
        if self._config.stop == "target":
            trainer.should_stop = True

    # Between two batches: stop, checkpoint

    def _own_signals(self, trainer: pl.Trainer) -> None:
        """Lightning answers SIGTERM by raising wherever it is; ours has asked for a stop, which leaves a checkpoint."""
        if trainer.global_step == until(self._stop):
            self._stop.request(f"to stop at update {trainer.global_step}")
        if self._stop.requested:
            trainer._signal_connector.received_sigterm = False

    def _between(self, trainer: pl.Trainer, loader: ReplayedLoader) -> Callable[[Mapping[str, Any]], None] | None:
        """Before a batch is fetched: what writes a checkpoint, where one is due and nothing is half done."""
        if self._recording.diverged:
            raise Diverged(self._recording.diverged)
        progress = trainer.fit_loop.epoch_loop.batch_progress.current
        accumulates = trainer.lightning_module.automatic_optimization
        accumulating = accumulates and progress.ready % trainer.accumulate_grad_batches != 0
        if progress.ready != progress.completed or accumulating or self._blind(trainer):
            return None
        if trainer.fit_loop.epoch_loop.batch_progress.total.completed == 0:
            if self._stop.requested:
                raise Interrupted(self._stop.reason)
            return None
        if not (self._stop.requested or self._is_due(trainer)):
            return None
        started = time.monotonic()
        state = trainer._checkpoint_connector.dump_checkpoint(weights_only=False)
        return functools.partial(self._write, trainer, state, started)

    def _blind(self, trainer: pl.Trainer) -> bool:
        """Whether the module fetches batches itself (a training_step that takes dataloader_iter): where it stands
        between two of them is not known, so a stop leaves no checkpoint, and the run then starts again."""
        return isinstance(trainer.fit_loop._data_fetcher, _DataLoaderIterDataFetcher)

    def _has_waited(self) -> bool:
        """A validation under way may end before a stop is heeded, but not go on for long: the last checkpoint is not
        old."""
        self._asked_at = self._asked_at or time.monotonic()
        return time.monotonic() - self._asked_at > VALIDATION_MAY_TAKE_S

    def _is_due(self, trainer: pl.Trainer) -> bool:
        every = self._config.checkpoint_every
        if every and trainer.global_step // every > self._written_step // every:
            return True
        return time.monotonic() - self._written_at > max(CHECKPOINT_EVERY_S, _PATIENCE * self._writing_s)

    def _write(self, trainer: pl.Trainer, state: dict[str, Any], started: float, position: Mapping[str, Any]) -> None:
        self._save(trainer, state, position)
        self._written_at = time.monotonic()
        self._writing_s = self._written_at - started
        if self._stop.requested:
            raise Interrupted(self._stop.reason)

    def write_completed(self, trainer: pl.Trainer) -> None:
        """The last checkpoint: training is over, and only what is told of the run is left to do."""
        self.completed, self.used, self.update = True, self.fraction(trainer), trainer.global_step
        self._save(trainer, {"state_dict": trainer.lightning_module.state_dict()}, {})

    def _save(self, trainer: pl.Trainer, state: dict[str, Any], position: Mapping[str, Any]) -> None:
        """Points first, then the state: what a checkpoint has passed is in the spool."""
        with self._recording.clock.phase("checkpoint"):
            self._recording.flush(trainer)
            self._attempt.flush(sync=True)
            progress: Any = trainer.fit_loop.epoch_progress.current
            state.pop("hyper_parameters", None)  # the config has them, and a user's may not be picklable
            ours = {
                "update": trainer.global_step,
                "completed": self.completed,
                "used": self.used,
                "position": {**position, "epoch": progress.processed},
                "kept": kept.take(trainer) if position else {},
                "validation": {"made": self._remade.made, "loaders": validation_states(trainer)},
                "recording": self._recording.state_dict(),
                "evaluated_at": self._evaluated_at,
                "value": self.value,
                "moment": self.watched.moment,
                "early": list(self._early),
                "evaluated": [self.evaluated, self.trained],
                "reached": self.reached,
                "best": self.best,
            }
            self.checkpoints.save({**state, "trainlab": ours})
        self._written_step = trainer.global_step

    # Going on

    _written_step = 0

    def _load(self, state: Mapping[str, Any]) -> None:
        self.resuming = not state["completed"]
        self._evaluated_at, self.value, self.reached = state["evaluated_at"], state["value"], state["reached"]
        self.best, self.watched.moment, self.completed = dict(state["best"]), state["moment"], state["completed"]
        self._early, (self.evaluated, self.trained) = list(state["early"]), state["evaluated"]
        self._written_step = self.update = state["update"]
        self.used = state["used"]
        self._recording.load_state_dict(state["recording"])

    def go_on(self, trainer: pl.Trainer) -> None:
        """At the first batch after a resume: everything that Lightning does not bring back."""
        state, self._state = self._state, None
        if state is None:
            return
        self.resuming = False
        kept.give(trainer, state["kept"], mid_epoch=state["position"]["batches"] > 0)
        give_validation_states(trainer, state["validation"]["loaders"])
        lost = [*state["kept"]["lost"], *drawing_workers(trainer)]
        if lost:
            text = f"{', '.join(lost)} cannot be kept between attempts: the run may differ from one never stopped"
            self._attempt.event("warning", text=text, update=state["update"])

    def _widen(self, module: pl.LightningModule) -> None:
        """Lightning loads weights before it widens a module to double precision."""
        weights, self._widened = self._widened, {}
        if any(tensor.dtype == torch.float64 for tensor in weights.values() if isinstance(tensor, Tensor)):
            module.load_state_dict(weights)
