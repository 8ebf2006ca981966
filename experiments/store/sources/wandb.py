"""Weights & Biases' offline runs as a Source: `.wandb` files, read without network or login.

The file is a log of records in blocks of 32 KiB; the records are protobuf messages of the package `wandb` (the extra of
that name). A file that ends in the middle of a record gives what is whole before it, and the import says so."""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from algos.finding import InputError
from experiments.store.schema import Status
from experiments.store.sources.databases import check_file
from experiments.store.sources.foreign import Point, Points, Read, Told, in_order

_IDENT = struct.pack("<4sHB", b":W&B", 0xBEE1, 0)
_BLOCK, _HEADER = 32768, 7
_FULL, _FIRST, _MIDDLE, _LAST = 1, 2, 3, 4


class WandbReader:
    """Reads a file run-ID.wandb, or every one in a folder (wandb/)."""

    kind = "wandb"
    late: Sequence[str] = ()

    def __init__(self, path: Path | str):
        self.path = Path(path).expanduser().absolute()
        self.place = str(self.path)

    def points(self, run: Told) -> Points:
        return run.points

    def read(self) -> Read:
        _check_package()
        files = sorted(self.path.rglob("*.wandb")) if self.path.is_dir() else [self.path]
        if not files:
            raise InputError(
                f"no file in {self.path} is called *.wandb",
                "give the folder wandb/, or a file in it",
                rule="empty-source",
            )
        if not self.path.is_dir():
            check_file(self.path, "a file run-ID.wandb, or the folder wandb/")
        read = Read([])
        for file in files:
            run, project, trouble = _run(file)
            read.task = read.task or project
            read.notes += [trouble] if trouble else []
            if run is not None:
                read.runs.append(run)
        read.runs.sort(key=lambda run: (run.started or 0, run.key))
        return read


def _check_package() -> None:
    try:
        import wandb.proto.wandb_internal_pb2  # noqa: F401
    except ImportError:
        raise InputError(
            "these files are read by the messages of the package wandb, which is not installed",
            "pip install 'trainlab[wandb]'", rule="extra-missing",
        ) from None  # fmt: skip


def _run(file: Path) -> tuple[Told | None, str, str]:
    """The run of a file, its project, and what is wrong with the file ("" mostly)."""
    raw: dict[str, list[Point]] = {}
    told = Told(key=file.stem.removeprefix("run-"))
    project, trouble, count = "", "", 0
    summary: dict[str, Any] = {}
    config: dict[str, Any] = {}
    status: tuple[Status, str] = ("lost", "its file has no end: it was still running, or was killed")
    last_step = -1
    started = runtime = 0.0
    try:
        for record in _records(file):
            count += 1
            kind = record.WhichOneof("record_type")
            if kind == "run":
                run = record.run
                told.key, told.name = run.run_id or told.key, run.display_name or run.run_id
                project = run.project
                _update(config, run.config.update)
                told.said = {**told.said, **({"group": run.run_group} if run.run_group else {})}
                started = started or run.start_time.ToMicroseconds() / 1e6
                told.provenance = {"commit": run.git.commit} if run.git.commit else {}
            elif kind == "config":
                _update(config, record.config.update)
            elif kind == "summary":
                _update(summary, record.summary.update)
            elif kind == "history":
                last_step = _history(record.history, last_step, raw)
            elif kind == "exit":
                code = record.exit.exit_code
                runtime = float(record.exit.runtime)
                status = ("completed", "") if code == 0 else ("crashed", f"its exit code was {code}")
    except (
        _Broken,
        ValueError,
        TypeError,
        OverflowError,
    ) as broken:  # what a damaged record says is no JSON, or no time
        trouble = f"{file.name} is broken after {count} records ({broken}): what is before it is read"
        if not count:
            return None, "", f"{file.name} is left out: {broken}"
    config.pop("_wandb", None)
    told.config, told.said = config, {**_flat(config), **told.said}
    told.points = {metric: in_order(found)[0] for metric, found in raw.items()}
    told.final = _numbers(summary, raw)
    told.status, told.reason = status
    told.started = round(started * 1000) if started else None
    ends = [found[-1][2] for found in told.points.values()]
    if told.started is not None and status[0] != "lost":
        told.ended = max([told.started + round(runtime * 1000), *ends])
    else:
        told.ended = max(ends, default=told.started)
    return told, project, trouble


def _update(into: dict[str, Any], items: Iterable[Any]) -> None:
    for item in items:
        place = into
        keys = list(item.nested_key) or [item.key]
        for key in keys[:-1]:
            inner = place.get(key)
            place = place.setdefault(key, {}) if isinstance(inner, dict) or key not in place else {}
        value = json.loads(item.value_json) if item.value_json else None
        if isinstance(value, dict) and set(value) == {"desc", "value"}:
            value = value["value"]  # as older versions wrote configs
        place[keys[-1]] = value


def _history(history: Any, before: int, raw: dict[str, list[Point]]) -> int:
    """Adds a row of a run's history; its step."""
    row = {"/".join(item.nested_key) or item.key: _value(item) for item in history.item}
    step = history.step.num if history.HasField("step") else row.get("_step")
    step = int(step) if isinstance(step, (int, float)) else before + 1
    at = round(float(row.get("_timestamp") or 0) * 1000)
    for name, value in row.items():
        for place, number in _leaves(name, value):
            raw.setdefault(place, []).append((step, number, at))
    return step


def _value(item: Any) -> Any:
    """A history item's value: JSON in older files, one of several fields in newer ones."""
    if item.value_json:
        return json.loads(item.value_json)
    for name in ("number", "integer", "boolean", "text", "json"):
        field = item.DESCRIPTOR.fields_by_name.get(name)
        if field is not None and item.HasField(name):
            value = getattr(item, name)
            return json.loads(value) if name == "json" else value
    return None


def _leaves(name: str, value: Any) -> Iterator[tuple[str, float]]:
    """The numbers in a value, nested ones by paths; wandb's own keys begin with _."""
    if name.startswith("_"):
        return
    if isinstance(value, dict) and "_type" not in value:
        for key, inner in value.items():
            yield from _leaves(f"{name}/{key}", inner)
    elif isinstance(value, str) and value in ("NaN", "Infinity", "-Infinity"):
        yield name, float(value.lower())
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        yield name, float(value)


def _numbers(summary: dict[str, Any], raw: dict[str, Any]) -> dict[str, float]:
    """Of a summary: the numbers that are no metric's last value."""
    leaves = [leaf for key, value in summary.items() for leaf in _leaves(key, value)]
    return {name: value for name, value in leaves if name not in raw}


def _flat(config: dict[str, Any], head: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in config.items():
        found |= _flat(value, f"{head}{key}.") if isinstance(value, dict) else {f"{head}{key}": value}
    return found


class _Broken(Exception):
    """A file that does not go on as it should."""


def _records(file: Path) -> Iterator[Any]:
    """The records of a file. Raises _Broken where one is cut or damaged."""
    from google.protobuf.message import DecodeError
    from wandb.proto import wandb_internal_pb2 as messages

    for data in _logged(file.read_bytes()):
        try:
            yield messages.Record.FromString(data)  # type: ignore[attr-defined]
        except DecodeError:
            raise _Broken("a record is not of a version that this wandb reads") from None


def _logged(data: bytes) -> Iterator[bytes]:
    """The records of a log, as bytes: each in one piece or several, none of which crosses the end of a block. A piece
    is its checksum (4 bytes), length (2) and kind (1), then as many bytes."""
    if not data.startswith(_IDENT[:4]):
        raise _Broken("it is no file of wandb's")
    if not data.startswith(_IDENT):
        raise _Broken("it is of another version of wandb's log")
    at, parts = len(_IDENT), bytearray()
    while at < len(data):
        left = _BLOCK - at % _BLOCK
        if left < _HEADER:
            at += left  # too little for a header: zeros
            continue
        if at + _HEADER > len(data):
            raise _Broken("it ends in the middle of a record")
        checksum, length, kind = struct.unpack_from("<IHB", data, at)
        body = data[at + _HEADER : at + _HEADER + length]
        if len(body) < length:
            raise _Broken("it ends in the middle of a record")
        if zlib.crc32(body, zlib.crc32(bytes([kind]))) & 0xFFFFFFFF != checksum:
            raise _Broken("a checksum is wrong")
        at += _HEADER + length
        if kind in (_FULL, _FIRST):
            parts.clear()
        parts += body
        if kind in (_FULL, _LAST):
            yield bytes(parts)
            parts.clear()
    if parts:
        raise _Broken("it ends in the middle of a record")
