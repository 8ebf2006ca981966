"""How good the best of n tuning trials is expected to be: what a tuning budget buys.

Source: Dodge et al. 2019, "Show your work", EMNLP (V: n trials drawn with replacement from those made, biased towards
the worse); Tang et al. 2020, "Showing your work doesn't always work", ACL (U: without replacement, unbiased). Both need
trials that are independent and drawn alike: random search, and only the trials of one range (not those of a widened
one). A diverged trial counts as what it is worth to the tuner, else as the worst infinity: then V is infinite too."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from algos.finding import InputError

Array = NDArray[np.float64]
Kind = Literal["U", "V"]

#: Samplers whose trials are independent draws of one distribution.
INDEPENDENT = ("random",)


@dataclass(frozen=True)
class Curve:
    """What the best of n trials comes to, for n = 1, 2, ... trials made; all (points,).

    expected: its mean, from `expected_best`. median: half of all sets of n trials have a better best. low, high: the
    interval of the median, at that one n; nan for an end that so few trials cannot give (above n = trials / 5 there is
    no better end at 95 %, whatever the values)."""

    n: NDArray[np.int64]
    expected: Array
    median: Array
    low: Array
    high: Array
    confidence: float = 0.95


def expected_best(values: ArrayLike, n: int, mode: str, kind: Kind = "U") -> float:
    """The expected best of n of the trials with these values. kind "U": n <= the number of trials.

    >>> round(expected_best([0.7, 0.72, 0.75, 0.8, 0.9], 2, "max"), 4)
    0.822
    >>> round(expected_best([0.7, 0.72, 0.75, 0.8, 0.9], 2, "max", "V"), 4)
    0.8124
    """
    return float(_weighed(_worst_first(np.asarray(values, float), mode), n, kind))


def curve(values: ArrayLike, mode: str, sampler: str = "random", kind: Kind = "U", confidence: float = 0.95) -> Curve:
    """Expected and median best of n trials, for n = 1 to the number of trials made.

    The interval is the median's and exact: the median best of n is the quantile 2^(-1/n) of one trial, and two order
    statistics hold a quantile with a binomial probability, whatever the distribution. The mean has none: the bootstrap
    covers it 40 to 60 % at n = trials, and below 90 % from n = trials / 5 on, for it never draws better than was seen.
    InputError where `sampler` is one whose trials depend on each other: the best of n of those says nothing of n."""
    from scipy import stats

    independent(sampler)
    made = _worst_first(np.asarray(values, float), mode)
    total = len(made)
    sizes = np.arange(1, total + 1)
    expected = np.array([float(_weighed(made, int(n), kind)) for n in sizes])
    quantile = 0.5 ** (1 / sizes)
    median = made[np.ceil(total * quantile * (1 - 1e-12)).astype(int) - 1]
    rank, tail = np.arange(1, total + 1)[:, None], (1 - confidence) / 2
    worse = (stats.binom.cdf(rank - 1, total, quantile) <= tail).sum(axis=0)  # the rank of the worse end; 0: none
    better = total + 1 - (stats.binom.sf(rank - 1, total, quantile) <= tail).sum(axis=0)  # total + 1: none
    ends = np.concatenate([[np.nan], made, [np.nan]])
    low, high = (ends[worse], ends[better]) if mode == "max" else (ends[better], ends[worse])
    return Curve(sizes, expected, median, low, high, confidence)


def independent(sampler: str) -> None:
    """InputError for a sampler whose trials are not independent draws of one distribution."""
    if sampler not in INDEPENDENT:
        raise InputError(
            f"the trials of the sampler '{sampler}' depend on each other, so there is no expected best of n of them",
            f"tune with {' or '.join(INDEPENDENT)} for this curve",
            rule="dependent-trials",
            place="sampler",
        )


def _worst_first(values: Array, mode: str) -> Array:
    assert values.ndim == 1
    assert len(values)
    assert not np.isnan(values).any()
    ordered = np.sort(values)
    return ordered if mode == "max" else ordered[::-1]


def _weighed(worst_first: Array, n: int, kind: Kind) -> Array:
    """Sum over the order statistics, along the last axis, of value times the probability that it is the best of n."""
    total = worst_first.shape[-1]
    assert n >= 1
    rank = np.arange(1, total + 1)
    if kind == "V":
        weight = (rank / total) ** n - ((rank - 1) / total) ** n
    else:
        from scipy import special

        assert n <= total, "the best of more trials than were made has no unbiased estimate"
        weight = special.binom(rank - 1, n - 1) / special.binom(total, n)
    some = weight > 0
    weighed: Array = (worst_first[..., some] * weight[some]).sum(axis=-1)
    return weighed
