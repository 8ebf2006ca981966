"""The honest clock: seconds of training apart from those of evaluating, logging, checkpointing and compiling.

While the clock runs and no phase is open, time is training. Devices work behind the program's back, so at each
boundary of a phase the clock waits for the device: what was queued in a phase is paid for by it. On the CPU there is
nothing to wait for.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal, get_args

from experiments.devices import synchronise

if TYPE_CHECKING:
    import torch

Phase = Literal["train", "evaluate", "log", "checkpoint", "compile"]
PHASES: tuple[Phase, ...] = get_args(Phase)


class Clock:
    """Seconds by phase. Phases nest; the innermost is the one that counts.

    >>> clock = Clock("cpu")
    >>> with clock.running(), clock.phase("evaluate"):
    ...     time.sleep(0.01)
    >>> clock.seconds("evaluate") >= 0.01 > clock.seconds("train")
    True
    """

    def __init__(self, device: torch.device | str = "cpu"):
        self._device = device
        self._waits = str(device).partition(":")[0] != "cpu"
        self._seconds: dict[Phase, float] = dict.fromkeys(PHASES, 0.0)
        self._open: list[Phase] = []
        self._since = 0.0

    @contextmanager
    def running(self) -> Iterator[None]:
        """Time within it is training, but for the phases opened in it."""
        assert not self._open, "the clock runs already"
        with self.phase("train"):
            yield

    @contextmanager
    def phase(self, phase: Phase) -> Iterator[None]:
        """Time within it is the phase's, also where the clock is not running."""
        assert phase in self._seconds, f"{phase!r} is not one of {', '.join(PHASES)}"
        self._turn()
        self._open.append(phase)
        try:
            yield
        finally:
            self._turn()
            self._open.pop()

    def seconds(self, phase: Phase) -> float:
        """Seconds of a phase so far, the open one's up to now. Cheap: does not wait for the device."""
        total = self._seconds[phase]
        return total + time.perf_counter() - self._since if self._open and self._open[-1] == phase else total

    def add(self, phase: Phase, seconds: float) -> None:
        """Count seconds that another clock has measured: a member's share of its population's."""
        self._seconds[phase] += seconds

    def state_dict(self) -> dict[str, float]:
        return {phase: self.seconds(phase) for phase in PHASES}

    def load_state_dict(self, state: Mapping[str, float]) -> None:
        """Go on counting from `state`, in the phase that is open."""
        assert state.keys() == self._seconds.keys(), f"the state has the phases {sorted(state)}"
        self._seconds = {phase: float(state[phase]) for phase in PHASES}
        self._since = time.perf_counter()

    def _turn(self) -> None:
        """A boundary: what passed since the last one belongs to the phase that was open."""
        if self._waits:
            synchronise(self._device)
        now = time.perf_counter()
        if self._open:
            self._seconds[self._open[-1]] += now - self._since
        self._since = now
