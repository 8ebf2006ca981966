"""Fingerprints: the same for the same evidence wherever it is read, another for every part of it that is edited."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from experiments.store.home import Home
from experiments.store.sources.home import HomeSource
from experiments.store.uncached import UncachedHome
from reports.judged import Stated
from reports.report import build
from reports.table import read
from reports.verifying.prints import based, basis, difference, run_print, stated_of

STUDY = "sgd-or-adam"


def test_numbers_that_are_equal_are_printed_alike(two: Any) -> None:
    record = two.records[0]
    whole = dataclasses.replace(record, last={"b": 1.0, "a": 2.0})
    other = dataclasses.replace(record, last={"a": 2, "b": 1})
    assert run_print(whole, None) == run_print(other, None)


@pytest.mark.parametrize(
    ("part", "change"),
    [
        ("status", {"status": "diverged"}),
        ("final test/accuracy", {"final": {"test/accuracy": 0.5, "objective": 0.9}}),
        ("target reached", {"reached": {"update": 3}}),
        ("last val/accuracy", {"last": {"val/accuracy": 0.1}}),
        ("attempts and times", {"ended": 5}),
        ("events", {"events": ({"name": "stopped_early", "at": 1},)}),
        ("values that were not finite", {"nonfinite": ("train/loss",)}),
    ],
)
def test_an_edit_shows_in_its_part_alone(two: Any, part: str, change: dict[str, Any]) -> None:
    record = dataclasses.replace(two.records[0], final={"test/accuracy": 0.9, "objective": 0.9})
    before, after = run_print(record, None), run_print(dataclasses.replace(record, **change), None)
    assert difference([before], [after]).edited == {record.run_id: (part,)}
    assert before.sha256 != after.sha256


def test_the_time_of_day_of_an_event_is_no_evidence(two: Any) -> None:
    early, late = (dataclasses.replace(two.records[0], events=({"name": "warning", "at": at},)) for at in (1, 2))
    assert run_print(early, None) == run_print(late, None)


def test_a_curve_is_evidence(two: Any) -> None:
    study = read(two, STUDY)
    record = next(r for r in study.runs if r.run_id in study.curves)
    curve = study.curves[record.run_id]
    moved = dataclasses.replace(curve, values=curve.values + 1e-9)
    found = difference([run_print(record, curve)], [run_print(record, moved)])
    assert found.edited == {record.run_id: ("series of values",)}


def test_runs_that_came_and_went_are_told(two: Any) -> None:
    prints = basis(read(two, STUDY)).runs
    found = difference(prints[1:], prints[:-1])
    assert (found.deleted, found.added, found.edited) == ((prints[-1].run_id,), (prints[0].run_id,), {})


def test_what_the_reader_stated_is_in_the_basis(tmp_path: Path, homes: Any) -> None:
    home = Home(tmp_path / "home")
    homes.recorded(home, "a", 0.9, metric="", mode="", logged="val/score")
    stated = Stated("val/score", "max")
    study = read(HomeSource(home), "mine", stated)
    assert stated_of(study) == stated
    assert (basis(study, "Why?", "home").question, basis(study).metric) == ("Why?", "val/score")


def test_a_document_says_what_kind_of_store_it_was_read_from(two: Any, stored: Callable[..., Home]) -> None:
    source = HomeSource(stored(two))
    study = read(source, STUDY)
    told = based(build(study).document, study, "Why?", source).basis
    assert told is not None
    assert (told.source, told.question, len(told.runs)) == ("home", "Why?", len(two.records))
    elsewhere = based(build(study).document, study, "", two).basis
    assert elsewhere is not None
    assert elsewhere.source == ""


def test_what_the_runs_say_themselves_was_not_stated(two: Any) -> None:
    assert stated_of(read(two, STUDY)) == Stated()


def test_a_home_is_read_from_its_files_and_not_from_what_was_kept_of_them(
    two: Any, stored: Callable[..., Home], rewrite: Callable[..., None]
) -> None:
    """An edit that keeps the size of the file is not seen by who believes record.json."""
    home = stored(two)
    before = basis(read(HomeSource(home), STUDY))
    folder = home.folder(two.of(phase="final")[0].run_id)
    rewrite(folder, "final", lambda line: line["values"].update({"test/accuracy": _other(line)}))
    assert difference(before.runs, basis(read(HomeSource(home), STUDY)).runs).edited == {}
    found = difference(before.runs, basis(read(UncachedHome(home), STUDY)).runs).edited
    assert found == {folder.run_id: ("final test/accuracy", "last test/accuracy")}


def _other(line: dict[str, Any]) -> float:
    """Another value with as many digits."""
    text = repr(line["values"]["test/accuracy"])
    return float(text.replace(text[3], "1" if text[3] != "1" else "2", 1))


@pytest.mark.slow
def test_the_same_from_the_home_and_from_mlflow(
    two: Any, stored: Callable[..., Home], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from experiments.store.mirror import Mirror
    from experiments.store.sources.mlflow import MLflowSource

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    monkeypatch.setenv("MLFLOW_TRUNCATE_LONG_VALUES", "false")
    home, uri = stored(two), f"sqlite:///{tmp_path / 'mlflow.db'}"
    mirror = Mirror(uri)
    for run_id in home.run_ids():
        mirror.push(home.folder(run_id))
    assert basis(read(UncachedHome(home), STUDY)) == basis(read(MLflowSource(uri), STUDY))
