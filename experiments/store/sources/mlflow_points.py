"""Every point of many runs' metrics out of an MLflow store: at once from an SQLite file, else metric by metric.

MLflow's client asks for one metric of one run at a time, which takes a hundred times as long as reading the table. The
table is read only where it is as MLflow 3 makes it; anything else is asked of the client.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from typing import TYPE_CHECKING

from experiments.store.tracking import sqlite_path

if TYPE_CHECKING:
    from mlflow import MlflowClient

#: (step, value, milliseconds since 1970), in order of step.
Points = list[tuple[int, float, int]]
#: SQLite takes at least 999 values in one question.
_AT_ONCE = 400


def points(client: MlflowClient, uri: str, wanted: Mapping[str, Sequence[str]]) -> dict[tuple[str, str], Points]:
    """(MLflow's run id, key) -> points. wanted: the keys of each run, by MLflow's id and as MLflow spells them."""
    found = _from_file(uri, wanted)
    return found if found is not None else {(r, k): _asked(client, r, k) for r, keys in wanted.items() for k in keys}


def _asked(client: MlflowClient, run: str, key: str) -> Points:
    history = client.get_metric_history(run, key)
    return sorted((int(point.step), float(point.value), int(point.timestamp)) for point in history)


def _from_file(uri: str, wanted: Mapping[str, Sequence[str]]) -> dict[tuple[str, str], Points] | None:
    """None where the store is no SQLite file, or its table is not as expected."""
    path = sqlite_path(uri)
    if path is None or not path.exists():
        return None
    found: dict[tuple[str, str], Points] = {(run, key): [] for run, keys in wanted.items() for key in keys}
    keys = sorted({key for keys in wanted.values() for key in keys})
    try:
        with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True, timeout=30.0)) as database:
            for runs in _pieces(sorted(wanted)):
                for some in _pieces(keys):
                    asked = (
                        "SELECT run_uuid, key, step, CASE WHEN is_nan THEN NULL ELSE value END, timestamp FROM metrics "
                        f"WHERE run_uuid IN ({_marks(runs)}) AND key IN ({_marks(some)})"
                    )
                    for run, key, step, value, at in database.execute(asked, [*runs, *some]):
                        if (run, key) in found:
                            found[run, key].append((step, float("nan") if value is None else float(value), at))
    except sqlite3.Error:
        return None
    for each in found.values():
        each.sort()
    return found


def _pieces(items: Sequence[str]) -> Iterable[Sequence[str]]:
    return (items[start : start + _AT_ONCE] for start in range(0, len(items), _AT_ONCE))


def _marks(items: Sequence[str]) -> str:
    return ", ".join("?" * len(items))
