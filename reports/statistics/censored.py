"""The median time to a target when some runs never reach it.

Source: Kaplan & Meier 1958, Journal of the American Statistical Association 53. All runs are censored at one budget, so
the Kaplan-Meier median is the plain median with "never" counted as later than everything: it exists once half of the
runs reach."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike


def median_time(times: ArrayLike) -> float:
    """The first time by which at least half have reached the target; inf where fewer than half do. inf in `times`:
    never.

    >>> median_time([10, 20, 30, math.inf, math.inf]), median_time([10, math.inf, math.inf])
    (30.0, inf)
    """
    ordered = np.sort(np.asarray(times, float))
    assert len(ordered)
    return float(ordered[math.ceil(len(ordered) / 2) - 1])
