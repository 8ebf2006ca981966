"""Opening: the folder of a run that our runner does not execute: a hand-written loop's, or somebody else's trainer's.

Loads no torch: what is told of the device is asked only of a torch that is loaded already.
"""

from __future__ import annotations

import argparse
import dataclasses
import hashlib
import json
import math
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from algos.finding import InputError, unknown
from experiments.store.home import Home, RunFolder, new_run_id
from experiments.store.locks import Held, Lock
from experiments.store.metric_names import canonical_metric, inferred_mode
from experiments.store.provenance import diff, provenance
from experiments.store.schema import Labels, RunFile
from experiments.store.spool import now_ms

Kind = Literal["plain", "lightning", "huggingface"]

#: What the runs of a task without a name are called.
OWN = "own"
_RESERVED = ("schema", "recorded", "task", "seed")
_LOCK_S = 60.0


def opened(
    *,
    study: str = "",
    task: str = "",
    arm: str = "",
    seed: int = 1,
    config: Any = None,
    metric: str = "",
    mode: str = "",
    target: float | None = None,
    worst: float | None = None,
    kind: Kind = "plain",
    name: str = "",
    facts: Mapping[str, Any] | None = None,
    home: Home | None = None,
    device: str = "",
) -> RunFolder:
    """A new run's folder; `begin` on it takes the run.

    In a study the run is a final one, and its number the next that is free for its task and arm, also where several
    processes open runs at once. config: a mapping, a dataclass or an argparse namespace; kept as JSON beside task and
    seed. metric: as the user logs it; facts["task"]["metric"] is its canonical name. facts: more, kept with the run,
    those of its "task" beside ours. device: the one that computes, where the caller knows ("cuda:0"). InputError,
    before anything is written, for what cannot be right.
    """
    mode = check_metric(metric, mode, target)
    if isinstance(seed, bool) or not hasattr(seed, "__index__"):
        raise InputError(f"seed={seed!r} is not a whole number", "give e.g. seed=1", place="seed")
    labels = Labels(
        task=_name("task", task or OWN),
        study=_name("study", study) if study else "",
        arm=_name("arm", arm or OWN) if study else arm,
        phase="final" if study else "single",
        seed=int(seed),
    )
    stored = _stored(config, labels, kind)
    told = {**_task_facts(labels.task, canonical_metric(metric, kind), mode, target, worst), "logged": metric}
    more = _json(facts or {})
    file = RunFile(
        run_id=new_run_id(),
        name=name or f"{labels.task} {labels.arm or kind} seed {seed}",
        labels=labels,
        config=stored,
        digest=_digest(stored),
        facts={"entries": {}, "study": {}, "recorded": kind, **more, "task": {**told, **more.get("task", {})}},
        provenance={**provenance(), "device": _device(device or str(stored.get("device", "")))},
        created=now_ms(),
    )
    changes = diff()
    return _created((home or Home.default()).prepare(), file, {"working.diff": changes} if changes else {})


def check_metric(metric: str, mode: str, target: float | None) -> str:
    """The mode, told from the metric's name where it is not given. InputError unless the three go together."""
    if mode not in ("", "max", "min"):
        raise unknown("mode", mode, ("max", "min"), place="mode")
    if not metric and (mode or target is not None):
        given = f"mode='{mode}'" if mode else f"target={target}"
        raise InputError(f"{given} without a metric", "give metric, e.g. metric='val/acc'", place="metric")
    if target is not None and not (isinstance(target, (int, float)) and math.isfinite(target)):
        raise InputError(f"target={target!r} is not a finite number", "give one, or leave it out", place="target")
    mode = mode or inferred_mode(metric)
    if metric and not mode:
        said = f"whether more or less of '{metric}' is better cannot be told from its name"
        raise InputError(said, "give mode='max' or mode='min'", rule="no-mode", place="mode")
    return mode


class Alias:
    """The name that a metric is stored under beside its own: `loss` as val/loss. A metric of the user's that has that
    name already keeps it: then the two cannot both be."""

    def __init__(self, name: str, stands_for: str):
        self.name, self.stands_for = name, stands_for
        self._other = self._came = False

    def check(self, numbers: Mapping[str, float]) -> None:
        """Before these are stored. InputError once both names were logged, as two metrics."""
        value, metric = numbers.get(self.name), numbers.get(self.stands_for)
        if metric is not None:
            self._came = True
        if value is not None and (metric is None or not same(value, metric)):
            self._other = True
        if self._other and self._came:
            raise InputError(
                f"metric='{self.stands_for}' would be stored as '{self.name}', which is logged too",
                f"give metric='{self.name}', or rename one of them", rule="metric-twice", place="metric",
            )  # fmt: skip


def same(one: float, other: float) -> bool:
    """Equal, or both not a number."""
    return one == other or (one != one and other != other)


def _name(what: str, given: str) -> str:
    """Names go into paths and keys: no slash in a study's or an arm's; a task may be a reference (my.py:Net)."""
    wrong = not isinstance(given, str) or not given.isprintable() or given != given.strip()
    if wrong or (what != "task" and "/" in given):
        raise InputError(f"{what}={given!r} is not a name", "give printable text without / at most words", place=what)
    return given


def _stored(config: Any, labels: Labels, kind: Kind) -> dict[str, Any]:
    """The config as JSON: theirs, beside our four keys."""
    theirs = _json(as_mapping(config))
    ours = {"schema": 1, "recorded": kind, "task": labels.task, "seed": labels.seed}
    for key in _RESERVED:
        if key in theirs and theirs[key] != ours[key]:
            cure = f"give {key}={theirs[key]!r} to it too" if key in ("task", "seed") else "call it something else"
            raise InputError(f"{key}={theirs[key]!r}, but the run's is {ours[key]!r}", cure, place=f"config.{key}")
    return {**ours, **theirs}


def as_mapping(config: Any) -> Mapping[Any, Any]:
    """A config as a mapping: one, a dataclass, or argparse's namespace. InputError for anything else."""
    if config is None:
        return {}
    if isinstance(config, Mapping):
        return config
    if isinstance(config, argparse.Namespace):
        return vars(config)
    if dataclasses.is_dataclass(config) and not isinstance(config, type):
        return dataclasses.asdict(config)
    raise InputError(
        f"config is a {type(config).__name__}", "give a mapping, a dataclass or argparse's namespace", place="config"
    )


def _json(value: Any) -> Any:
    """Any value as JSON: numbers of other libraries become Python's, classes their names, the rest text."""
    if value is None or isinstance(value, (str, bool, int)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, Mapping):
        return {str(key): _json(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_json(inner) for inner in value]
    if isinstance(value, (set, frozenset)):
        return sorted((_json(inner) for inner in value), key=str)
    if hasattr(value, "tolist"):  # arrays and tensors
        return _json(value.tolist())
    if isinstance(value, type) or callable(value):
        return f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', type(value).__qualname__)}"
    return str(value)


def _digest(config: Mapping[str, Any]) -> str:
    text = json.dumps(config, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()


def _task_facts(task: str, metric: str, mode: str, target: float | None, worst: float | None) -> dict[str, Any]:
    """What a report must know of the task: what the user said, and honest blanks."""
    return {
        "name": task,
        "metric": metric,
        "mode": mode,
        "worst": worst,
        "target": target,
        "target_source": "the user's" if target is not None else "",
        "unit": "",
        "select": "last",
        "title": task,
        "domain": "",
        "cite": "",
        "home": "",
        "sizes": {},
        "digest": "",
        "baselines": {},
    }


def _device(asked: str) -> dict[str, Any]:
    """Facts of the device, from a torch that is loaded already: the one asked for, else one in use, else the CPU."""
    torch = sys.modules.get("torch")
    if torch is None:
        return {"asked": asked}
    from experiments.devices import facts

    device = asked if asked.partition(":")[0] in ("cpu", "cuda", "npu", "mps") else in_use()
    try:
        return {"asked": asked, **facts(device)}
    except Exception as error:  # a device that is asked for and not there is the user's loop to meet
        return {"asked": asked, "missing": str(error).partition("\n")[0]}


def in_use() -> str:
    """The device that this process computes on, as far as can be told without waking one: "cuda", "npu", "cpu"."""
    torch = sys.modules.get("torch")
    for name in ("cuda", "npu"):
        device = getattr(torch, name, None)
        if device is not None and device.is_initialized():
            return name
    return "cpu"


def _created(home: Home, file: RunFile, files: Mapping[str, str]) -> RunFolder:
    if not file.labels.study:
        return home.create(file, files)
    try:
        with Lock(home.path / "numbers.lock").take(wait_s=_LOCK_S):
            labels = dataclasses.replace(file.labels, number=_next_number(home.run_folder, file.labels))
            return home.create(dataclasses.replace(file, labels=labels), files)
    except Held as held:
        raise InputError(str(held), "end that process, then start again", rule="home-busy") from None


def _next_number(folder: Path, labels: Labels) -> int:
    """One more than the highest number of the runs with these labels. Reads only the files that name the study."""
    mark = f'"study": {json.dumps(labels.study)}'.encode()
    highest = -1
    with os.scandir(folder) as entries:
        for entry in entries:
            try:
                data = Path(entry.path, "run.json").read_bytes()
                found = json.loads(data)["labels"] if mark in data and entry.name[0] != "." else {}
            except (OSError, ValueError, KeyError):
                continue
            if all(found.get(key) == getattr(labels, key) for key in ("study", "task", "arm", "phase")):
                highest = max(highest, int(found["number"]))
    return highest + 1
