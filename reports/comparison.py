"""Comparison: two arms' outcomes on one task become a difference with its interval, and a verdict. Arrays in, no store.

The protocol, in order. Fewer than 3 seeds: refused. Where any run of either arm diverged, no mean is formed: an exact
rank test over all outcomes counts it as worse than every run that did not (signed ranks where both arms ran the same
seeds, else the rank sum). Otherwise seeds shared by both (at least 3) are paired; without them, Welch. p-values are
corrected by Holm over everything that is ruled of a task. Exact sign flips stand beside the t-test, with the smallest
p-value they could give."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from reports.judged import Array
from reports.statistics.effect import hedges, hedges_paired
from reports.statistics.multiple import holm
from reports.statistics.power import smallest_p
from reports.statistics.ranks import probability_better, probability_greater, rank_sum
from reports.statistics.result import Estimate, PValue
from reports.statistics.signs import sign_flip, signed_rank
from reports.statistics.student import paired, welch
from reports.table import Outcomes

ALPHA = 0.05
MINIMUM_SEEDS = 3

Ruling = Literal["better", "worse", "not shown", "cannot reach", "too few seeds", "no spread"]


@dataclass(frozen=True)
class Pair:
    """`first` against `second`. estimate: of the difference, positive where first is better; None where a run diverged
    or seeds are too few. effect: the same in standard deviations (Hedges), and spread: that standard deviation, of the
    differences where seeds are paired, else of the values of either arm. lead: what the test itself weighs, positive
    where first leads. better: P(a run of first beats one of second); chance: that with its interval. p: of `test`;
    adjusted: after Holm among `comparisons`. exact: the exact test (a cross-check, or where runs diverged the test
    itself). n: seeds used of each. unmatched: runs left out of a paired test. least: where significance cannot be
    reached, the fewest seeds of each with which it can, the others' p-values being what they are."""

    first: str
    second: str
    test: str
    n: int
    ruling: Ruling
    runs: tuple[str, ...]
    estimate: Estimate | None = None
    effect: Estimate | None = None
    spread: float = math.nan
    chance: Estimate | None = None
    lead: float = 0.0
    better: float = math.nan
    p: float = math.nan
    adjusted: float = math.nan
    comparisons: int = 0
    least: int = 0
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
        return replace(
            self,
            first=self.second,
            second=self.first,
            ruling=turned.get(self.ruling, self.ruling),
            estimate=_turned(self.estimate, 0.0),
            effect=_turned(self.effect, 0.0),
            chance=_turned(self.chance, 1.0),
            lead=-self.lead,
            better=1 - self.better,
            diverged=self.diverged[::-1],
        )


def compare(outcomes: Mapping[str, Outcomes], sign: float) -> list[Pair]:
    """Every pair of arms, ruled together. sign: +1 where more is better, -1 where less is."""
    return ruled(tested(outcomes, sign))


def tested(outcomes: Mapping[str, Outcomes], sign: float) -> list[Pair]:
    """Every pair of arms with its test, nothing ruled yet."""
    return [_pair(a, outcomes[a], b, outcomes[b], sign) for a, b in itertools.combinations(outcomes, 2)]


def ruled(pairs: Iterable[Pair]) -> list[Pair]:
    """The pairs, ruled as one family: all that is said of a task belongs in one."""
    known = list(pairs)
    family = [index for index, pair in enumerate(known) if not math.isnan(pair.p)]
    p = [known[index].p for index in family]
    for place, (index, adjusted) in enumerate(zip(family, holm(p))):
        pair = replace(known[index], adjusted=adjusted, comparisons=len(p))
        known[index] = _ruled(pair, [*p[:place], *p[place + 1 :]])
    return known


def order(outcomes: Mapping[str, Outcomes], pairs: Sequence[Pair]) -> list[str]:
    """Arms, best first: by how many others an arm leads, in the runs and by the measure of their tests; ties by how
    often its runs beat theirs. Where two or more have the seeds that a test takes, those that have not come after them,
    however good their few runs are: nothing can be ruled of them."""
    arms = [arm for arm in outcomes if outcomes[arm].n]
    able = [arm for arm in arms if outcomes[arm].n >= MINIMUM_SEEDS]
    if len(able) < 2:
        return _by_merit(arms, pairs)
    return _by_merit(able, pairs) + _by_merit([arm for arm in arms if arm not in able], pairs)


def _by_merit(arms: Sequence[str], pairs: Sequence[Pair]) -> list[str]:
    """Some of the arms, best first among themselves."""
    among = [pair for pair in pairs if {pair.first, pair.second} <= set(arms)]

    def merit(arm: str) -> tuple[float, float]:
        mine = [pair.seen_from(arm) for pair in among if arm in (pair.first, pair.second)]
        beaten = [pair.better for pair in mine if not math.isnan(pair.better)]
        return sum(float(np.sign(pair.lead)) for pair in mine), float(np.mean(beaten)) if beaten else 0.0

    return sorted(arms, key=merit, reverse=True)


def _pair(a: str, first: Outcomes, b: str, second: Outcomes, sign: float) -> Pair:
    shared = [seed for seed in first.seeds if seed in second.seeds]
    diverged = first.diverged + second.diverged > 0
    everything = len(shared) == first.n == second.n
    together = len(shared) >= MINIMUM_SEEDS and (everything or not diverged)
    if together:
        x, ids_x = _chosen(first, shared)
        y, ids_y = _chosen(second, shared)
    else:
        x, y, ids_x, ids_y = first.values, second.values, first.run_ids, second.run_ids
    x, y = sign * x, sign * y
    n = min(len(x), len(y))
    pair = Pair(
        a,
        b,
        "none",
        n,
        "too few seeds",
        ids_x + ids_y,
        better=probability_greater(x, y) if n else math.nan,
        diverged=(first.diverged, second.diverged),
        unmatched=first.n + second.n - len(x) - len(y),
    )
    if n < MINIMUM_SEEDS:
        lead = 0.0 if not n else pair.better - 0.5 if diverged else float(x.mean() - y.mean())
        return replace(pair, lead=lead)
    pair = replace(pair, chance=probability_better(x, y))
    return _by_rank(pair, x, y, together) if diverged else _by_mean(pair, x, y, together)


def _by_rank(pair: Pair, x: Array, y: Array, together: bool) -> Pair:
    exact = signed_rank(_differences(x, y)) if together else rank_sum(x, y)
    test = "signed ranks" if together else "rank sum"
    return replace(pair, test=test, p=exact.p, exact=exact, lead=exact.statistic, ruling="not shown")


def _by_mean(pair: Pair, x: Array, y: Array, together: bool) -> Pair:
    if together:
        scale = float(max(np.abs(x).max(), np.abs(y).max()))
        estimate, p = paired(x - y, scale=scale)
        test, exact, effect = "paired t", sign_flip(x - y), hedges_paired(x - y, scale=scale)
        spread = float((x - y).std(ddof=1))
    else:
        estimate, p = welch(x, y)
        test, exact, effect = "Welch t", rank_sum(x, y), hedges(x, y)
        spread = math.sqrt((float(x.var(ddof=1)) + float(y.var(ddof=1))) / 2)
    done = replace(pair, test=test, estimate=estimate, effect=effect, spread=spread, p=p, exact=exact)
    done = replace(done, lead=estimate.value, ruling="not shown")
    if math.isnan(p):
        rounding = 1e-12 * float(max(np.abs(x).max(), np.abs(y).max()))
        lead = estimate.value if abs(estimate.value) > rounding else 0.0
        return replace(done, estimate=replace(estimate, low=None, high=None), lead=lead, ruling="no spread")
    return done


def _ruled(pair: Pair, others: Sequence[float]) -> Pair:
    """others: the p-values of the rest of its family."""
    if pair.adjusted <= ALPHA and pair.lead:
        return replace(pair, ruling="better" if pair.lead > 0 else "worse")
    if pair.estimate is None and pair.exact is not None and not reachable(pair.exact.floor, others):
        return replace(pair, ruling="cannot reach", least=_least(pair, others))
    return pair


def reachable(floor: float, others: Sequence[float]) -> bool:
    """Whether the smallest p-value of a test would be significant after Holm, the rest of its family being as it is."""
    return holm([floor, *others])[0] <= ALPHA


def _least(pair: Pair, others: Sequence[float]) -> int:
    n = pair.n + 1
    while not reachable(smallest_p(pair.test, n), others):
        n += 1
    return n


def _differences(x: Array, y: Array) -> Array:
    """x - y where -inf is a diverged run: both diverged is a tie."""
    with np.errstate(invalid="ignore"):
        return np.where(np.isneginf(x) & np.isneginf(y), 0.0, x - y)


def _chosen(outcomes: Outcomes, seeds: Sequence[int]) -> tuple[Array, tuple[str, ...]]:
    places = [outcomes.seeds.index(seed) for seed in seeds]
    return outcomes.values[places], tuple(outcomes.run_ids[place] for place in places)


def _turned(estimate: Estimate | None, about: float) -> Estimate | None:
    """The estimate seen from the other side: about - value."""
    if estimate is None:
        return None
    low, high = (None if bound is None else about - bound for bound in (estimate.high, estimate.low))
    return replace(estimate, value=about - estimate.value, low=low, high=high)
