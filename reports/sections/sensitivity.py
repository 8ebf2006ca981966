"""Sensitivity: how much each hyperparameter matters, and in what range it is good."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from algos.finding import InputError
from experiments.store.schema import RunRecord
from reports.document import Column, Heading, Parts, Table, Term
from reports.sections import numbers
from reports.sections.drawn import Piece
from reports.sections.slices import slices
from reports.sections.tuning import tuned
from reports.statistics import importance as statistics
from reports.table import StudyTable
from reports.tuning import Span, Tuning

#: A value is good where a trial came this near to the best, as a share of the spread between best and median trial.
NEAR = 0.1
#: fANOVA takes about 10 ms a trial. Of an arm with more trials than its share of the second number (at most the first,
#: at least the last), every so manieth is looked at.
MOST_TRIALS, ALL_TRIALS, LEAST_TRIALS = 200, 600, 20
#: Pictures of a task, the first hyperparameter aside, which the tuning section shows.
_PICTURES = 3


def sensitivity(study: StudyTable) -> list[Piece]:
    found = tuned(study)
    many = sum(map(len, found.values()))
    most = max(LEAST_TRIALS, min(MOST_TRIALS, ALL_TRIALS // max(1, many)))
    rows = [row for arms in found.values() for one in arms for row in _rows(one, most)]
    if not rows:
        return []
    pieces: list[Piece] = [Heading(level=2, text="Sensitivity to hyperparameters", anchor="sensitivity")]
    pieces.append(
        Table(
            caption=("Each hyperparameter that was tuned: where it was good, and how much it decides.",),
            columns=(
                Column(head="Task"),
                Column(head="Arm"),
                Column(head="Hyperparameter"),
                Column(head="Best"),
                Column(head="Good range"),
                Column(head="Its width", number=True),
                Column(head="Importance", unit="% of the variance", number=True),
            ),
            rows=tuple(rows),
            notes=(
                (f"Good: from the least to the greatest value of a trial whose objective came within {NEAR:.0%} of the "
                 "way from the best trial to the median one. A range marked + reaches the last value that was tried.",),
                ("Importance: functional ANOVA of the trials, of at most "
                 f"{most} of an arm; it speaks of the whole range searched, not of the neighbourhood of the best. "
                 "Diverged trials count as the worst. Trials that scatter by chance give shares above 0 too.",),
            ),
        )
    )  # fmt: skip
    for index, (name, arms) in enumerate(found.items(), start=1):
        shown = dict.fromkeys(one.hypers[0] for one in arms if one.hypers)
        rest = [h for h in dict.fromkeys(h for one in arms for h in one.hypers) if h not in shown]
        for number, hyper in enumerate(rest[:_PICTURES], start=1):
            those = [one for one in arms if hyper in one.hypers]
            pieces.append(slices(study, study.tasks[name], those, hyper, f"more-{index}-{number}"))
    return pieces


def _rows(one: Tuning, most: int) -> list[tuple[Parts, ...]]:
    scored = [(r, s) for r in one.trials if (s := _score(one, r)) is not None]
    known = np.array([score for _, score in scored if math.isfinite(score)], float)
    if len(known) < 3:
        return []
    best = float(known.max() if one.mode == "max" else known.min())
    tolerance = NEAR * abs(best - float(np.median(known)))
    shares, why = _shares(one, scored, most)
    rows: list[tuple[Parts, ...]] = []
    for hyper in (*one.hypers, *one.options):
        where = {**numbers.of_cell(one.cell), "hyper": hyper}
        runs = [r.run_id for r, _ in scored]
        share: Parts = (why,)
        if hyper in shares:
            share = (numbers.value(100 * shares[hyper], "", "importance.importance", runs, **where),)
        cells = _good(one, hyper, scored, tolerance) if hyper in one.hypers else _option(one, hyper)
        rows.append(((one.cell.task.name,), (Term(term=one.cell.arm),), (hyper,), *cells, share))
    return rows


def _score(one: Tuning, record: RunRecord) -> float | None:
    """What a trial came to; infinitely bad where it diverged; None where it tells nothing."""
    if record.status == "diverged":
        return -math.inf if one.mode == "max" else math.inf
    return one.objective(record)


def _good(one: Tuning, hyper: str, scored: list[tuple[RunRecord, float]], tolerance: float) -> tuple[Parts, ...]:
    having = [(r, x, score) for r, score in scored if (x := one.value(r, hyper)) is not None]
    if not any(math.isfinite(score) for _, _, score in having):
        return ("-",), ("-",), ("-",)
    spans = one.spans.get(hyper, ())
    log = bool(spans and spans[0].log) and all(x > 0 for _, x, _ in having)
    found = statistics.sensitivity([x for _, x, _ in having], [s for _, _, s in having], one.mode, tolerance, log=log)
    where, runs = {**numbers.of_cell(one.cell), "hyper": hyper}, [r.run_id for r, _, _ in having]
    name = "importance.sensitivity"
    ends = [
        numbers.value(at, "", name, runs, **where, of=f"good, {side} end")
        for side, at in (("low", found.low), ("high", found.high))
    ]
    best = numbers.value(found.best, "", name, runs, **where, of="best")
    if found.good < 2:
        return (best,), ("no other trial came near",), ("-",)
    low, high = ("+" if found.open_low else ""), ("+" if found.open_high else "")
    width = numbers.value(found.width, "", name, runs, **where, of="width")
    return (
        (best,),
        (ends[0], low, " to ", ends[1], high),
        (width, " decades" if log else ""),
    )


def _option(one: Tuning, place: str) -> tuple[Parts, ...]:
    best = one.option(one.best, place) if one.best is not None else ""
    return ((Term(term=best),) if best else ("-",)), ("options",), ("-",)


def _shares(one: Tuning, scored: list[tuple[RunRecord, float]], most: int) -> tuple[dict[str, float], str]:
    """Importance by hyperparameter, and what to say of one that has none. most: trials to look at."""
    scored = scored[:: math.ceil(len(scored) / most)]
    trials: list[tuple[dict[str, Any], float]] = [(_settings(one, record), score) for record, score in scored]
    ranges = {
        h: Span(min(s.low for s in spans), max(s.high for s in spans), spans[0].log) for h, spans in one.spans.items()
    }
    names = {name for settings, _ in trials for name in settings}
    shared = {name for name in names if all(name in settings for settings, _ in trials)}
    if not shared:
        return {}, "-"
    told = [({k: v for k, v in settings.items() if k in shared}, score) for settings, score in trials]
    try:
        return statistics.importance(
            told, one.mode, {k: v for k, v in ranges.items() if k in shared}
        ), "searched by some"
    except InputError as error:
        if error.finding.rule != "too-few-trials":
            raise
        return {}, "too few trials"


def _settings(one: Tuning, record: RunRecord) -> dict[str, Any]:
    found: dict[str, Any] = {h: v for h in one.hypers if (v := one.value(record, h)) is not None}
    return {**found, **{place: text for place in one.options if (text := one.option(record, place))}}
