"""Exact tests of paired differences by flipping their signs: of the mean, and of signed ranks where runs diverged.

Source: Fisher 1935, The Design of Experiments, section 21 (sign flips); Wilcoxon 1945 (signed ranks); Lachin 1999,
Controlled Clinical Trials 20 (worst-rank scores: what failed ranks below everything that did not). Two-sided. With n
differences that are not zero the smallest p-value possible is 2 / 2^n: 0.25 at n = 3, 0.0625 at n = 5."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from reports.statistics.result import PValue

_MOST_EXACT = 16
_MOST_RANKS = 100


def sign_flip(differences: ArrayLike) -> PValue:
    """p-value of "the differences are symmetric about 0", from all 2^n sign patterns (a normal approximation above n =
    16).

    >>> sign_flip([1.0, 2.0, 4.0]).p
    0.25
    """
    return _flipped(np.asarray(differences, float))


def signed_rank(differences: ArrayLike) -> PValue:
    """The same on signed ranks, from all patterns up to n = 100. +inf or -inf: one of the pair diverged, and counts as
    larger than any finite difference. 0: a tie, or both diverged: lowest in rank, without a sign (Pratt 1959)."""
    d = np.asarray(differences, float)
    ranks = stats.rankdata(np.abs(d)) * np.sign(d)
    n = np.count_nonzero(d)
    if not _MOST_EXACT < n <= _MOST_RANKS:
        return _flipped(ranks)
    sums = _patterns(np.abs(ranks[ranks != 0]))
    distances = np.abs(np.arange(len(sums)) - (len(sums) - 1) / 2)  # of the sum of all ranks, half of it positive
    seen = abs(float(ranks.sum()))
    return PValue(float(sums[distances >= seen].sum()), 2.0 / 2.0**n, (len(d),), float(ranks.sum()))


def _patterns(ranks: NDArray[np.float64]) -> NDArray[np.float64]:
    """How likely the positive ranks have the sum s / 2, for s = 0, 1, ... up to all; ranks are whole or half, and are
    taken in one after the other."""
    doubled = np.rint(2 * ranks).astype(int)
    chances = np.zeros(int(doubled.sum()) + 1)
    chances[0] = 1.0
    for rank in doubled:
        chances[rank:] = (chances[rank:] + chances[: len(chances) - rank]) / 2
        chances[:rank] /= 2
    return chances


def _flipped(d: NDArray[np.float64]) -> PValue:
    nonzero = np.abs(d[d != 0])
    n = len(nonzero)
    if n == 0:
        return PValue(1.0, 1.0, (len(d),))
    floor = 2.0 / 2.0**n
    if n > _MOST_EXACT:
        p = float(2 * stats.norm.sf(abs(d.sum()) / math.sqrt((d**2).sum())))
        return PValue(p, floor, (len(d),), float(d.sum()))
    patterns = 1 - 2 * ((np.arange(2**n)[:, None] >> np.arange(n)) & 1)  # (2^n, n) of +1 and -1
    sums = np.abs(patterns @ nonzero)
    seen = abs(float(d.sum()))
    p = float(np.mean(sums >= seen - 1e-9 * float(nonzero.sum())))
    return PValue(p, floor, (len(d),), float(d.sum()))
