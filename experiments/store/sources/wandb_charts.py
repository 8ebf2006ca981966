"""A chart of Weights & Biases, exported as CSV: a column of steps, and of each run "NAME - metric", with the lowest and
highest of smoothed points beside it (__MIN, __MAX), which are left out. It does not say how runs ended."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from algos.finding import InputError
from experiments.store.sources.cells import number, table
from experiments.store.sources.foreign import Points, Read, Told, in_order
from experiments.store.sources.steps import by_name

_BESIDE = ("__MIN", "__MAX")


class WandbChartReader:
    """Reads the CSV file of a chart."""

    kind = "wandb"
    late: Sequence[str] = ()

    def __init__(self, path: Path | str):
        self.path = Path(path).expanduser().absolute()
        self.place = str(self.path)

    def points(self, run: Told) -> Points:
        return run.points

    def read(self) -> Read:
        header, rows = table(self.path)
        columns = [
            (index, name.rpartition(" - ")[0], name.rpartition(" - ")[2])
            for index, name in enumerate(header)
            if index and " - " in name and not name.endswith(_BESIDE)
        ]
        if not columns:
            said = f"{self.path.name} is no chart of wandb's: no column is called 'RUN - metric'"
            raise InputError(said, "read other tables with `trainlab import csv`", rule="wrong-kind")
        written = self.path.stat().st_mtime_ns // 1_000_000
        runs: dict[str, Told] = {}
        counted = by_name(header[0])
        reason = "wandb's chart does not say how it ended"
        for line, row in rows:
            step = self._value(line, header[0], row[0])
            if step != int(step) or step < 0:
                raise self._broken(line, header[0], row[0])
            for index, name, metric in columns:
                if row[index].strip():
                    run = runs.setdefault(name, Told(key=name, name=name, reason=reason, steps=counted))
                    value = self._value(line, header[index], row[index])
                    run.points.setdefault(metric, []).append((int(step), value, written))
        for run in runs.values():
            run.points = {metric: in_order(points)[0] for metric, points in run.points.items()}
        notes = ["wandb's chart does not say how runs ended: they are taken as completed"]
        if header[0].lower() != "step":
            notes.append(f"a step is '{header[0]}' here")
        return Read(list(runs.values()), notes, written=written)

    def _value(self, line: int, name: str, cell: str) -> float:
        value = number(cell.strip())
        if value is None:
            raise self._broken(line, name, cell)
        return value

    def _broken(self, line: int, name: str, cell: str) -> InputError:
        said = f"line {line}: {name} is '{cell.strip()[:40]}', which it cannot be"
        return InputError(said, "mend that cell", rule="broken-cells", source=self.path.name)
