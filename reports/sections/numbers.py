"""Quantities out of statistics: what the sections' sentences and tables are made of.

The arguments of each say all that it is a number of (task, arms, metric, clock), so that two numbers with one statistic
and one set of arguments are one number wherever they stand."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from experiments.store.schema import RunRecord
from reports.clocks import Reading
from reports.comparison import ALPHA, Pair
from reports.document import Part, Parts, Term
from reports.judged import TaskFacts
from reports.quantity import Quantity
from reports.statistics.power import seeds_needed
from reports.statistics.proportion import wilson
from reports.statistics.result import Estimate, PValue
from reports.statistics.student import mean_interval
from reports.table import Cell, Outcomes

#: With what chance a number of seeds is to find a difference.
POWER = 0.8
#: More seeds than this are not counted out.
MOST_SEEDS = 1000


@dataclass(frozen=True)
class About:
    """What the numbers of a pair are about. at: "end", or the clock on which arms are cut."""

    task: TaskFacts
    metric: str
    at: str

    @classmethod
    def of(cls, task: TaskFacts, reading: Reading) -> About:
        ended = reading.budget is None
        return cls(task, task.outcome if ended else task.validation, "end" if ended else reading.clock)

    def pair(self, pair: Pair) -> dict[str, Any]:
        """The arguments that say which pair of arms a number is of."""
        return {
            "task": self.task.name,
            "metric": self.metric,
            "at": self.at,
            "better": pair.first,
            "than": pair.second,
        }


def of_cell(cell: Cell) -> dict[str, Any]:
    """The arguments that say which arm on which task a number is of."""
    return {"task": cell.task.name, "arm": cell.arm}


def value(
    number: float, unit: str, statistic: str, runs: Sequence[str], *, absent: str = "none", **arguments: Any
) -> Quantity:
    """A number without an interval; not finite: `absent`."""
    known = number if math.isfinite(number) else None
    return Quantity(value=known, unit=unit, statistic=statistic, arguments=arguments, runs=tuple(runs), absent=absent)


def estimated(
    found: Estimate | None,
    unit: str,
    statistic: str,
    runs: Sequence[str],
    *,
    absent: str = "none",
    scale: float = 1.0,
    **arguments: Any,
) -> Quantity:
    """A number with its interval, where it has one. scale: times what is shown (100 for percentages)."""
    if found is None or not math.isfinite(found.value):
        return value(math.nan, unit, statistic, runs, absent=absent, **arguments)
    low, high = (None if b is None or not math.isfinite(b) else scale * b for b in (found.low, found.high))
    return Quantity(
        value=scale * found.value,
        low=low if high is not None else None,
        high=high if low is not None else None,
        unit=unit,
        statistic=statistic,
        arguments={**arguments, "confidence": found.confidence},
        runs=tuple(runs),
        absent=absent,
    )


def tested(found: PValue, statistic: str, runs: Sequence[str], **arguments: Any) -> Quantity:
    """A p-value."""
    return value(found.p, "p", statistic, runs, **arguments)


def mean(task: TaskFacts, arm: str, outcomes: Outcomes, metric: str, *, interval: bool = True) -> Quantity:
    """Mean and t interval over seeds. interval: False where the seeds are too few to be given one; values without any
    spread have none either."""
    estimate = mean_interval(outcomes.values)
    if not interval or not float(np.ptp(outcomes.values)) > 0:
        estimate = Estimate(estimate.value, None, None, estimate.n)
    where: dict[str, Any] = {"task": task.name, "arm": arm, "metric": metric}
    return estimated(estimate, task.metric_unit, "student.mean_interval", outcomes.run_ids, **where)


def difference(about: About, pair: Pair) -> Quantity:
    """How much better `pair.first` is, with its interval."""
    assert pair.estimate is not None
    statistic = "student.paired" if pair.test == "paired t" else "student.welch"
    return estimated(pair.estimate, about.task.metric_unit, statistic, pair.runs, **about.pair(pair))


def effect(about: About, pair: Pair) -> Quantity:
    """The difference in standard deviations, with its interval."""
    statistic = "effect.hedges_paired" if pair.test == "paired t" else "effect.hedges"
    return estimated(pair.effect, "", statistic, pair.runs, absent="-", **about.pair(pair))


def chance(about: About, pair: Pair) -> Quantity:
    """P(a run of first is better than one of second); a diverged one is worst."""
    found = pair.chance or Estimate(pair.better, None, None, 2 * pair.n)
    return estimated(found, "", "ranks.probability_better", pair.runs, absent="-", **about.pair(pair))


def p_value(about: About, pair: Pair) -> Quantity:
    """The pair's p-value after Holm."""
    more: dict[str, Any] = {"test": pair.test, "comparisons": pair.comparisons}
    return value(pair.adjusted, "p", "multiple.holm", pair.runs, **about.pair(pair), **more)


def exact_p(about: About, pair: Pair) -> Quantity:
    assert pair.exact is not None
    statistic = {"paired t": "signs.sign_flip", "signed ranks": "signs.signed_rank"}.get(pair.test, "ranks.rank_sum")
    return tested(pair.exact, statistic, pair.runs, **about.pair(pair))


def smallest_p(about: About, pair: Pair) -> Quantity:
    """The smallest p-value that the exact test could give with these sizes and ties."""
    assert pair.exact is not None
    return value(pair.exact.floor, "", "smallest possible p", pair.runs, **about.pair(pair), test=pair.test)


def more_seeds(about: About, pair: Pair) -> Quantity:
    """How many more seeds would find a difference as large as the one seen, at the spread seen, among as many
    comparisons, with a chance of POWER."""
    assert pair.estimate is not None
    alpha, together = ALPHA / max(1, pair.comparisons), pair.test == "paired t"
    try:
        needed = seeds_needed(pair.spread, pair.estimate.value, alpha, POWER, paired=together)
    except ValueError:
        needed = MOST_SEEDS + pair.n + 1
    more = max(1, needed - pair.n)
    return value(
        more if more <= MOST_SEEDS else math.nan,
        "",
        "power.seeds_needed",
        pair.runs,
        absent=f"over {MOST_SEEDS:,}",
        **about.pair(pair),
        alpha=alpha,
        power=POWER,
    )


def least(about: About, pair: Pair) -> Quantity:
    """With how many seeds of each arm the exact test could reach significance, the p-values of the other comparisons
    being what they are. Only of a pair that cannot reach it."""
    assert pair.least
    more: dict[str, Any] = {"test": pair.test, "comparisons": pair.comparisons}
    return value(pair.least, "", "power.least_seeds", pair.runs, **about.pair(pair), **more)


def cut(about: About, reading: Reading, unit: str) -> Quantity:
    """Where arms that spent different amounts are compared."""
    runs = tuple(run for outcomes in reading.outcomes.values() for run in outcomes.run_ids)
    statistic = "smallest total of a run" if reading.strict else "smallest median total"
    at = reading.budget if reading.budget is not None else math.nan
    return value(at, unit, statistic, runs, task=about.task.name, clock=reading.clock)


def count(records: Iterable[RunRecord], of: str, **where: Any) -> Quantity:
    """How many runs there are; of: what was counted."""
    runs = tuple(record.run_id for record in records)
    return Quantity(value=len(runs), statistic="count", arguments={"of": of, **where}, runs=runs)


def share(events: Sequence[RunRecord], of: Sequence[RunRecord], what: str, **where: Any) -> Quantity:
    """The percentage of runs, with Wilson's interval."""
    found = wilson(len(events), len(of))
    arguments = {"of": what, "events": len(events), "n": len(of), **where}
    return estimated(found, "%", "proportion.wilson", [r.run_id for r in of], scale=100, **arguments)


def joined(items: Sequence[Parts], last: str = " and ") -> Parts:
    """Several pieces in a sentence: "a, b and c"."""
    parts: list[Part] = []
    for index, item in enumerate(items):
        if index:
            parts.append(last if index == len(items) - 1 else ", ")
        parts.extend(item)
    return tuple(parts)


def names(terms: Iterable[str]) -> Parts:
    return joined([(Term(term=term),) for term in terms])
