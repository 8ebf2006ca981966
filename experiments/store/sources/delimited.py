"""CSV as a Source: tables of results, one value a row (long) or one column a metric (wide), and what trainlab exports.

Columns are found by their usual names, or named by whoever imports; what was taken is told. A cell that cannot be what
its column holds is an error that names its line. Beside FILE.csv, FILE.runs.csv is a table of the runs, as
`trainlab export` writes it."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from algos.finding import InputError, unknown
from experiments.store.sources import exported
from experiments.store.sources.foreign import Point, Points, Read, Told, in_order
from experiments.store.sources.labelling import WORDS
from experiments.store.sources.statuses import Meanings

#: What a column is usually called, the surest first.
_WORDS: Mapping[str, tuple[str, ...]] = {
    "run": ("run", "run_id", "run id", "id", "run_name", "name", "experiment", "exp", "trial"),
    "step": ("update", "updates", "step", "global_step", "_step", "iteration", "iterations", "iter", "epoch", "epochs"),
    "metric": ("metric", "tag", "variable"),
    "value": ("value", "val", "score"),
    "at": ("at", "timestamp", "_timestamp", "wall_time", "date", "datetime"),
    "status": ("status", "state"),
}
_SHOWN = 5


@dataclass(frozen=True)
class Columns:
    """What is in which column; "" is found by its name. config: columns that are settings. metrics: those that are
    metrics, of a wide table; by default, every other one that holds numbers."""

    run: str = ""
    step: str = ""
    metric: str = ""
    value: str = ""
    at: str = ""
    status: str = ""
    phase: str = ""
    number: str = ""
    config: tuple[str, ...] = ()
    metrics: tuple[str, ...] = ()


@dataclass
class _Rows:
    """A run's rows: its points as they come, and the values of the columns that belong to the run."""

    said: dict[str, str] = field(default_factory=dict)
    points: dict[str, list[Point]] = field(default_factory=dict)
    final: dict[str, float] = field(default_factory=dict)
    status: str = ""
    timed: bool = False
    line: int = 0


class CsvReader:
    """Reads a CSV file. labels: the columns of task, arm and seed that were named, so that they are no metrics.
    meanings: what the words of its status column say."""

    kind = "csv"
    late: Sequence[str] = ()

    def __init__(
        self,
        path: Path | str,
        columns: Columns | None = None,
        labels: Iterable[str] = (),
        meanings: Meanings | None = None,
    ):
        self.path = Path(path).expanduser().absolute()
        self.place = str(self.path)
        self._columns, self._meanings = columns or Columns(), meanings or Meanings()
        self._labels = [label for label in labels if label]
        self._broken: list[tuple[int, str]] = []

    def points(self, run: Told) -> Points:
        return run.points

    def read(self) -> Read:
        header, rows = table(self.path)
        beside = exported.runs_beside(self.path)
        columns, notes = self._found(header)
        read = Read([], notes, written=self.path.stat().st_mtime_ns // 1_000_000)
        metrics = [] if columns.metric else self._metrics(header, rows, columns)
        found = self._gathered(header, rows, columns, metrics, read.written)
        self._refuse_broken()
        twice = 0
        for key, each in found.items():
            run = self._told(key, each, columns)
            for metric, points in each.points.items():
                run.points[metric], dropped = in_order(points)
                twice += dropped
            read.runs.append(run)
        if twice:
            read.notes.append(f"{twice} values were given twice for a run, metric and step; the last one is kept")
        if beside is not None:
            read.notes.append(f"what the runs are is in {beside.name}, beside it")
            read.runs = exported.merged(read.runs, beside)
        return read

    # The columns

    def _found(self, header: Sequence[str]) -> tuple[Columns, list[str]]:
        """The columns, those not named found by their usual names; what is to be told of that."""
        named = self._columns
        for name in (*named.config, *named.metrics, *self._labels):
            self._named("column", name, header)
        found: dict[str, str] = {}
        for what in ("run", "step", "metric", "value", "at", "status", "phase", "number"):
            given = getattr(named, what)
            found[what] = self._named(what, given, header) if given else ""
        taken = {*found.values(), *named.config, *named.metrics, *self._labels}
        for what in (what for what in found if not found[what]):
            found[what] = self._guess(what, header, taken)
            taken.add(found[what])
        if bool(found["metric"]) != bool(found["value"]):
            if named.metric or named.value:
                raise InputError(
                    "a long table has a column of metrics and one of values", "give --metric-column and --value-column"
                )
            found["metric"] = found["value"] = ""
        labels = {word for words in WORDS.values() for word in words}
        notes = [
            f"{what} is read from '{column}'"
            for what, column in found.items()
            if column and not getattr(named, what) and column.lower() != what and column.lower() not in labels
        ]
        if found["step"].lower() in ("epoch", "epochs"):
            notes.append(f"a step is an epoch here ('{found['step']}'): reports call it an update")
        if not found["step"]:
            notes.append("there is no column of steps: values are what runs came to, without curves (--step names it)")
        return Columns(**found, config=named.config, metrics=named.metrics), notes

    def _named(self, what: str, name: str, header: Sequence[str]) -> str:
        if name not in header:
            raise unknown("column", name, header, source=self.path.name, place=f"--{what}")
        return name

    def _guess(self, what: str, header: Sequence[str], taken: set[str]) -> str:
        by_name = {column.strip().lower(): column for column in header if column not in taken}
        return next((by_name[word] for word in _WORDS.get(what, (what,)) if word in by_name), "")

    def _metrics(self, header: Sequence[str], rows: Sequence[tuple[int, list[str]]], columns: Columns) -> list[str]:
        """Of a wide table: the columns that are metrics. A column that somewhere holds a number, and is no label."""
        if columns.metrics:
            return list(columns.metrics)
        aside = {columns.run, columns.step, columns.at, columns.status, columns.phase, columns.number, *columns.config}
        aside |= {
            *self._labels,
            *(name for name in header if name.lower() in _LABEL_WORDS or name.startswith("config.")),
        }
        found = []
        for place, name in enumerate(header):
            cells = [row[place] for _, row in rows[:1000] if row[place].strip()]
            if name not in aside and cells and sum(number(cell) is not None for cell in cells) * 2 > len(cells):
                found.append(name)
        if not found:
            raise InputError(
                f"no column of {self.path.name} holds a metric (columns: {', '.join(header[:12])})",
                "name them with --metrics, or give --metric-column and --value-column", source=self.path.name,
            )  # fmt: skip
        return found

    # The rows

    def _gathered(
        self, header: Sequence[str], rows: Iterable[tuple[int, list[str]]], columns: Columns,
        metrics: Sequence[str], written: int,
    ) -> dict[str, _Rows]:  # fmt: skip
        place = {name: index for index, name in enumerate(header)}
        taken = {columns.run, columns.step, columns.metric, columns.value, columns.at, columns.status, *metrics}
        told = [(name, index) for name, index in place.items() if name not in taken]
        keyed = [] if columns.run else self._keys(header, told)
        found: dict[str, _Rows] = {}
        for line, row in rows:
            key = row[place[columns.run]].strip() if columns.run else " ".join(row[index] for index in keyed).strip()
            if columns.run and not key:
                self._broken.append((line, f"'{columns.run}' is empty"))
                continue
            run = found.setdefault(key or "1", _Rows(line=line))
            at = self._at(line, row[place[columns.at]], columns.at) if columns.at else None
            run.timed = run.timed or at is not None
            for name, index in told:
                self._say(run, line, name, row[index].strip())
            if columns.status and row[place[columns.status]].strip():
                run.status = row[place[columns.status]].strip()
            step = self._step(line, row[place[columns.step]], columns.step) if columns.step else None
            if columns.metric:
                pairs = [(row[place[columns.metric]].strip(), row[place[columns.value]])]
            else:
                pairs = [(name, row[place[name]]) for name in metrics]
            self._take(run, line, pairs, step, written if at is None else at, bool(columns.metric), columns)
        return found

    def _take(
        self, run: _Rows, line: int, pairs: Iterable[tuple[str, str]], step: int | None, at: int, long: bool,
        columns: Columns,
    ) -> None:  # fmt: skip
        """The values of one row. An empty cell of a wide table is a value that was not measured."""
        for name, cell in pairs:
            text = cell.strip()
            if not text and not long:
                continue
            value = number(text)
            if not name:
                self._broken.append((line, f"'{columns.metric}' is empty"))
            elif value is None:
                self._broken.append((line, f"{name} is '{text[:40]}', not a number"))
            elif columns.step and step is not None:
                run.points.setdefault(name, []).append((step, value, at))
            elif not columns.step:
                if name in run.final and run.final[name] != value:
                    self._broken.append(
                        (line, f"{name} has a second value of one run ({run.final[name]:g}, {value:g})")
                    )
                run.final[name] = value

    def _keys(self, header: Sequence[str], told: Sequence[tuple[str, int]]) -> list[int]:
        """Where no column is the run's name: the columns that tell runs apart, which are those of labels."""
        named = [*self._labels, *self._columns.config]
        return [index for name, index in told if name in named or name.lower() in _LABEL_WORDS]

    def _say(self, run: _Rows, line: int, name: str, value: str) -> None:
        """What belongs to the run is the same in all its rows; what is not belongs to none."""
        before = run.said.setdefault(name, value)
        if before == value or not value:
            return
        if not before:
            run.said[name] = value
        elif name in self._labels or name.lower() in _LABEL_WORDS:
            self._broken.append((line, f"one run has two values of {name} ('{before[:40]}', '{value[:40]}')"))
        else:
            run.said[name] = ""

    def _told(self, key: str, rows: _Rows, columns: Columns) -> Told:
        settings = {
            n.removeprefix("config."): plain(v) for n, v in rows.said.items() if v and self._is_setting(n, columns)
        }
        status, reason = (
            self._meanings.of(rows.status, f"{self.path.name}: line {rows.line}") if rows.status else ("completed", "")
        )
        times = sorted(at for points in rows.points.values() for _, _, at in points) if rows.timed else []
        labels = {}
        if columns.phase and rows.said.get(columns.phase) in ("tune", "final"):
            labels["phase"] = rows.said[columns.phase]
        counted = rows.said.get(columns.number, "")
        if counted.isdecimal():
            labels["number"] = int(counted)  # type: ignore[assignment]
        return Told(
            key=key,
            name=key if columns.run else "",
            said={name: value for name, value in rows.said.items() if value},
            config=settings,
            status=status,
            reason=reason,
            started=times[0] if times else None,
            ended=times[-1] if times else None,
            final=rows.final,
            labels=labels,
        )

    def _is_setting(self, name: str, columns: Columns) -> bool:
        return name not in (columns.phase, columns.number, "study") and not name.startswith("_")

    # The cells

    def _step(self, line: int, cell: str, name: str) -> int | None:
        value = number(cell)
        if value is None or not math.isfinite(value) or value < 0 or value != int(value):
            self._broken.append((line, f"{name} is '{cell.strip()[:40]}', not a whole number"))
            return None
        return int(value)

    def _at(self, line: int, cell: str, name: str) -> int | None:
        if not cell.strip():
            return None
        found = milliseconds(cell.strip())
        if found is None:
            self._broken.append(
                (line, f"{name} is '{cell.strip()[:40]}', not a time (seconds or milliseconds since 1970, or ISO)")
            )
        return found

    def _refuse_broken(self) -> None:
        if not self._broken:
            return
        shown = "; ".join(f"line {line}: {said}" for line, said in self._broken[:_SHOWN])
        more = len(self._broken) - _SHOWN
        raise InputError(
            shown + (f"; and {more} more" if more > 0 else ""), "mend these cells, or name other columns",
            rule="broken-cells", source=self.path.name,
        )  # fmt: skip


_LABEL_WORDS = {word for words in WORDS.values() for word in words} | {"study", "phase", "number"}


def table(path: Path) -> tuple[list[str], list[tuple[int, list[str]]]]:
    """The header of a CSV file and its rows with their lines. InputError for what is none."""
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror})", "give a CSV file", rule="no-source") from None
    except UnicodeDecodeError as error:
        said = f"{path.name} is not a CSV file in UTF-8 (byte {error.start})"
        raise InputError(said, "save it as CSV in UTF-8", rule="wrong-kind") from None
    first = text.partition("\n")[0]
    if not text.strip() or "\0" in first:
        raise InputError(
            f"{path.name} is {'no CSV file' if text.strip() else 'empty'}",
            "give a table with a header",
            rule="empty-source",
        )
    delimiter = max(",;\t", key=first.count)
    lines = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    header = [name.strip() for name in next(lines)]
    twice = next((name for name in header if header.count(name) > 1), None)
    if twice is not None or len(header) < 2:
        said = f"two columns are called '{twice}'" if twice is not None else "there is one column only"
        raise InputError(said, "give a table whose first line names its columns", rule="wrong-kind", source=path.name)
    rows = list(_rows(lines, len(header), path.name))
    if not rows:
        raise InputError(f"{path.name} has a header and no rows", "give a table with results", rule="empty-source")
    return header, rows


def _rows(lines: Iterator[list[str]], width: int, source: str) -> Iterator[tuple[int, list[str]]]:
    reader: csv.Reader = lines  # type: ignore[assignment,name-defined,unused-ignore]
    try:
        for row in lines:
            if not any(cell.strip() for cell in row):
                continue
            if len(row) != width:
                said = f"line {reader.line_num}: {len(row)} cells, but the header has {width}"
                raise InputError(
                    said, "mend that line; a cell with a comma is quoted", rule="broken-cells", source=source
                )
            yield reader.line_num, row
    except csv.Error as error:
        raise InputError(
            f"line {reader.line_num}: {error}", "mend that line", rule="broken-cells", source=source
        ) from None


def plain(text: str) -> bool | int | float | str:
    """A cell as what it says.

    >>> plain("true"), plain("3"), plain("1e-4"), plain("adamw"), plain("nan")
    (True, 3, 0.0001, 'adamw', 'nan')
    """
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    if re.fullmatch(r"[+-]?\d{1,18}", text) and not re.fullmatch(r"[+-]?0\d+", text):
        return int(text)
    value = number(text)
    return text if value is None or not math.isfinite(value) or re.fullmatch(r"[+-]?0\d+", text) else value


def number(text: str) -> float | None:
    """The number that a cell holds, nan and inf too; None where it holds none."""
    try:
        return float(text) if "_" not in text else None
    except ValueError:
        return None


def milliseconds(text: str) -> int | None:
    """A time as milliseconds since 1970: of seconds, of milliseconds, or of an ISO date, whose zone is UTC where it
    says none.

    >>> [milliseconds(text) for text in ("1700000000", "1700000000000", "2023-11-14T22:13:20", "soon")]
    [1700000000000, 1700000000000, 1700000000000, None]
    """
    value = number(text)
    if value is not None and math.isfinite(value) and value >= 0:
        return round(value if value > 1e11 else value * 1000)
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return round((found if found.tzinfo else datetime.fromisoformat(f"{text}+00:00")).timestamp() * 1000)
