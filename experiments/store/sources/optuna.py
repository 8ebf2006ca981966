"""Optuna's trials as a Source: parameters, values, intermediate values and states of one study of a storage.

A trial is a tuning run. Its sampler and pruner are nowhere in a storage, so they are told as unknown."""

from __future__ import annotations

import contextlib
import logging
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from algos.finding import InputError, unknown
from experiments.store.metric_names import canonical_metric
from experiments.store.schema import Status
from experiments.store.sources.databases import check_answers, check_file, check_sqlite, displayed, without_secrets
from experiments.store.sources.foreign import Point, Points, Read, Told
from experiments.store.tracking import sqlite_path

if TYPE_CHECKING:
    import optuna
    from optuna.trial import FrozenTrial

_TABLES = ("studies", "trials", "trial_params", "trial_values", "version_info")
_STATUS: Mapping[str, tuple[Status, str]] = {
    "COMPLETE": ("completed", ""),
    "PRUNED": ("pruned", "pruned by the study's pruner"),
    "FAIL": ("crashed", "Optuna says FAIL"),
    "RUNNING": ("lost", "it was RUNNING when it was imported"),
}


class OptunaReader:
    """Reads a study of a storage: sqlite:///FILE, another database, or the file of a journal. study: its name; by
    default, the only one there is."""

    kind = "optuna"
    late: Sequence[str] = ()

    def __init__(self, url: str, study: str = ""):
        self.url = url if "://" in url else str(Path(url).expanduser().absolute())
        self.place = displayed(self.url)
        self._study = study

    def points(self, run: Told) -> Points:
        return run.points

    def read(self) -> Read:
        with self._clear():
            storage = self._storage()
            study = self._loaded(storage)
            trials = study.get_trials(deepcopy=False)
            names = _objectives(study)
        self.place = f"{displayed(self.url)} ({study.study_name})"
        notes = ["the sampler is not known: Optuna's storage does not say it"]
        waiting = sum(trial.state.name == "WAITING" for trial in trials)
        if waiting:
            notes.append(f"{waiting} trials never began, and are left out")
        modes = ["max" if direction.name == "MAXIMIZE" else "min" for direction in study.directions]
        facts = self._facts(study, dict(zip(names, modes)))
        if len(names) > 1:
            notes.append(f"there are {len(names)} objectives: runs are judged by the first, {names[0]} (--metric)")
        runs = [self._told(trial, names, facts) for trial in trials if trial.state.name != "WAITING"]
        metric = names[0] if _has(runs, names[0]) else ""
        attributes = {name for trial in trials for name in trial.user_attrs}
        searched = [name for name in dict.fromkeys(n for t in trials for n in t.params) if name not in attributes]
        return Read(runs, notes, metric=metric, mode=modes[0], task=study.study_name, searched=searched)

    def _storage(self) -> optuna.storages.BaseStorage:
        from optuna.storages import JournalStorage, RDBStorage
        from optuna.storages.journal import JournalFileBackend

        logging.getLogger("optuna").setLevel(logging.ERROR)
        if "://" in self.url:
            check_sqlite(self.url, _TABLES, "Optuna")
            check_answers(self.url)
            if sqlite_path(self.url) is None and self.url.startswith("sqlite"):
                raise InputError(f"{self.place} is not a file", "give sqlite:///FILE", rule="no-source")
            return RDBStorage(self.url, skip_table_creation=True)
        path = Path(self.url)
        check_file(path, "the file of a journal, or sqlite:///FILE")
        with path.open("rb") as file:
            start = file.read(16)
        if start == b"SQLite format 3\0":
            return OptunaReader(f"sqlite:///{path}", self._study)._storage()
        if start[:1] != b"{":
            raise InputError(
                f"{path} is no journal of Optuna's", "give a journal's file or sqlite:///FILE", rule="wrong-kind"
            )
        return JournalStorage(_Reading(str(path), JournalFileBackend))  # type: ignore[arg-type]

    def _loaded(self, storage: optuna.storages.BaseStorage) -> optuna.Study:
        import optuna

        names = [found.study_name for found in storage.get_all_studies()]
        if not names:
            raise InputError(f"{self.place} has no studies", "give a storage that has", rule="empty-source")
        if self._study and self._study not in names:
            raise unknown("study", self._study, names, source=self.place, place="--study")
        if not self._study and len(names) > 1:
            raise InputError(
                f"{self.place} has {len(names)} studies ({', '.join(names[:6])})", "name one with --study",
                rule="which-study",
            )  # fmt: skip
        return optuna.load_study(study_name=self._study or names[0], storage=storage)

    @contextlib.contextmanager
    def _clear(self) -> Iterator[None]:
        """What Optuna or its database raise, in one line."""
        try:
            yield
        except InputError:
            raise
        except Exception as error:  # of Optuna, its database or the network
            said = without_secrets(str(error) or type(error).__name__, self.url)
            cure = "look whether it is there and whole"
            if "no longer compatible" in said or "upgrade" in said:
                cure = "another version of Optuna wrote it: `optuna storage upgrade` brings a copy of it up to date"
            raise InputError(f"{self.place} cannot be read ({said})", cure, rule="no-source") from error

    def _facts(self, study: optuna.Study, objectives: Mapping[str, str]) -> dict[str, Any]:
        tuner = {"objectives": dict(objectives)} if len(objectives) > 1 else {}
        return {"study": {"sampler": "", "tuner": tuner}}

    def _told(self, trial: FrozenTrial, names: list[str], facts: Mapping[str, Any]) -> Told:
        status, reason = _STATUS[trial.state.name]
        told = {key: value for key, value in trial.user_attrs.items() if isinstance(value, (str, int, float, bool))}
        begun, over = _ms(trial.datetime_start), _ms(trial.datetime_complete)
        final = dict(zip(names, trial.values or ())) if trial.state.name == "COMPLETE" else {}
        steps: list[Point] = [
            (int(step), float(value), begun or 0) for step, value in sorted(trial.intermediate_values.items())
        ]
        whole = all(step[0] >= 0 for step in steps)
        return Told(
            key=f"trial {trial.number}",
            name=f"trial {trial.number}",
            said={**trial.params, **told},
            config=dict(trial.params),
            status=status,
            reason=reason,
            started=begun,
            ended=over,
            points={names[0]: steps} if steps and whole else {},
            final={**final, **({"objective": final[names[0]]} if final else {})},
            labels={"phase": "tune", "number": trial.number, "seed": trial.number + 1},
            facts={**facts, "study": {**facts["study"], "attributes": told, "space": _space(trial)}},
        )


class _Reading:
    """A journal that is only read: Optuna's own backend makes a lock and would make a file."""

    def __init__(self, path: str, backend: Any):
        self._backend = backend(path)

    def read_logs(self, log_number_from: int) -> Any:
        return self._backend.read_logs(log_number_from)

    def append_logs(self, logs: Any) -> None:
        raise InputError("a journal that is imported is only read")


def _objectives(study: optuna.Study) -> list[str]:
    """What the objectives are called: as the study says, else value, or values_0, values_1 and so on."""
    count = len(study.directions)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Optuna calls it experimental
        named = study.metric_names
    given = named or (["value"] if count == 1 else [f"values_{index}" for index in range(count)])
    return [f"val/{canonical_metric(name)}" if not re.match(r"(train|test|time)/", name) else name for name in given]


def _has(runs: list[Told], metric: str) -> bool:
    return any(metric in run.final or metric in run.points for run in runs)


def _space(trial: FrozenTrial) -> dict[str, Any]:
    """The ranges that a trial was drawn from, written as trainlab writes them."""
    found: dict[str, Any] = {}
    for name, of in trial.distributions.items():
        if hasattr(of, "choices"):
            found[name] = list(of.choices)
        else:
            whole = ":int" if type(of).__name__.startswith("Int") else ""
            ends = f"{_end(of.low)}:{_end(of.high)}"  # type: ignore[attr-defined]
            found[name] = f"{ends}{':log' if of.log else ''}{whole}"  # type: ignore[attr-defined]
    return found


def _end(value: float) -> str:
    """An end of a range, to its last digit.

    >>> _end(64.0), _end(1e-05), _end(0.12345678)
    ('64', '1e-05', '0.12345678')
    """
    return repr(value).removesuffix(".0")


def _ms(at: datetime | None) -> int | None:
    """Optuna's times are of the zone of whoever ran it."""
    return None if at is None else round(at.timestamp() * 1000)
