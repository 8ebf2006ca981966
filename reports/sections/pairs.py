"""Every pair of arms of a task, on every clock: difference, interval, p-values and what they come to."""

from __future__ import annotations

import math

from reports.clocks import Reading
from reports.comparison import ALPHA, Pair
from reports.document import Column, Parts, Table, Term
from reports.judged import TaskFacts
from reports.sections import numbers
from reports.sections.claims import used_the_same

#: What a ruling is called in the table.
_RULINGS = {
    "not shown": "no difference shown",
    "cannot reach": "cannot reach significance",
    "too few seeds": "cannot be told: too few seeds",
    "no spread": "cannot be told: no spread",
}


def pairs(task: TaskFacts, read: list[Reading]) -> Table:
    """Every pair, on every clock that is not the same as the first."""
    ends = [r for r in read if r.budget is None]
    shown = [*ends[:1], *(r for r in read if r.budget is not None)]
    rows = [_row(task, reading, pair) for reading in shown for pair in _ordered(reading)]
    same = used_the_same(ends[0], [reading for reading in ends if reading.equal]) if ends else ""
    notes: tuple[Parts, ...] = ((same,),) if same else ()
    notes += tuple((f"Seconds may be the machine's doing: {'; '.join(r.doubts)}.",) for r in shown if r.doubts)
    return Table(
        caption=(f"{task.name}: every pair of arms. Positive differences mean that the first is better.",),
        columns=(
            Column(head="Pair"),
            Column(head="Compared at"),
            Column(head="Difference", unit="[95 % interval of this pair]", number=True),
            Column(head="Effect", unit="in standard deviations [95 %]", number=True),
            Column(head="P(first is better)", unit="of a run each [95 %]", number=True),
            Column(head="p", unit="after Holm", number=True),
            Column(head="Exact p", unit="(smallest possible)", number=True),
            Column(head="The first is"),
        ),
        rows=tuple(rows),
        notes=notes + _test_notes([pair for reading in shown for pair in reading.pairs if pair.n]),
    )


def _ordered(reading: Reading) -> list[Pair]:
    """The pairs, in each the arm that ranks higher first, by rank."""
    rank = reading.ranking.index
    known = [
        p.seen_from(min((p.first, p.second), key=rank))
        for p in reading.pairs
        if {p.first, p.second} <= set(reading.ranking)
    ]
    return sorted(known, key=lambda pair: (rank(pair.first), rank(pair.second)))


def _row(task: TaskFacts, reading: Reading, pair: Pair) -> tuple[Parts, ...]:
    about = numbers.About.of(task, reading)
    at: Parts = (f"the end, by {task.split}",)
    if reading.budget is not None:
        at = (numbers.cut(about, reading, ""), f" {reading.many}, by validation")
    measured, tested = pair.estimate is not None, not math.isnan(pair.adjusted)
    exact: Parts = ("-",)
    if pair.exact is not None:
        exact = (numbers.exact_p(about, pair), " (", numbers.smallest_p(about, pair), ")")
    return (
        (Term(term=pair.first), " − ", Term(term=pair.second)),
        at,
        (numbers.difference(about, pair),) if measured else ("by ranks",) if sum(pair.diverged) else ("none",),
        (numbers.effect(about, pair),) if measured else ("-",),
        (numbers.chance(about, pair),) if pair.n else ("-",),
        (numbers.p_value(about, pair),) if tested else ("-",),
        exact,
        (_RULINGS.get(pair.ruling, pair.ruling),),
    )


def _test_notes(pairs: list[Pair]) -> tuple[Parts, ...]:
    """Which tests were made: only of those that were."""
    tests = {pair.test for pair in pairs}
    said = {
        "paired t": "p: paired t-test over seeds, two-sided. Exact p: all sign flips of the differences, which assumes "
        "no distribution; where its smallest possible value exceeds 0.05 it cannot decide at this n. Effect: the "
        "mean of the differences over their own standard deviation (Hedges).",
        "Welch t": "p: Welch's t-test, for arms that do not share three seeds; where their numbers of seeds are unlike "
        "and one is below 5, with Hsu's degrees of freedom (the smaller number less one). Exact p: rank sum. "
        "Effect: the difference over the pooled standard deviation (Hedges).",
        "signed ranks": "Where runs diverged, p is exact: signed ranks of paired differences, diverged being worst.",
        "rank sum": "Where runs diverged and seeds do not match, p is exact: the rank sum of all runs, a diverged one "
        "being worst.",
        "none": "No test is made with fewer than three seeds.",
    }
    notes: list[Parts] = [(text,) for test, text in said.items() if test in tests]
    left = {(p.first, p.second): p.unmatched for p in pairs if p.unmatched}
    if left:
        told = "; ".join(f"{a} and {b}: {n}" for (a, b), n in left.items())
        notes.append((f"Runs of seeds that only one of a pair ran are left out of its test ({told}).",))
    clashes = [p for p in pairs if p.shown and p.exact is not None and p.exact.reachable(ALPHA) and p.exact.p > ALPHA]
    if clashes:
        notes.append(
            (f"The exact test does not bear out {len(clashes)} of the differences shown: take them with care.",)
        )
    return tuple(notes)
