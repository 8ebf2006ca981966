"""Pruning, as a run sees it: somebody who looks at each validation and may end the run there. Torch-free."""

from __future__ import annotations

from collections.abc import Callable

#: (update, value of the task's metric) -> whether the run is to end here, as pruned. Asked once an evaluation; after a
#: resume never again about an update that was asked before.
Judge = Callable[[int, float], bool]
