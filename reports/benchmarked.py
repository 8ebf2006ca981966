"""Benchmarked: the runs of a study imported from AlgoPerf's logs, as its score needs them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from algos.finding import InputError
from experiments.store.schema import RunRecord
from experiments.store.sources.algoperf import NAME, Trial
from reports.statistics import algoperf
from reports.table import StudyTable


@dataclass(frozen=True)
class Benchmark:
    """One version and ruleset of AlgoPerf. base: workloads that are scored; held_out: their variants that count; both
    whether or not there are logs of them. runs: those of these workloads; others: of further ones. budgets: the longest
    training of a workload, in seconds, where known."""

    version: str
    ruleset: str
    base: tuple[str, ...]
    held_out: tuple[str, ...]
    runs: tuple[RunRecord, ...]
    others: tuple[RunRecord, ...]
    budgets: Mapping[str, float]
    scores: algoperf.Scores

    @property
    def workloads(self) -> tuple[str, ...]:
        return (*self.base, *self.held_out)

    @property
    def studies(self) -> list[int]:
        return sorted({record.labels.seed for record in self.runs})

    @property
    def ranking(self) -> list[str]:
        """The submissions by their official score, the best first."""
        official = dict(zip(self.scores.submissions, self.scores.official))
        return sorted(official, key=lambda name: (-official[name], name))

    @property
    def reference(self) -> str:
        """The submission that speedups are told against: the one called baseline; "" where there is none."""
        named = [name for name in self.scores.submissions if "baseline" in name.lower()]
        return min(named, key=len) if named else ""

    def of(self, submission: str, workload: str = "") -> tuple[RunRecord, ...]:
        """The runs of a submission; of a workload alone, where one is given."""
        found = self._by_submission.get(submission, ())
        return tuple(record for record in found if workload in ("", record.labels.task))

    def counting(self, submission: str = "", workload: str = "") -> tuple[str, ...]:
        """Ids of the trials by which studies count, whose times enter the score: of all, or of a submission."""
        runs = self.of(submission, workload) if submission else self.runs
        return tuple(record.run_id for record in runs if record.labels.phase == "final")

    @cached_property
    def fastest(self) -> tuple[str, ...]:
        """Ids of the trials that would count if the shortest time did."""
        best: dict[tuple[str, str, int], tuple[float, str]] = {}
        for record in self.runs:
            labels = record.labels
            key, time = (labels.arm, labels.task, labels.seed), float((record.reached or {}).get("train_s", math.inf))
            if key not in best or time < best[key][0] or (time == best[key][0] and labels.phase == "final"):
                best[key] = time, record.run_id
        return tuple(run_id for _, run_id in best.values())

    @cached_property
    def _by_submission(self) -> dict[str, list[RunRecord]]:
        found: dict[str, list[RunRecord]] = {}
        for record in self.runs:
            found.setdefault(record.labels.arm, []).append(record)
        return found


def is_benchmark(study: StudyTable) -> bool:
    """Whether all runs of a study were imported from AlgoPerf's logs."""
    return bool(study.runs) and all(record.file.facts.get(NAME) for record in study.runs)


def benchmarked(study: StudyTable) -> Benchmark:
    """The benchmark that a study is. InputError where its runs are of several versions or rulesets."""
    told = [facts(record) for record in study.runs]
    kinds = sorted({(str(t["version"]), str(t["ruleset"]), tuple(t["base"]), tuple(t["held_out"])) for t in told})
    if len(kinds) > 1:
        words = " and ".join(f"v{version}, {ruleset} tuning" for version, ruleset, *_ in kinds)
        said = f"study '{study.name}' has runs of different AlgoPerf benchmarks ({words})"
        raise InputError(said, "import each into a study of its own", rule="two-benchmarks")
    version, ruleset, base, held_out = kinds[0]
    counted = {*base, *held_out}
    runs = tuple(record for record in study.runs if record.labels.task in counted)
    return Benchmark(
        version=version,
        ruleset=ruleset,
        base=base,
        held_out=held_out,
        runs=runs,
        others=tuple(record for record in study.runs if record.labels.task not in counted),
        budgets={r.labels.task: b for r, t in zip(study.runs, told) if (b := t.get("budget_s")) is not None},
        scores=algoperf.scores(trials(runs), base, held_out),
    )


def facts(record: RunRecord) -> Mapping[str, Any]:
    """What the import told of a run."""
    told: Mapping[str, Any] = record.file.facts[NAME]
    return told


def trials(runs: Iterable[RunRecord]) -> list[Trial]:
    """The runs as the score sees them, in order of study and trial."""
    found = []
    for record in runs:
        reached = record.reached or {}
        evaluation = float(reached.get("evaluation", reached.get("update", math.inf)))
        labels, trial = record.labels, int(record.config.get("trial", record.labels.number))
        seconds = float(reached.get("train_s", math.inf))
        found.append(Trial(labels.arm, labels.task, labels.seed, trial, evaluation, seconds))
    return sorted(found, key=lambda t: (t.submission, t.workload, t.study, t.trial))
