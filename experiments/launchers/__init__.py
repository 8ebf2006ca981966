"""Launchers: where the workers of a sweep run. A launcher is a file with `check(options)` and `launch(...)`."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from algos.finding import InputError, unknown
from experiments.progress import Listener

if TYPE_CHECKING:
    from experiments.sweeps.worker import Assignment

LAUNCHERS = ("local", "ray", "slurm")


class Crew(Protocol):
    """The workers that were started."""

    def running(self) -> int:
        """How many of them live, or wait for their turn. Called again and again: looks after them, too."""
        ...

    def stop(self, reason: str) -> None:
        """Each stops after its update, resumable."""
        ...

    def kill(self) -> None:
        """Each stops now; what it was at resumes from its last checkpoint."""
        ...

    def failures(self) -> list[str]:
        """Workers that ended without having done their work, in words. Raises InputError for one that met wrong
        input."""
        ...

    def close(self) -> None:
        """Lets go of what was needed for them; they have ended."""
        ...


class Launcher(Protocol):
    def check(self, options: Mapping[str, Any]) -> None:
        """InputError, before anything is started, where it cannot launch."""
        ...

    def launch(self, assignments: Sequence[Assignment], options: Mapping[str, Any], listener: Listener) -> Crew:
        """Starts one worker for each assignment. options: `SweepOptions.launcher_options`."""
        ...


def load(name: str) -> Launcher:
    """The launcher of a name; InputError for one that there is not."""
    if name not in LAUNCHERS:
        raise unknown("launcher", name, LAUNCHERS, place="launcher")
    launcher: Any = importlib.import_module(f"experiments.launchers.{name}")
    return launcher


def options(given: Sequence[str]) -> dict[str, str]:
    """A launcher's own options, given as NAME=VALUE.

    >>> options(["partition=gpu", "gpus=1"])
    {'partition': 'gpu', 'gpus': '1'}
    """
    told = {}
    for each in given:
        name, mark, value = each.partition("=")
        if not name or not mark:
            raise InputError(f"'{each}' says nothing", "give NAME=VALUE, e.g. gpus=1", place="launcher-option")
        told[name] = value
    return told
