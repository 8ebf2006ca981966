"""How many seeds a comparison takes, and what it could find with those it has.

Source: Cohen 1988, Statistical Power Analysis, chapter 2, with the noncentral t in place of his tables; Noether 1987,
Journal of the American Statistical Association 82, equation 3, as Bouthillier et al. 2021 use it (MLSys). All but
Noether's are two-sided."""

from __future__ import annotations

import math

from scipy import special

#: Exact tests. Of the t-tests no p-value is the smallest.
TESTS = ("sign flip", "signed ranks", "rank sum", "log-rank")
_MOST_SEEDS = 1_000_000


def power(sd: float, difference: float, n: int, alpha: float = 0.05, paired: bool = True) -> float:
    """The chance that a two-sided t-test finds a true difference. sd: of the paired differences, or of the values of
    either sample; n: pairs, or values of each sample.

    >>> round(power(sd=1.0, difference=1.0, n=10), 3)
    0.803
    """
    degrees = n - 1 if paired else 2 * n - 2
    if degrees < 1:
        return 0.0
    shift = abs(difference) / sd * math.sqrt(n if paired else n / 2)
    critical = float(special.stdtrit(degrees, 1 - alpha / 2))
    return min(1.0, 1 - _at_most(critical, degrees, shift) + _at_most(-critical, degrees, shift))


def _at_most(t: float, degrees: int, shift: float) -> float:
    """The noncentral t's distribution. scipy gives nan for some of what is 0 to 60 places."""
    chance = float(special.nctdtr(degrees, shift, t))
    return 0.0 if math.isnan(chance) else chance


def seeds_needed(sd: float, difference: float, alpha: float = 0.05, power: float = 0.8, paired: bool = True) -> int:
    """The fewest pairs, or values of each sample, with which a t-test finds `difference` as often as `power` says; at
    least 2. sd as in `power`. Without spread 2 do; without a difference ValueError.

    >>> seeds_needed(sd=1.0, difference=1.0), seeds_needed(sd=1.0, difference=1.0, paired=False)
    (10, 17)
    """
    if not difference or not 0 < power < 1:
        raise ValueError(f"no number of seeds finds a difference of {difference} with power {power}")
    if not sd > 0:
        return 2
    low, high = 1, 2  # low is too few
    while _power(sd, difference, high, alpha, paired) < power:
        low, high = high, 2 * high
        if high > _MOST_SEEDS:
            raise ValueError(f"finding {difference:g} in a spread of {sd:g} takes over {_MOST_SEEDS:,} seeds")
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if _power(sd, difference, middle, alpha, paired) >= power else (middle, high)
    return high


def detectable(sd: float, n: int, alpha: float = 0.05, power: float = 0.8, paired: bool = True) -> float:
    """The smallest true difference that n pairs, or n values of each sample, find as often as `power` says; inf below
    2. sd as in `power`.

    >>> round(detectable(sd=1.0, n=3), 2), round(detectable(sd=1.0, n=10), 2)
    (3.26, 1.0)
    """
    if n < 2:
        return math.inf
    low, high = 0.0, 1.0  # in standard deviations
    while _power(1.0, high, n, alpha, paired) < power:
        low, high = high, 2 * high
    while high - low > 1e-9 * high:
        middle = (low + high) / 2
        low, high = (low, middle) if _power(1.0, middle, n, alpha, paired) >= power else (middle, high)
    return sd * high


def noether(gamma: float = 0.75, alpha: float = 0.05, beta: float = 0.05) -> int:
    """Values of each sample with which a one-sided rank-sum test at `alpha` misses P(A > B) = gamma with chance `beta`.

    >>> noether(0.75, 0.05, 0.05)
    29
    """
    if not 0 <= gamma <= 1 or gamma == 0.5:
        raise ValueError(f"gamma is {gamma}; P(A > B) must be in [0, 1] and not 0.5, which is no difference")
    quantiles = float(special.ndtri(1 - alpha) + special.ndtri(1 - beta))
    return math.ceil(quantiles**2 / (6 * (gamma - 0.5) ** 2))


def smallest_p(test: str, n: int, m: int | None = None) -> float:
    """The smallest two-sided p-value that an exact test can give without ties, with n pairs, or n values of one sample
    and m of the other (n where not given). 1.0 with nothing to test.

    >>> smallest_p("sign flip", 5), smallest_p("rank sum", 3)
    (0.0625, 0.1)
    """
    if test not in TESTS:
        raise ValueError(f"{test!r} has no smallest p-value here; one of {', '.join(TESTS)} has")
    if test in ("sign flip", "signed ranks"):
        return min(1.0, 2.0 / 2.0**n)
    return min(1.0, 2.0 / math.comb(n + (n if m is None else m), n))


def least_seeds(test: str, alpha: float = 0.05, comparisons: int = 1) -> int:
    """The fewest seeds with which an exact test can reach `alpha` at all, when its p-value is multiplied by the number
    of comparisons (Holm's first).

    >>> least_seeds("sign flip"), least_seeds("rank sum"), least_seeds("sign flip", comparisons=3)
    (6, 4, 7)
    """
    n = 1
    while smallest_p(test, n) * comparisons > alpha:
        n += 1
    return n


_power = power  # the functions above have an argument of that name
