"""Judged: by which metric, in which direction and on which split the runs of a task are compared, as they tell it.

Runs of the catalogue's tasks always have a test value; one without is damaged. A user's module may have no test split,
and a recorded loop may have logged none: such runs are judged by validation where that is what they have in common, and
no run is judged by a value it did not log."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from algos.finding import InputError
from experiments.store.metric_names import inferred_mode
from experiments.store.schema import RunRecord

Array = NDArray[np.float64]
Split = Literal["test", "validation"]

#: Units of metrics that have one; others are plain numbers.
UNITS = {"loss": "nats", "bits_per_character": "bits per character"}
#: Metrics that are shares, in [0, 1].
SHARES = ("accuracy", "acc", "f1", "auc")
#: Where a loop that our runner did not execute came from, by what the run says of itself.
MAKERS = {
    "plain": "a plain PyTorch loop",
    "lightning": "Lightning's Trainer",
    "huggingface": "Hugging Face's Trainer",
    "imported": "another tool's records",
    "algoperf": "AlgoPerf's logs",
}
#: Where imported runs came from, by the kind of their source.
SOURCES = {
    "csv": "a CSV file",
    "mlflow": "MLflow's records",
    "optuna": "Optuna's records",
    "tensorboard": "TensorBoard's files",
    "wandb": "Weights & Biases' records",
}
#: How metrics of a validation split begin, in others' records.
_SPLITS = ("val/", "val_", "valid/", "valid_", "validation/", "validation_", "eval/", "eval_")


@dataclass(frozen=True)
class Stated:
    """What the reader says of runs that do not say it. metric: as it was logged; mode: "max" or "min"."""

    metric: str = ""
    mode: str = ""


@dataclass(frozen=True)
class TaskFacts:
    """What the runs say of their task; the names are TaskSpec's. sizes: examples by split. split: on which final runs
    are compared. unit: of what sizes count, "" where no run says it. logged: the series of the validation metric, where
    it is not val/<metric>. assumed: whether the runs do not say how they are judged, and the one metric that they
    logged is taken, in the direction of its name."""

    name: str
    title: str
    metric: str
    mode: Literal["max", "min"]
    worst: float
    target: float | None
    target_source: str
    unit: str
    sizes: Mapping[str, int]
    baselines: Mapping[str, float]
    split: Split = "test"
    logged: str = ""
    assumed: bool = False

    @property
    def sign(self) -> float:
        """Times a difference: positive is better."""
        return 1.0 if self.mode == "max" else -1.0

    @property
    def validation(self) -> str:
        """The series of the validation metric."""
        return self.logged or f"val/{self.metric}"

    @property
    def outcome(self) -> str:
        """The name of what final runs are compared by."""
        return f"test/{self.metric}" if self.split == "test" else self.validation

    @property
    def words(self) -> str:
        """The metric as prose: "bits per character"."""
        return self.metric.replace("_", " ")

    @property
    def metric_unit(self) -> str:
        return UNITS.get(self.metric, "")

    def axis(self, split: str) -> str:
        """An axis label: "validation loss (nats)"."""
        return f"{split} {self.words}" + (f" ({self.metric_unit})" if self.metric_unit not in ("", self.words) else "")

    def reaches(self, values: Array) -> NDArray[np.bool_]:
        assert self.target is not None
        return values >= self.target if self.mode == "max" else values <= self.target

    def value(self, record: RunRecord) -> float | None:
        """What a completed run came to; None where it did not log that."""
        if self.split == "test":
            return record.final.get(self.outcome)
        return record.final.get("objective", record.last.get(self.outcome))


def recorded(record: RunRecord) -> str:
    """Who executed a run: "" our runner, else a key of MAKERS."""
    return str(record.file.facts.get("recorded") or "")


def source_kind(record: RunRecord) -> str:
    """The kind of source that a run was imported from; "" where it was not imported."""
    return str((record.file.facts.get("source") or {}).get("kind") or "")


def steps(record: RunRecord) -> str:
    """What a step of a run is: "updates" of the weights, or of an imported run what its source says: "epochs", or ""
    where it does not say."""
    if recorded(record) != "imported":
        return "updates"
    told = str((record.file.facts.get("source") or {}).get("steps") or "")
    return told if told in ("updates", "epochs") else ""


def maker(record: RunRecord) -> str:
    """Who executed a run that our runner did not, or where its records came from, in words."""
    kind = recorded(record)
    if kind == "imported":
        return SOURCES.get(source_kind(record), MAKERS[kind])
    return MAKERS.get(kind, kind)


def module(record: RunRecord) -> Mapping[str, Any]:
    """The facts of the user's own module that a run trained; {} where it trained a task of the catalogue."""
    found: Mapping[str, Any] = record.task.get("module") or {}
    return found


def stops_at_target(record: RunRecord) -> bool:
    """Whether a run was told to stop at its target. What a recorded run's config calls "stop" is its maker's word."""
    return not recorded(record) and record.config.get("stop") == "target"


def trunk(record: RunRecord) -> str:
    """The run that a fork was made from; "" for what is no fork."""
    told = record.file.facts.get("fork")
    return str(told.get("trunk", "")) if isinstance(told, Mapping) else ""


def may_lack_test(record: RunRecord) -> bool:
    """Whether a run may have no test value and still be whole."""
    return bool(recorded(record) or module(record))


def facts(name: str, records: Sequence[RunRecord], stated: Stated) -> TaskFacts:
    """What the runs of a task say of it, our own runner's before others'. InputError where none says its metric."""
    runs = [record for record in records if record.labels.task == name]
    _check_one_measure(name, runs)
    telling = sorted((r for r in runs if _says(r)), key=lambda r: bool(recorded(r)))
    if telling:
        told: Mapping[str, Any] = telling[0].task
        metric, logged = str(told["metric"]), ""
    else:
        told, metric, logged = _stated(name, runs, stated if stated.metric else _only(runs))
    worst = told.get("worst")
    return TaskFacts(
        name=name,
        title=str(told.get("title") or name),
        metric=metric,
        mode=told["mode"],
        worst=float(worst) if worst is not None else math.nan,
        target=told.get("target"),
        target_source=str(told.get("target_source") or ""),
        unit=_unit(runs),
        sizes=dict(told.get("sizes") or {}),
        baselines=dict(told.get("baselines") or {}),
        split=_split(f"test/{metric}", runs),
        logged=logged,
        assumed=not telling and not stated.metric,
    )


def _unit(runs: Sequence[RunRecord]) -> str:
    """What sizes count, as a run of ours says it, else another's; "" where none does."""
    ours_first = sorted(runs, key=lambda r: bool(recorded(r)))
    return next((unit for record in ours_first if (unit := str(record.task.get("unit") or ""))), "")


def _check_one_measure(name: str, runs: Sequence[RunRecord]) -> None:
    """InputError where runs of one task are judged in opposite directions, by different metrics though our runner made
    them, or in different units."""
    for key, words in (("mode", "directions"), ("metric_unit", "units")):
        told: dict[str, dict[str, list[str]]] = {}
        for record in filter(_says, runs):
            if value := str(record.task.get(key) or ""):
                told.setdefault(str(record.task["metric"]), {}).setdefault(value, []).append(record.labels.arm)
        for metric, values in told.items():
            if len(values) > 1:
                _refuse(name, f"{metric} in different {words}", values, f"state one {words[:-1]} for all of them")
    metrics: dict[str, list[str]] = {}
    for record in filter(_says, runs):
        if not recorded(record):
            metrics.setdefault(str(record.task["metric"]), []).append(record.labels.arm)
    if len(metrics) > 1:
        _refuse(name, "different metrics", metrics, "give each metric a task of its own name, in a new study")
    _check_scale(name, runs)


def _check_scale(name: str, runs: Sequence[RunRecord]) -> None:
    """Shares as fractions in one arm and as percentages in another, where nothing else can be meant."""
    values: dict[str, list[float]] = {}
    metric = next((str(r.task["metric"]) for r in runs if _says(r)), "")
    if metric.split("/")[-1] not in SHARES:
        return
    for record in runs:
        known = {"": record.last.get(f"val/{metric}"), **record.final}
        value = known.get(f"test/{metric}", known.get("objective", known[""]))
        if record.status == "completed" and value is not None and math.isfinite(value):
            values.setdefault(record.labels.arm, []).append(value)
    fractions = [arm for arm, shares in values.items() if min(shares) > 0.2 and max(shares) <= 1]
    percents = [arm for arm, shares in values.items() if min(shares) > 1.5]
    if fractions and percents:
        units = {"a fraction": fractions, "per cent": percents}
        _refuse(name, f"{metric} in different units", units, "divide what is in per cent by 100 where it is recorded")


def _refuse(name: str, what: str, told: Mapping[str, Sequence[str]], cure: str) -> None:
    shown = "; ".join(f"{value}: {', '.join(list(dict.fromkeys(arms))[:4])}" for value, arms in told.items())
    raise InputError(f"the runs of task '{name}' say {what} ({shown})", cure, rule="mixed-measures", place=name)


def check_stated(records: Iterable[RunRecord], stated: Stated) -> None:
    """InputError where the reader states what the runs say already, or only half of it."""
    if bool(stated.metric) != bool(stated.mode) or stated.mode not in ("", "max", "min"):
        raise InputError(
            f"metric '{stated.metric}' with mode '{stated.mode}'", "give both, as in --metric val/acc --mode max"
        )
    says = {str(record.task["metric"]) for record in records if _says(record)}
    if stated.metric and says and all(map(_says, records)):
        raise InputError(f"the runs say their metric themselves ({', '.join(sorted(says))})", "leave --metric out")


def _says(record: RunRecord) -> bool:
    return bool(record.task.get("metric")) and record.task.get("mode") in ("max", "min")


def _stated(name: str, runs: Sequence[RunRecord], stated: Stated) -> tuple[dict[str, Any], str, str]:
    """Facts, metric and series of a task whose runs do not say how they are judged."""
    shown = _logged(runs)
    if not stated.metric:
        first = shown[0] if shown else "val/acc"
        cure = "they were written by another tool or are damaged; import them again with both"
        if any(map(recorded, runs)):
            has = f" (they logged {', '.join(shown[:6])})" if shown else ""
            cure = f"state both, as in `trainlab report STUDY --metric {first} --mode max`{has}, or where you record"
        said = f"the runs of task '{name}' do not say their metric and its direction"
        raise InputError(said, cure, rule="metric-missing")
    if not any(stated.metric in record.last for record in runs):
        has = ", ".join(shown[:6]) or "no metric"
        raise InputError(f"no run of task '{name}' logged '{stated.metric}'", f"they logged {has}", place="metric")
    start = next((start for start in _SPLITS if stated.metric.startswith(start)), "")
    told = {**next((dict(record.task) for record in runs if record.task), {}), "mode": stated.mode}
    return told, stated.metric.removeprefix(start), stated.metric


def _logged(runs: Sequence[RunRecord]) -> list[str]:
    """The metrics that runs logged: of validation, else all that are no counts."""
    names = dict.fromkeys(key for r in runs for key in r.last if not key.startswith(("count/", "time/")))
    return [name for name in names if name.startswith(_SPLITS)] or [name for name in names if name != "objective"]


def _only(runs: Sequence[RunRecord]) -> Stated:
    """The one validation metric that recorded runs logged, if its name says which way is better; else nothing."""
    found = _logged(runs)
    if len(found) != 1 or not found[0].startswith(_SPLITS) or not all(map(recorded, runs)):
        return Stated()
    mode = inferred_mode(found[0])
    return Stated(found[0], mode) if mode else Stated()


def _split(test: str, runs: Sequence[RunRecord]) -> Split:
    """Test, unless runs that may lack it do, and fewer than two arms could be compared by it."""
    finals = [r for r in runs if r.labels.phase != "tune" and r.status == "completed"]
    ended = [r for r in finals if not stops_at_target(r)]
    lacking = [r for r in ended if test not in r.final]
    if not lacking or not all(map(may_lack_test, lacking)):
        return "test"
    whole = {r.labels.arm for r in ended} - {r.labels.arm for r in lacking}
    return "test" if len(whole) >= 2 else "validation"
