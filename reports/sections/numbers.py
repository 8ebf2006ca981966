"""Quantities out of statistics: what the sections' sentences and tables are made of."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np

from experiments.store.schema import RunRecord
from reports.comparison import Pair
from reports.document import Part, Parts, Term
from reports.quantity import Quantity
from reports.statistics.censored import median_time
from reports.statistics.proportion import wilson
from reports.statistics.student import mean_interval
from reports.table import Cell, Outcomes


def mean(outcomes: Outcomes, metric: str, unit: str = "", *, interval: bool = True) -> Quantity:
    """Mean and t interval over seeds. interval: False where the seeds are too few to be given one; values without any
    spread have none either."""
    estimate = mean_interval(outcomes.values)
    interval = interval and float(np.ptp(outcomes.values)) > 0
    return Quantity(
        value=estimate.value,
        low=estimate.low if interval else None,
        high=estimate.high if interval else None,
        unit=unit,
        statistic="student.mean_interval",
        arguments={"metric": metric, "confidence": estimate.confidence},
        runs=outcomes.run_ids,
    )


def difference(pair: Pair, metric: str, unit: str = "") -> Quantity:
    """How much better `pair.first` is, with its interval."""
    assert pair.estimate is not None
    return Quantity(
        value=pair.estimate.value,
        low=pair.estimate.low,
        high=pair.estimate.high,
        unit=unit,
        statistic="student.paired" if pair.test == "paired t" else "student.welch",
        arguments={"metric": metric, "better": pair.first, "than": pair.second, "confidence": pair.estimate.confidence},
        runs=pair.runs,
    )


def p_value(pair: Pair, metric: str) -> Quantity:
    """The pair's p-value after Holm."""
    arguments = {
        "metric": metric,
        "test": pair.test,
        "arms": f"{pair.first}, {pair.second}",
        "comparisons": pair.comparisons,
    }
    return Quantity(value=pair.adjusted, unit="p", statistic="multiple.holm", arguments=arguments, runs=pair.runs)


def exact_p(pair: Pair, metric: str) -> Quantity:
    assert pair.exact is not None
    statistic = {"paired t": "signs.sign_flip", "signed ranks": "signs.signed_rank"}.get(pair.test, "ranks.rank_sum")
    return Quantity(value=pair.exact.p, unit="p", statistic=statistic, arguments={"metric": metric}, runs=pair.runs)


def chance(pair: Pair, metric: str) -> Quantity:
    """P(a run of first is better than one of second)."""
    arguments = {"metric": metric, "better": pair.first, "than": pair.second, "diverged": "worst"}
    return Quantity(value=pair.better, statistic="ranks.probability_greater", arguments=arguments, runs=pair.runs)


def value(
    number: float, unit: str, statistic: str, runs: Sequence[str], *, absent: str = "none", **arguments: object
) -> Quantity:
    """A number without an interval; not finite: `absent`."""
    known = number if math.isfinite(number) else None
    return Quantity(value=known, unit=unit, statistic=statistic, arguments=arguments, runs=tuple(runs), absent=absent)


def time_to_target(cell: Cell, times: Sequence[float], clock: str, outcomes: Outcomes) -> Quantity:
    """The median time to the target; absent where fewer than half reached it, or it was not recorded of every run."""
    recorded = bool(times) and not any(map(math.isnan, times))
    return value(
        median_time(times) if recorded else math.inf,
        clock,
        "censored.median_time",
        outcomes.run_ids,
        absent="not reached" if recorded else "not recorded",
        target=cell.task.target,
        clock=clock,
    )


def count(records: Iterable[RunRecord], of: str) -> Quantity:
    """How many runs there are; of: what was counted."""
    runs = tuple(record.run_id for record in records)
    return Quantity(value=len(runs), statistic="count", arguments={"of": of}, runs=runs)


def share(events: Sequence[RunRecord], of: Sequence[RunRecord]) -> Quantity:
    """The percentage of runs, with Wilson's interval."""
    estimate = wilson(len(events), len(of))
    assert estimate.low is not None
    assert estimate.high is not None
    return Quantity(
        value=100 * estimate.value,
        low=100 * estimate.low,
        high=100 * estimate.high,
        unit="%",
        statistic="proportion.wilson",
        arguments={"events": len(events), "n": len(of)},
        runs=tuple(record.run_id for record in of),
    )


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
