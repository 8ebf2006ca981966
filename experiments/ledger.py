"""Ledger: what is spooled of a run that our runner does not execute: metrics, counts, clock, status, objective.

Loads no torch.
"""

from __future__ import annotations

import math
import operator
import os
import threading
import time
import traceback
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Literal

from algos.finding import InputError, closest
from experiments.opening import Alias, in_use, same
from experiments.stopping import StopNow
from experiments.store.home import RunFolder
from experiments.store.schema import Status
from experiments.store.spool import StoreFull
from experiments.termination import Terminated

#: What is no training; innermost first where they nest.
Phase = Literal["evaluate", "apart"]

#: What a ledger writes itself.
COUNTS = ("time/train_s", "time/evaluate_s", "count/updates", "count/epochs", "count/examples", "count/gradients")
_OURS = frozenset((*COUNTS, "objective"))
_LOSS = "train/loss"
_TEST = ("test/", "test_")
#: Where no metric says when, the counts are spooled so often.
_COUNT_EVERY_S = 2.0


class Ledger:
    """What is spooled of one run, from its folder's `begin` to `end`. Threads may share it; a forked child may not.

    status: "running", and then how it ended. resumed_from: the update at which somebody else's checkpoint takes up a
    run that was interrupted or lost; spent: the seconds of training and evaluating before it.
    """

    def __init__(self, folder: RunFolder, resumed_from: int = 0, spent: tuple[float, float] = (0.0, 0.0)):
        file = folder.file
        told = file.facts["task"]
        self.folder = folder
        self.run_id = folder.run_id
        self.status: Status = "running"
        self.last: dict[str, float] = {}
        self.update = resumed_from
        self._metric, self._mode, self._target = str(told["logged"]), str(told["mode"]), told["target"]
        self._val, self._test = f"val/{told['metric']}", f"test/{told['metric']}"
        self._alias = Alias(self._val, self._metric) if self._metric else None
        self._at_update: dict[str, float] = {}
        self._twice: set[str] = set()
        self._given: dict[str, float] = {}
        self._final: dict[str, float] = {}
        self._reached = False
        self._lock = threading.RLock()
        self.pid = os.getpid()
        if resumed_from:
            before = folder.record()
            known = {**dict.fromkeys(before.nonfinite, math.nan), **before.last}
            self.last = {name: value for name, value in known.items() if name not in _OURS}
            self._reached = before.reached is not None
        self._attempt = folder.begin(resumed_from)
        self._spent: dict[Phase, float] = {"evaluate": spent[1], "apart": 0.0}
        self._phases: list[Phase] = []
        self._since = 0.0
        self._began = time.perf_counter() - sum(spent)
        self._counted_at, self._counted = self._began, -1

    def log(
        self,
        values: Mapping[str, Any],
        *,
        update: int,
        examples: float | None = None,
        gradients: float | None = None,
        epochs: float | None = None,
    ) -> None:
        """Values measured after `update` completed updates. examples, gradients, epochs: used so far, in all.

        Nested mappings are flattened with "/"; tensors and arrays of one number cost one `item()` each. A value that is
        not finite becomes an event. A metric logged twice at one update keeps its first point; the objective is the
        last value all the same. InputError too where `val/<metric>`, under which the metric is stored, is logged as
        another metric.
        """
        self._check_open()
        if type(update) is not int:
            update = _whole(update)
        numbers: dict[str, float] = {}
        for name, value in values.items():
            if type(value) is float and type(name) is str and name not in _OURS and name:
                numbers[name] = value
            else:
                flatten(str(name), value, numbers)
        with self._lock:
            if update < self.update:
                raise InputError(
                    f"update={update} after update={self.update}", "log in order of updates", place="update"
                )
            if self._alias is not None:
                self._alias.check(numbers)
            self.last.update(numbers)
            if examples is not None or gradients is not None or epochs is not None:
                self._count(examples=examples, gradients=gradients, epochs=epochs)
            points = self._first(update, numbers)
            if self._metric in numbers:
                self._measured(update, points, numbers[self._metric])
            else:
                if not self._metric and time.perf_counter() - self._counted_at > _COUNT_EVERY_S:
                    points |= self._counts(update)
                self._attempt.points(update, points)

    def final(self, values: Mapping[str, Any]) -> None:
        """What the run comes to, kept for its end: test metrics above all. `objective` is the last value of the metric
        unless it is given here."""
        self._check_open()
        numbers: dict[str, float] = {}
        for name, value in values.items():
            if name == "objective":
                numbers[name] = _number(name, value)
            else:
                flatten(str(name), value, numbers)
        self._final.update(numbers)

    @contextmanager
    def evaluating(self) -> Iterator[None]:
        """Time within it is evaluation, not training. Waits for the device at both ends; may be nested."""
        with self._within("evaluate"):
            yield

    @contextmanager
    def apart(self) -> Iterator[None]:
        """Time within it is neither training nor evaluation: setting up, saving, drawing. Else as `evaluating`."""
        with self._within("apart"):
            yield

    def passed(self, phase: Phase, seconds: float) -> None:
        """So many seconds, just past, were of that phase."""
        self._spent[phase] += seconds

    def warn(self, text: str) -> None:
        """Something that whoever reads the run should know."""
        self._attempt.event("warning", update=self.update, text=text)

    def end(self, error: BaseException | None = None) -> None:
        """The last words. error: what the block or the trainer raised, if it did. A metric that was never logged is a
        warning: what was trained is worth more than its name."""
        if self.status != "running" or os.getpid() != self.pid:
            return
        self.status, reason, trace = ending(error)
        if self.status == "completed" and (bad := self._diverged()):
            self.status, reason = "diverged", bad
            self._attempt.event("diverged", update=self.update, reason=bad)
        if self.update > self._counted:
            self._attempt.points(self.update, self._counts(self.update))
        unlogged = ""
        if self.status == "completed":
            if self._metric and self._metric not in self.last:
                unlogged = never_logged(self._metric, self.last)
                self.warn(unlogged)
            if final := self._finals():
                self._attempt.final(final)
        self._attempt.end(self.status, reason, trace)
        if unlogged:
            warnings.warn(f"run {self.run_id}: {unlogged}", UserWarning, stacklevel=3)

    def amend(self, values: Mapping[str, Any]) -> None:
        """Test metrics that were measured after the end, in the same process. Only of a run that completed."""
        if self.status != "completed" or os.getpid() != self.pid:
            return
        numbers: dict[str, float] = {}
        for name, value in values.items():
            flatten(str(name), value, numbers)
        self._final.update({name: value for name, value in numbers.items() if name.startswith(_TEST)})
        self._attempt.amend(self.update, self._first(self.update, numbers), self._finals())

    # What they are made of

    def _check_open(self) -> None:
        if self.status != "running":
            raise InputError(
                f"run {self.run_id} is over ({self.status})", "log inside the block that records it", rule="record-over"
            )
        if os.getpid() != self.pid:
            raise InputError(
                f"run {self.run_id} is recorded by process {self.pid}, and this is a child of it",
                "log there, or open a record of its own here", rule="record-forked",
            )  # fmt: skip

    def _first(self, update: int, numbers: dict[str, float]) -> dict[str, float]:
        """Those that have no point at this update yet: a curve has one."""
        if update > self.update:
            self.update = update
            self._at_update = numbers.copy()
            return numbers
        before = self._at_update
        fresh = {name: value for name, value in numbers.items() if name not in before}
        for name in numbers.keys() - fresh.keys() - self._twice:
            if not same(numbers[name], before[name]):
                self._twice.add(name)
                if self.status == "running":
                    self.warn(f"{name} was logged twice at update {update}; its first point is kept")
        before |= fresh
        return fresh

    def _count(self, **counts: float | None) -> None:
        for name, value in counts.items():
            if value is not None:
                self._given[f"count/{name}"] = _number(name, value)

    def _counts(self, update: int) -> dict[str, float]:
        """Of the block so far. Those the user does not give are not known, and not written."""
        if update == self._counted:
            return {}
        self._counted, self._counted_at = update, time.perf_counter()
        train, evaluate = self.seconds()
        return {"time/train_s": train, "time/evaluate_s": evaluate, "count/updates": update, **self._given}

    def seconds(self) -> tuple[float, float]:
        """Of training and of evaluating, so far."""
        now = time.perf_counter()
        spent = self._spent.copy()
        if self._phases:
            spent[self._phases[-1]] += now - self._since
        return now - self._began - sum(spent.values()), spent["evaluate"]

    @contextmanager
    def _within(self, phase: Phase) -> Iterator[None]:
        self._check_open()
        with self._lock:
            self._turn([*self._phases, phase])
        try:
            yield
        finally:
            with self._lock:  # another thread may have opened one since
                last = len(self._phases) - 1 - self._phases[::-1].index(phase)
                self._turn(self._phases[:last] + self._phases[last + 1 :])

    def _turn(self, phases: list[Phase]) -> None:
        """A boundary, where the innermost phase changes: what passed since the last one belongs to the one before."""
        if phases[-1:] != self._phases[-1:]:
            wait_for_device()
            now = time.perf_counter()
            if self._phases:
                self._spent[self._phases[-1]] += now - self._since
            self._since = now
        self._phases = phases

    def _measured(self, update: int, points: dict[str, float], value: float) -> None:
        """The metric: under its name and as val/<canonical>, with the counts, and whether it reached the target."""
        if self._metric in points and self._val not in points:
            points = {**points, self._val: value}
        counts = self._counts(update)
        self._attempt.points(update, {**points, **counts})
        if not self._reached and self._target is not None and self._reaches(value):
            self._reached = True
            used = {name.removeprefix("count/"): number for name, number in self._given.items()}
            train_s = counts.get("time/train_s", self.seconds()[0])
            self._attempt.event("reached_target", update=update, value=value, train_s=train_s, **used)
        self._attempt.flush()

    def _reaches(self, value: float) -> bool:
        return value >= self._target if self._mode == "max" else value <= self._target

    def _diverged(self) -> str:
        """Why the run diverged, or ""."""
        for name in dict.fromkeys((self._metric, _LOSS)):
            if not math.isfinite(self.last.get(name, 0.0)):
                return f"the last {name} was {self.last[name]:g}"
        return ""

    def _finals(self) -> dict[str, float]:
        """The objective, and the test metrics under their canonical name."""
        found: dict[str, float] = {}
        if self._metric in self.last:
            found["objective"] = self.last[self._metric]
            found |= {self._named(name): value for name, value in self.last.items() if self._named(name) == self._test}
        return found | {self._named(name): value for name, value in self._final.items()}

    def _named(self, name: str) -> str:
        """test_acc and test/acc are both test/<canonical>, where that is the metric."""
        plain = next((name[len(start) :] for start in _TEST if name.startswith(start)), "")
        return self._test if plain and f"test/{plain}" == self._test else name


def never_logged(metric: str, logged: Iterable[str]) -> str:
    """What is said of a metric that never came."""
    names = sorted(logged)
    guess = closest(metric, names)
    cure = f"did you mean '{guess}'?" if guess else "log it, or name one that is logged"
    said = f"logged: {', '.join(names)}" if names else "nothing was logged"
    return f"the metric '{metric}' was never logged ({said}); {cure}"


def wait_for_device() -> None:
    """Until the device in use, if there is one, has done what it was given."""
    if (device := in_use()) != "cpu":
        from experiments.devices import synchronise

        synchronise(device)


def ending(error: BaseException | None) -> tuple[Status, str, str]:
    """Status, reason and traceback of a block that raised `error`, or nothing."""
    if error is None or (isinstance(error, SystemExit) and error.code in (None, 0)):
        return "completed", "", ""
    if isinstance(error, KeyboardInterrupt) or (isinstance(error, SystemExit) and error.code == 130):
        return "interrupted", "Ctrl-C", ""
    if isinstance(error, Terminated) or (isinstance(error, SystemExit) and error.code == 143):
        return "interrupted", "SIGTERM", ""
    if isinstance(error, (StopNow, GeneratorExit, StoreFull)):
        return "interrupted", str(error) or "stopped at once", ""
    return "crashed", traceback.format_exception_only(error)[-1].strip(), "".join(traceback.format_exception(error))


def _whole(update: Any) -> int:
    try:
        if isinstance(update, float) and update.is_integer():
            return int(update)
        return operator.index(update)
    except TypeError:
        raise InputError(
            f"update={update!r} is not a whole number", "give the number of updates completed", place="update"
        ) from None


def flatten(name: str, value: Any, into: dict[str, float]) -> None:
    """Adds the numbers in a value, under names with "/". InputError for what is none, and for names that are ours."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            flatten(f"{name}/{key}", inner, into)
        return
    if not name or name in _OURS:
        said = f"'{name}' is written by the record itself" if name else "a metric without a name"
        raise InputError(said, "log it under another name", place="log")
    into[name] = _number(name, value)


def _number(name: str, value: Any) -> float:
    """A Python number; of a tensor or an array the one it holds."""
    if isinstance(value, (int, float)):
        return float(value)
    if hasattr(value, "item"):
        try:
            return float(value.item())
        except (TypeError, ValueError, RuntimeError):
            shape = tuple(getattr(value, "shape", ()))
            raise InputError(
                f"'{name}' has shape {shape}, not one number", "log its mean, or each part by name", place="log"
            ) from None
    raise InputError(f"'{name}' is {value!r:.60}, not a number", "log numbers; put the rest in config", place="log")
