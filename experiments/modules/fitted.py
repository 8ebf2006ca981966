"""Fitted: one fit of somebody else's Trainer as a run of ours, from its opening to its last words."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from typing import Any

import lightning.pytorch as pl
from lightning.pytorch.utilities.exceptions import SIGTERMException
from lightning.pytorch.utilities.rank_zero import rank_zero_warn

from experiments.ledger import ending, never_logged
from experiments.modules import described
from experiments.modules.recording import LOSS, Recording
from experiments.modules.watched import canonical_test
from experiments.store.home import Home
from experiments.store.recovery import recover
from experiments.store.schema import Status
from experiments.store.tracking import tracking_uri
from experiments.store.uploads import check_store, start_uploader


class Fitted:
    """A run and its recording. open: until `end`; what is logged after that waits for `amend`. whole: the module is."""

    def __init__(self, trainer: pl.Trainer, asked: described.Asked):
        uri = tracking_uri()
        home = Home.default()
        if note := check_store(home, uri):
            rank_zero_warn(note)
        home.prepare()
        recover(home)
        start_uploader(home, uri)
        self.folder = described.open_run(asked, trainer, home)
        self.attempt = self.folder.begin()
        self.open, self.whole = True, False
        self._pid = os.getpid()
        self._trainer = trainer
        told = self.folder.file.facts["task"]
        self._metric, self._canonical = asked.metric, told["metric"]
        self._val = f"val/{self._canonical}"
        self._target, self._mode = asked.target, told["mode"]
        self._reached = False
        self._later: dict[str, Any] = {}
        self._final: dict[str, float] = {}
        # A loss of any size may be right where nobody said what it is, and the loop may handle one that is not finite.
        self.recording = Recording(self.attempt, divergence_bound=math.inf, strict=False)
        if self._metric:
            self.recording.alias(self._val, self._metric)
        _put_first(self.recording, trainer)

    @property
    def fresh(self) -> bool:
        """Whether the run is open, and its fit has called nothing yet."""
        return self.open and not self.recording.called

    def built(self, module: pl.LightningModule) -> None:
        """The module is whole: layers made in `setup` are there."""
        self.whole = True
        count = described.parameters(module)
        if count != self.folder.file.facts["task"]["module"]["parameters"]:
            self.attempt.event("parameters", total=count)

    def more_config(self, params: Mapping[str, Any]) -> None:
        if new := described.later(self.folder, params):
            self.attempt.event("hyperparameters", values=new)

    def log(self, metrics: Mapping[str, Any]) -> None:
        if not self.open:
            self._later |= metrics
            return
        update = self.recording.update
        if self._metric not in metrics:
            self.recording.take(metrics, update)
            return
        self.recording.take({self._val: metrics[self._metric], **metrics}, update)
        if self._metric in self.recording.taken:
            self._measured(update, self.recording.taken[self._metric])

    def _measured(self, update: int, value: float) -> None:
        """The metric: whether it reached its target."""
        if self._reached or self._target is None:
            return
        if value >= self._target if self._mode == "max" else value <= self._target:
            self._reached = True
            counts = self.recording.counts(self._trainer)
            self.attempt.event(
                "reached_target", update=update, value=value, examples=counts["count/examples"],
                gradients=counts["count/gradients"], train_s=counts["time/train_s"],
            )  # fmt: skip

    def end(self, error: BaseException | None, *, failed: bool) -> None:
        """The last words. error: what the fit raised, if it did."""
        if os.getpid() != self._pid:
            return
        status, reason, trace = self._ending(error, failed)
        update = self.recording.update
        if status == "diverged":
            self.attempt.event("diverged", update=update, reason=reason)
        if status == "completed":
            self._final = self._finals()
            self._tell_of_stops()
        if self._final:
            self.attempt.final(self._final)
        self._close(status, reason, trace)

    def _close(self, status: Status, reason: str, trace: str = "") -> None:
        self.open, self._update = False, self.recording.update
        self.attempt.end(status, reason, trace)

    def _diverged(self) -> str:
        """Why the run diverged, or ""; as in `Ledger`."""
        recording = self.recording
        if recording.diverged:
            return recording.diverged
        for name in (self._metric, *([LOSS] if recording.loss is None else [])):
            if not math.isfinite(recording.taken.get(name, 0.0)):
                return f"the last {name} was {recording.taken[name]:g}"
        return ""

    def _ending(self, error: BaseException | None, failed: bool) -> tuple[Status, str, str]:
        if not failed:
            diverged = self._diverged()
            return ("diverged", diverged, "") if diverged else ("completed", "", "")
        if isinstance(error, SIGTERMException):
            return "interrupted", "SIGTERM", ""
        if error is None:
            return "crashed", "Lightning says that it failed", ""
        status, reason, trace = ending(error)
        return ("interrupted", "the program ended in its fit", "") if status == "completed" else (status, reason, trace)

    def vanish(self) -> None:
        """The process ends, and nobody said how the fit did."""
        if self.open and os.getpid() == self._pid:
            self._close("interrupted", "the program ended before its fit did")

    def abandon(self) -> None:
        """Another fit begins, and nobody said how this one did: a callback's on_exception raised, say."""
        if self.open and os.getpid() == self._pid:
            self._close("crashed", "its fit ended without a word")

    def amend(self) -> None:
        """What was logged after the fit, by a test or a validation, joins its run."""
        if not self._later or os.getpid() != self._pid:
            return
        metrics, self._later = self._later, {}
        metrics.pop("epoch", None)
        numbers = {name: float(value) for name, value in metrics.items() if _is_number(value)}
        tests = {name: value for name, value in self._named_tests(numbers).items() if name not in numbers}
        numbers |= tests
        self._final |= {name: value for name, value in numbers.items() if name.startswith("test/")}
        self.attempt.amend(self._update, self.recording.first(numbers, self._update)[0], self._final)

    def _finals(self) -> dict[str, float]:
        if not self._metric:
            return {}
        taken = self.recording.taken
        if self._metric not in taken:
            self._tell_that_it_was_not_logged()
            return {}
        return {"objective": taken[self._metric], **self._named_tests(taken)}

    def _named_tests(self, metrics: Mapping[str, float]) -> dict[str, float]:
        """The metric as it was tested, as test/<canonical>."""
        if not self._metric:
            return {}
        return {
            f"test/{self._canonical}": value
            for name, value in metrics.items()
            if name.startswith("test") and canonical_test(name) == self._canonical
        }

    def _tell_that_it_was_not_logged(self) -> None:
        said = never_logged(self._metric, self.recording.taken)
        self.attempt.event("warning", text=said)
        rank_zero_warn(f"run {self.folder.run_id}: {said}")

    def _tell_of_stops(self) -> None:
        left = described.budget(self._trainer)
        if self._trainer.should_stop and any(amount > 0 for amount in left.values()):
            self.attempt.event("stopped_early", update=self.recording.update, reason="the Trainer was told to stop")


def _put_first(recording: Recording, trainer: pl.Trainer) -> None:
    """Of an earlier fit's recordings none stays."""
    callbacks: list[pl.Callback] = trainer.callbacks  # type: ignore[attr-defined]
    callbacks[:] = [recording, *(each for each in callbacks if not isinstance(each, Recording))]


def _is_number(value: Any) -> bool:
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return True
