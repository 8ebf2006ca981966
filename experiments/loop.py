"""The loop: one run's updates, in stretches from evaluation to evaluation.

It knows no name of any algorithm: it gives the algorithm an oracle, a batch and the progress, counts, evaluates,
records and checkpoints. `experiments.trainer` runs it inside Lightning.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from algos import compiled
from algos.contracts import Progress, TrainingAlgorithm
from experiments import checkpoint
from experiments.checkpoint import Checkpoints
from experiments.clock import Clock
from experiments.config import RunConfig
from experiments.determinism import Watching, said
from experiments.evaluation import Evaluator
from experiments.oracle import TaskOracle
from experiments.partway import until
from experiments.progress import Listener, RunNotice, RunProgress
from experiments.stopping import Stop
from experiments.store.schema import Status
from experiments.store.spool import Attempt
from experiments.task import BatchSource, TaskSpec
from experiments.tuning.pruning import Judge

#: Losses wait on the device for at most so long before they are read and spooled.
SPOOL_EVERY_S = 2.0
#: A checkpoint is written at an evaluation when the last one is older.
CHECKPOINT_EVERY_S = 30.0
#: A loss's scale that only gradients reach which are not finite whatever it is: 2^-40.
SMALLEST_SCALE = 2.0**-40
#: Why a run diverged whose losses did not show it.
NOT_FINITE = "the weights are not finite"


@dataclass
class Parts:
    """What a run is made of. Built by `experiments.training`."""

    config: RunConfig
    task: TaskSpec
    oracle: TaskOracle
    algorithm: TrainingAlgorithm
    source: BatchSource
    evaluator: Evaluator
    clock: Clock
    device: torch.device


@dataclass
class Best:
    """The best evaluation so far. weights: the evaluation weights then, kept only where the task tests its best."""

    value: float | None = None
    update: int = 0
    weights: dict[str, Tensor] = field(default_factory=dict)


class Loop:
    """One run from its first update to its last. `status` is "running" until the run is over or stopped."""

    def __init__(
        self, parts: Parts, attempt: Attempt | None, listener: Listener, stop: Stop, run_id: str,
        checkpoints: Checkpoints, judge: Judge | None = None,
    ):  # fmt: skip
        self.parts = parts
        self.status: Status = "running"
        self.reason = ""
        self.update = 0
        self.examples = 0
        self.best = Best()
        self.last_metrics: dict[str, float] = {}
        self._listener, self._stop, self._run_id = listener, stop, run_id
        if attempt is not None:
            self.begin(attempt)
        self._judge, self._until = judge, until(stop)
        self.checkpoints = checkpoints
        self._evaluated_at: int | None = None
        self._reached = False
        self._fresh: list[Tensor] = []
        self._window: list[float] = []
        self._extra: dict[str, Tensor] = {}
        self._told: list[str] = []  # operations that are not deterministic
        self._spooled_at = self._checkpointed_at = time.monotonic()
        self._amount, self._count = parts.config.budget.amount, self._budget_count(parts.config.budget.unit)

    def begin(self, attempt: Attempt) -> None:
        """Write to this attempt. A loop that has none yet can be loaded, and no more."""
        self._attempt = attempt

    # Where the run stands

    def fraction(self) -> float:
        """How much of the budget is used, in [0, 1]."""
        return min(1.0, self._count() / self._amount)

    @property
    def over(self) -> bool:
        return self.status != "running"

    @property
    def evaluation_due(self) -> bool:
        assert self.parts.config.evaluate_every is not None, "a task of the catalogue has one"
        due = self.update % self.parts.config.evaluate_every == 0 or self._count() >= self._amount
        return due and self._evaluated_at != self.update and self.status in ("running", "completed")

    @property
    def evaluated_here(self) -> bool:
        """Whether the last evaluation was after the last update."""
        return self._evaluated_at == self.update

    def counts(self) -> dict[str, float]:
        return {
            "time/train_s": self.parts.clock.seconds("train"),
            "time/evaluate_s": self.parts.clock.seconds("evaluate"),
            "count/updates": self.update,
            "count/epochs": self.update / len(self.parts.source),
            "count/examples": self.examples,
            "count/gradients": self.parts.oracle.gradients,
            **({"count/skipped": skipped} if (skipped := self.parts.oracle.skipped) is not None else {}),
        }

    # The three things a loop does

    def stretch(self) -> None:
        """Train to the next evaluation, the end of the budget, or a stop."""
        with self.parts.clock.phase("train"), compiled.watching(self._compiling):
            self._train()

    def _train(self) -> None:
        parts, config = self.parts, self.parts.config
        source, algorithm, oracle = parts.source, parts.algorithm, parts.oracle
        count, amount = self._count, self._amount
        evaluate_every, checkpoint_every = config.evaluate_every or 0, config.checkpoint_every or 0
        while True:
            if self._stop.requested or self.update == self._until:
                self.interrupt()
                return
            batch = source.next()
            asked = oracle if self.update else Watching(oracle, self._not_deterministic)
            values = algorithm.step(asked, batch, Progress(self.update, min(1.0, count() / amount)))
            self.update += 1
            self.examples += batch.examples
            self._fresh.append(values.pop("loss").detach())
            self._extra = values
            evaluates = self.update % evaluate_every == 0 or count() >= amount
            checkpoints = checkpoint_every and self.update % checkpoint_every == 0
            if evaluates or checkpoints or time.monotonic() - self._spooled_at > SPOOL_EVERY_S:
                self._spool_losses()
            if self.over or evaluates:
                return
            if checkpoints:
                self.checkpoint()

    def evaluate(self) -> dict[str, float]:
        """Validate, record, and decide whether the run is over."""
        parts = self.parts
        with parts.clock.phase("evaluate"):
            if not _all_finite(parts.oracle.model):
                self.diverge(NOT_FINITE)
                return {}
            if (parts.oracle.scale or 1.0) < SMALLEST_SCALE:
                self.diverge("the gradients are not finite, however little the loss is scaled")
                return {}
            with parts.evaluator.at_evaluation_weights(parts.algorithm) as model:
                measured = parts.evaluator.measure("validation")
                if self.keeps(measured):
                    self.best.weights = {name: tensor.detach().clone() for name, tensor in model.state_dict().items()}
        return self.evaluated(measured)

    def keeps(self, measured: Mapping[str, float]) -> bool:
        """Whether the weights that measured so are to be kept: the best so far, where the best are tested."""
        return self.parts.config.select == "best" and self._is_best(measured[self.parts.task.metric])

    def evaluated(self, measured: Mapping[str, float]) -> dict[str, float]:
        """Record what was measured here, and decide whether the run is over."""
        parts = self.parts
        self._evaluated_at = self.update
        metrics = {f"val/{name}": value for name, value in measured.items()}
        with parts.clock.phase("log"):
            self._record(metrics)
        if self._count() >= self._amount:
            self.status = "completed"
        value = measured[parts.task.metric]
        if not self.over and self.update and self._judge is not None and self._judge(self.update, value):
            self.status, self.reason = "pruned", f"the pruner ended it at update {self.update}"
        every = parts.config.checkpoint_every
        asked = bool(every and self.update and self.update % every == 0)
        if self.over or asked or time.monotonic() - self._checkpointed_at > CHECKPOINT_EVERY_S:
            self.checkpoint()
        return metrics

    def checkpoint(self) -> None:
        """Points first, then the state: what a checkpoint has passed is in the spool."""
        with self.parts.clock.phase("checkpoint"):
            self._spool_losses()
            self._attempt.flush(sync=True)
            self.checkpoints.save(self.state_dict())
        self._checkpointed_at = time.monotonic()

    def state_dict(self) -> dict[str, Any]:
        parts = self.parts
        return {
            "update": self.update,
            "examples": self.examples,
            "gradients": parts.oracle.gradients,
            "evaluated_at": self._evaluated_at,
            "reached": self._reached,
            "completed": self.status == "completed",
            "reason": self.reason if self.status == "completed" else "",
            "window": list(self._window),
            "best": {"value": self.best.value, "update": self.best.update, "weights": self.best.weights},
            "last_metrics": dict(self.last_metrics),
            "model": parts.oracle.model.state_dict(),
            "algorithm": parts.algorithm.state_dict(),
            "oracle": parts.oracle.state_dict(),
            "source": parts.source.state_dict(),
            "clock": parts.clock.state_dict(),
            "random": checkpoint.random_states(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        parts = self.parts
        self.update, self.examples = state["update"], state["examples"]
        parts.oracle.gradients, parts.oracle.updates = state["gradients"], state["update"]
        self._evaluated_at, self._reached = state["evaluated_at"], state["reached"]
        if state["completed"]:  # it died between its last checkpoint and its last word
            self.status, self.reason = "completed", state["reason"]
        self._window = list(state["window"])
        self.best = Best(**state["best"])
        self.last_metrics = dict(state["last_metrics"])
        parts.oracle.model.load_state_dict(state["model"])
        parts.algorithm.load_state_dict(state["algorithm"])
        parts.oracle.load_state_dict(state.get("oracle", {}))
        parts.source.load_state_dict(state["source"])
        parts.clock.load_state_dict(state["clock"])
        checkpoint.restore_random_states(state["random"])

    # What they are made of

    def _budget_count(self, unit: str) -> Any:
        """A function of nothing: how much of the budget's unit is used so far."""
        parts = self.parts
        batches = len(parts.source)
        return {
            "updates": lambda: self.update,
            "epochs": lambda: self.update / batches,
            "examples": lambda: self.examples,
            "gradients": lambda: parts.oracle.gradients,
            "seconds": lambda: parts.clock.seconds("train"),
        }[unit]

    def _spool_losses(self) -> None:
        """Read the losses that wait on the device, spool the mean of each full window, and find divergence."""
        self._spooled_at = time.monotonic()
        if not self._fresh:
            return
        values = torch.stack(self._fresh).tolist()
        self._fresh.clear()
        self.spool_losses(values)

    def spool_losses(self, values: Sequence[float]) -> None:
        """The losses of the last updates, in order, as numbers."""
        config = self.parts.config
        for update, value in enumerate(values, start=self.update - len(values) + 1):
            if not value <= config.divergence_bound:  # also true of nan
                self._attempt.points(update, {"train/loss": value})
                self.diverge(f"the training loss was {value:g} at update {update} (bound {config.divergence_bound:g})")
                return
            self._window.append(value)
            if update % config.log_every == 0:
                self._attempt.points(update, {"train/loss": sum(self._window) / len(self._window)})
                self._window.clear()

    def _record(self, metrics: Mapping[str, float]) -> None:
        parts, config = self.parts, self.parts.config
        extra = {f"train/{name}": float(value) for name, value in self._extra.items()}
        counts = self.counts()
        self._attempt.points(
            self.update, {**metrics, **counts, **extra, **(_rate(parts.algorithm) if self.update else {})}
        )
        self.last_metrics = dict(metrics)
        value = metrics[f"val/{parts.task.metric}"]
        if self._is_best(value):
            self.best.value, self.best.update = value, self.update
        if not self._reached and _reaches(value, parts.task.target, parts.task.mode):
            self._reached = True
            self._attempt.event(
                "reached_target", update=self.update, value=value, examples=self.examples,
                gradients=parts.oracle.gradients, train_s=counts["time/train_s"],
            )  # fmt: skip
            if config.stop == "target":
                self.status, self.reason = "completed", "reached its target"
        self._attempt.flush()
        self._listener(RunProgress(self._run_id, self.update, self.fraction(), counts["time/train_s"], metrics))

    @contextmanager
    def _compiling(self, what: str) -> Iterator[None]:
        """Compiling is no training: told, timed apart, and kept as an event."""
        self._listener(RunNotice(self._run_id, f"compiling {what}"))
        before = self.parts.clock.seconds("compile")
        with self.parts.clock.phase("compile"):
            yield
            seconds = self.parts.clock.seconds("compile") - before
        self._attempt.event("compiled", update=self.update, what=what, seconds=round(seconds, 3))

    def _not_deterministic(self, names: list[str]) -> None:
        told = [name for name in names if name not in self._told]
        self._told += told
        if told:
            text = said(told, self.parts.device)
            self._attempt.event("warning", text=text, operations=told)
            self._listener(RunNotice(self._run_id, text))

    def _is_best(self, value: float) -> bool:
        if self.best.value is None or math.isnan(self.best.value):
            return True
        return value > self.best.value if self.parts.task.mode == "max" else value < self.best.value

    def diverge(self, reason: str) -> None:
        """Ends the run, and records what it used until this was found."""
        self.status, self.reason = "diverged", reason
        self._attempt.points(self.update, self.counts())
        self._attempt.event("diverged", update=self.update, reason=reason)

    def interrupt(self) -> None:
        """Stop here, resumable. An evaluation that is due is made when the run goes on."""
        self.status, self.reason = "interrupted", self._stop.reason or f"to stop at update {self._until}"
        self.checkpoint()


def _reaches(value: float, target: float, mode: str) -> bool:
    return value >= target if mode == "max" else value <= target


def _rate(algorithm: TrainingAlgorithm) -> dict[str, float]:
    """The rate of the last update, where the algorithm has an optimizer: that of the rule it is named for (muon's
    fallback has another)."""
    optimizer = getattr(algorithm, "optimizer", None)
    if optimizer is None:
        return {}
    own = [group for group in optimizer.param_groups if not group.get("rule")] or optimizer.param_groups
    return {"train/lr": float(own[0]["lr"])}


def _all_finite(model: torch.nn.Module) -> bool:
    """Whether every weight is finite; one reading from the device."""
    norms = torch._foreach_norm([p.detach() for p in model.parameters() if p.numel()], float("inf"))
    return bool(torch.isfinite(torch.stack([norm.float() for norm in norms])).all())
