"""Copies: what a run of a Source looks like in a home: its file and its spool, with where it came from.

Times that the source does not tell are those of its file, and the run says so. The metric that runs are judged by is
kept under its own name and as val/<metric> or test/<metric>, where reports look."""

from __future__ import annotations

import hashlib
import json
import math
import secrets
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from algos.finding import InputError, unknown
from experiments.opening import check_metric
from experiments.store.metric_names import canonical_metric
from experiments.store.schema import Labels, RunFile, RunRecord
from experiments.store.sources import Series, Source, steps
from experiments.store.spool import now_ms

#: What imported runs say of their maker.
IMPORTED = "imported"
#: The kind of what was before a table that trainlab exported: a run of a home. What that came from is before it.
OWN = "trainlab"
_TEST = ("test/", "test_")
_RESERVED = ("schema", "recorded", "task", "seed")
_encode = json.JSONEncoder(separators=(",", ":"), sort_keys=True).encode


@dataclass(frozen=True)
class Judging:
    """By what runs are compared: a metric as it was logged, "max" or "min", and a value of it worth timing."""

    metric: str = ""
    mode: str = ""
    target: float | None = None

    def of(self, source: Source, records: Sequence[RunRecord]) -> Judging:
        """This, or what the source says where nothing was given. InputError for a metric that no run has."""
        metric = self.metric or str(getattr(source, "metric", ""))
        mode = self.mode or ("" if self.metric else str(getattr(source, "mode", "")))
        known = {name for record in records for name in (*record.last, *record.final, *record.nonfinite)}
        if metric and metric not in known:
            raise unknown("metric", metric, known, place="--metric")
        mode = check_metric(metric, mode, self.target)
        return Judging(metric, mode, self.target)

    @property
    def plain(self) -> str:
        """The metric without its split.

        >>> [Judging(name).plain for name in ("val/acc", "eval_loss", "test/acc", "reward")]
        ['acc', 'loss', 'acc', 'reward']
        """
        start = next((start for start in _TEST if self.metric.startswith(start)), "")
        rest = self.metric[len(start) :]
        return rest if start and rest else canonical_metric(canonical_metric(self.metric), "huggingface")

    @property
    def of_test(self) -> bool:
        return self.metric.startswith(_TEST)

    def reaches(self, value: float) -> bool:
        assert self.target is not None
        return value >= self.target if self.mode == "max" else value <= self.target


@dataclass(frozen=True)
class Copy:
    """A run to be written. lines: its spool. digest: of all that its source says of it. timed: whether that is when."""

    file: RunFile
    lines: bytes
    digest: str
    timed: bool

    def run_id(self, taken: Iterable[str]) -> str:
        """An id that nobody has: when the run was made, and letters of its digest."""
        start = time.strftime("%Y%m%d-%H%M%S-", time.gmtime(self.file.created / 1000))
        letters, known = self.digest[:6], set(taken) if not isinstance(taken, set) else taken
        while start + letters in known:
            letters = secrets.token_hex(3)
        return start + letters


def drafted(source: Source, record: RunRecord, study: str, kind: str, place: str, judging: Judging) -> Copy:
    """The copy of a run, its id and number still to be given."""
    points = {
        series.metric: list(zip(series.updates, series.values, series.at)) for series in source.series([record.run_id])
    }
    final = dict(record.final)
    for metric in [metric for metric, found in points.items() if metric in final and len(found) == 1]:
        if found_only_at_the_end(points[metric], final[metric], points):
            del points[metric]
    points, bad = _split(points, _nonfinite(source, record.run_id))
    timed = record.started is not None
    fallback = record.started or record.ended or getattr(source, "written", 0) or now_ms()
    kept = _judged(record, points, bad, final, judging)
    started = record.started if record.started is not None else _first(kept.points, fallback)
    ended = record.ended if record.ended is not None else max(_last(kept.points, fallback), started)
    lines = _lines(record, kept, started, ended)
    before = record.file.facts.get("source") or {}
    own = before.get("kind") == OWN
    origin: dict[str, Any] = {
        "kind": kind,
        "place": place,
        "run": record.run_id,
        "times": "told" if timed else "of the file",
        "steps": str(before.get("steps") or ("" if own else steps.by_counters(points))),
    }
    if own:
        origin["before"] = {key: value for key, value in before.items() if key != "steps"}
    facts = _facts(record, judging)
    labels = replace(record.labels, study=study, phase="tune" if record.labels.phase == "tune" else "final")
    config = _finite(record.config) if own else _config(record.config, labels)
    timeless = [_encode({key: value for key, value in line.items() if key != "at"})[1:] for line in lines]
    at = [line["at"] for line in lines]
    said = [_clocked(0, line) for line in timeless] if not timed else list(map(_clocked, at, timeless))
    named = {"name": record.file.name} | ({"steps": steps.EPOCHS} if origin["steps"] == steps.EPOCHS else {})
    about = {"labels": [labels.task, labels.arm, labels.phase, labels.seed], "config": config, "facts": facts}
    whole = f'{_encode(about)[:-1]},"lines":[{",".join(said)}],{_encode(named)[1:]}'
    digest = hashlib.sha256(whole.encode(errors="surrogatepass")).hexdigest()
    file = RunFile(
        run_id="",
        name=record.file.name or f"{labels.task} {labels.arm} seed {labels.seed}",
        labels=labels,
        config=config,
        digest=hashlib.sha256(_encode(config).encode(errors="surrogatepass")).hexdigest(),
        facts={**facts, "source": {**origin, "digest": digest, "at": now_ms()}},
        provenance=dict(record.file.provenance),
        created=record.file.created if own else started,
    )
    spool = "".join(f"{line}\n" for line in map(_clocked, at, timeless))
    return Copy(file, spool.encode(errors="surrogatepass"), digest, timed)


def _clocked(at: int, line: str) -> str:
    """A line's JSON with its time, from the rest of it: encoding is most of an import, so it is done once.

    >>> _clocked(7, _encode({"kind": "final"})[1:])
    '{"at":7,"kind":"final"}'
    """
    return f'{{"at":{at},{line}'


def found_only_at_the_end(points: Sequence[tuple[int, float, int]], value: float, every: Mapping[str, Any]) -> bool:
    """Whether a metric's one point is its final value, which sources tell as a point too."""
    return points[0][1] == value and points[0][0] in (0, max(found[-1][0] for found in every.values()))


@dataclass
class _Kept:
    points: dict[str, list[tuple[int, float, int]]]
    bad: dict[str, list[tuple[int, float, int]]]
    final: dict[str, float]
    status: str
    reason: str
    reached: dict[str, Any] | None


def _nonfinite(source: Source, run_id: str) -> list[Series]:
    ask = getattr(source, "nonfinite", None)
    return list(ask([run_id])) if ask else []


def _split(points: dict[str, list[Any]], bad: Sequence[Series]) -> tuple[dict[str, list[Any]], dict[str, list[Any]]]:
    """Finite values, and those that are not, whichever way the source told them."""
    others: dict[str, list[Any]] = {}
    for series in bad:
        others[series.metric] = [*others.get(series.metric, []), *zip(series.updates, series.values, series.at)]
    for metric, found in points.items():
        wrong = [point for point in found if not math.isfinite(point[1])]
        if wrong:
            others[metric] = sorted([*others.get(metric, []), *wrong])
            points = {**points, metric: [point for point in found if math.isfinite(point[1])]}
    return {metric: found for metric, found in points.items() if found}, others


def _judged(
    record: RunRecord,
    points: dict[str, list[Any]],
    bad: dict[str, list[Any]],
    final: dict[str, float],
    judging: Judging,
) -> _Kept:
    """With the judged metric where reports look, the objective and the test metrics among the final values."""
    kept = _Kept(dict(points), dict(bad), dict(final), record.status, record.reason, None)
    for metric in (m for m in points if m.startswith(_TEST)):
        kept.final.setdefault(f"test/{metric[5:]}", points[metric][-1][1])
    if not judging.metric:
        return kept
    metric = judging.metric
    value = _value(metric, points, bad, final)
    if judging.of_test:
        kept.final.pop(f"test/{judging.plain}", None)
        if value is not None and math.isfinite(value):
            kept.final[f"test/{judging.plain}"] = value
    else:
        _under_val(kept, metric, f"val/{judging.plain}", record)
    if value is not None and math.isfinite(value):
        kept.final.setdefault("objective", value)
    elif value is not None and record.status == "completed":
        kept.status, kept.reason = (
            "diverged",
            f"the last {metric} was {value:g}" + (f" ({record.reason})" if record.reason else ""),
        )
    if judging.target is not None and not any(event.get("name") == "reached_target" for event in record.events):
        if metric not in points:
            raise InputError(
                f"target={judging.target:g}, but run '{record.run_id}' has no steps of '{metric}'",
                "name the column of steps, or leave --target out", place="--target",
            )  # fmt: skip
        first = next((point for point in points[metric] if judging.reaches(point[1])), None)
        kept.reached = None if first is None else {"update": first[0], "value": first[1], "at": first[2]}
    return kept


def _value(metric: str, points: Mapping[str, Any], bad: Mapping[str, Any], final: Mapping[str, float]) -> float | None:
    """What the run came to: the last value of the metric, finite or not."""
    ends = [found[metric][-1] for found in (points, bad) if found.get(metric)]
    last = max(ends, key=lambda point: (point[0], point[2], not math.isfinite(point[1])), default=None)
    return final.get(metric) if last is None else float(last[1])


def _under_val(kept: _Kept, metric: str, val: str, record: RunRecord) -> None:
    """A metric that is called otherwise has its points as val/<metric> too."""
    if metric == val:
        return
    for found in (kept.points, kept.bad):
        if metric not in found:
            continue
        if val in found and [point[:2] for point in found[val]] != [point[:2] for point in found[metric]]:
            raise InputError(
                f"metric='{metric}' would be stored as '{val}', which run '{record.run_id}' has too",
                f"give --metric {val}, or rename one of them", rule="metric-twice", place="--metric",
            )  # fmt: skip
        found[val] = found[metric]


def _lines(record: RunRecord, kept: _Kept, started: int, ended: int) -> list[dict[str, Any]]:
    lines: list[dict[str, Any]] = [{"kind": "began", "at": started, "attempt": 1, "imported": True, "resumed_from": 0}]
    together: dict[tuple[int, int], dict[str, float]] = {}
    for metric in sorted(kept.points):
        for update, value, at in kept.points[metric]:
            together.setdefault((update, at), {})[metric] = value
    told: list[dict[str, Any]] = [
        {"kind": "points", "at": at, "update": update, "values": v} for (update, at), v in together.items()
    ]
    told += [
        {"kind": "nonfinite", "at": at, "update": update, "metric": metric, "value": repr(value)}
        for metric in sorted(kept.bad)
        for update, value, at in kept.bad[metric]
    ]
    lines += sorted(told, key=lambda line: (line["update"], line["at"], line["kind"] != "points"))  # a bad end is last
    update = max((line["update"] for line in told), default=0)
    lines += [{"at": ended, **event, "kind": "event"} for event in record.events if "name" in event]
    if kept.reached is not None:
        lines.append({"kind": "event", "name": "reached_target", **kept.reached})
    if kept.final:
        lines.append({"kind": "final", "at": ended, "update": update, "values": dict(sorted(kept.final.items()))})
    last = {"status": kept.status, "reason": kept.reason, "traceback": record.traceback}
    return [*lines, {"kind": "ended", "at": ended, **last}]


def _first(points: Mapping[str, list[Any]], fallback: int) -> int:
    return int(min((found[0][2] for found in points.values()), default=fallback))


def _last(points: Mapping[str, list[Any]], fallback: int) -> int:
    return int(max((point[2] for found in points.values() for point in found), default=fallback))


def _facts(record: RunRecord, judging: Judging) -> dict[str, Any]:
    """What the source says, with what it cannot say left blank; what the user says of the metric is believed."""
    told = dict(record.file.facts)
    told.pop("source", None)  # of an earlier import, which `before` tells
    task: dict[str, Any] = {
        "name": record.labels.task, "metric": "", "mode": "", "worst": None, "target": None, "target_source": "",
        "unit": "", "select": "last", "title": record.labels.task, "domain": "", "cite": "", "home": "",
        "sizes": {}, "digest": "", "baselines": {}, **dict(told.get("task") or {}),
    }  # fmt: skip
    if judging.metric:
        task |= {"metric": judging.plain, "mode": judging.mode, "logged": judging.metric}
        if judging.target is not None:
            task |= {"target": judging.target, "target_source": "the user's"}
    if not task["metric"]:
        del task["metric"], task["mode"]  # a report asks for what is not said
    return {"entries": {}, "study": {}, **told, "recorded": told.get("recorded") or IMPORTED, "task": task}


def _config(given: Mapping[str, Any], labels: Labels) -> dict[str, Any]:
    """Their settings beside our four keys; one of theirs that is called so and says other is kept as source.<key>."""
    ours = {"schema": 1, "recorded": IMPORTED, "task": labels.task, "seed": labels.seed}
    theirs = json.loads(json.dumps(_finite(given)))
    clash = {key: value for key in _RESERVED if key in theirs and (value := theirs.pop(key)) != ours[key]}
    return {**ours, **theirs, **{f"source.{key}": value for key, value in clash.items()}}


def _finite(value: Any) -> Any:
    """JSON knows no nan."""
    if isinstance(value, Mapping):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return repr(value)
    return value if isinstance(value, (str, bool, int, float, type(None))) else str(value)
