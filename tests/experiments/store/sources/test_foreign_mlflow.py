"""Runs that plain MLflow code logged: read whole, never confused with our own mirror, and their store left as it is."""

from __future__ import annotations

import math
import shutil
import sqlite3
from pathlib import Path

import pytest

from algos.finding import InputError
from experiments.store.copying import Judging, copy
from experiments.store.mirror import Mirror
from experiments.store.schema import RunRecord
from experiments.store.sources.foreign import Foreign
from experiments.store.sources.foreign_mlflow import MlflowReader
from experiments.store.sources.home import HomeSource
from experiments.store.sources.mlflow import MLflowSource

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore:.*noload.*:DeprecationWarning")]

TAG = "实验/" + "x" * 200


@pytest.fixture(scope="session")
def theirs(empty_store, tmp_path_factory) -> Path:
    """A store as other people's code leaves it."""
    from mlflow import MlflowClient
    from mlflow.entities import Metric, Param

    path = tmp_path_factory.mktemp("theirs") / "mlflow.db"
    shutil.copy(empty_store, path)
    client = MlflowClient(tracking_uri=f"sqlite:///{path}")
    experiment = client.create_experiment("cifar <b>", artifact_location=str(path.parent / "artifacts"))
    other = client.create_experiment("other", artifact_location=str(path.parent / "artifacts"))
    for place, name, seed, status in (
        (experiment, "sgd", 1, "FINISHED"),
        (experiment, "sgd", 2, "FAILED"),
        (experiment, "adam", 1, "KILLED"),
        (experiment, "adam", 2, "RUNNING"),
        (other, "adam", 3, "FINISHED"),
    ):
        run = client.create_run(place, start_time=1_700_000_000_000 + seed, run_name=f"{name} 实验 {seed}")
        params = [Param("optimizer", name), Param("seed", str(seed)), Param("lr", "1e-3"), Param("task", "<i>")]
        metrics = [Metric("val_acc", step / 10, 1_700_000_000_500 + step, step) for step in (1, 2, 3)]
        metrics += [Metric("stepless", value, 1_700_000_000_500 - value, 0) for value in (1.0, 2.0, 3.0)]
        metrics += [Metric("bad", math.nan, 1_700_000_000_600, 1), Metric(TAG, 0.5, 1_700_000_000_600, 7)]
        client.log_batch(run.info.run_id, metrics, params, [])
        if status != "RUNNING":
            client.set_terminated(run.info.run_id, status, 1_700_000_009_000)
    gone = client.create_run(experiment, run_name="deleted")
    client.delete_run(gone.info.run_id)
    return path


def source(place: str | Path, experiments=(), study: str = "paper") -> Foreign:
    uri = f"sqlite:///{place}" if isinstance(place, Path) else place
    return Foreign(MlflowReader(uri, experiments), study)


def test_runs_have_their_settings_values_times_and_endings(theirs):
    found = source(theirs)
    records = sorted(found.runs(), key=lambda r: (r.labels.task, r.labels.arm, r.labels.seed))
    assert [(r.labels.task, r.labels.arm, r.labels.seed, r.status) for r in records] == [
        ("<i>", "adam", 1, "interrupted"), ("<i>", "adam", 2, "lost"), ("<i>", "adam", 3, "completed"),
        ("<i>", "sgd", 1, "completed"), ("<i>", "sgd", 2, "crashed"),
    ]  # fmt: skip
    first = records[3]
    assert first.config == {"optimizer": "sgd", "seed": 1, "lr": 0.001, "task": "<i>"}
    assert (first.started, first.ended) == (1_700_000_000_001, 1_700_000_009_000)
    [series] = found.series([first.run_id], ["val_acc"])
    assert (series.updates, series.values) == ((1, 2, 3), (0.1, 0.2, 0.3))
    assert series.at == (1_700_000_000_501, 1_700_000_000_502, 1_700_000_000_503)
    assert first.nonfinite == ("bad",)
    assert [s.metric for s in found.nonfinite([first.run_id])] == ["bad"]
    assert first.last[TAG] == 0.5


def test_values_without_steps_are_counted_in_order_of_time_and_that_is_told(theirs):
    found = source(theirs)
    [series] = found.series([found.runs()[0].run_id], ["stepless"])
    assert (series.updates, series.values) == ((1, 2, 3), (3.0, 2.0, 1.0))
    assert any(note.startswith("stepless: logged without steps") for note in found.notes)


def test_an_experiment_may_be_chosen_and_must_exist(theirs):
    assert [r.labels.seed for r in source(theirs, ["other"]).runs()] == [3]
    with pytest.raises(InputError, match="did you mean 'other'"):
        source(theirs, ["othr"]).runs()


def test_what_is_copied_is_mirrored_and_read_back_equal(theirs, store, home):
    copy(source(theirs), home, study="paper", judging=Judging("val_acc"))
    mirror = Mirror(store)
    for run_id in home.run_ids():
        mirror.push(home.folder(run_id))
    ours, mirrored = HomeSource(home).runs(), MLflowSource(store).runs()
    assert len(ours) == 5
    assert by_id(mirrored) == by_id(ours)
    ids = [record.run_id for record in ours]
    assert MLflowSource(store).series(ids) == HomeSource(home).series(ids)


def test_our_own_mirror_is_never_imported(theirs, home, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    mixed = tmp_path / "mixed.db"
    shutil.copy(theirs, mixed)
    copy(source(mixed), home, study="paper")
    mirror = Mirror(f"sqlite:///{mixed}")
    for run_id in home.run_ids():
        mirror.push(home.folder(run_id))
    again = source(mixed)
    assert len(again.runs()) == 5
    assert any("5 runs are trainlab's own mirror" in note for note in again.notes)
    assert copy(again, home, study="paper").already == 5
    with pytest.raises(InputError, match="all 5 runs there are trainlab's own mirror"):
        source(mixed, ["paper"]).runs()


def test_more_runs_than_a_page_are_all_read(theirs, monkeypatch):
    monkeypatch.setattr("experiments.store.sources.foreign_mlflow._A_PAGE", 2)
    assert len(source(theirs).runs()) == 5


def test_a_store_is_left_as_it_is(theirs):
    def rows() -> list[tuple]:
        with sqlite3.connect(f"file:{theirs}?mode=ro", uri=True) as database:
            return [database.execute(f"SELECT * FROM {name}").fetchall() for name in ("runs", "metrics", "experiments")]

    before = rows()
    found = source(theirs)
    found.series([record.run_id for record in found.runs()])
    assert rows() == before


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "is not there"),
        (b"", "is empty"),
        (b"not a database, not at all", "cannot be read as an SQLite database"),
    ],
)
def test_what_is_no_store_is_said_so_and_none_is_made(tmp_path, content, said):
    path = tmp_path / "x.db"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(InputError, match=said):
        source(path).runs()
    assert path.exists() == (content is not None)
    if content is not None:
        assert path.read_bytes() == content


def test_another_tools_database_gets_no_tables(tmp_path):
    path = tmp_path / "x.db"
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE studies (id INTEGER)")
    database.close()
    before = path.read_bytes()
    with pytest.raises(InputError, match=r"is not MLflow's \(its tables: studies\)"):
        source(path).runs()
    assert path.read_bytes() == before


def test_a_store_of_another_version_is_refused_with_what_to_do(theirs, tmp_path):
    path = tmp_path / "old.db"
    shutil.copy(theirs, path)
    with sqlite3.connect(path) as database:
        database.execute("UPDATE alembic_version SET version_num = '451aebb31d03'")
    database.close()
    with pytest.raises(InputError, match="another version of MLflow wrote it"):
        source(path).runs()


def test_an_empty_store_and_a_truncated_one_are_said_so(empty_store, theirs, tmp_path, home):
    shutil.copy(empty_store, tmp_path / "empty.db")
    with pytest.raises(InputError, match="has no runs"):
        copy(source(tmp_path / "empty.db"), home, study="paper")
    (tmp_path / "cut.db").write_bytes(theirs.read_bytes()[:50_000])
    with pytest.raises(InputError, match=r"cannot be read|is not MLflow's"):
        copy(source(tmp_path / "cut.db"), home, study="paper")
    assert not home.path.exists()


@pytest.mark.parametrize("uri", ["http://me:hunter2@127.0.0.1:9", "postgresql://me:hunter2@127.0.0.1:9/db"])
def test_a_server_that_is_away_is_said_so_without_its_password(uri):
    with pytest.raises(InputError) as refused:
        source(uri).runs()
    assert "hunter2" not in str(refused.value)
    assert "\n" not in str(refused.value)


def test_infinities_that_mlflow_keeps_as_the_largest_number_are_infinities(empty_store, tmp_path):
    from mlflow import MlflowClient

    path = tmp_path / "mlflow.db"
    shutil.copy(empty_store, path)
    client = MlflowClient(tracking_uri=f"sqlite:///{path}")
    run = client.create_run(client.create_experiment("e", artifact_location=str(tmp_path / "a")))
    for step, value in enumerate((0.5, math.inf, -math.inf, math.nan)):
        client.log_metric(run.info.run_id, "loss", value, step=step)
    client.set_terminated(run.info.run_id)
    found = source(path)
    [record] = found.runs()
    assert [(s.updates, s.values) for s in found.series([record.run_id])] == [((0,), (0.5,))]
    [bad] = found.nonfinite([record.run_id])
    assert (bad.updates, str(bad.values)) == ((1, 2, 3), "(inf, -inf, nan)")
    assert any("2 values of +-1.798e+308 are infinite" in note for note in found.notes)


def test_runs_nested_in_others_and_values_given_twice_are_told(empty_store, tmp_path):
    from mlflow import MlflowClient

    path = tmp_path / "mlflow.db"
    shutil.copy(empty_store, path)
    client = MlflowClient(tracking_uri=f"sqlite:///{path}")
    experiment = client.create_experiment("e", artifact_location=str(tmp_path / "a"))
    parent = client.create_run(experiment, run_name="parent\nof all")
    child = client.create_run(experiment, tags={"mlflow.parentRunId": parent.info.run_id})
    for at, step, value in ((1, 1, 0.5), (2, 2, 0.25), (3, 1, 0.75)):
        client.log_metric(child.info.run_id, "loss", value, timestamp=at, step=step)
    for run in (parent, child):
        client.set_terminated(run.info.run_id)
    found = source(path)
    first, second = found.runs()
    [series] = found.series([second.run_id])
    assert (series.updates, series.values) == ((1, 2), (0.75, 0.25))
    assert first.file.name == "parent of all"
    assert any("1 runs are nested in others" in note for note in found.notes)
    assert any("1 values were given twice" in note for note in found.notes)


@pytest.mark.parametrize(
    ("code", "asked"), [("INTERNAL_ERROR", 3), ("TEMPORARILY_UNAVAILABLE", 3), ("UNAUTHENTICATED", 1)]
)
def test_a_server_that_fails_is_asked_again_where_that_may_help(monkeypatch, capsys, code, asked):
    from mlflow.exceptions import MlflowException

    from experiments.store.sources import foreign_mlflow

    monkeypatch.setattr(foreign_mlflow.time, "sleep", lambda seconds: None)
    reader, tries = MlflowReader("http://me:hunter2@127.0.0.1:9"), []

    def question() -> str:
        import os

        tries.append(os.environ["MLFLOW_HTTP_REQUEST_MAX_RETRIES"])
        if len(tries) < 3:
            failed = MlflowException("the connection of http://me:hunter2@127.0.0.1:9 broke")
            failed.error_code = code
            raise failed
        return "answer"

    if asked == 3:
        assert reader._asked(question) == "answer"
    else:
        with pytest.raises(MlflowException):
            reader._asked(question)
    assert tries == ["0"] * asked  # MLflow's own tries would take a quarter of an hour
    said = capsys.readouterr().err
    assert said.count("asked again") == asked - 1
    assert "hunter2" not in said


def test_a_folder_of_older_versions_is_read(tmp_path, monkeypatch):
    import mlflow

    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    client = mlflow.MlflowClient(tracking_uri=str(tmp_path / "mlruns"))
    run = client.create_run(client.create_experiment("old"), run_name="r")
    client.log_metric(run.info.run_id, "val_acc", 0.5, step=3)
    client.set_terminated(run.info.run_id)
    monkeypatch.delenv("MLFLOW_ALLOW_FILE_STORE")
    found = source(str(tmp_path / "mlruns"))
    [record] = found.runs()
    assert (record.labels.task, record.status, record.last) == ("old", "completed", {"val_acc": 0.5})
    (tmp_path / "folder").mkdir()
    with pytest.raises(InputError, match="is a folder, but not MLflow's"):
        source(str(tmp_path / "folder"))


def by_id(records: list[RunRecord]) -> dict[str, RunRecord]:
    return {record.run_id: record for record in records}
