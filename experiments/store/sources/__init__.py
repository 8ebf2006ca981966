"""Source: everything that reads results reads one of these. Home, MLflow, and what other tools wrote (see `foreign`).

A source of foreign results may also have `nonfinite(run_ids)`, series of values that are not finite, `notes`, what
whoever imports it should know, and `metric` and `mode`, by which its runs are judged."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from experiments.store.schema import RunRecord


@dataclass(frozen=True)
class Series:
    """One metric of one run, in order of update. updates, values and at (milliseconds since 1970) have one length."""

    run_id: str
    metric: str
    updates: tuple[int, ...]
    values: tuple[float, ...]
    at: tuple[int, ...]


class Source(Protocol):
    """Where runs can be read. `query` is the language of `experiments.store.queries` ("" for all)."""

    def runs(self, query: str = "") -> list[RunRecord]: ...

    def series(self, run_ids: Iterable[str], metrics: Sequence[str] | None = None) -> list[Series]: ...
