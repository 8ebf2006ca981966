"""What a run or a study tells whoever watches it: a few events, sent to a listener. Torch-free."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from experiments.store.schema import Labels, Status


@dataclass(frozen=True)
class StudyPlanned:
    """Sent when a study starts or its plan changes. due: runs still to do as far as known; done: runs finished
    before."""

    study: str
    due: int
    done: int


@dataclass(frozen=True)
class RunStarted:
    """resumed_from: the update a resumed run goes on from, 0 for a fresh one."""

    run_id: str
    name: str
    labels: Labels
    resumed_from: int = 0


@dataclass(frozen=True)
class RunProgress:
    """Sent at every evaluation. fraction: of the budget. metrics: the values just measured (train/loss, val/...)."""

    run_id: str
    update: int
    fraction: float
    seconds: float
    metrics: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class RunNotice:
    """Something that whoever watches should know, in a few words: "compiling the step of Lion"."""

    run_id: str
    text: str


@dataclass(frozen=True)
class Notice:
    """The same of the whole command: "stopping after this update"."""

    text: str


@dataclass(frozen=True)
class RunEnded:
    """metrics: the final ones (objective, test/...); empty where the run did not finish."""

    run_id: str
    status: Status
    reason: str
    seconds: float
    metrics: Mapping[str, float] = field(default_factory=dict)


Event = StudyPlanned | RunStarted | RunProgress | RunNotice | Notice | RunEnded
Listener = Callable[[Event], None]


def silent(event: Event) -> None:
    """The listener that shows nothing."""
