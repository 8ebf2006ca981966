"""StudyTable: a study's runs as arrays per task and arm. The one place that asks a Source for anything."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

from algos.finding import InputError, unknown
from experiments.store.schema import FINISHED, RunRecord
from experiments.store.sources import Series, Source
from reports.evaluations import counted
from reports.judged import (
    Array,
    Stated,
    TaskFacts,
    check_stated,
    facts,
    may_lack_test,
    recorded,
    stops_at_target,
    trunk,
)

Phase = Literal["tune", "final"]

COUNTS = ("count/gradients", "time/train_s")
#: How runs end that have an outcome.
ENDED = ("completed", "diverged")


@dataclass(frozen=True)
class Curve:
    """One final run at its evaluations. All arrays have one length; seconds and gradients are nan where not recorded.
    values: the validation metric. seconds: of training alone, on the honest clock."""

    run_id: str
    updates: Array
    values: Array
    seconds: Array
    gradients: Array

    def along(self, clock: str) -> Array:
        return {"updates": self.updates, "gradients": self.gradients, "seconds": self.seconds}[clock]

    def first_reaching(self, task: TaskFacts, clock: str, on: Array | None = None) -> float:
        """Where on a clock the target is first met, by the line between the evaluation that shows it and the one
        before; inf where never, nan where the clock was not recorded. on: the updates at which an evaluation counts;
        None: all."""
        from reports.statistics.survival import crossing

        assert task.target is not None
        counts = np.full(len(self.updates), True) if on is None else np.isin(self.updates, on)
        along = self.along(clock)[counts]
        if np.isnan(along).any():
            return math.nan
        return crossing(along, self.values[counts], task.target, task.mode).at


@dataclass(frozen=True)
class Outcomes:
    """What an arm's final runs came to, in order of seed. values: better is greater or less, as the task says; a
    diverged run is the worst infinity; nan: it stopped at its target and was not tested. run_ids: one for each value.
    missing: runs that gave no value for reasons that are not the arm's: they did not end, or did not log it."""

    seeds: tuple[int, ...]
    values: Array
    run_ids: tuple[str, ...]
    missing: tuple[RunRecord, ...] = ()

    @property
    def n(self) -> int:
        return len(self.seeds)

    @property
    def diverged(self) -> int:
        return int(np.sum(np.isinf(self.values)))

    @property
    def finite(self) -> Array:
        return self.values[np.isfinite(self.values)]


@dataclass(frozen=True)
class Cell:
    """One arm on one task. told: what its newest run says of the study: question, seeds, trials, sampler, winner,
    ..."""

    task: TaskFacts
    arm: str
    tunes: tuple[RunRecord, ...]
    finals: tuple[RunRecord, ...]
    told: Mapping[str, Any] = field(default_factory=dict)

    def runs(self, phase: Phase) -> tuple[RunRecord, ...]:
        return self.finals if phase == "final" else self.tunes

    def status(self, phase: Phase) -> Counter[str]:
        return Counter(record.status for record in self.runs(phase))

    @property
    def completed(self) -> tuple[RunRecord, ...]:
        return tuple(record for record in self.finals if record.status == "completed")

    @property
    def by_seed(self) -> dict[int, RunRecord]:
        """The run that counts for each seed: the first that ended, else the last tried. Of a run and its forks, or of
        the forks of one run, the first seed's alone: they share updates and luck, so they are no seeds of their own."""
        chosen: dict[int, RunRecord] = {}
        for record in self.finals:
            seed = record.labels.seed
            if seed not in chosen or chosen[seed].status not in ENDED:
                chosen[seed] = record
        return _independent(dict(sorted(chosen.items())))

    @property
    def ended(self) -> tuple[RunRecord, ...]:
        """Of the runs that count, those that have an outcome: completed or diverged."""
        return tuple(r for r in self.by_seed.values() if r.status in ENDED and not self.lacks(r))

    def lacks(self, record: RunRecord) -> bool:
        """Whether a run completed without the value that its task is judged by."""
        whole = record.status != "completed" or stops_at_target(record)
        return not whole and may_lack_test(record) and self.task.value(record) is None

    def outcomes(self) -> Outcomes:
        """What the final runs came to, by seed. InputError where a run of our own runner completed without it."""
        counted = {seed: r for seed, r in self.by_seed.items() if r.status in ENDED and not self.lacks(r)}
        metric = self.task.outcome
        for record in counted.values():
            if record.status == "completed" and self.task.value(record) is None and not stops_at_target(record):
                has = ", ".join(sorted(record.final)) or "none"
                raise InputError(
                    f"completed run {record.run_id} ({self.arm} on {self.task.name}) has no final '{metric}'",
                    f"it has {has}; run that seed again, or name a study whose runs have it",
                    rule="metric-missing",
                )
        values = [self._value(record) for record in counted.values()]
        missing = tuple(r for seed, r in self.by_seed.items() if seed not in counted)
        return Outcomes(tuple(counted), np.array(values, float), tuple(r.run_id for r in counted.values()), missing)

    def _value(self, record: RunRecord) -> float:
        if record.status != "completed":
            return -self.task.sign * math.inf
        value = self.task.value(record)
        return math.nan if value is None else value


@dataclass(frozen=True)
class StudyTable:
    """A study as its runs tell it. tasks and arms in the order in which they were first run; runs by age. kept: what
    was computed of it once and is asked for by several sections."""

    name: str
    question: str
    runs: tuple[RunRecord, ...]
    tasks: Mapping[str, TaskFacts]
    arms: tuple[str, ...]
    cells: Mapping[tuple[str, str], Cell]
    curves: Mapping[str, Curve] = field(default_factory=dict)
    kept: dict[tuple[str, str], Any] = field(default_factory=dict, compare=False, repr=False)

    def of(self, task: str) -> list[Cell]:
        """The cells of a task, arm by arm."""
        return [self.cells[task, arm] for arm in self.arms if (task, arm) in self.cells]

    def times_to_target(self, cell: Cell, outcomes: Outcomes, clock: str) -> list[float]:
        """When each of the outcomes' runs first met the target, between evaluations, as everywhere in a report; inf
        where it never did, or diverged; nan where that was not recorded; [] without a target."""
        if cell.task.target is None:
            return []
        on = counted(self, cell.task.name).on
        curves = [self.curves.get(run_id) for run_id in outcomes.run_ids]
        return [
            math.inf if math.isinf(value) else math.nan if curve is None else curve.first_reaching(cell.task, clock, on)
            for curve, value in zip(curves, outcomes.values)
        ]


def read(source: Source, study: str, stated: Stated | None = None) -> StudyTable:
    """The table of a study. stated: what its reader says for runs that do not say by what they are judged. InputError
    where there is none, or none of its runs is finished, or nothing says by what they are judged."""
    everything = source.runs()
    records = sorted((r for r in everything if r.labels.study == study), key=lambda r: (r.file.created, r.run_id))
    if not records:
        raise unknown("study", study, {r.labels.study for r in everything if r.labels.study})
    if not any(record.status in FINISHED for record in records):
        raise InputError(
            f"study '{study}' has no finished runs ({len(records)} started)",
            "let its sweep run on; the same command resumes it",
            rule="no-finished-runs",
        )
    stated = stated or Stated()
    check_stated(records, stated)
    metrics = {r.labels.task: f"test/{r.task['metric']}" for r in records if "metric" in r.task}
    records = _apart([_honest(record, metrics.get(record.labels.task, "")) for record in records])
    names = dict.fromkeys(record.labels.task for record in records)
    tasks = {name: facts(name, records, stated) for name in names}
    arms = tuple(dict.fromkeys(record.labels.arm for record in records))
    cells = _cells(records, tasks)
    return StudyTable(
        name=study,
        question=next((text for r in reversed(records) if (text := str(_told(r).get("question", "")))), ""),
        runs=tuple(records),
        tasks=tasks,
        arms=arms,
        cells=cells,
        curves=_curves(source, cells.values()),
    )


def _independent(runs: dict[int, RunRecord]) -> dict[int, RunRecord]:
    """Of runs that came from one, by forks and forks of forks, one: that which ended, the origin before its forks."""
    if not any(map(trunk, runs.values())):
        return runs
    trunks = {record.run_id: trunk(record) for record in runs.values()}

    def origin(run_id: str) -> str:
        passed: set[str] = set()
        while trunks.get(run_id) and run_id not in passed:
            passed.add(run_id)
            run_id = trunks[run_id]
        return run_id

    kept: dict[str, int] = {}
    for seed, record in sorted(runs.items(), key=lambda r: (r[1].status not in ENDED, trunk(r[1]) in trunks, r[0])):
        kept.setdefault(origin(record.run_id), seed)
    return {seed: runs[seed] for seed in sorted(kept.values())}


def _apart(records: list[RunRecord]) -> list[RunRecord]:
    """Runs that other code than our runner made are an arm of their own, also where they were given the name of one."""
    ours = {(r.labels.task, r.labels.arm) for r in records if not recorded(r)}
    return [_renamed(r) if recorded(r) and (r.labels.task, r.labels.arm) in ours else r for r in records]


def _renamed(record: RunRecord) -> RunRecord:
    labels = replace(record.labels, arm=f"{record.labels.arm} (recorded)")
    return replace(record, file=replace(record.file, labels=labels))


def _honest(record: RunRecord, metric: str) -> RunRecord:
    """A run that ended with a value that is no number has diverged, whatever it says of itself."""
    value = record.final.get(metric, record.final.get("objective", 0.0))
    if record.status != "completed" or math.isfinite(value):
        return record
    return replace(record, status="diverged", reason=record.reason or "its final value is not finite")


def _told(record: RunRecord) -> Mapping[str, Any]:
    told: Mapping[str, Any] = record.file.facts.get("study") or {}
    return told


def _cells(records: Sequence[RunRecord], tasks: Mapping[str, TaskFacts]) -> dict[tuple[str, str], Cell]:
    held: dict[tuple[str, str], list[RunRecord]] = {}
    for record in records:
        held.setdefault((record.labels.task, record.labels.arm), []).append(record)
    return {
        key: Cell(
            tasks[key[0]],
            key[1],
            tunes=tuple(r for r in runs if r.labels.phase == "tune"),
            finals=tuple(r for r in runs if r.labels.phase != "tune"),
            told=_told(runs[-1]),
        )
        for key, runs in held.items()
    }


def _curves(source: Source, cells: Iterable[Cell]) -> dict[str, Curve]:
    """The curve of every final run that has one."""
    curves: dict[str, Curve] = {}
    by_metric: dict[str, list[str]] = {}
    for cell in cells:
        by_metric.setdefault(cell.task.validation, []).extend(record.run_id for record in cell.finals)
    for metric, ids in by_metric.items():
        found: dict[str, dict[str, Series]] = {}
        for series in source.series(ids, [metric, *COUNTS]) if ids else []:
            found.setdefault(series.run_id, {})[series.metric] = series
        for run_id in ids:
            if metric in found.get(run_id, {}):
                curves[run_id] = _curve(run_id, found[run_id], metric)
    return curves


def _curve(run_id: str, series: Mapping[str, Series], metric: str) -> Curve:
    """Update 0 (the untrained model) has used no time and no gradient, whether or not that was written."""
    updates = series[metric].updates

    def aligned(name: str) -> Array:
        known = {0: 0.0, **dict(zip(series[name].updates, series[name].values))} if name in series else {}
        return np.array([known.get(update, math.nan) for update in updates], float)

    return Curve(
        run_id,
        np.array(updates, float),
        np.array(series[metric].values, float),
        seconds=aligned("time/train_s"),
        gradients=aligned("count/gradients"),
    )
