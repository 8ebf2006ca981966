"""PopulationLoop: the updates of several runs, taken together.

It mirrors `experiments.loop`: stretches from evaluation to evaluation, the same points at the same updates. What each
run counts, records, decides and writes is its own `MemberLoop`'s business, which is a lone run's loop that is moved
from here.
"""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from algos.contracts import Progress
from experiments import checkpoint, passing
from experiments.clock import Clock, Phase
from experiments.determinism import Watching
from experiments.loop import NOT_FINITE, SPOOL_EVERY_S, Loop
from experiments.partway import until
from experiments.populations.stack import Stack
from experiments.stopping import Stop
from experiments.store.troubles import is_full
from experiments.task import TaskData


class MemberLoop(Loop):
    """A lone run's loop whose updates a population takes. error: what its own part raised, if anything."""

    def __init__(self, *arguments: Any):
        super().__init__(*arguments)
        self.random = checkpoint.random_states()
        self.error: BaseException | None = None
        self.trace = ""
        self.settle: Callable[[], None] = lambda: None

    def checkpoint(self) -> None:
        self.settle()
        checkpoint.restore_random_states(self.random)
        super().checkpoint()

    def shown(self, index: int, extra: Mapping[str, Tensor]) -> None:
        """Record its own part of what components told of the last update."""
        self._extra = {name: value[index] if value.dim() else value for name, value in extra.items()}

    def not_deterministic(self, names: list[str]) -> None:
        """Operations of the first update that give other bits each time."""
        self._not_deterministic(names)

    def move_to(self, other: Loop) -> None:
        """Count what another member counts: they take their updates together."""
        self.update, self.examples = other.update, other.examples
        self.parts.oracle.gradients = other.parts.oracle.gradients

    def tried(self, act: Callable[[], Any]) -> None:
        """Do something of this run's alone. Where it fails, this run is over, and no other."""
        try:
            act()
        except Exception as error:
            if is_full(error):
                raise
            said = traceback.format_exception_only(error)[-1].strip()
            if passing.passes(error, self._attempt.number):
                self.status, self.reason = "interrupted", passing.said(said)
                return
            self.status, self.reason = "crashed", said
            self.error, self.trace = error, traceback.format_exc()


class PopulationLoop:
    """loops: members that stand at one update. leave: called with each member that is over, at once."""

    def __init__(self, loops: Sequence[MemberLoop], data: TaskData, stop: Stop, leave: Callable[[MemberLoop], None]):
        self.loops = list(loops)
        self._data, self._stop, self._until, self._leave = data, stop, until(stop), leave
        self._clock = Clock(loops[0].parts.device)
        self._shared_out: dict[Phase, float] = {"train": 0.0, "evaluate": 0.0}
        self._losses: list[Tensor] = []
        self._extra: dict[str, Tensor] = {}
        self._spooled_at = time.monotonic()
        self._stack: Stack | None = None

    def run(self) -> None:
        """Until every member is over, or stopped."""
        self._part()
        while self.loops:
            if any(loop.evaluation_due for loop in self.loops):
                self.evaluate()
            else:
                with self._clock.phase("train"):
                    self.stretch()
            self._part()

    @property
    def stack(self) -> Stack:
        if self._stack is None:
            self._stack = Stack([loop.parts for loop in self.loops], self._data)
            for index, loop in enumerate(self.loops):
                loop.settle = lambda index=index, stack=self._stack: stack.settle(index)  # type: ignore[misc]
        return self._stack

    def stretch(self) -> None:
        """Train to the next evaluation, the end of the budget, or a stop."""
        stack, lead = self.stack, self.loops[0]
        source, algorithm, oracle, config = stack.source, stack.algorithm, stack.oracle, lead.parts.config
        evaluate_every, checkpoint_every = config.evaluate_every or 0, config.checkpoint_every or 0
        while True:
            if self._stop.requested or lead.update == self._until:
                self._interrupt()
                return
            batch = source.next()
            asked: Any = oracle if lead.update else Watching(oracle, self._not_deterministic)
            values = algorithm.step(asked, batch, Progress(lead.update, lead.fraction()))
            lead.update += 1
            lead.examples += batch.examples
            lead.parts.oracle.gradients = oracle.gradients
            self._losses.append(values.pop("loss"))
            self._extra = values
            evaluates = lead.update % evaluate_every == 0 or lead.fraction() >= 1.0
            checkpoints = bool(checkpoint_every and lead.update % checkpoint_every == 0)
            if evaluates or checkpoints or time.monotonic() - self._spooled_at > SPOOL_EVERY_S:
                self._spool()
            if evaluates or any(loop.over for loop in self.loops):
                return
            if checkpoints:
                self._checkpoint()

    def evaluate(self) -> None:
        """Validate all, and let each member whose evaluation is due record it and decide whether it is over."""
        stack = self.stack
        due = [(index, loop) for index, loop in enumerate(self.loops) if loop.evaluation_due]
        with self._clock.phase("evaluate"):
            finite = stack.model.finite()
            with stack.evaluator.at_evaluation_weights(stack.algorithm):
                measured = stack.evaluator.measured("validation")
                for index, loop in due:
                    if finite[index] and loop.keeps(measured[index]):
                        loop.best.weights = stack.model.weights(index)
        self._share_out()
        for index, loop in due:
            if finite[index]:
                stack.settle_rates(index)
                loop.shown(index, self._extra)
                loop.tried(lambda index=index, loop=loop: loop.evaluated(measured[index]))  # type: ignore[misc]
            else:
                loop.diverge(NOT_FINITE)

    def _not_deterministic(self, names: list[str]) -> None:
        for loop in self.loops:
            loop.not_deterministic(names)

    def _part(self) -> None:
        """Let those go that are over; the others go on in a smaller stack."""
        over = [loop for loop in self.loops if loop.over]
        if not over:
            return
        self.loops = [loop for loop in self.loops if not loop.over]
        for loop in self.loops:
            loop.settle()
        self._stack = None
        for loop in over:
            self._leave(loop)

    def _spool(self) -> None:
        """Read the losses that wait on the device; each member spools its own, and finds divergence."""
        self._spooled_at = time.monotonic()
        lead, losses = self.loops[0], self._losses
        self._losses = []
        columns = torch.stack(losses).T.tolist() if losses else [[]] * len(self.loops)
        for index, loop in enumerate(self.loops):
            loop.move_to(lead)
            loop.tried(lambda loop=loop, own=columns[index]: loop.spool_losses(own))  # type: ignore[misc]
        self._share_out()

    def _checkpoint(self) -> None:
        with self._clock.phase("checkpoint"):
            for loop in self.loops:
                loop.tried(loop.checkpoint)

    def _interrupt(self) -> None:
        self._spool()
        for loop in self.loops:
            if not loop.over:
                loop.tried(loop.interrupt)

    def _share_out(self) -> None:
        """Each member's share of the seconds that passed since the last time, so that members' seconds add up."""
        for phase, before in self._shared_out.items():
            seconds = self._clock.seconds(phase)
            for loop in self.loops:
                loop.parts.clock.add(phase, (seconds - before) / len(self.loops))
            self._shared_out[phase] = seconds
