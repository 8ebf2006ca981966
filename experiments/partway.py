"""Partway: a stop after an update that is known beforehand, for who needs a run's state or points only up to there."""

from __future__ import annotations

from experiments.stopping import Stop


class Partway(Stop):
    """Stops a run after `until` updates, or sooner where `outer` asks for it. None: only where `outer` does."""

    def __init__(self, until: int | None, outer: Stop | None = None):
        super().__init__(outer)
        self.until = until


def until(stop: Stop) -> int | None:
    """The update after which a run is to stop by itself, None for none."""
    return stop.until if isinstance(stop, Partway) else None
