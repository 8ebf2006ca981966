"""Steps: what the steps of foreign runs are: updates of the weights, epochs, or nobody knows.

A column or an axis may say it by its name. Where it does not, a counter that was logged as a metric may: one that is
each time what the step is, or one more or one less all the way."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

#: "" is not known: Weights & Biases counts calls, and everyone may count what they like.
UPDATES, EPOCHS, UNKNOWN = "updates", "epochs", ""
_NAMES: Mapping[str, tuple[str, ...]] = {
    UPDATES: ("update", "updates", "global_step", "num_updates", "gradient_steps", "optimizer_steps"),
    EPOCHS: ("epoch", "epochs", "num_epochs", "train_epoch"),
}
#: Keras calls so what it logs by epoch.
_BY_EPOCH = "epoch_"


def by_name(name: str) -> str:
    """What a column of steps holds, by its name.

    >>> by_name("Epoch"), by_name("trainer/global_step"), by_name("step")
    ('epochs', 'updates', '')
    """
    last = re.sub(r"[\s-]+", "_", re.split(r"[./]", name.strip().lower())[-1])
    return next((unit for unit, names in _NAMES.items() if last in names), UNKNOWN)


def by_counters(points: Mapping[str, Sequence[tuple[int, float, int]]]) -> str:
    """What the steps of a run are, by the metrics in it (points: (step, value, time) of each).

    >>> by_counters({"loss": [(1, 0.5, 0), (2, 0.4, 1)], "epoch": [(1, 0.0, 0), (2, 1.0, 1)]})
    'epochs'
    >>> by_counters({"epoch": [(100, 1.0, 0), (200, 2.0, 1)]})
    ''
    """
    for unit, wanted in ((UPDATES, UPDATES), (EPOCHS, EPOCHS)):
        if any(by_name(metric) == wanted and _counts(found) for metric, found in points.items()):
            return unit
    names = [metric.rpartition("/")[2] for metric in points]
    return EPOCHS if names and all(name.startswith(_BY_EPOCH) for name in names) else UNKNOWN


def _counts(found: Sequence[tuple[int, float, int]]) -> bool:
    """Whether a counter goes with the step: two steps at least, and off by the same, at most one."""
    off = {value - step for step, value, _ in found}
    return len({step for step, _, _ in found}) > 1 and len(off) == 1 and abs(off.pop()) <= 1
