"""Trials that Optuna itself ran, from its SQLite and its journal: parameters, values, states; nothing made up."""

from __future__ import annotations

import logging
import shutil
import warnings
from pathlib import Path

import pytest

from algos.finding import InputError
from experiments.store.copying import copy
from experiments.store.sources.foreign import Foreign
from experiments.store.sources.home import HomeSource
from experiments.store.sources.labelling import Labelling
from experiments.store.sources.optuna import OptunaReader
from reports.table import read
from reports.tuning import tuning

optuna = pytest.importorskip("optuna")


def objective(trial) -> float:
    """Trial n: lr drawn, values at steps 1 to 3; number 4 is pruned, number 5 fails."""
    lr = trial.suggest_float("lr", 1e-4, 1.0, log=True)
    trial.suggest_int("width", 8, 64)
    trial.suggest_categorical("optimizer", ["sgd", "adam"])
    for step in (1, 2, 3):
        trial.report(lr * step, step)
        if trial.number == 4:
            raise optuna.TrialPruned
    if trial.number == 5:
        raise ValueError("no")
    return lr


@pytest.fixture(scope="session")
def places(tmp_path_factory) -> dict[str, str]:
    """A database with two studies and a journal with one, made once."""
    logging.getLogger("optuna").setLevel(logging.CRITICAL)
    folder = tmp_path_factory.mktemp("optuna")
    from optuna.storages import JournalStorage
    from optuna.storages.journal import JournalFileBackend

    url = f"sqlite:///{folder / 'optuna.db'}"
    sampler = optuna.samplers.RandomSampler(seed=0)
    study = optuna.create_study(study_name="实验 <b>", storage=url, direction="minimize", sampler=sampler)
    study.optimize(objective, n_trials=7, catch=(ValueError,))
    several = optuna.create_study(study_name="several", storage=url, directions=["maximize", "minimize"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Optuna calls it experimental
        several.set_metric_names(["accuracy", "time/train_s"])
    several.optimize(lambda trial: (trial.suggest_float("x", 0, 1), 2.0), n_trials=3)
    storage = JournalStorage(JournalFileBackend(str(folder / "journal.log")))
    journal = optuna.create_study(study_name="j", storage=storage, sampler=optuna.samplers.RandomSampler(seed=0))
    journal.optimize(objective, n_trials=7, catch=(ValueError,))
    journal.enqueue_trial({"lr": 0.1})
    return {"db": url, "journal": str(folder / "journal.log"), "folder": str(folder)}


def source(place: str, study: str = "") -> Foreign:
    return Foreign(OptunaReader(place, study), "paper")


@pytest.mark.parametrize(("place", "study"), [("db", "实验 <b>"), ("journal", "")])
def test_every_trial_is_a_tuning_run_with_its_state(places, place, study):
    found = source(places[place], study)
    records = found.runs()
    statuses = ["completed"] * 4 + ["pruned", "crashed", "completed"]
    assert [(r.labels.phase, r.labels.number, r.status) for r in records] == [
        ("tune", number, status) for number, status in enumerate(statuses)
    ]
    for record in records:
        lr = record.config["lr"]
        [series] = found.series([record.run_id], ["val/value"])
        steps = (1,) if record.status == "pruned" else (1, 2, 3)
        assert (series.updates, series.values) == (steps, tuple(lr * step for step in steps))
        assert record.final == ({"val/value": lr, "objective": lr} if record.status == "completed" else {})
        assert 1e-4 <= lr <= 1
        assert set(record.config) == {"lr", "width", "optimizer"}
        assert record.started is not None
    assert records[0].labels.task == (study or "j")
    assert any("the sampler is not known" in note for note in found.notes)


def test_trials_that_never_began_are_left_out_and_told(places):
    found = source(places["journal"])
    assert len(found.runs()) == 7
    assert any("1 trials never began" in note for note in found.notes)


def test_several_objectives_keep_their_names_and_directions(places):
    found = source(places["db"], "several")
    record = found.runs()[0]
    assert record.final == {"val/accuracy": record.config["x"], "time/train_s": 2.0, "objective": record.config["x"]}
    assert record.file.facts["study"]["tuner"] == {"objectives": {"val/accuracy": "max", "time/train_s": "min"}}
    assert (found.metric, found.mode) == ("val/accuracy", "max")


def test_reports_know_what_was_searched_and_what_was_best(places, home):
    copy(source(places["db"], "实验 <b>"), home, study="paper")
    study = read(HomeSource(home), "paper")
    [cell] = study.of("实验 <b>")
    told = tuning(cell)
    assert told is not None
    assert (told.sampler, told.mode, len(told.trials)) == ("", "min", 7)
    [span] = told.spans["lr"]
    assert (span.low, span.high, span.log) == (1e-4, 1.0, True)
    assert set(told.options) >= {"optimizer"}
    assert told.best is not None
    completed = [r for r in study.runs if r.status == "completed"]
    assert told.best.config["lr"] == min(r.config["lr"] for r in completed)


def test_one_of_several_studies_must_be_named(places):
    with pytest.raises(InputError, match="has 2 studies"):
        source(places["db"]).runs()
    with pytest.raises(InputError, match="did you mean 'several'"):
        source(places["db"], "sevral").runs()


def test_nothing_is_written_beside_or_into_what_is_read(places, tmp_path):
    for name in ("optuna.db", "journal.log"):
        shutil.copy(Path(places["folder"], name), tmp_path / name)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    source(f"sqlite:///{tmp_path / 'optuna.db'}", "several").runs()
    source(str(tmp_path / "optuna.db"), "several").runs()
    source(str(tmp_path / "journal.log")).runs()
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_journal_that_ends_in_half_a_line_gives_what_is_whole(places, tmp_path):
    data = Path(places["journal"]).read_bytes()
    (tmp_path / "j.log").write_bytes(data[: data.rstrip(b"\n").rfind(b"\n") + 20])
    assert len(source(str(tmp_path / "j.log")).runs()) == 7


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("gone.log", None, "is not there"),
        ("empty.log", b"", "is empty"),
        ("other.log", b"hello\n", "no journal of Optuna's"),
        ("other.log", b'{"a": 1}\n{"b": 2}\n', "cannot be read"),
        ("other.log", b'{"a": \n{"b": 2}\n', "cannot be read"),
        ("sqlite:///gone.db", None, "is not there"),
        ("sqlite:///other.db", b"hello, no database at all", "cannot be read as an SQLite database"),
    ],
)
def test_what_is_no_storage_is_said_so_and_not_made(tmp_path, monkeypatch, name, content, said):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / name.removeprefix("sqlite:///")
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(InputError, match=said):
        source(name).runs()
    assert path.exists() == (content is not None)


def test_a_database_of_another_version_is_refused_with_what_to_do(places, tmp_path):
    import sqlite3

    path = tmp_path / "old.db"
    shutil.copy(places["db"].removeprefix("sqlite:///"), path)
    with sqlite3.connect(path) as database:
        database.execute("UPDATE alembic_version SET version_num = 'v0.9.0.a'")
    database.close()
    with pytest.raises(InputError, match="optuna storage upgrade"):
        source(f"sqlite:///{path}", "several").runs()


def test_a_password_is_never_shown():
    with pytest.raises(InputError) as refused:
        source("postgresql://me:hunter2@127.0.0.1:1/db?sslpassword=hunter3").runs()
    assert "hunter" not in str(refused.value)
    assert "me:***@127.0.0.1" in str(refused.value)


def test_a_trial_that_came_to_infinity_has_diverged_whatever_it_reported_before(tmp_path, home):
    def worse(trial) -> float:
        trial.suggest_float("x", 0, 1)
        trial.report(0.25, 1)
        return float("inf") if trial.number == 1 else 0.5

    study = optuna.create_study(study_name="s", storage=f"sqlite:///{tmp_path / 's.db'}", direction="minimize")
    study.optimize(worse, n_trials=2)
    copy(source(f"sqlite:///{tmp_path / 's.db'}"), home, study="paper")
    fine, bad = sorted(home.records(), key=lambda record: record.labels.number)
    assert (fine.status, fine.final) == ("completed", {"val/value": 0.5, "objective": 0.5})
    assert (bad.status, bad.reason, bad.final) == ("diverged", "the last val/value was inf", {})


def test_the_ends_of_a_range_keep_every_digit():
    from experiments.store.sources.optuna import _space

    low, high = 1.23456789e-5, 0.12345678
    study = optuna.create_study()
    trial = study.ask({"lr": optuna.distributions.FloatDistribution(low, high, log=True)})
    spread = optuna.trial.create_trial(params=trial.params, distributions=trial.distributions, value=1.0)
    assert _space(spread) == {"lr": f"{low!r}:{high!r}:log"}


def test_that_the_first_of_several_objectives_is_taken_is_told(places):
    found = source(places["db"], "several")
    found.runs()
    assert "there are 2 objectives: runs are judged by the first, val/accuracy (--metric)" in found.notes


def test_a_database_that_is_locked_is_said_so(places, tmp_path, monkeypatch):
    import sqlite3

    path = tmp_path / "locked.db"
    shutil.copy(places["db"].removeprefix("sqlite:///"), path)
    other = sqlite3.connect(path)
    other.execute("BEGIN EXCLUSIVE")
    connect = sqlite3.connect
    monkeypatch.setattr(sqlite3, "connect", lambda *given, **more: connect(*given, **{**more, "timeout": 0.0}))
    try:
        with pytest.raises(InputError, match=r"database is locked.*import it when whatever writes it is done"):
            source(f"sqlite:///{path}", "several").runs()
    finally:
        other.close()


def test_trials_are_told_apart_by_what_was_searched_only_where_it_is_named(places):
    found = source(places["db"], "实验 <b>")
    assert {record.labels.arm for record in found.runs()} == {"own"}
    assert (
        "'optimizer' was searched, and is a setting: --arm optimizer makes an arm of each of its values" in found.notes
    )
    reader = OptunaReader(places["db"], "实验 <b>")
    named = Foreign(reader, "paper", Labelling(arm="optimizer", task="width"))
    told = [(r.labels.arm, r.labels.task, r.config) for r in named.runs()]
    assert {arm for arm, _, _ in told} == {"sgd", "adam"}
    assert all((arm, task) == (config["optimizer"], str(config["width"])) for arm, task, config in told)
    assert not any("was searched" in note for note in named.notes)
    with pytest.raises(InputError, match=r"did you mean 'optimizer'.*valid: lr, optimizer, width"):
        Foreign(reader, "paper", Labelling(arm="optimzer")).runs()


def test_an_attribute_of_trials_may_tell_arms_and_is_found_by_its_name(tmp_path):
    url = f"sqlite:///{tmp_path / 'a.db'}"
    study = optuna.create_study(study_name="a", storage=url)
    for method in ("x", "y"):
        trial = study.ask({"lr": optuna.distributions.FloatDistribution(0, 1)})
        trial.set_user_attr("method", method)
        study.tell(trial, 0.5)
    assert [record.labels.arm for record in source(url).runs()] == ["x", "y"]
    named = Foreign(OptunaReader(url), "paper", Labelling(arm="method"))
    assert [record.labels.arm for record in named.runs()] == ["x", "y"]
