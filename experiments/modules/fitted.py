"""Fitted: one fit of somebody else's Trainer as a run of ours, from its opening to its last words."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from typing import Any

import lightning.pytorch as pl
from lightning.pytorch.utilities.exceptions import SIGTERMException
from lightning.pytorch.utilities.rank_zero import rank_zero_warn

from algos.finding import closest
from experiments.ledger import ending
from experiments.modules import described
from experiments.modules.recording import Recording
from experiments.modules.watched import canonical_test
from experiments.store.home import Home
from experiments.store.recovery import recover
from experiments.store.schema import Status
from experiments.store.tracking import check_tracking, tracking_uri
from experiments.store.uploads import start_uploader


class Fitted:
    """A run and its recording. open: until `end`; what is logged after that waits for `amend`."""

    def __init__(self, trainer: pl.Trainer, asked: described.Asked):
        uri = tracking_uri()
        check_tracking(uri)
        home = Home.default().prepare()
        recover(home)
        start_uploader(home, uri)
        self.folder = described.open_run(asked, trainer, home)
        self.attempt = self.folder.begin()
        self.open = True
        self._pid = os.getpid()
        self._trainer = trainer
        told = self.folder.file.facts["task"]
        self._metric, self._canonical = asked.metric, told["metric"]
        self._target, self._mode = asked.target, told["mode"]
        self._reached = False
        self._later: dict[str, Any] = {}
        self._final: dict[str, float] = {}
        # A loss of any size may be right where nobody said what it is: only one that is not finite is divergence.
        self.recording = Recording(self.attempt, divergence_bound=math.inf)
        _put_first(self.recording, trainer)

    def built(self, module: pl.LightningModule) -> None:
        """The module is whole: layers made in `setup` are there."""
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
        update = self._trainer.global_step
        self.recording.take(metrics, update)
        if self._metric and self._metric in metrics:
            self._measured(update)

    def _measured(self, update: int) -> None:
        """The metric: also as val/<canonical>, and whether it reached its target."""
        value = self.recording.taken[self._metric]
        if self._metric != f"val/{self._canonical}":
            self.recording.take({f"val/{self._canonical}": value}, update)
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
        if status == "completed":
            self._final = self._finals()
            self._tell_of_stops()
        if self._final:
            self.attempt.final(self._final)
        self.open = False
        self.attempt.end(status, reason, trace)

    def _ending(self, error: BaseException | None, failed: bool) -> tuple[Status, str, str]:
        if not failed:
            diverged = self.recording.diverged
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
            self.open = False
            self.attempt.end("interrupted", "the program ended before its fit did")

    def amend(self) -> None:
        """What was logged after the fit, by a test or a validation, joins its run."""
        if not self._later or os.getpid() != self._pid:
            return
        metrics, self._later = self._later, {}
        metrics.pop("epoch", None)
        numbers = {name: float(value) for name, value in metrics.items() if _is_number(value)}
        tests = {name: value for name, value in self._named_tests(numbers).items() if name not in numbers}
        self._final |= {name: value for name, value in {**numbers, **tests}.items() if name.startswith("test/")}
        self.attempt.amend(self._trainer.global_step, {**numbers, **tests}, self._final)

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
        taken = sorted(self.recording.taken)
        guess = closest(self._metric, taken)
        cure = f"did you mean '{guess}'?" if guess else f"logged: {', '.join(taken)}" if taken else "nothing was logged"
        said = f"the metric '{self._metric}' was never logged; {cure}"
        self.attempt.event("warning", text=said)
        rank_zero_warn(f"run {self.folder.run_id}: {said}")

    def _tell_of_stops(self) -> None:
        trainer, given = self._trainer, described.budget(self._trainer)
        done = {"updates": trainer.global_step, "epochs": trainer.current_epoch}
        if trainer.should_stop and any(done[unit] < amount for unit, amount in given.items()):
            self.attempt.event("stopped_early", update=trainer.global_step, reason="the Trainer was told to stop")


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
