"""A report held against its evidence: an edit is found in the numbers that rest on it, and in no others."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from algos.finding import InputError
from experiments.store.home import Home
from experiments.store.uncached import UncachedHome
from reports.document import Document
from reports.verifying.report import load, verify
from reports.verifying.told import of_report


def edit(source: Any, record: Any, value: float) -> None:
    source.change([record], lambda r: dataclasses.replace(r, final={**r.final, "test/accuracy": value}))


def test_nothing_has_changed(two: Any, written: Callable[[Any], Document]) -> None:
    document = written(two)
    found = verify(document, two)
    assert found.none
    assert found.equal == len(list(document.quantities()))


def test_an_edit_of_one_seed_touches_the_numbers_of_its_arm_on_its_task_and_no_others(
    two: Any, written: Callable[[Any], Document]
) -> None:
    """Of two tasks and three arms: cora's numbers with adam in them, p-values corrected in one family with them, and
    what is said of both tasks together."""
    document = written(two)
    run = two.of(task="cora", arm="adam", phase="final")[3]
    edit(two, run, run.final["test/accuracy"] + 0.0004)
    found = verify(document, two)
    assert found.runs.edited == {run.run_id: ("final test/accuracy",)}
    assert found.numbers
    for change in found.numbers:
        assert change.old is not None
        assert change.new is not None
        assert "cora" in change.key
        assert "digits" not in change.key or change.key.startswith("overall/")
        corrected = "holm" in change.key
        assert corrected or ("adam" in change.key and change.because == (run.run_id,))
    mean = [change for change in found.numbers if "student.mean_interval" in change.key]
    assert len(mean) == 1
    assert mean[0].new is not None
    assert mean[0].old is not None
    assert mean[0].new.value == pytest.approx(mean[0].old.value + 0.0004 / 6)  # type: ignore[operator]
    assert found.equal == len(list(document.quantities())) - len(found.numbers)
    assert not found.verdicts


def test_every_number_that_rests_on_the_run_is_looked_at(two: Any, written: Callable[[Any], Document]) -> None:
    """Of those whose values could have moved: the mean, the differences, and their p-values."""
    document = written(two)
    run = two.of(task="digits", arm="lion", phase="final")[0]
    edit(two, run, run.final["test/accuracy"] - 0.0007)
    changed = {change.key for change in verify(document, two).numbers}
    means = [key for key in changed if "student.mean_interval" in key]
    differences = [key for key in changed if "student.paired" in key and key.startswith("results")]
    assert (len(means), len(differences)) == (1, 2)


def test_a_run_that_is_deleted(two: Any, written: Callable[[Any], Document]) -> None:
    document = written(two)
    run = two.of(task="cora", arm="sgd", phase="final")[5]
    two.records.remove(run)
    found = verify(document, two)
    assert found.runs.deleted == (run.run_id,)
    assert not found.runs.added
    assert not found.runs.edited
    assert all("digits" not in c.key for c in found.numbers if c.key.split("/")[0] in ("answer", "results"))
    assert any(run.run_id in change.because for change in found.numbers)


def test_a_run_that_is_added(two: Any, written: Callable[[Any], Document]) -> None:
    new = two.of(task="digits", arm="sgd", phase="final")[5]
    two.records.remove(new)
    document = written(two)
    two.records.append(new)
    found = verify(document, two)
    assert found.runs.added == (new.run_id,)
    assert all("cora" not in c.key for c in found.numbers if c.key.split("/")[0] in ("answer", "results"))
    assert not found.none


def test_a_verdict_that_is_no_longer_supported(two: Any, written: Callable[[Any], Document]) -> None:
    document = written(two)
    for index, run in enumerate(two.of(task="cora", arm="adam", phase="final")):
        edit(two, run, 0.93 + 0.02 * (-1) ** index)
    found = verify(document, two)
    assert found.verdicts
    assert all("cora" in verdict.place for verdict in found.verdicts)
    assert any(line.startswith("verdict, ") for line in of_report(found, "report"))


def test_numbers_are_computed_again_even_where_the_fingerprints_are_as_they_were(
    two: Any, written: Callable[[Any], Document]
) -> None:
    """Whoever edits a run and the fingerprints in the report with it is found out."""
    before, run = written(two), two.of(task="cora", arm="adam", phase="final")[0]
    edit(two, run, 0.9)
    forged = before.model_copy(update={"basis": written(two).basis})
    found = verify(forged, two)
    assert not found.runs.runs
    assert any("student.mean_interval" in change.key for change in found.numbers)


def test_a_report_that_cannot_be_made_again_says_why_and_what_went(
    two: Any, written: Callable[[Any], Document]
) -> None:
    document = written(two)
    gone = [record.run_id for record in two.records[1:]]
    two.records = [dataclasses.replace(two.records[0], status="interrupted")]
    found = verify(document, two)
    assert "no finished runs" in found.broken
    assert set(found.runs.deleted) == set(gone)
    assert not found.none


def test_a_study_that_is_not_there_at_all_is_bad_input(
    two: Any, made: Callable[..., Any], written: Callable[[Any], Document]
) -> None:
    with pytest.raises(InputError, match="unknown study 'sgd-or-adam'"):
        verify(written(two), made(name="another"))


def test_the_question_that_its_reader_put_is_put_again(two: Any) -> None:
    from reports.table import read
    from reports.verifying.prints import basis
    from reports.verifying.report import again

    study = read(two, "sgd-or-adam")
    asked = again(study, "Is it so?").model_copy(update={"basis": basis(study, "Is it so?")})
    assert verify(asked, two).none


def test_a_report_of_schema_1_is_recomputed_too(two: Any, written: Callable[[Any], Document]) -> None:
    data = json.loads(written(two).to_json())
    old = {**{key: value for key, value in data.items() if key != "basis"}, "schema": 1}
    assert verify(Document.from_json(json.dumps(old)), two).none


def test_a_home_that_was_edited_on_disk(
    two: Any,
    stored: Callable[..., Home],
    written: Callable[[Any], Document],
    rewrite: Callable[..., None],
) -> None:
    source = UncachedHome(stored(two))
    document = written(source)
    assert verify(document, source).none
    folder = source.home.folder(two.of(task="digits", arm="sgd", phase="final")[2].run_id)
    rewrite(folder, "points", lambda line: line["values"].update({"val/accuracy": 0.5}))
    found = verify(document, source)
    assert set(found.runs.edited or {}) == {folder.run_id}
    assert "series of values" in (found.runs.edited or {})[folder.run_id]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "not a report's data"),
        (b"{", "not a report's data"),
        (b"[1, 2]", "not a report's data"),
        (b'{"schema": 1}', "not a report's data"),
        (b'{"schema": 99, "study": "x", "blocks": []}', "schema 99"),
        (b'{"schema": 2, "study": "x", "blocks": [{"kind": "script"}]}', "not a report's data"),
        (b"\xff\xfe\x00", "not a report's data"),
        (b"[" * 100_000, "not a report's data"),
    ],
)
def test_what_is_no_report_is_refused_in_one_line(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "report.json"
    path.write_bytes(content)
    with pytest.raises(InputError) as refused:
        load(path)
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)
    assert path.read_bytes() == content


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no such file"):
        load(tmp_path / "report.json")
    with pytest.raises(InputError, match="cannot be read"):
        load(tmp_path)
