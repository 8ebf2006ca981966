"""CSV as a Source: tables of results, one value a row (long) or one column a metric (wide), and what trainlab exports.

Columns are found by their usual names, or named by whoever imports; what was taken is told. A cell that cannot be what
its column holds is an error that names its line. Beside FILE.csv, FILE.runs.csv is a table of the runs, as
`trainlab export` writes it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from algos.finding import InputError, unknown
from experiments.store.sources import exported, steps
from experiments.store.sources.cells import milliseconds, number, plain, table
from experiments.store.sources.columns import is_elapsed, is_setting
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
#: So many cells of a column tell whether it holds numbers.
_TELLING = 1000
#: Steps are stored as whole numbers of 64 bits, here and in MLflow.
_HIGHEST = 2**63 - 1
#: Numbers below this, in milliseconds since 1970 (March 1973), are no dates: they count from a run's start.
_DATES = 10**11


@dataclass(frozen=True)
class Columns:
    """What is in which column; "" is found by its name. config: columns that are settings. metrics: those that are
    metrics, of a wide table; by default, every other one that holds numbers, but for hyperparameters that are the same
    all through each run, which are settings, and times that passed, which are left out."""

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
    """A run's rows: its points as they come, and the values of the columns that belong to the run. mixed: columns that
    have several values, and so belong to none."""

    said: dict[str, str] = field(default_factory=dict)
    mixed: set[str] = field(default_factory=set)
    points: dict[str, list[Point]] = field(default_factory=dict)
    final: dict[str, float] = field(default_factory=dict)
    status: str = ""
    timed: bool = False
    line: int = 0


class CsvReader:
    """Reads a CSV file. labels: the columns of task, arm and seed that were named, so that they are no metrics.
    meanings: what the words of its status column say. judged: the metric that runs are compared by, if it is named."""

    kind = "csv"
    late: Sequence[str] = ()

    def __init__(
        self,
        path: Path | str,
        columns: Columns | None = None,
        labels: Iterable[str] = (),
        meanings: Meanings | None = None,
        judged: str = "",
    ):
        self.path = Path(path).expanduser().absolute()
        self.place = str(self.path)
        self._columns, self._meanings = columns or Columns(), meanings or Meanings()
        self._labels = [label for label in labels if label]
        self._broken: list[tuple[int, str]] = []
        self._judged = judged
        self._elapsed: list[str] = []  # columns of times that passed
        self._ours = False  # whether trainlab wrote it

    def points(self, run: Told) -> Points:
        return run.points

    def read(self) -> Read:
        beside = exported.runs_beside(self.path)
        self._ours = beside is not None
        header, rows = table(self.path, may_be_empty=beside is not None)
        columns, notes = self._found(header, rows)
        read = Read([], notes, written=self.path.stat().st_mtime_ns // 1_000_000)
        metrics = [] if columns.metric else self._metrics(header, rows, columns, notes)
        if metrics and not columns.metrics:
            read.notes.append(f"metrics: {_listed(metrics)} (--config names columns that are settings)")
        found = self._gathered(header, rows, columns, metrics, read.written)
        self._refuse_broken()
        self._refuse_merged(found, columns)
        twice = 0
        for key, each in found.items():
            run = self._told(" ".join(key).strip() or "1", each, columns)
            for metric, points in each.points.items():
                if self._ours:  # as a home has them
                    run.points[metric] = sorted(points, key=lambda point: (point[0], point[2]))
                    continue
                run.points[metric], dropped = in_order(points)
                twice += dropped
            read.runs.append(run)
        if mixed := dict.fromkeys(name for each in found.values() for name in sorted(each.mixed)):
            read.notes.append(f"left out: {_listed(list(mixed))} (no metric, and several values in one run)")
        if twice:
            read.notes.append(f"{twice} values were given twice for a run, metric and step; the last one is kept")
        if beside is not None:
            read.notes = [f"trainlab exported it: what the runs are is in {beside.name}, beside it"]
            read.runs = exported.merged(read.runs, beside)
        return read

    # The columns

    def _found(self, header: Sequence[str], rows: Sequence[tuple[int, list[str]]]) -> tuple[Columns, list[str]]:
        """The columns, those not named found by their usual names; what is to be told of that."""
        named = self._columns
        for name in (*named.config, *named.metrics, *self._labels):
            self._named("column", name, header)
        found: dict[str, str] = {}
        for what in ("run", "step", "metric", "value", "at", "status", "phase", "number"):
            given = getattr(named, what)
            found[what] = self._named(what, given, header) if given else ""
        taken = {*found.values(), *named.config, *named.metrics, *self._labels}
        aside = set() if self._ours else _no_dates(header, rows)
        for what in (what for what in found if not found[what]):
            found[what] = self._guess(what, header, taken | (aside if what == "at" else set()))
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
        if steps.by_name(found["step"]) == steps.EPOCHS:
            notes.append(f"a step is an epoch here ('{found['step']}'), not an update")
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

    def _metrics(
        self, header: Sequence[str], rows: Sequence[tuple[int, list[str]]], columns: Columns, notes: list[str]
    ) -> list[str]:
        """Of a wide table: the columns that are metrics. A column that mostly holds numbers, and is no label, setting
        or time that passed; what was taken as those is told."""
        if columns.metrics:
            return list(columns.metrics)
        aside = {columns.run, columns.step, columns.at, columns.status, columns.phase, columns.number, *columns.config}
        aside |= {
            *self._labels,
            *(name for name in header if name.lower() in _LABEL_WORDS or name.startswith("config.")),
        }
        found, settings = [], []
        for place, name in enumerate(header):
            cells = list(islice((row[place] for _, row in rows if row[place].strip()), _TELLING))
            if name in aside or sum(number(cell) is not None for cell in cells) * 2 <= len(cells):
                continue
            if name != self._judged and is_elapsed(name):
                self._elapsed.append(name)
            elif name != self._judged and is_setting(name) and self._is_constant(place, header, rows, columns):
                settings.append(name)
            else:
                found.append(name)
        if settings:
            notes.append(f"settings: {_listed(settings)} (the same all through each run; --metrics names metrics)")
        if self._elapsed:
            said = "time that passed: call it time/train_s if it is seconds of training, or name it with --metrics"
            notes.append(f"left out: {_listed(self._elapsed)} ({said})")
        if not found:
            raise InputError(
                f"no column of {self.path.name} holds a metric (columns: {', '.join(header[:12])})",
                "name them with --metrics, or give --metric-column and --value-column", source=self.path.name,
            )  # fmt: skip
        return found

    def _is_constant(
        self, place: int, header: Sequence[str], rows: Iterable[tuple[int, list[str]]], columns: Columns
    ) -> bool:
        """Whether a column has one value in each run."""
        keyed = self._keys(header, columns)
        seen: dict[tuple[str, ...], str] = {}
        told = ((tuple(row[index].strip() for index in keyed), row[place].strip()) for _, row in rows)
        return all(seen.setdefault(key, cell) == cell for key, cell in told if cell)

    # The rows

    def _gathered(
        self, header: Sequence[str], rows: Iterable[tuple[int, list[str]]], columns: Columns,
        metrics: Sequence[str], written: int,
    ) -> dict[tuple[str, ...], _Rows]:  # fmt: skip
        place = {name: index for index, name in enumerate(header)}
        taken = {*_shared(columns), columns.run, *metrics, *self._elapsed}
        told = [(name, index) for name, index in place.items() if name not in taken]
        keyed = self._keys(header, columns)
        found: dict[tuple[str, ...], _Rows] = {}
        for line, row in rows:
            key = tuple(row[index].strip() for index in keyed)
            if columns.run and not key[0]:
                self._broken.append((line, f"'{columns.run}' is empty"))
                continue
            run = found.get(key)
            if run is None:
                run = found[key] = _Rows(line=line)
            at = self._at(line, row[place[columns.at]], columns.at) if columns.at else None
            run.timed = run.timed or at is not None
            for name, index in told:
                self._say(run, line, name, row[index].strip())
            if columns.status and row[place[columns.status]].strip():
                run.status = row[place[columns.status]].strip()
            step = self._step(line, row[place[columns.step]], columns.step) if columns.step else None
            if columns.metric:
                metric = row[place[columns.metric]]
                pairs = [(metric if self._ours else metric.strip(), row[place[columns.value]])]
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

    def _keys(self, header: Sequence[str], columns: Columns) -> list[int]:
        """The columns that tell runs apart: that of the runs' names; where there is none, those of labels."""
        if columns.run:
            return [header.index(columns.run)]
        aside, named = {*_shared(columns), *columns.metrics}, {*self._labels, *columns.config}
        return [
            index
            for index, name in enumerate(header)
            if name not in aside and (name in named or name.lower() in _LABEL_WORDS)
        ]

    def _say(self, run: _Rows, line: int, name: str, value: str) -> None:
        """What belongs to the run is the same in all its rows; what is not belongs to none."""
        before = run.said.setdefault(name, value)
        if before == value or not value or name in run.mixed:
            return
        if not before:
            run.said[name] = value
        elif name in self._labels or name.lower() in _LABEL_WORDS:
            self._broken.append((line, f"one run has two values of {name} ('{before[:40]}', '{value[:40]}')"))
        else:
            run.said[name] = ""
            run.mixed.add(name)

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
            steps=steps.by_name(columns.step),
            labels=labels,
        )

    def _is_setting(self, name: str, columns: Columns) -> bool:
        return name not in (columns.phase, columns.number, "study") and not name.startswith("_")

    # The cells

    def _step(self, line: int, cell: str, name: str) -> int | None:
        value = number(cell)
        lowest = -_HIGHEST if self._ours else 0  # MLflow and TensorBoard take steps below 0, so a home has them
        if value is None or not math.isfinite(value) or value != int(value) or not lowest <= value <= _HIGHEST:
            self._broken.append((line, f"{name} is '{cell.strip()[:40]}', not a whole number"))
            return None
        return int(cell) if cell.strip().removeprefix("-").isdecimal() else int(value)

    def _at(self, line: int, cell: str, name: str) -> int | None:
        if not cell.strip():
            return None
        exact = self._ours and cell.strip().removeprefix("-").isdecimal()
        found = int(cell) if exact else milliseconds(cell.strip())
        if found is None or (found < _DATES and not self._ours):
            self._broken.append(
                (line, f"{name} is '{cell.strip()[:40]}', not a time (seconds or milliseconds since 1970, or ISO)")
            )
        return found

    def _refuse_merged(self, found: Mapping[tuple[str, ...], _Rows], columns: Columns) -> None:
        """Where labels alone tell runs apart, two values of one step are those of two runs."""
        if columns.run or list(found) == [()]:
            return
        for key, each in found.items():
            for metric, points in each.points.items():
                values: dict[int, float] = {}
                for step, value, _ in points:
                    if values.setdefault(step, value) != value and not (math.isnan(values[step]) and math.isnan(value)):
                        raise InputError(
                            f"{metric} at {step} has two values ({values[step]:g}, {value:g}) where '{' '.join(key)}' "
                            "is one run", "name the column that tells runs apart with --run, or with --config settings "
                            "in which they differ", rule="merged-runs", source=self.path.name,
                        )  # fmt: skip

    def _refuse_broken(self) -> None:
        if not self._broken:
            return
        shown = "; ".join(f"line {line}: {said}" for line, said in self._broken[:_SHOWN])
        more = len(self._broken) - _SHOWN
        raise InputError(
            shown + (f"; and {more} more" if more > 0 else ""), "mend these cells, or name other columns",
            rule="broken-cells", source=self.path.name,
        )  # fmt: skip


def _shared(columns: Columns) -> tuple[str, ...]:
    """The columns that a run has many values of, beside its metrics, and that of its status."""
    return columns.step, columns.metric, columns.value, columns.at, columns.status


def _no_dates(header: Sequence[str], rows: Sequence[tuple[int, list[str]]]) -> set[str]:
    """The columns whose first cell is a number that no date is: 12.5 seconds after the start, say."""
    first = ((name, next((row[i].strip() for _, row in rows if row[i].strip()), "")) for i, name in enumerate(header))
    return {name for name, cell in first if number(cell) is not None and (milliseconds(cell) or 0) < _DATES}


def _listed(names: Sequence[str]) -> str:
    """Names, the first of them if they are many.

    >>> _listed(["a", "b"]), _listed("abcdefg")
    ("'a', 'b'", "'a', 'b', 'c', 'd', 'e' and 2 more")
    """
    shown = ", ".join(f"'{name}'" for name in names[:_SHOWN])
    return shown + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")


_LABEL_WORDS = {word for words in WORDS.values() for word in words} | {"study", "phase", "number"}
