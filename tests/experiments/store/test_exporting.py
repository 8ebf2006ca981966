"""An exported study is the same table each time, tells what was measured to the last digit, and comes back whole."""

from __future__ import annotations

import csv
import json
import math
import os

import pytest

from algos.finding import InputError
from experiments.store.copying import copy
from experiments.store.exporting import POINT_COLUMNS, RUN_COLUMNS, export
from experiments.store.home import Home
from experiments.store.sources.delimited import CsvReader
from experiments.store.sources.foreign import Foreign


@pytest.fixture
def study(create, home) -> Home:
    """A home with a study of four runs, with all that a table could lose."""
    task = {"metric": "accuracy", "mode": "max", "target": 0.5, "title": '数字, "digits"'}
    for number, (arm, status) in enumerate([("lion", "completed"), ("lion", "diverged"), ('a,b "<i>', "completed")]):
        folder = create(study="paper", arm=arm, phase="final", number=number % 2, seed=number + 1, facts={"task": task})
        attempt = folder.begin()
        attempt.points(1, {"val/accuracy": 0.1 + number / 3, "train/loss": 1e-300})
        attempt.points(2, {"val/accuracy": 2 / 3, "train/loss": math.nan if status == "diverged" else 0.1})
        attempt.event("reached_target", update=2, value=2 / 3)
        if status == "completed":
            attempt.final({"test/accuracy": 1 / 3, "objective": 2 / 3})
        attempt.end(status, reason='why, "so"\n', traceback="T" * 200_000 if status == "diverged" else "")
    create(study="paper", arm="lion", phase="tune", number=0).begin().end("pruned")
    create(study="another", arm="lion").begin().end("completed")
    return home


def tables(path) -> tuple[list[dict[str, str]], list[dict[str, str]]]:
    csv.field_size_limit(10_000_000)
    found = []
    for each in (path, path.with_name(f"{path.stem}.runs.csv")):
        with each.open(encoding="utf-8", newline="") as file:
            found.append(list(csv.DictReader(file)))
    return found[0], found[1]


def test_the_columns_are_those_that_are_promised(study, tmp_path):
    assert export(study, "paper", tmp_path / "p.csv") == [tmp_path / "p.csv", tmp_path / "p.runs.csv"]
    points, runs = tables(tmp_path / "p.csv")
    assert tuple(points[0]) == POINT_COLUMNS
    assert tuple(runs[0]) == (*RUN_COLUMNS, "final.objective", "final.test/accuracy")
    assert [(r["arm"], r["phase"], r["number"]) for r in runs] == [
        ('a,b "<i>', "final", "0"), ("lion", "final", "0"), ("lion", "final", "1"), ("lion", "tune", "0"),
    ]  # fmt: skip


def test_values_are_whole_and_those_that_are_no_numbers_are_there(study, tmp_path):
    export(study, "paper", tmp_path / "p.csv")
    points, _ = tables(tmp_path / "p.csv")
    first = [(p["metric"], p["update"], float(p["value"])) for p in points if p["seed"] == "1"]
    assert first == [
        ("train/loss", "1", 1e-300), ("train/loss", "2", 0.1), ("val/accuracy", "1", 0.1), ("val/accuracy", "2", 2 / 3),
    ]  # fmt: skip
    [bad] = [p for p in points if p["value"] == "nan"]
    assert (bad["seed"], bad["metric"], bad["update"]) == ("2", "train/loss", "2")


def test_there_and_back_again_nothing_is_lost(study, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    export(study, "paper", tmp_path / "p.csv")
    other = Home(tmp_path / "other")
    copy(Foreign(CsvReader(tmp_path / "p.csv"), "paper"), other, study="paper")

    def told(home: Home) -> list[tuple]:
        key = lambda r: (r.labels.arm, r.labels.phase, r.labels.number)  # noqa: E731
        records = sorted((r for r in home.records() if r.labels.study == "paper"), key=key)
        return [
            (
                r.labels, r.file.name, r.status, r.reason, r.traceback, r.started, r.ended, r.last, r.final,
                r.nonfinite, r.reached, r.task["title"] if r.task else "",
                [(s.metric, s.updates, s.values) for s in home.series([r.run_id])],
                [s.at for s in home.series([r.run_id], ["val/accuracy", "train/loss"])],
                {k: v for k, v in r.config.items() if k not in ("schema", "recorded", "seed")},
            )
            for r in records
        ]  # fmt: skip

    ours, theirs = told(study), told(other)
    assert len(ours) == 4
    for one, same in zip(ours, theirs):
        assert same[:11] == one[:11]
        assert same[12:] == one[12:]

    export(other, "paper", tmp_path / "q.csv")
    again = [{k: v for k, v in row.items() if k != "run_id"} for row in tables(tmp_path / "q.csv")[0]]
    assert again == [{k: v for k, v in row.items() if k != "run_id"} for row in tables(tmp_path / "p.csv")[0]]


def test_the_same_study_is_the_same_bytes(study, tmp_path):
    for form in ("csv", "json", "parquet"):
        for name in ("one", "two"):
            export(study, "paper", tmp_path / f"{name}.{form}")
        assert (tmp_path / f"one.{form}").read_bytes() == (tmp_path / f"two.{form}").read_bytes()


def test_parquet_holds_the_same_with_its_types(study, tmp_path):
    import pyarrow.parquet

    export(study, "paper", tmp_path / "p.csv")
    export(study, "paper", tmp_path / "p.parquet")
    table = pyarrow.parquet.read_table(tmp_path / "p.parquet")
    points, runs = tables(tmp_path / "p.csv")
    assert [repr(v) for v in table["value"].to_pylist()] == [p["value"] for p in points]
    assert table["update"].to_pylist() == [int(p["update"]) for p in points]
    found = pyarrow.parquet.read_table(tmp_path / "p.runs.parquet").to_pylist()
    assert [run["arm"] for run in found] == [run["arm"] for run in runs]
    assert found[0]["final.test/accuracy"] == 1 / 3
    assert found[3]["final.test/accuracy"] is None


def test_json_is_json_and_holds_both_tables(study, tmp_path):
    assert export(study, "paper", tmp_path / "p.json") == [tmp_path / "p.json"]
    data = json.loads((tmp_path / "p.json").read_text(), parse_constant=lambda word: pytest.fail(word))
    assert (data["schema"], data["study"], len(data["runs"])) == (1, "paper", 4)
    assert data["runs"][1]["config"]["optimizer"]["name"] == "lion"
    assert [p["value"] for p in data["points"] if p["metric"] == "train/loss" and p["seed"] == 2][-1] == "nan"


def test_a_file_that_is_there_is_not_written_over_unless_asked(study, tmp_path):
    (tmp_path / "p.runs.csv").write_text("mine")
    with pytest.raises(InputError, match="exists already"):
        export(study, "paper", tmp_path / "p.csv")
    assert (tmp_path / "p.runs.csv").read_text() == "mine"
    assert not (tmp_path / "p.csv").exists()
    export(study, "paper", tmp_path / "p.csv", force=True)
    assert tables(tmp_path / "p.csv")[1]


@pytest.mark.parametrize(
    ("study_name", "file", "form", "said"),
    [
        ("papre", "p.csv", "", "did you mean 'paper'"),
        ("", "p.csv", "", "unknown study"),
        ("paper", "p.xlsx", "", "unknown format 'xlsx'"),
        ("paper", "p", "", "unknown format ''"),
        ("paper", "p.csv", "feather", "unknown format 'feather'"),
        ("paper", "gone/p.csv", "", "gone does not exist"),
        ("paper", "runs.json/p.json", "", "runs.json is no folder"),
        ("paper", "/proc/p.json", "", "/proc/p.json cannot be written"),
        ("paper", "/proc/p.csv", "", "/proc/p.csv cannot be written"),
        ("paper", f"{'long' * 80}.csv", "", "cannot be written"),
        ("paper", ".", "csv", "is a folder"),
        ("paper", "..", "json", "is a folder"),
    ],
)
def test_what_cannot_be_written_is_refused(study, tmp_path, study_name, file, form, said):
    (tmp_path / "runs.json").write_text("mine")
    before = sorted(tmp_path.iterdir())
    for force in (False, True):
        with pytest.raises(InputError, match=said):
            export(study, study_name, tmp_path / file, form, force)
    assert sorted(tmp_path.iterdir()) == before


def test_points_whose_run_the_other_table_lacks_are_refused(study, tmp_path):
    export(study, "paper", tmp_path / "p.csv")
    runs = tmp_path / "p.runs.csv"
    text = runs.read_text().replace(tables(tmp_path / "p.csv")[0][0]["run_id"], "somebody")
    runs.write_text(text)
    with pytest.raises(InputError, match="has no run"):
        Foreign(CsvReader(tmp_path / "p.csv")).runs()


def test_what_trainlab_ran_keeps_its_config_its_facts_and_its_date_and_says_that_trainlab_ran_it(study, tmp_path):
    export(study, "paper", tmp_path / "p.csv")
    other = Home(tmp_path / "other")
    done = copy(found := Foreign(CsvReader(tmp_path / "p.csv"), "paper"), other, study="paper", kind="csv")
    assert found.notes == ["trainlab exported it: what the runs are is in p.runs.csv, beside it"]
    assert len(done.added) == 4
    ours = {record.run_id: record.file for record in study.records()}
    for record in other.records():
        source = record.file.facts["source"]
        assert source["steps"] == "updates"
        assert source["before"] == {"kind": "trainlab", "study": "paper", "run": source["run"]}
        then = ours[source["run"]]
        assert json.dumps(record.config) == json.dumps(then.config)  # in its order too
        assert record.file.created == then.created
        assert record.file.facts["recorded"] == "imported"

    export(other, "paper", tmp_path / "q.csv")
    third = Home(tmp_path / "third")
    copy(Foreign(CsvReader(tmp_path / "q.csv"), "paper"), third, study="paper", kind="csv")
    for record in third.records():
        before = record.file.facts["source"]["before"]
        assert (before["kind"], before["before"]["kind"], before["before"]["before"]["kind"]) == (
            "trainlab", "csv", "trainlab",
        )  # fmt: skip


def test_runs_that_measured_nothing_come_back_too(create, home, tmp_path):
    create(study="paper", arm="lion", phase="final").begin().end("crashed", traceback="Trace")
    export(home, "paper", tmp_path / "p.csv")
    [record] = Foreign(CsvReader(tmp_path / "p.csv")).runs()
    assert (record.status, record.traceback) == ("crashed", "Trace")


def test_a_whole_number_that_parquet_cannot_hold_is_said_so(create, home, tmp_path):
    create(study="paper", arm="lion", phase="final", seed=2**64 - 1).begin().end("completed")
    with pytest.raises(InputError, match=r"seed 18446744073709551615 has more than the 64 bits"):
        export(home, "paper", tmp_path / "p.parquet")
    assert list(tmp_path.glob("p.*")) == []
    export(home, "paper", tmp_path / "p.csv")
    assert Foreign(CsvReader(tmp_path / "p.csv")).runs()[0].labels.seed == 2**64 - 1


def test_what_fails_at_the_second_table_leaves_both_as_they_were(study, tmp_path, monkeypatch):
    from experiments.store import exporting

    export(study, "paper", tmp_path / "p.csv")
    (tmp_path / "p.csv").write_text("mine")
    whole = exporting._cell

    def full(value: object) -> str:
        if value == "paper":  # which stands in the table of runs only
            raise OSError(28, "No space left on device")
        return whole(value)

    before = {path.name: path.read_bytes() for path in tmp_path.glob("p.*")}
    monkeypatch.setattr(exporting, "_cell", full)
    with pytest.raises(OSError, match="No space left"):
        export(study, "paper", tmp_path / "p.csv", force=True)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()} == before


def test_a_table_of_runs_that_is_no_text_is_said_so(study, tmp_path):
    export(study, "paper", tmp_path / "p.csv")
    (tmp_path / "p.runs.csv").write_bytes(b"run_id,\xff\xfe\n")
    with pytest.raises(InputError, match=r"p\.runs\.csv, beside p\.csv, cannot be read"):
        Foreign(CsvReader(tmp_path / "p.csv")).runs()


def test_a_pipe_or_a_folder_is_not_replaced_by_a_file(study, tmp_path):
    os.mkfifo(tmp_path / "p.json")
    (tmp_path / "q.runs.csv").mkdir()
    for name, said in (("p.json", r"p\.json is no file"), ("q.csv", r"q\.runs\.csv is a folder")):
        with pytest.raises(InputError, match=said):
            export(study, "paper", tmp_path / name, force=True)
    assert (tmp_path / "p.json").is_fifo()
    assert not (tmp_path / "q.csv").exists()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_may_not_be_written_to_is_said_so(study, tmp_path):
    (tmp_path / "closed").mkdir(mode=0o555)
    with pytest.raises(InputError, match=r"p\.csv cannot be written \(Permission denied\)"):
        export(study, "paper", tmp_path / "closed" / "p.csv")
