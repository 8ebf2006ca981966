"""Exporting: a study as tables that any tool reads: one of points, one of runs. The columns are a promise.

Points, one row a value, by run, metric and update: POINT_COLUMNS. value may be nan, inf or -inf: what was measured and
is no finite number is told, not left out. Runs, one row a run, by task, arm, phase and number: RUN_COLUMNS, then
final.<metric> for what each run came to. Times are milliseconds since 1970; config, facts and events are JSON."""

from __future__ import annotations

import contextlib
import csv
import errno
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from algos.finding import InputError, unknown
from experiments.store import records, spool
from experiments.store.home import Home
from experiments.store.schema import RunRecord

SCHEMA = 1
POINT_COLUMNS = ("run_id", "task", "arm", "phase", "number", "seed", "metric", "update", "value", "at")
RUN_COLUMNS = (
    "run_id", "study", "task", "arm", "phase", "number", "seed", "name", "status", "reason", "traceback", "created",
    "started", "ended", "metric", "mode", "target", "recorded", "commit", "config", "facts", "events",
)  # fmt: skip
FINAL = "final."
#: What a disk does; the place that was given is no fault.
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EIO)
_WHOLE = ("number", "seed", "update", "at", "created", "started", "ended")

Row = dict[str, Any]
Rows = Sequence[Row]


def export(home: Home, study: str, path: Path, form: str = "", force: bool = False) -> list[Path]:
    """Writes a study's tables; the files, that of the points first.

    form: csv, parquet or json; by default, what the file's name ends in. A JSON file holds both tables; of the others
    the runs are in NAME.runs.FORM, beside the points. InputError, and nothing written, where a file is there already
    and force is False, or the study or the form is not known.
    """
    form = form or path.suffix.removeprefix(".").lower()
    if form not in _WRITERS:
        raise unknown("format", form, _WRITERS, place="FORMAT")
    everything = home.records()
    chosen = [record for record in everything if record.labels.study == study]
    if not study or not chosen:
        raise unknown("study", study, {record.labels.study for record in everything if record.labels.study})
    paths = _places(path, form, force)
    ordered = sorted(chosen, key=_place)
    points = [row for record in ordered for row in _points(home, record)]
    runs = [_run(record) for record in ordered]
    _write_whole(paths, lambda temporary: _WRITERS[form](temporary, points, runs, study))
    return paths


def _places(path: Path, form: str, force: bool) -> list[Path]:
    """The files that a study is written to. InputError where one may not be, before anything is gathered: what is no
    file (a folder, a device, a pipe) is never replaced by one."""
    paths = [path]
    try:
        if not path.is_dir() and form != "json":
            paths.append(runs_path(path))
        for each in paths:
            if each.exists() and not each.is_file():
                said = f"{each} is a folder" if each.is_dir() else f"{each} is no file"
                raise InputError(said, "give the name of a file with -o", rule="no-file")
            if each.exists() and not force:
                cure = "give another name, or --force to write over it"
                raise InputError(f"{each} exists already", cure, rule="file-exists")
        if not path.absolute().parent.is_dir():
            what = "is no folder" if path.parent.exists() else "does not exist"
            raise InputError(f"{path.parent} {what}", "make it, or give another", rule="no-folder")
    except OSError as error:  # a name that is too long, a folder that may not be looked into
        raise _refused(path, error) from None
    return paths


def _refused(path: Path, error: OSError) -> InputError:
    return InputError(f"{path} cannot be written ({error.strerror})", "give another with -o", rule="not-writable")


def _write_whole(paths: Sequence[Path], write: Callable[[Sequence[Path]], None]) -> None:
    """Files that are there all and whole, or not at all."""
    temporary = [path.with_name(records.temporary_name(path.name)) for path in paths]
    try:
        write(temporary)
        for made, path in zip(temporary, paths):
            made.replace(path)
    except OSError as error:
        if error.errno in _FULL:
            raise
        raise _refused(paths[0], error) from None
    finally:
        for made in temporary:
            with contextlib.suppress(OSError):
                made.unlink(missing_ok=True)


def runs_path(path: Path) -> Path:
    """Where the runs of a table of points are.

    >>> str(runs_path(Path("paper.csv")))
    'paper.runs.csv'
    """
    return path.with_name(f"{path.stem}.runs{path.suffix}")


def _place(record: RunRecord) -> tuple[str, str, str, int, int, str]:
    labels = record.labels
    return labels.task, labels.arm, labels.phase, labels.number, labels.seed, record.run_id


def _points(home: Home, record: RunRecord) -> list[Row]:
    """The run's points as they were spooled, those that are no numbers too."""
    labels = record.labels
    head: Row = {"run_id": record.run_id, "task": labels.task, "arm": labels.arm, "phase": labels.phase}
    head |= {"number": labels.number, "seed": labels.seed}
    found = [
        {**head, "metric": metric, "update": update, "value": value, "at": at}
        for metric, update, value, at in _spooled(home.run_folder / record.run_id)
    ]
    return sorted(found, key=lambda row: (row["metric"], row["update"], row["at"]))


def _spooled(folder: Path) -> Iterator[tuple[str, int, float, int]]:
    for _, path in spool.spools(folder):
        for line in spool.read(path):
            if line["kind"] == "points":
                for metric, value in line["values"].items():
                    yield metric, line["update"], float(value), line["at"]
            elif line["kind"] == "nonfinite":
                yield line["metric"], line["update"], float(line["value"]), line["at"]


def _run(record: RunRecord) -> Row:
    file, labels, task = record.file, record.labels, record.task
    row: Row = {
        "run_id": record.run_id, "study": labels.study, "task": labels.task, "arm": labels.arm, "phase": labels.phase,
        "number": labels.number, "seed": labels.seed, "name": file.name, "status": record.status,
        "reason": record.reason, "traceback": record.traceback, "created": file.created, "started": record.started,
        "ended": record.ended, "metric": str(task.get("metric") or ""), "mode": str(task.get("mode") or ""),
        "target": task.get("target"), "recorded": str(file.facts.get("recorded") or ""),
        "commit": str(file.provenance.get("commit") or ""), "config": _json(file.config), "facts": _json(file.facts),
        "events": _json(record.events),
    }  # fmt: skip
    return row | {f"{FINAL}{metric}": value for metric, value in sorted(record.final.items())}


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _columns(runs: Rows) -> list[str]:
    finals = {key for row in runs for key in row} - set(RUN_COLUMNS)
    return [*RUN_COLUMNS, *sorted(finals)]


def _write_csv(paths: Sequence[Path], points: Rows, runs: Rows, study: str) -> None:
    for path, rows, columns in zip(paths, (points, runs), (list(POINT_COLUMNS), _columns(runs))):
        with path.open("w", encoding="utf-8", newline="") as file:
            table = csv.writer(file, lineterminator="\n")
            table.writerow(columns)
            table.writerows([_cell(row.get(name)) for name in columns] for row in rows)


def _write_parquet(paths: Sequence[Path], points: Rows, runs: Rows, study: str) -> None:
    import pyarrow
    from pyarrow import parquet

    def kind(name: str) -> pyarrow.DataType:
        if name in _WHOLE:
            return pyarrow.int64()
        return pyarrow.float64() if name in ("value", "target") or name.startswith(FINAL) else pyarrow.string()

    for path, rows, columns in zip(paths, (points, runs), (list(POINT_COLUMNS), _columns(runs))):
        schema = pyarrow.schema([(name, kind(name)) for name in columns])
        arrays = {name: [row.get(name) for row in rows] for name in columns}
        _refuse_wide(arrays)
        parquet.write_table(pyarrow.table(arrays, schema=schema), path)


def _refuse_wide(arrays: Mapping[str, Sequence[Any]]) -> None:
    for name in (name for name in _WHOLE if name in arrays):
        wide = next((value for value in arrays[name] if value is not None and not -(2**63) <= value < 2**63), None)
        if wide is not None:
            said = f"{name} {wide} has more than the 64 bits of Parquet's whole numbers"
            raise InputError(said, "export csv or json", rule="too-wide")


def _write_json(paths: Sequence[Path], points: Rows, runs: Rows, study: str) -> None:
    """JSON knows no nan: a value that is not finite is its word."""
    plain = [{**row, "value": row["value"] if math.isfinite(row["value"]) else repr(row["value"])} for row in points]
    whole = [{**row, **{key: json.loads(row[key]) for key in ("config", "facts", "events")}} for row in runs]
    data = {"schema": SCHEMA, "study": study, "runs": whole, "points": plain}
    paths[0].write_text(json.dumps(data, ensure_ascii=False, indent=1), encoding="utf-8")


_WRITERS: Mapping[str, Callable[[Sequence[Path], Rows, Rows, str], None]] = {
    "csv": _write_csv,
    "parquet": _write_parquet,
    "json": _write_json,
}
FORMATS = tuple(_WRITERS)


def _cell(value: Any) -> str:
    """A cell of a CSV file: floats to their last digit, nothing for None."""
    return "" if value is None else repr(value) if isinstance(value, float) else str(value)
