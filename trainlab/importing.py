"""Importing: results that other tools wrote become a study of this home; and a study becomes tables for other tools.

    tl.import_runs("csv", "results.csv", name="paper", metric="val/acc", arm="method")
    tl.study("paper").report()

The same words as on the command line: `trainlab import csv results.csv --name paper --metric val/acc --arm method`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from algos.finding import InputError, unknown
from experiments.store.home import Home
from trainlab.attending import note

if TYPE_CHECKING:
    from experiments.store.copying import Copied
    from experiments.store.sources import Source
    from experiments.store.sources.foreign import Reader
    from experiments.store.sources.labelling import Labelling
    from trainlab.study_handle import Study

#: What a source of each kind may be told, beside the labels that all but AlgoPerf's take.
OPTIONS: Mapping[str, tuple[str, ...]] = {
    "csv": (
        "run", "step", "metric_column", "value_column", "at", "status", "phase", "number", "config", "metrics",
        "status_words",
    ),
    "mlflow": ("experiments", "status_words"),
    "optuna": ("study",),
    "tensorboard": ("pattern",),
    "wandb": (),
    "algoperf": ("ruleset", "targets"),
}  # fmt: skip
LABELS = ("task", "arm", "seed", "task_name", "arm_name")

#: How long an import waits for MLflow to have its runs, in seconds, where they are few enough to be there by then: it
#: takes about 8 a second. More than that are sent after the command has ended.
_WAIT_S, _FEW = 15.0, 100


def import_runs(
    kind: str,
    place: str | Path,
    *,
    name: str,
    metric: str = "",
    mode: str = "",
    target: float | None = None,
    where: str = "",
    replace: bool = False,
    **options: Any,
) -> Study:
    """Copies results that another tool wrote into the study `name`; what was found and assumed is said.

    kind: csv, mlflow, optuna, tensorboard, wandb or algoperf; place: a file, folder or URI. metric, mode: by what runs
    are judged ("val/acc", "max"); target: a value of it worth timing. where: a query that selects runs. replace: runs
    that changed in their source since they were imported take the place of their copies.

    options: task, arm, seed (the column or setting that each is read from), task_name, arm_name (the same for all);
    csv: run, step, metric_column, value_column, at, status, phase, number, config, metrics, status_words; mlflow:
    experiments, status_words; optuna: study; tensorboard: pattern ("{arm}/seed{seed}"); algoperf: ruleset, targets.

    Done twice, it adds nothing. InputError, and nothing is changed, for what cannot be read.
    """
    from trainlab.study_handle import Study

    home = Home.default()

    def tell(done: Copied) -> None:
        for line in told(done, home):
            note(line)

    copied(kind, place, name, home, options, tell, (metric, mode, target), where, replace)
    return Study(name, home)


def copied(
    kind: str, place: str | Path, name: str, home: Home, options: Mapping[str, Any],
    tell: Callable[[Copied], None],
    judged: tuple[str, str, float | None] = ("", "", None), where: str = "", replace: bool = False,
) -> Copied:  # fmt: skip
    """Copies a source's runs, tells what came of it, and has them mirrored."""
    from experiments.store import copying
    from trainlab.running import recorded

    copying.check_name(name)
    found = source(kind, place, name, options, judged[0])
    where_from = str(Path(place).expanduser().absolute()) if kind == "algoperf" else ""
    judging = copying.Judging(*judged)  # what cannot be read is refused before a home is made
    drafts = copying.drafts(found, study=name, kind=kind, place=where_from, judging=judging, query=where)
    with recorded(home, wait_s=_WAIT_S if len(drafts.copies) <= _FEW else 0.0):
        done = copying.store(drafts, home, replace)
        tell(done)
    return done


def source(kind: str, place: str | Path, study: str, options: Mapping[str, Any], metric: str = "") -> Source:
    """The Source of a kind. metric: by which its runs are judged, where the user says so. InputError for a kind or an
    option that does not exist."""
    if kind not in OPTIONS:
        raise unknown("kind of source", kind, OPTIONS, place="KIND")
    valid = OPTIONS[kind] + (LABELS if kind != "algoperf" else ())
    for word in options:
        if word not in valid:
            raise unknown(f"option of {kind}", word, valid, place=word)
    given = {word: value for word, value in options.items() if value} | {"judged": metric}
    if kind == "algoperf":
        from experiments.store.sources.algoperf import AlgoPerfSource

        return AlgoPerfSource(Path(place), given.get("ruleset", ""), given.get("targets"), study=study)
    from experiments.store.sources.foreign import Foreign
    from experiments.store.sources.labelling import Labelling

    labelling = Labelling(**{word: str(given[word]) for word in LABELS if word in given})
    return Foreign(_READERS[kind](place, given, labelling), study, labelling)


def told(done: Copied, home: Home) -> list[str]:
    """What was found and assumed, a line each, and last what came of it."""
    runs = [*done.added, *done.anew]
    statuses = Counter(home.folder(run_id).record().status for run_id in runs)
    counts = ", ".join(f"{count} {status}" for status, count in statuses.most_common())
    parts = [f"{len(done.added)} runs added"] if done.added else []
    parts += [f"{len(done.anew)} copied anew, the earlier copies are in the trash"] if done.anew else []
    parts += [f"{done.already} already there"] if done.already else []
    return [
        *(f"note: {line}" for line in done.notes),
        f"study {done.study}: {', '.join(parts)}" + (f" ({counts})" if counts else ""),
    ]


def _csv(place: str | Path, given: Mapping[str, Any], labelling: Labelling) -> Reader:
    from experiments.store.sources.delimited import Columns, CsvReader
    from experiments.store.sources.statuses import Meanings

    names = {"metric_column": "metric", "value_column": "value"}
    known = {names.get(word, word): value for word, value in given.items()}
    columns = Columns(**{item.name: known[item.name] for item in fields(Columns) if item.name in known}
                      | {word: listed(known[word]) for word in ("config", "metrics") if word in known})  # fmt: skip
    labels = [labelling.task, labelling.seed, *listed(labelling.arm)]
    meanings = Meanings.of_options(given.get("status_words", ()))
    return CsvReader(place, columns, labels, meanings, str(given.get("judged", "")))


def _mlflow(place: str | Path, given: Mapping[str, Any], labelling: Labelling) -> Reader:
    from experiments.store.sources.foreign_mlflow import MlflowReader
    from experiments.store.sources.statuses import Meanings

    return MlflowReader(
        str(place), listed(given.get("experiments", ())), Meanings.of_options(given.get("status_words", ()))
    )


def _optuna(place: str | Path, given: Mapping[str, Any], labelling: Labelling) -> Reader:
    from experiments.store.sources.optuna import OptunaReader

    return OptunaReader(str(place), str(given.get("study", "")))


def _tensorboard(place: str | Path, given: Mapping[str, Any], labelling: Labelling) -> Reader:
    from experiments.store.sources.tensorboard import TensorboardReader

    return TensorboardReader(place, str(given.get("pattern", "")))


def _wandb(place: str | Path, given: Mapping[str, Any], labelling: Labelling) -> Reader:
    from experiments.store.sources.wandb import WandbReader
    from experiments.store.sources.wandb_charts import WandbChartReader

    return WandbChartReader(place) if str(place).lower().endswith(".csv") else WandbReader(place)


_READERS: Mapping[str, Callable[[str | Path, Mapping[str, Any], Labelling], Reader]] = {
    "csv": _csv,
    "mlflow": _mlflow,
    "optuna": _optuna,
    "tensorboard": _tensorboard,
    "wandb": _wandb,
}


def listed(given: str | Iterable[str]) -> tuple[str, ...]:
    """Names with commas between them, or a list of them.

    >>> listed("lr, width"), listed(["lr"]), listed("")
    (('lr', 'width'), ('lr',), ())
    """
    if isinstance(given, str):
        return tuple(part.strip() for part in given.split(",") if part.strip())
    return tuple(given)


def export(study: str, path: str | Path, form: str = "", force: bool = False, home: Home | None = None) -> list[Path]:
    """Writes a study's tables (see `experiments.store.exporting`); the files."""
    from experiments.store.exporting import export as write

    if not str(path):
        raise InputError("no file is named", "give one, e.g. paper.csv", place="--out")
    return write(home or Home.default(), study, Path(path).expanduser(), form, force)
