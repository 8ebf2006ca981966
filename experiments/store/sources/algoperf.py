"""AlgoPerf's raw logs as a Source: each trial of a submission is a run.

A folder holds SUBMISSION/study_N/WORKLOAD_FRAMEWORK/trial_M/eval_measurements.csv, as mlcommons/submissions_algorithms
publishes them. Task = workload, arm = submission, seed = N; x is the global step, the clock the accumulated submission
time. Of the trials of a study the one that counts by the official rule (the target in the fewest evaluations; where
none reached it, the best validation value) has phase "final", the others "tune". Number counts a submission's trials on
a workload from 0, over all studies; N and M stand in the config.

What the logs do not say stays unsaid: dates, machines, commits. The date of the file stands for its last evaluation's.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from algos.finding import Finding, InputError
from experiments.store.queries import parse
from experiments.store.schema import Labels, Phase, RunFile, RunRecord
from experiments.store.sources import Series
from experiments.store.sources import algoperf_columns as columns
from experiments.store.sources import algoperf_targets as known
from experiments.store.sources.algoperf_ended import ended
from experiments.store.sources.algoperf_logs import FILE, Array, Log, Place, find, read
from experiments.store.sources.algoperf_targets import Target, Targets
from experiments.store.sources.steps import UPDATES

#: What this Source is called, and the fact under which its runs tell of the benchmark.
NAME = "algoperf"
CITE = """@misc{dahl2023benchmarking,
  title = {Benchmarking Neural Network Training Algorithms},
  author = {George E. Dahl and Frank Schneider and Zachary Nado and Naman Agarwal and Chandramouli Shama Sastry and
            Philipp Hennig and Sourabh Medapati and Runa Eschenhagen and Priya Kasimbeg and Daniel Suo and Juhan Bae
            and Justin Gilmer and others},
  year = {2023}, eprint = {2306.07179}, archiveprefix = {arXiv}}"""


class Trial(NamedTuple):
    """What the score needs to know of a trial. evaluation: the index of the first one that met the target; seconds: of
    training until then. Both are inf where none did."""

    submission: str
    workload: str
    study: int
    trial: int
    evaluation: float
    seconds: float


@dataclass(frozen=True)
class _Read:
    """A trial's place, log (None: no file), target, and the index of the evaluation that met it (None: none did)."""

    place: Place
    log: Log | None
    target: Target
    met: int | None

    @property
    def worth(self) -> float:
        """Less is better, among trials that missed the target; of those that met it no one is better."""
        if self.met is not None:
            return 0.0
        return columns.worth(self.log, self.target) if self.log else math.inf

    @property
    def seconds(self) -> Array:
        return columns.seconds(self.log) if self.log else np.empty(0)


class AlgoPerfSource:
    """Reads a folder of logs.

    ruleset: "external" or "self", where the logs do not tell (by a folder called external_tuning or self_tuning, or by
    several trials in a study). targets: of another version than 0.5, or a file of them. study: whose runs these are.
    findings, after reading: what could not be used. InputError where there are no logs, or they tell both rulesets.
    """

    kind = NAME

    def __init__(
        self, folder: Path | str, ruleset: str = "", targets: Targets | Path | str | None = None, study: str = NAME
    ):
        if ruleset not in ("", "external", "self"):
            raise InputError(f"ruleset '{ruleset}' does not exist", "give external or self", place="--ruleset")
        self.folder, self.study, self.place = Path(folder).expanduser(), study, str(folder)
        self.targets = known.V05 if targets is None else _targets(targets)
        places, self.findings = find(self.folder)
        self.ruleset, places = _ruleset(places, ruleset)
        self._places = self._known(places)
        self._records: dict[str, RunRecord] = {}
        self._of_run: dict[str, _Read] = {}

    @property
    def notes(self) -> list[str]:
        """The findings, as whoever imports the runs should be told them."""
        return [str(finding) for finding in self.findings]

    def trials(self) -> list[Trial]:
        """What the score rests on, without making records of it: reads three columns of each log."""
        metrics = {f"validation/{target.metric}" for target in self.targets.workloads.values()}
        logs = read(self.folder, self._places, lambda name: name in metrics or name in (columns.SCORED, columns.TIME))
        return [_trial(each) for each in self._read(logs)]

    def runs(self, query: str = "") -> list[RunRecord]:
        """The runs that `query` selects, in order of submission, study, workload and trial."""
        self._load()
        found = list(self._records.values())
        wanted = parse(query, found)
        return [record for record in found if wanted(record)]

    def series(self, run_ids: Iterable[str], metrics: Sequence[str] | None = None) -> list[Series]:
        """Every finite point of the runs' metrics, run by run in the order given."""
        self._load()
        return [line for run_id in run_ids for line in self._series(run_id, metrics)]

    def nonfinite(self, run_ids: Iterable[str]) -> list[Series]:
        """The values that are not finite."""
        self._load()
        return [line for run_id in run_ids for line in self._series(run_id, None, finite=False)]

    def _load(self) -> None:
        """Reads every column of every log, once."""
        if self._records:
            return
        whole = self._read(read(self.folder, self._places))
        counting = _counting(whole)
        numbers: dict[tuple[str, str], int] = {}
        for each in whole:
            key = each.place.submission, each.place.workload
            number = numbers[key] = numbers.get(key, -1) + 1
            record = self._record(each, number, "final" if id(each) in counting else "tune")
            self._records[record.run_id] = record
            self._of_run[record.run_id] = each
        self._tell(whole)

    def _known(self, places: list[Place]) -> list[Place]:
        """The places whose workload has a target; the others are told. One framework for a submission's workload."""
        without: dict[str, int] = {}
        frameworks: dict[tuple[str, str], str] = {}
        for place in places:
            if place.workload not in self.targets.workloads:
                without[place.workload] = without.get(place.workload, 0) + 1
            elif frameworks.setdefault((place.submission, place.workload), place.framework) != place.framework:
                said = f"{place.submission} has {place.workload} in two frameworks"
                raise InputError(said, "leave one of the folders out", rule="two-frameworks", source=str(self.folder))
        for name, count in without.items():
            said = f"{count} trials left out: v{self.targets.version} has no target for workload '{name}'"
            cure = "give the targets of the version that has it with --targets"
            self.findings.append(Finding("no-target", said, cure, source=str(self.folder), level="caution"))
        kept = [place for place in places if place.workload in self.targets.workloads]
        if not kept:
            said = f"none of the workloads in {self.folder} has a target in v{self.targets.version}"
            raise InputError(said, "give the targets of another version with --targets", rule="no-target")
        return kept

    def _read(self, logs: Sequence[Log | None]) -> list[_Read]:
        found = []
        for place, log in zip(self._places, logs):
            target = self.targets.workloads[place.workload]
            found.append(_Read(place, log, target, columns.met(log, target) if log else None))
        return found

    def _tell(self, trials: Sequence[_Read]) -> None:
        """Adds to the findings what of the logs could not be used."""
        for each in trials:
            said = [f"no {FILE}"] if each.log is None else list(each.log.troubles)
            if each.log is not None and each.log.columns and f"validation/{each.target.metric}" not in each.log.columns:
                said.append(f"no column validation/{each.target.metric}")
            if said:
                cure = "the run is imported as it is"
                where = f"{self.folder.name}/{each.place.path}"
                self.findings.append(Finding("bad-log", "; ".join(said), cure, source=where, level="caution"))

    def _record(self, each: _Read, number: int, phase: Phase) -> RunRecord:
        place, log, target = each.place, each.log, each.target
        budget = self._budget(target)
        status, reason = ended(log, each.met, each.seconds, target, budget)
        config = self._config(place, budget)
        digest = hashlib.sha256(json.dumps(config, sort_keys=True).encode()).hexdigest()
        at = log.at if log else 0
        last, nonfinite = columns.last(log)
        final = _final(last, target) if status == "completed" else {}
        events: list[dict[str, Any]] = [{"name": "warning", "at": at, "text": text} for text in _troubles(log)]
        reached = None
        if log and each.met is not None:
            reached = {
                "update": columns.step(log, each.met),
                "value": float(log.columns[f"validation/{target.metric}"][each.met]),
                "train_s": float(each.seconds[each.met]),
                "evaluation": each.met,
            }
            events.append({"name": "reached_target", "at": at, **reached})
        labels = Labels(place.workload, self.study, place.submission, phase, number, place.study)
        file = RunFile(
            run_id=_run_id([self.study, self.targets.version, config], log),
            name=place.path,
            labels=labels,
            config=config,
            digest=digest,
            facts=self._facts(place, target, log, budget),
            provenance={"framework": place.framework} if place.framework else {},
            created=at,
        )
        return RunRecord(
            file, status, reason, attempts=1, last=last, final=final, nonfinite=nonfinite, reached=reached,
            events=tuple(events),
        )  # fmt: skip

    def _budget(self, target: Target) -> float | None:
        longer = self.targets.longer if self.ruleset == "self" else 1.0
        return None if target.budget_s is None else target.budget_s * longer

    def _config(self, place: Place, budget: float | None) -> dict[str, Any]:
        """What the logs say of a trial's settings: hyperparameters only where a hparams.json lies beside the log."""
        config: dict[str, Any] = {
            "submission": place.submission,
            "workload": place.workload,
            "framework": place.framework,
            "ruleset": self.ruleset,
            "study": place.study,
            "trial": place.trial,
        }
        if budget is not None:
            config["budget"] = {"seconds": budget}
        try:
            told = json.loads((self.folder / place.path / "hparams.json").read_text())
        except (OSError, ValueError):
            return config
        return {**config, "hyperparameters": told} if isinstance(told, dict) else config

    def _facts(self, place: Place, target: Target, log: Log | None, budget: float | None) -> dict[str, Any]:
        sizes = {}
        for split in ("validation", "test"):
            counted = log.columns.get(f"{split}/num_examples") if log else None
            if counted is not None and len(counted) and math.isfinite(counted[-1]):
                sizes[split] = int(counted[-1])
        version = self.targets.version
        task = {
            "metric": target.metric,
            "mode": target.mode,
            "target": target.value,
            "target_source": f"AlgoPerf v{version}",
            "title": known.title(place.workload, self.targets),
            "unit": "",
            "sizes": sizes,
            "cite": CITE,
        }
        told = {
            "version": version,
            "ruleset": self.ruleset,
            "base": list(self.targets.base),
            "held_out": list(self.targets.held_out),
            "budget_s": budget,
            "path": place.path,
            "left_out": [finding.said for finding in self.findings if finding.source == place.submission],
        }
        return {
            "task": task,
            "source": {"kind": NAME, "place": self.place, "steps": UPDATES},
            "recorded": NAME,
            NAME: told,
        }

    def _series(self, run_id: str, metrics: Sequence[str] | None, finite: bool = True) -> list[Series]:
        if run_id not in self._of_run:
            raise InputError(f"no run '{run_id}' in {self.folder}", "`runs` tells their ids", rule="unknown-run")
        log, found = self._of_run[run_id].log, []
        if log is None or not log.length:
            return []
        named = {name: values for name, values in columns.named(log).items() if metrics is None or name in metrics}
        if not finite and all(np.isfinite(values).all() for values in named.values()):
            return []
        steps = [columns.step(log, index) for index in range(log.length)]
        took = log.columns.get("total_duration", np.zeros(log.length))
        at = (log.at - np.nan_to_num((took[-1] - took) * 1000).astype(np.int64)).tolist()  # ms before the last one
        for name, values in sorted(named.items()):
            kept = np.flatnonzero(np.isfinite(values) == finite).tolist()
            if kept:
                numbers = values.tolist()
                points = ((steps[i], numbers[i], at[i]) for i in kept)
                found.append(Series(run_id, name, *map(tuple, zip(*points))))
        return found


def _targets(given: Targets | Path | str) -> Targets:
    return known.read(Path(given)) if isinstance(given, (str, Path)) else given


def _ruleset(places: list[Place], stated: str) -> tuple[str, list[Place]]:
    """The ruleset of the logs, and those that are of it."""
    told = {place.ruleset for place in places} - {""}
    if stated:
        kept = [place for place in places if place.ruleset in ("", stated)]
        if not kept:
            raise InputError(f"no logs of ruleset '{stated}'", f"they are of {', '.join(told)}", place="--ruleset")
        return stated, kept
    if len(told) > 1:
        said = "the folder holds submissions of both rulesets, which are scored apart"
        raise InputError(said, "say which with --ruleset external or --ruleset self", rule="two-rulesets")
    if told:
        return told.pop(), places
    most: dict[str, int] = {}
    count: dict[tuple[str, int, str], int] = {}
    for place in places:
        key = place.submission, place.study, place.workload
        count[key] = count.get(key, 0) + 1
        most[place.submission] = max(most.get(place.submission, 0), count[key])
    once, several = ([name for name, n in most.items() if (n == 1) == alone] for alone in (True, False))
    if once and several:
        said = f"{once[0]} has one trial a study, {several[0]} several: they seem to be of different rulesets"
        raise InputError(said, "say which with --ruleset external or --ruleset self", rule="two-rulesets")
    return "external" if several else "self", places


def _trial(each: _Read) -> Trial:
    place, met = each.place, each.met
    evaluation, seconds = (math.inf, math.inf) if met is None else (float(met), float(each.seconds[met]))
    return Trial(place.submission, place.workload, place.study, place.trial, evaluation, seconds)


def _counting(trials: Sequence[_Read]) -> set[int]:
    """The ids (of the objects) of those trials by which their studies count."""
    best: dict[tuple[str, str, int], tuple[float, float, int]] = {}
    for each in trials:
        place = each.place
        key = place.submission, place.workload, place.study
        rank = (math.inf if each.met is None else float(each.met), each.worth, id(each))
        if key not in best or rank[:2] < best[key][:2]:
            best[key] = rank
    return {chosen for _, _, chosen in best.values()}


def _final(last: Mapping[str, float], target: Target) -> dict[str, float]:
    found = {f"test/{target.metric}": last.get(f"test/{target.metric}"), "objective": last.get(f"val/{target.metric}")}
    return {name: value for name, value in found.items() if value is not None}


def _troubles(log: Log | None) -> tuple[str, ...]:
    return (f"there is no {FILE}",) if log is None else log.troubles


def _run_id(said: Sequence[Any], log: Log | None) -> str:
    """The same log, read again for the same study and targets, has the same id: of what is said of it and what it
    says."""
    digest = hashlib.sha256(json.dumps(said, sort_keys=True).encode())
    for name, values in (log.columns if log else {}).items():
        digest.update(name.encode() + values.tobytes())
    return f"algoperf-{digest.hexdigest()[:12]}"
