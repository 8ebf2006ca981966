"""Comparison: two arms' outcomes on one task become a difference with its interval, and a verdict. Arrays in, no store.

The protocol, in order. Fewer than 3 seeds: refused. Seeds shared by both (at least 3): paired, else Welch. Where a run
of either arm diverged, no mean is formed: an exact rank test counts it as worse than every run that did not. p-values
are corrected by Holm over the pairs of a task. Exact sign flips stand beside the t-test, with the smallest p-value they
could give."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from reports.statistics.multiple import holm
from reports.statistics.ranks import probability_greater, rank_sum
from reports.statistics.result import Estimate, PValue
from reports.statistics.signs import sign_flip, signed_rank
from reports.statistics.student import paired, welch
from reports.table import Array, Outcomes

ALPHA = 0.05
MINIMUM_SEEDS = 3

Ruling = Literal["better", "worse", "not shown", "cannot reach", "too few seeds", "no spread"]


@dataclass(frozen=True)
class Pair:
    """`first` against `second`. estimate: of the difference, positive where first is better; None where a run diverged
    or seeds are too few. better: P(a run of first beats one of second). p: of `test`; adjusted: after Holm. exact: the
    exact test (a cross-check, or where runs diverged the test itself). n: seeds used of each. unmatched: runs left out
    of a paired
    test."""

    first: str
    second: str
    test: str
    n: int
    ruling: Ruling
    runs: tuple[str, ...]
    estimate: Estimate | None = None
    better: float = math.nan
    p: float = math.nan
    adjusted: float = math.nan
    exact: PValue | None = None
    diverged: tuple[int, int] = (0, 0)
    unmatched: int = 0

    @property
    def shown(self) -> bool:
        return self.ruling in ("better", "worse")

    def seen_from(self, arm: str) -> Pair:
        """The same pair with `arm` first."""
        if arm == self.first:
            return self
        turned: dict[Ruling, Ruling] = {"better": "worse", "worse": "better"}
        e = self.estimate
        return replace(
            self,
            first=self.second,
            second=self.first,
            ruling=turned.get(self.ruling, self.ruling),
            estimate=None if e is None else replace(e, value=-e.value, low=_minus(e.high), high=_minus(e.low)),
            better=1 - self.better,
            diverged=self.diverged[::-1],
        )


def compare(outcomes: Mapping[str, Outcomes], sign: float) -> list[Pair]:
    """Every pair of arms, ruled together. sign: +1 where more is better, -1 where less is."""
    pairs = [_pair(a, outcomes[a], b, outcomes[b], sign) for a, b in itertools.combinations(outcomes, 2)]
    tested = [index for index, pair in enumerate(pairs) if not math.isnan(pair.p)]
    for index, adjusted in zip(tested, holm([pairs[index].p for index in tested])):
        pairs[index] = _ruled(replace(pairs[index], adjusted=adjusted))
    return pairs


def order(outcomes: Mapping[str, Outcomes], sign: float) -> list[str]:
    """Arms, best first: by how many runs of the others a run beats, so a diverged one counts against its arm; ties by
    mean."""

    def merit(arm: str) -> tuple[float, float]:
        mine = outcomes[arm]
        beaten = [
            probability_greater(sign * mine.values, sign * o.values)
            for name, o in outcomes.items()
            if name != arm and o.n
        ]
        mean = float(sign * mine.finite.mean()) if len(mine.finite) else -math.inf
        if mine.diverged == 0 and all(o.diverged == 0 for o in outcomes.values()):
            return mean, 0.0
        return float(np.mean(beaten)) if beaten else 0.0, mean

    return sorted((arm for arm in outcomes if outcomes[arm].n), key=merit, reverse=True)


def _pair(a: str, first: Outcomes, b: str, second: Outcomes, sign: float) -> Pair:
    shared = [seed for seed in first.seeds if seed in second.seeds]
    if min(first.n, second.n) < MINIMUM_SEEDS:
        return Pair(a, b, "none", min(first.n, second.n), "too few seeds", first.run_ids + second.run_ids)
    together = len(shared) >= MINIMUM_SEEDS
    if together:
        x, ids_x = _chosen(first, shared)
        y, ids_y = _chosen(second, shared)
    else:
        x, y, ids_x, ids_y = first.values, second.values, first.run_ids, second.run_ids
    x, y = sign * x, sign * y
    pair = Pair(
        a,
        b,
        "",
        min(len(x), len(y)),
        "not shown",
        ids_x + ids_y,
        better=probability_greater(x, y),
        diverged=(int(np.isneginf(x).sum()), int(np.isneginf(y).sum())),
        unmatched=first.n + second.n - len(x) - len(y),
    )
    return _tested(pair, x, y, together)


def _tested(pair: Pair, x: Array, y: Array, together: bool) -> Pair:
    if sum(pair.diverged):
        exact = signed_rank(_differences(x, y)) if together else rank_sum(x, y)
        return replace(pair, test="signed ranks" if together else "rank sum", p=exact.p, exact=exact)
    if together:
        estimate, p = paired(x - y)
        test, exact = "paired t", sign_flip(x - y)
    else:
        estimate, p = welch(x, y)
        test, exact = "Welch t", rank_sum(x, y)
    return replace(
        pair, test=test, estimate=estimate, p=p, exact=exact, ruling="no spread" if math.isnan(p) else "not shown"
    )


def _ruled(pair: Pair) -> Pair:
    by_rank = sum(pair.diverged) > 0
    if by_rank and pair.exact is not None and not pair.exact.reachable(ALPHA):
        return replace(pair, ruling="cannot reach")
    if not pair.adjusted <= ALPHA:
        return pair
    first_better = pair.better > 0.5 if pair.estimate is None else pair.estimate.value > 0
    return replace(pair, ruling="better" if first_better else "worse")


def _differences(x: Array, y: Array) -> Array:
    """x - y where -inf is a diverged run: both diverged is a tie."""
    with np.errstate(invalid="ignore"):
        return np.where(np.isneginf(x) & np.isneginf(y), 0.0, x - y)


def _chosen(outcomes: Outcomes, seeds: Sequence[int]) -> tuple[Array, tuple[str, ...]]:
    places = [outcomes.seeds.index(seed) for seed in seeds]
    return outcomes.values[places], tuple(outcomes.run_ids[place] for place in places)


def _minus(value: float | None) -> float | None:
    return None if value is None else -value
