"""MLflow holds what the home holds: each point once, every ending by its name, whatever breaks on the way."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from algos.finding import InputError
from experiments.store import mirrored, spool
from experiments.store.mirror import Mirror
from experiments.store.names import encode
from experiments.store.sources.home import HomeSource
from experiments.store.sources.mlflow import MLflowSource

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore:.*noload.*:DeprecationWarning")]


def fill(attempt, updates=3) -> None:
    for update in range(1, updates + 1):
        attempt.points(update, {"train/loss": 1 / update, "val/accuracy": 0.1 * update, "time/train_s": update / 7})


def in_mlflow(mirror, folder):
    """The run as MLflow has it."""
    return mirror.client.get_run(mirrored.load(folder.path, mirror.uri).run)


def assert_equal(store, home) -> None:
    theirs, ours = MLflowSource(store), HomeSource(home)
    assert theirs.runs() == ours.runs()
    assert theirs.series(home.run_ids()) == ours.series(home.run_ids())


@pytest.mark.parametrize(
    ("ending", "status"),
    [
        ("completed", "FINISHED"),
        ("diverged", "FAILED"),
        ("pruned", "KILLED"),
        ("crashed", "FAILED"),
        ("interrupted", "KILLED"),
        ("lost", "FAILED"),
    ],
)
def test_every_ending_has_its_status_and_is_read_back_equal(store, home, create, ending, status):
    folder = create(study="a study", arm="lion", phase="tune", number=4)
    attempt = folder.begin()
    fill(attempt)
    attempt.points(2, {"val/loss": 0.5})
    attempt.points(3, {"val/loss": float("inf")})  # the 0.5, which MLflow shows, is not its last value
    attempt.event("reached_target", update=2, examples=64.0, gradients=2, seconds=0.5)
    if ending == "completed":
        attempt.final({"test/accuracy": 0.97, "objective": 0.3, "val/accuracy": 0.2})
    attempt.end(ending, reason="why", traceback="Traceback ...\nValueError: no" if ending == "crashed" else "")
    mirror = Mirror(store)
    mirror.push(folder)

    run = in_mlflow(mirror, folder)
    record = folder.record()
    assert (run.info.status, run.info.start_time, run.info.end_time) == (status, record.started, record.ended)
    assert run.info.run_name == "digits-lion"
    assert {key: run.data.tags[key] for key in ("trainlab.run_id", "trainlab.status", "task", "arm", "phase")} == {
        "trainlab.run_id": folder.run_id,
        "trainlab.status": ending,
        "task": "digits",
        "arm": "lion",
        "phase": "tune",
    }
    assert run.data.params == {
        "task": "digits",
        "optimizer.name": "lion",
        "optimizer.lr": "0.001",
        "optimizer.betas": "0.9/0.99",
    }
    assert max(abs(value) for value in run.data.metrics.values()) < 1e300
    assert mirror.client.get_experiment(run.info.experiment_id).name == "a study"
    assert_equal(store, home)


def test_a_run_that_goes_on_is_running_and_has_no_end(store, home, create):
    folder = create()
    first = folder.begin()
    fill(first, 5)
    first.end("interrupted")
    mirror = Mirror(store)
    mirror.push(folder)
    second = folder.begin(resumed_from=3)
    fill(second, 8)
    second.flush()
    mirror.push(folder)
    run = in_mlflow(mirror, folder)
    assert run.info.status == "RUNNING"
    assert not run.info.end_time
    assert_equal(store, home)
    second.end("completed")
    mirror.push(folder)
    run = in_mlflow(mirror, folder)
    assert (run.info.status, run.info.end_time) == ("FINISHED", folder.record().ended)
    history = mirror.client.get_metric_history(run.info.run_id, "train/loss")
    assert [point.step for point in history] == [1, 2, 3, 4, 5, 6, 7, 8]
    assert_equal(store, home)


def test_a_break_after_any_step_leaves_each_point_once(store, home, create, monkeypatch):
    """The worst moment: sent, and not yet noted. Every place where progress is noted breaks once."""
    folder = create()
    attempt = folder.begin()
    fill(attempt, 800)  # 2,400 values: three batches
    attempt.final({"test/accuracy": 0.9})
    attempt.end("completed")
    real, breaks = mirrored.save, 0

    def broken(*_: object) -> None:
        raise ConnectionError

    for step in range(20):
        calls = iter([real] * step + [broken] + [real] * 99)
        monkeypatch.setattr(mirrored, "save", lambda *given, calls=calls: next(calls)(*given))
        (folder.path / "mirror.json").unlink(missing_ok=True)
        try:
            Mirror(store).push(folder)
            break
        except ConnectionError:
            breaks += 1
        monkeypatch.setattr(mirrored, "save", real)
        Mirror(store).push(folder)
    assert breaks >= 4
    mirror = Mirror(store)
    (run,) = mirror.client.search_runs(["0", "1"])
    for metric in ("train/loss", "val/accuracy", "time/train_s"):
        assert [p.step for p in mirror.client.get_metric_history(run.info.run_id, metric)] == list(range(1, 801))
    assert_equal(store, home)


def test_awkward_names_and_long_values_arrive_whole(store, home, create):
    config = {"short": "x" * 5000, "long": "y" * 7000, "empty": "", "none": None, "size (MB)": 1, "many": {}}
    config["many"] = {f"key{number}": number for number in range(250)}
    folder = create(config=config)
    attempt = folder.begin()
    attempt.points(1, {"mean@1": 1.0, "size (MB)": 2.0, "损失": 3.0, "a" * 300 + "1": 4.0, "a" * 300 + "2": 5.0})
    for number in range(300):
        attempt.event("warning", text=f"something happened for the {number}. time")
    attempt.end("crashed", reason="r" * 6000, traceback="line\n" * 3000)
    mirror = Mirror(store)
    mirror.push(folder)
    params = in_mlflow(mirror, folder).data.params
    assert params["short"] == "x" * 5000
    assert params["long"] == "(7000 characters, whole in run.json)"
    assert len(params) == 250 + 5
    assert_equal(store, home)


def test_a_changed_parameter_is_kept_beside_the_old_one(store, create, caplog):
    folder = create()
    folder.begin().end("completed")
    mirror = Mirror(store)
    mirror.push(folder)
    path = folder.path / "run.json"
    path.write_text(path.read_text().replace("0.001", "0.002"))
    (folder.path / "mirror.json").unlink()
    folder = type(folder)(folder.path)
    mirror.push(folder)
    run = in_mlflow(mirror, folder)
    assert run.data.params["optimizer.lr"] == "0.001"
    assert run.data.tags["changed.optimizer.lr"] == "0.002"
    assert "optimizer.lr changed" in caplog.text


def test_what_the_user_deleted_in_mlflow_stays_deleted(store, home, create):
    folder = create()
    folder.begin().end("interrupted")
    mirror = Mirror(store)
    mirror.push(folder)
    mirror.client.delete_run(in_mlflow(mirror, folder).info.run_id)
    folder.begin().end("completed")
    assert mirror.push(folder) == 0
    assert not mirrored.left(home, store)
    assert mirror.client.search_runs(["1"]) == []


def test_a_store_made_anew_gets_everything_and_another_store_only_what_is_new(
    store, home, create, tmp_path, empty_store, monkeypatch
):
    old = create()
    attempt = old.begin()
    fill(attempt)
    attempt.end("completed")
    Mirror(store).push(old)
    other = tmp_path / "other.db"
    other.write_bytes(empty_store.read_bytes())
    assert not mirrored.left(home, f"sqlite:///{other}")  # it is whole where it is
    new = create()
    new.begin().end("completed")
    assert mirrored.left(home, f"sqlite:///{other}").runs == (new.run_id,)
    again = Mirror(f"sqlite:///{other}")
    again.push(new)
    assert again.knows(mirrored.load(new.path, again.uri))
    assert not Mirror(f"sqlite:///{other}").knows(mirrored.load(old.path, store))


def test_artifacts_that_cannot_be_stored_hold_up_nothing_else(store, create, monkeypatch):
    folder = create()
    attempt = folder.begin()
    fill(attempt)
    attempt.end("completed")
    mirror = Mirror(store)

    def refuse(*_: object) -> None:
        raise PermissionError("not your bucket")

    monkeypatch.setattr(mirror.client, "log_artifact", refuse)
    mirror.push(folder)
    run = in_mlflow(mirror, folder)
    assert (run.info.status, run.data.metrics["train/loss"]) == ("FINISHED", 1 / 3)
    assert "run.json could not be stored" in run.data.tags["trainlab.warning"]
    with pytest.raises(InputError, match=r"has no run.json in sqlite.*; read it from its home"):
        MLflowSource(store).runs()


@given(st.text(max_size=400) | st.text(st.sampled_from(list("_x0A./ ")), max_size=20))
def test_mlflow_takes_every_name_that_we_send_and_its_own_names_stay(name):
    from mlflow.exceptions import MlflowException
    from mlflow.utils.validation import MAX_ENTITY_KEY_LENGTH, _validate_metric_name

    _validate_metric_name(encode(name))
    assert len(encode(name)) <= MAX_ENTITY_KEY_LENGTH
    if "_x" not in name and "\n" not in name and len(name) <= MAX_ENTITY_KEY_LENGTH:
        try:
            _validate_metric_name(name)
        except MlflowException:
            return
        assert encode(name) == name


def test_a_run_made_after_the_connection_is_there_once_whatever_breaks(store, home, create, monkeypatch):
    """Such a run is not looked for before it is created, unless its creation was begun before."""
    mirror, real = Mirror(store), mirrored.save
    for step in range(3):  # noted: that it is to be created, that it is, that all is sent
        folder = create(created=spool.now_ms() + 1_000)
        attempt = folder.begin()
        fill(attempt)
        attempt.end("completed")
        calls = iter([real] * step + [broken] + [real] * 99)
        monkeypatch.setattr(mirrored, "save", lambda *given, calls=calls: next(calls)(*given))
        with pytest.raises(ConnectionError):
            mirror.push(folder)
        monkeypatch.setattr(mirrored, "save", real)
        mirror.push(folder)
    assert len(mirror.client.search_runs(["0", "1"])) == 3
    assert_equal(store, home)


def broken(*_: object) -> None:
    raise ConnectionError
