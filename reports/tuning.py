"""What tuning did for one arm on one task: its trials, the ranges it searched, the winner and where that stands."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from experiments.store.queries import flatten
from experiments.store.schema import RunRecord
from reports.table import Cell

#: The outer part of a range, at either end, that counts as its edge.
EDGE = 0.1
_RANGE = re.compile(r"([-+.\deE]+):([-+.\deE]+)((?::(?:log|int))*)")


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
    """trials: every tuning run, by number. hypers: config keys that were tuned, a learning rate first. spans: the
    ranges of each, the one first searched first (widened ones follow). winner: the trial whose values the final runs
    have."""

    cell: Cell
    trials: tuple[RunRecord, ...]
    hypers: tuple[str, ...]
    spans: Mapping[str, tuple[Span, ...]]
    winner: RunRecord | None
    best: RunRecord | None

    def value(self, record: RunRecord, hyper: str) -> float | None:
        found = flatten(record.config).get(hyper)
        return float(found) if isinstance(found, (int, float)) and not isinstance(found, bool) else None

    def objective(self, record: RunRecord) -> float | None:
        return record.final.get("objective") if record.status == "completed" else None

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


def tuning(cell: Cell) -> Tuning | None:
    """None where the arm was not tuned."""
    if not cell.tunes:
        return None
    trials = tuple(sorted(cell.tunes, key=lambda record: (record.labels.number, record.run_id)))
    spans = _spans(trials)
    hypers = _ordered(spans or dict.fromkeys(_varied(cell.tunes)))
    scored = [r for r in trials if r.status == "completed" and "objective" in r.final]
    best = max(scored, key=lambda r: cell.task.sign * r.final["objective"]) if scored else None
    return Tuning(cell, trials, hypers, spans, _winner(cell, trials, hypers, best), best)


def _winner(cell: Cell, trials: Sequence[RunRecord], hypers: Sequence[str], best: RunRecord | None) -> RunRecord | None:
    """The trial that the final runs repeat: what was chosen, not what should have been."""
    if not cell.finals:
        return best
    wanted = flatten(cell.finals[-1].config)
    same = [r for r in trials if all(flatten(r.config).get(hyper) == wanted.get(hyper) for hyper in hypers)]
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
    return tuple(sorted(hypers, key=lambda hyper: (hyper != "optimizer.lr", not hyper.endswith(".lr"))))


def _spans(trials: Sequence[RunRecord]) -> dict[str, tuple[Span, ...]]:
    """The ranges that each trial was drawn from, as they tell it, each once, in order. Lists of options have none."""
    found: dict[str, dict[Span, None]] = {}
    for record in trials:
        space: Mapping[str, str] = (record.file.facts.get("study") or {}).get("space") or {}
        for hyper, text in space.items():
            if (match := _RANGE.fullmatch(str(text))) is not None:
                span = Span(float(match[1]), float(match[2]), ":log" in match[3])
                found.setdefault(hyper, {})[span] = None
    return {hyper: tuple(spans) for hyper, spans in found.items()}
