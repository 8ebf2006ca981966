"""Another metric: a Source whose runs are seen as judged by one of their other series, for a figure of that."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from algos.finding import InputError, unknown
from experiments.store.metric_names import inferred_mode
from experiments.store.schema import RunRecord
from experiments.store.sources import Series, Source
from reports.judged import Stated
from reports.table import StudyTable, read


class Retold:
    """The runs of a source without what they say of their metric and target."""

    def __init__(self, source: Source):
        self._source = source

    def runs(self, query: str = "") -> list[RunRecord]:
        return [_without(record) for record in self._source.runs(query)]

    def series(self, run_ids: Iterable[str], metrics: Sequence[str] | None = None) -> list[Series]:
        return self._source.series(run_ids, metrics)


def table(source: Source, study: str, metric: str = "", mode: str = "") -> StudyTable:
    """The study's table, by the metric that its runs say, or by another series that they logged ("train/loss").
    InputError where no run logged it, and where its name does not tell which way is better and nobody says."""
    if not metric:
        return read(source, study, Stated("", mode))
    mode = mode or inferred_mode(metric)
    if not mode:
        _check_logged(source, study, metric)
        raise InputError(f"'{metric}' does not say which way is better", "add --mode max or --mode min", place="mode")
    try:
        return read(Retold(source), study, Stated(metric, mode))
    except InputError:
        if mode in ("max", "min"):
            _check_logged(source, study, metric)
        raise


def _check_logged(source: Source, study: str, metric: str) -> None:
    """InputError, with what there is, where the study's runs have logged series, but not this one. An unknown study's
    own."""
    ids = [record.run_id for record in source.runs() if record.labels.study == study]
    if not ids:
        read(source, study)
    known = {one.metric for one in source.series(ids)}
    if known and metric not in known:
        raise unknown("metric", metric, known, place="metric")


def _without(record: RunRecord) -> RunRecord:
    task = {key: value for key, value in record.task.items() if key not in ("metric", "mode", "target", "baselines")}
    return replace(record, file=replace(record.file, facts={**record.file.facts, "task": task}))
