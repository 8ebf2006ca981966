"""p-values of several comparisons, adjusted: Holm's keep the chance of any error at alpha, Benjamini and Hochberg's the
share of errors among what is found.

Source: Holm 1979, Scandinavian Journal of Statistics 6, which assumes nothing of how the comparisons depend on each
other; Benjamini & Hochberg 1995, Journal of the Royal Statistical Society B 57, for comparisons that are independent or
positively dependent."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike


def holm(p_values: ArrayLike) -> list[float]:
    """Adjusted p-values in the order given.

    >>> [round(p, 3) for p in holm([0.01, 0.04, 0.03, 0.005])]
    [0.03, 0.06, 0.06, 0.02]
    """
    p = np.asarray(p_values, float)
    order = np.argsort(p, kind="stable")
    stepped = np.maximum.accumulate(p[order] * (len(p) - np.arange(len(p))))
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(stepped, 1.0)
    return [float(value) for value in adjusted]


def benjamini_hochberg(p_values: ArrayLike) -> list[float]:
    """Adjusted p-values in the order given: the smallest false discovery rate at which each would be found.

    >>> [round(p, 3) for p in benjamini_hochberg([0.01, 0.04, 0.03, 0.005])]
    [0.02, 0.04, 0.04, 0.02]
    """
    p = np.asarray(p_values, float)
    order = np.argsort(p, kind="stable")[::-1]  # greatest first
    stepped = np.minimum.accumulate(p[order] * len(p) / np.arange(len(p), 0, -1))
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(stepped, 1.0)
    return [float(value) for value in adjusted]
