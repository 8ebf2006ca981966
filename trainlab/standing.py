"""Standing: how things stand, in one truth: runs by status of those planned, who works on them now, what waits for
MLflow and why, and how much the doctor would mend. Reads the home only, so it is quick and asks nobody.
"""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from algos.finding import InputError, unknown
from experiments.store import locks, mirrored, records, spool
from experiments.store.checks.files import left_in
from experiments.store.home import Home
from experiments.store.schema import FINISHED, STATUSES, RunRecord
from experiments.store.tracking import tracking_uri
from experiments.sweeps.lease import workers as signs_of_life
from trainlab import owners
from trainlab.plain import columns, duration

if TYPE_CHECKING:
    from experiments.store.checks.visit import Visit
    from experiments.store.mirrored import Left

_COUNTS = {"epochs": "count/epochs", "examples": "count/examples", "gradients": "count/gradients"}
_COUNTS |= {"updates": "count/updates", "seconds": "time/train_s"}

_TELL_S = 10.0


@dataclass(frozen=True)
class AtWork:
    """A run in progress. fraction: of its budget, at its last word; None where it has said nothing."""

    run_id: str
    name: str
    task: str
    arm: str
    phase: str
    update: int
    fraction: float | None


@dataclass
class Worker:
    """A live process. since: milliseconds since 1970. runs: what it is at; none between two runs."""

    pid: int
    host: str
    study: str
    since: int
    runs: list[AtWork] = field(default_factory=list)

    def line(self) -> str:
        took = duration(max(0.0, time.time() - self.since / 1000))
        doing = ", ".join(f"{run.name} at update {run.update}{_percent(run.fraction)}" for run in self.runs[:2])
        more = f" and {len(self.runs) - 2} more" if len(self.runs) > 2 else ""
        whose = f"{self.study}: " if self.study else ""
        return f"  pid {self.pid} on {self.host}, for {took}: {whose}{doing or 'at no run now'}{more}"


@dataclass(frozen=True)
class Standing:
    """rows: one a study, or one a task, arm and phase of the study asked for. left: what MLflow has not got. to_mend:
    how many things the doctor would mend, as far as a quick look tells. records: the studies' runs. note: of a study
    that has none yet."""

    rows: list[dict[str, Any]]
    workers: list[Worker]
    left: Left
    to_mend: int
    records: list[RunRecord] = field(repr=False)
    note: str = ""

    def table(self) -> list[str]:
        """The rows, and what is to be said of a study that has no run yet."""
        rows = _table(self.rows).splitlines() if self.rows else []
        return [*rows, *([self.note] if self.note else [])] or ["no study has runs here"]

    def lines(self) -> list[str]:
        at_work = ["at work:", *(worker.line() for worker in self.workers)] if self.workers else []
        waits = [str(self.left)] if self.left else []
        things = "thing is" if self.to_mend == 1 else "things are"
        mends = [f"{self.to_mend} {things} for `trainlab doctor` to mend"] if self.to_mend else []
        return [*self.table(), *at_work, *waits, *mends]

    def __repr__(self) -> str:
        return "\n".join(self.lines())

    def data(self) -> list[dict[str, Any]]:
        """The rows as plain data, each with its own workers."""
        told = {"waiting": len(self.left.runs), "waiting_reason": self.left.reason, "to_mend": self.to_mend}
        return [{**row, "workers": [asdict(one) for one in self.workers if _at(one, row)], **told} for row in self.rows]


def standing(home: Home, study: str | None = None) -> Standing:
    """All studies of a home, or one of them; InputError for one that is not there."""
    found, broken = _read(home)
    of_studies = [record for record in found if record.labels.study]
    totals = _totals(home)
    known = dict.fromkeys([*(record.labels.study for record in of_studies), *begun(home)])
    if study is not None and study not in known:
        raise unknown("study", study, known)
    own = [record for record in of_studies if study in (None, record.labels.study)]
    at_work = [worker for worker in _workers(home, found) if study in (None, worker.study)]
    if study is None:
        rows = _rows(own, ("study",), lambda record: (record.labels.study,), [(name,) for name in begun(home)])
        for row in rows:
            _add_total(row, totals.get(row["study"]))
    else:
        planned = _planned(home, study)
        head = ("task", "arm", "phase")
        rows = _rows(
            own, head, lambda record: (record.labels.task, record.labels.arm, record.labels.phase), planned or ()
        )
        places = list(planned)
        rows.sort(key=lambda row: _place(places, (row["task"], row["arm"], row["phase"])))
        for row in rows if planned else ():
            _add_total(row, planned.get((row["task"], row["arm"], row["phase"])))
    left = _left(home, own if study else found)
    mends = _to_mend(home, own if study else found, broken, left)
    return Standing(rows, at_work, left, mends, own, _starting(home, study, own, totals, at_work))


def mend(dry_run: bool = False, storage: str = "", home: Home | None = None) -> Visit:
    """What `trainlab doctor` does."""
    from experiments.doctor import examine
    from experiments.store.checks.mirrors import Waiting
    from trainlab.attending import note

    told_at = 0.0

    def told(left: Left) -> None:
        nonlocal told_at
        if time.monotonic() - told_at > _TELL_S:
            told_at = time.monotonic()
            note(f"sending to MLflow: {left}")

    return examine(home or Home.default(), dry_run=dry_run, storage=storage, waiting=Waiting(told=told))


def _read(home: Home) -> tuple[list[RunRecord], int]:
    """The runs of a home by age, and how many cannot be read."""
    found, broken = [], 0
    for run_id in home.run_ids():
        try:
            found.append(records.load(home.run_folder / run_id))
        except FileNotFoundError:
            continue  # removed just now
        except InputError:
            broken += 1
    found.sort(key=lambda record: record.file.created)
    return found, broken


def _totals(home: Home) -> dict[str, int | None]:
    """How many runs each study takes in all, by its stored definition; None where that cannot be read."""
    found: dict[str, int | None] = {}
    for path in sorted((home.path / "studies").glob("*/study.json")):
        try:
            kept = json.loads(path.read_bytes())
            found[path.parent.name] = int(kept["expected"]) if "expected" in kept else _expected(kept["study"])
        except (OSError, ValueError, KeyError, TypeError):
            found[path.parent.name] = None
    return found


def begun(home: Home) -> list[str]:
    """The studies that are planned in a home, or that a process runs now, whether they have runs or not."""
    held = [path.parent.name for path in sorted((home.path / "studies").glob("*/lock")) if locks.is_held(path)]
    alive = [str(told["study"]) for told in signs_of_life(home) if told.get("study")]
    return list(dict.fromkeys([*_totals(home), *held, *alive]))


def _planned(home: Home, name: str) -> dict[tuple[str, str, str], int]:
    """How many runs each task, arm and phase of a study takes; nothing where its definition cannot be read."""
    from experiments.study import StudyConfig

    try:
        study = StudyConfig.of(json.loads((home.path / "studies" / name / "study.json").read_bytes())["study"])
    except (OSError, ValueError, KeyError, TypeError, InputError):
        return {}
    found = {}
    for task, arm in ((task, arm) for task in study.tasks for arm in study.arms):
        if study.tune and study.space(task, arm):
            found[task, arm, "tune"] = study.tune.trials
        found[task, arm, "final"] = len(study.seeds)
    return found


def _place(places: list[tuple[str, str, str]], of: tuple[str, str, str]) -> int:
    """Rows stand as the study has them; those that it does not know come last."""
    return places.index(of) if of in places else len(places)


def _starting(
    home: Home, study: str | None, own: Iterable[RunRecord], totals: Mapping[str, int | None], at_work: list[Worker]
) -> str:
    """What to say of a study that has no run yet."""
    if study is None or any(True for _ in own):
        return ""
    total = totals.get(study)
    count = "no run yet" if total is None else f"0 of {total}, {total} left"
    running = at_work or owners.of_study(home, study)
    return f"{study}: {count}{', workers starting' if running else ''}"


def _expected(study: Mapping[str, Any]) -> int:
    from experiments.plan import expected
    from experiments.study import StudyConfig

    return expected(StudyConfig.of(study))


def _rows(
    found: Iterable[RunRecord],
    head: tuple[str, ...],
    key: Callable[[RunRecord], tuple[str, ...]],
    also: Iterable[tuple[str, ...]] = (),
) -> list[dict[str, Any]]:
    counts: dict[tuple[str, ...], Counter[str]] = {}
    theirs: Counter[tuple[str, ...]] = Counter()
    for record in found:
        counts.setdefault(key(record), Counter())[record.status] += 1
        theirs[key(record)] += bool(record.file.facts.get("recorded"))
    for group in also:  # a study whose first run is still to come
        counts.setdefault(group, Counter())
    return [
        {
            **dict(zip(head, group)),
            **{status: count[status] for status in STATUSES},
            "runs": count.total(),
            "recorded": theirs[group],
        }
        for group, count in counts.items()
    ]


def _add_total(row: dict[str, Any], total: int | None) -> None:
    done = max(0, sum(row[status] for status in FINISHED) - row["recorded"])
    row["done"], row["planned"] = done, total
    row["left"] = None if total is None else max(0, total - done)


def _table(rows: list[dict[str, Any]]) -> str:
    head = [name for name in ("study", "task", "arm", "phase") if rows and name in rows[0]]
    used = [status for status in STATUSES if any(row[status] for row in rows)]
    planned = any(row.get("planned") is not None for row in rows)
    lines = []
    for row in rows:
        of = [f"{row['done']} of {row['planned']}" if row["planned"] is not None else ""] if planned else []
        left = [row["left"]] if planned else []
        lines.append([*(row[name] for name in head), *of, *(row[status] for status in used), *left])
    return columns(lines, [*head, *(["done"] if planned else []), *used, *(["left"] if planned else [])])


def _at(worker: Worker, row: Mapping[str, Any]) -> bool:
    if "study" in row:
        return bool(worker.study == row["study"])
    return any((run.task, run.arm, run.phase) == (row["task"], row["arm"], row["phase"]) for run in worker.runs)


# Who works


def _workers(home: Home, found: Iterable[RunRecord]) -> list[Worker]:
    """The processes that live: workers by their own sign of life, others by the lock of what they run."""
    by_process: dict[tuple[str, int], Worker] = {}
    for told in signs_of_life(home):
        with suppress(KeyError, TypeError):
            key = (told["host"], told["pid"])
            by_process[key] = Worker(told["pid"], told["host"], told["study"], told["since"])
    for record in found:
        if record.status == "running":
            lock = home.run_folder / record.run_id / "owner.lock"
            owner = locks.owner(lock)
            if "pid" not in owner and not (record.attempts and locks.is_held(lock)):
                continue  # made just now and not begun, or over since it was read
            key = (str(owner.get("host", "?")), int(owner.get("pid", 0)))
            fresh = Worker(key[1], key[0], record.labels.study, record.started or record.file.created)
            by_process.setdefault(key, fresh).runs.append(_at_work(home, record))
    return sorted(by_process.values(), key=lambda worker: worker.since)


def _at_work(home: Home, record: RunRecord) -> AtWork:
    folder, labels = home.run_folder / record.run_id, record.labels
    update = int(record.last.get("count/updates", 0))
    with suppress(OSError, IndexError):
        line = spool.last_line(spool.spools(folder)[-1][1]) or {}
        update = max(update, int(line.get("update", 0)))
    return AtWork(
        record.run_id, record.file.name, labels.task, labels.arm, labels.phase, update, _fraction(record, update)
    )


def _fraction(record: RunRecord, update: int) -> float | None:
    """How much of the budget is used, at the last word of it."""
    budget = {unit: amount for unit, amount in dict(record.config.get("budget") or {}).items() if amount}
    for unit, amount in budget.items():
        used = update if unit == "updates" else record.last.get(_COUNTS.get(unit, ""))
        return None if used is None else min(1.0, float(used) / float(amount))
    return None


def _percent(fraction: float | None) -> str:
    return "" if fraction is None else f" ({100 * fraction:.0f} %)"


# What waits, and what the doctor would mend


def _left(home: Home, found: Iterable[RunRecord]) -> Left:
    idle = [record.run_id for record in found if record.status != "running"]
    return mirrored.left(home, tracking_uri(), idle)


def _to_mend(home: Home, found: Iterable[RunRecord], broken: int, left: Left) -> int:
    unmarked = sum(record.status == "lost" and record.ended is None and record.attempts > 0 for record in found)
    folders = [home.path, home.run_folder, *(home.path / "studies").glob("*/")]
    leftovers = sum(len(left_in(folder)) for folder in folders)
    unsent = bool(left) and not locks.is_held(home.path / "uploader.lock")
    return unmarked + broken + leftovers + unsent + _ends_in_half_a_line(home.path / "optuna.journal")


def _ends_in_half_a_line(journal: Path) -> bool:
    try:
        with journal.open("rb") as file:
            file.seek(-1, os.SEEK_END)
            return file.read(1) != b"\n" and not locks.is_held(journal.with_name(f"{journal.name}.lock"))
    except OSError:
        return False
