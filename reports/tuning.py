"""What tuning did for one arm on one task: its trials, what it searched, the winner and where that stands."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from experiments.store.queries import flatten
from experiments.store.schema import RunRecord
from reports.judged import recorded, source_kind
from reports.table import Cell

#: The outer part of a range, at either end, that counts as its edge.
EDGE = 0.1
_RANGE = re.compile(r"([-+.\deE]+):([-+.\deE]+)((?::(?:log|int))*)")
#: Between an axis and its condition, as runs tell it: "optimizer.momentum when optimizer=muon".
_WHEN = " when "
OWN = "objective"


def by_validation(cells: Iterable[Cell]) -> bool:
    """Whether what tuning went by is known to be of validation: an objective of Optuna's can be anything."""
    return not any(
        recorded(r) and (source_kind(r) == "optuna" or cell.task.validation not in r.last)
        for cell in cells
        for r in cell.tunes
    )


@dataclass(frozen=True)
class Span:
    """A range as it was searched."""

    low: float
    high: float
    log: bool = False

    def position(self, value: float) -> float:
        """0 at the low end, 1 at the high end, on the range's own scale."""
        low, high, at = (math.log(v) if self.log and v > 0 else v for v in (self.low, self.high, value))
        return (at - low) / (high - low)


@dataclass(frozen=True)
class Tuning:
    """trials: every tuning run, by number. hypers: numbers that were tuned, a learning rate first, by config key, with
    its condition where the arm searched it only under one. spans: the ranges of each, the one first searched first
    (widened ones follow). options: keys that were tuned among options. objectives: metric -> mode, the first one
    decides; {} for the task's own. winner: the trial whose values the final runs have."""

    cell: Cell
    trials: tuple[RunRecord, ...]
    hypers: tuple[str, ...]
    spans: Mapping[str, tuple[Span, ...]]
    winner: RunRecord | None
    best: RunRecord | None
    options: tuple[str, ...] = ()
    sampler: str = ""
    objectives: Mapping[str, str] = field(default_factory=dict)
    warm_start: str = ""

    @property
    def mode(self) -> str:
        """Of the objective that decides."""
        return next(iter(self.objectives.values()), self.cell.task.mode)

    @property
    def metric(self) -> str:
        """The objective that decides."""
        return next(iter(self.objectives), OWN)

    def value(self, record: RunRecord, hyper: str) -> float | None:
        """None where the run has no such number, or its condition does not hold in it."""
        place, _, given = hyper.partition(_WHEN)
        found = flatten(record.config).get(place)
        if isinstance(found, bool) or not isinstance(found, (int, float)):
            return None
        return float(found) if holds(given, _params(record)) else None

    def option(self, record: RunRecord, place: str) -> str:
        """What a run had of the options at a place, as text; "" where it had none."""
        found = _params(record).get(place, flatten(record.config).get(place))
        return "" if found is None else found if isinstance(found, str) else json.dumps(found, sort_keys=True)

    def measured(self, record: RunRecord, metric: str) -> float | None:
        """An objective of a run that completed."""
        if record.status != "completed":
            return None
        if metric in (OWN, self.cell.task.validation):
            return record.final.get(OWN)
        return {**record.last, **record.final}.get(metric)

    def objective(self, record: RunRecord) -> float | None:
        """The one that decides."""
        return self.measured(record, self.metric)

    def scored(self) -> list[RunRecord]:
        return [record for record in self.trials if self.objective(record) is not None]

    def edge(self, hyper: str) -> str:
        """ "low" or "high" where the winner stands in the outer tenth of all that was searched, else ""."""
        value = self.value(self.winner, hyper) if self.winner else None
        if value is None or not self.spans.get(hyper):
            return ""
        spans = self.spans[hyper]
        whole = Span(min(s.low for s in spans), max(s.high for s in spans), spans[0].log)
        position = whole.position(value)
        return "low" if position <= EDGE + 1e-9 else "high" if position >= 1 - EDGE - 1e-9 else ""

    def unbracketed(self, hyper: str) -> str:
        """ "low" or "high" where no trial was tried beyond the winner on that side, else "". Needs three different
        values."""
        value = self.value(self.winner, hyper) if self.winner else None
        tried = {v for r in self.trials if (v := self.value(r, hyper)) is not None}
        if value is None or len(tried) < 3:
            return ""
        return "low" if value <= min(tried) else "high" if value >= max(tried) else ""

    def alike(self) -> list[RunRecord]:
        """The trials that were drawn from the ranges searched first: those drawn later, from a widened range, are of
        another distribution."""
        first = _space(self.trials[0])
        return [record for record in self.trials if _space(record) == first]


def tuning(cell: Cell) -> Tuning | None:
    """None where the arm was not tuned."""
    if not cell.tunes:
        return None
    trials = tuple(sorted(cell.tunes, key=lambda record: (record.labels.number, record.run_id)))
    spans, options = _spans(trials)
    told: Mapping[str, Any] = cell.told.get("tuner") or {}
    bare = Tuning(
        cell,
        trials,
        hypers=_ordered(spans or dict.fromkeys(_varied(cell.tunes))),
        spans=spans,
        winner=None,
        best=None,
        options=options,
        sampler=str(cell.told.get("sampler") or ""),
        objectives=dict(told.get("objectives") or {}),
        warm_start=str(told.get("warm_start") or ""),
    )
    sign = 1.0 if bare.mode == "max" else -1.0
    scored = [(sign * value, r) for r in trials if (value := bare.objective(r)) is not None and math.isfinite(value)]
    best = max(scored, key=lambda pair: pair[0])[1] if scored else None
    winner = _winner(cell, trials, bare.hypers, best)
    return Tuning(**{**vars(bare), "winner": winner, "best": best})


def holds(given: str, params: Mapping[str, Any]) -> bool:
    """Whether a condition holds in a run's parameters; what they do not tell is taken to hold.

    >>> holds("optimizer=muon,sgd", {"optimizer": {"name": "sgd", "lr": 0.1}}), holds("width=32", {"width": 3})
    (True, False)
    """
    place, _, labels = given.partition("=")
    if not given or place not in params:
        return True
    return any(_is(params[place], label) for label in _split(labels))


def _is(value: Any, label: str) -> bool:
    try:
        read = json.loads(label)
    except ValueError:
        read = label
    if value == read or str(value) == label:
        return True
    return isinstance(value, Mapping) and value.get("name") == read


def _split(labels: str) -> list[str]:
    """At commas that stand in no bracket and no quotes."""
    parts, depth, quoted = [""], 0, False
    for char in labels:
        quoted = quoted != (char == '"')
        depth += 0 if quoted else (char in "{[") - (char in "]}")
        if char == "," and not depth and not quoted:
            parts.append("")
        else:
            parts[-1] += char
    return parts


def _params(record: RunRecord) -> Mapping[str, Any]:
    told: Mapping[str, Any] = (record.file.facts.get("study") or {}).get("params") or {}
    return told


def _space(record: RunRecord) -> Mapping[str, Any]:
    told: Mapping[str, Any] = (record.file.facts.get("study") or {}).get("space") or {}
    return told


def _winner(cell: Cell, trials: Sequence[RunRecord], hypers: Sequence[str], best: RunRecord | None) -> RunRecord | None:
    """The trial that the final runs repeat: what was chosen, not what should have been."""
    if not cell.finals:
        return best
    named = str(cell.told.get("winner") or "")
    chosen = next((record for record in trials if named and record.run_id == named), None)
    if chosen is not None:
        return chosen
    wanted = flatten(cell.finals[-1].config)
    places = [hyper.partition(_WHEN)[0] for hyper in hypers]
    same = [r for r in trials if all(flatten(r.config).get(place) == wanted.get(place) for place in places)]
    return best if best in same else (same[0] if same else None)


def _varied(records: Sequence[RunRecord]) -> list[str]:
    """Config keys with numbers that differ between trials, the seed aside."""
    configs = [flatten(record.config) for record in records]
    return [
        key
        for key, value in configs[0].items()
        if key != "seed" and isinstance(value, (int, float)) and len({repr(c.get(key)) for c in configs}) > 1
    ]


def _ordered(hypers: Iterable[str]) -> tuple[str, ...]:
    def late(hyper: str) -> tuple[bool, bool]:
        place = hyper.partition(_WHEN)[0]
        return place != "optimizer.lr", not place.endswith(".lr")

    return tuple(sorted(hypers, key=late))


def _spans(trials: Sequence[RunRecord]) -> tuple[dict[str, tuple[Span, ...]], tuple[str, ...]]:
    """The ranges that each trial was drawn from, as they tell it, each once, in order; and the places of options."""
    found: dict[str, dict[Span, None]] = {}
    options: dict[str, None] = {}
    for record in trials:
        for hyper, text in _space(record).items():
            if (match := _RANGE.fullmatch(str(text))) is not None:
                span = Span(float(match[1]), float(match[2]), ":log" in match[3])
                found.setdefault(hyper, {})[span] = None
            else:
                options[hyper.partition(_WHEN)[0]] = None
    return {hyper: tuple(spans) for hyper, spans in found.items()}, tuple(options)
