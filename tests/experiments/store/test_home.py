"""A home is made whole or not at all, and a thousand runs are listed at once."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time

import pytest

from algos.finding import InputError
from experiments.store.home import Home, new_run_id
from experiments.store.recovery import recover
from experiments.store.schema import Labels, RunFile


def test_a_run_is_read_back_as_it_was_created(home, create):
    folder = create(study="s", arm="a", phase="final", number=3, seed=7, facts={"task": {"metric": "accuracy"}})
    file = home.folder(folder.run_id).file
    assert file.labels == Labels("digits", "s", "a", "final", 3, 7)
    assert file.config["optimizer"]["betas"] == [0.9, 0.99]
    assert folder.record().task == {"metric": "accuracy"}
    assert (home.path / ".gitignore").read_text() == "*\n"
    assert home.run_ids() == [folder.run_id]


def test_an_id_is_used_once(home, create):
    folder = create()
    with pytest.raises(InputError, match="exists already"):
        home.create(folder.file)
    assert home.run_ids() == [folder.run_id]


def test_ids_sort_by_age_and_differ():
    ids = [new_run_id() for _ in range(500)]
    assert len(set(ids)) == 500
    assert all(len(run_id) == 22 and run_id[8] == run_id[15] == "-" for run_id in ids)


def test_a_folder_that_cannot_be_made_is_said_in_one_line(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="set TRAINLAB_HOME") as error:
        Home(tmp_path / "file" / "home").create(RunFile(new_run_id(), "n", Labels("digits"), {}, ""))
    assert "\n" not in str(error.value)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_the_default_home_is_read_from_the_environment_when_asked(monkeypatch, tmp_path):
    monkeypatch.setenv("TRAINLAB_HOME", str(tmp_path / "there"))
    assert Home.default().path == tmp_path / "there"
    monkeypatch.delenv("TRAINLAB_HOME")
    monkeypatch.chdir(tmp_path)
    assert Home.default().path == tmp_path / ".trainlab"


def test_a_wrong_id_gets_the_nearest_one(home, create):
    run_id = create().run_id
    with pytest.raises(InputError, match=f"did you mean '{run_id}'"):
        home.folder(run_id[:-1] + "_")


def test_the_record_of_a_finished_run_is_cached_and_a_resumed_run_is_read_anew(create):
    folder = create()
    folder.begin().end("interrupted")
    assert folder.record() == folder.record()
    assert (folder.path / "record.json").exists()
    attempt = folder.begin()
    attempt.points(4, {"train/loss": 1.0})
    attempt.end("completed")
    assert (folder.record().status, folder.record().last) == ("completed", {"train/loss": 1.0})


def test_a_cache_of_an_earlier_fold_is_not_believed(create):
    folder = create()
    attempt = folder.begin()
    attempt.points(1, {"val/loss": 0.5})
    attempt.points(2, {"val/loss": float("nan")})
    attempt.end("completed")
    folder.record()
    path = folder.path / "record.json"
    cached = json.loads(path.read_text())
    cached["fold"], cached["record"]["last"] = 1, {"val/loss": 0.5}
    path.write_text(json.dumps(cached))
    assert folder.record().last == {}


def test_recover_marks_lost_runs_once_and_leaves_live_ones(home, create):
    lost, live, over, fresh = create(), create(), create(), create()
    lost.begin().release()  # no last word, as after kill -9
    attempt = live.begin()
    over.begin().end("completed")
    assert [record.run_id for record in recover(home)] == [lost.run_id]
    assert recover(home) == []
    statuses = {record.run_id: record.status for record in home.records()}
    assert [statuses[folder.run_id] for folder in (lost, live, over)] == ["lost", "running", "completed"]
    assert lost.record().ended is not None
    assert fresh.record().attempts == 0
    attempt.end("completed")


def test_runs_are_listed_at_a_thousand_in_two_seconds(home):
    for number in range(200):
        folder = home.create(RunFile(new_run_id(), "n", Labels("digits", number=number), {"lr": number}, ""))
        attempt = folder.begin()
        attempt.points(number, {"train/loss": float(number)})
        attempt.release()
    assert len(recover(home)) == 200
    home.records()
    begun = time.process_time()
    assert len(home.records("lr>=50")) == 150
    assert time.process_time() - begun < 2 * 200 / 1000


def test_the_store_loads_nothing_heavy():
    heavy = ["torch", "mlflow", "pandas", "numpy", "lightning", "optuna", "pydantic", "urllib.request"]
    modules = (
        "home, spool, records, locks, names, mirror, mirrored, uploader, uploads, queries, provenance, recovery, "
        "descriptions, tracking, sources.home, sources.mlflow"
    )
    code = "import sys\n" + "".join(f"import experiments.store.{name}\n" for name in modules.split(", "))
    code += f"print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=os.environ, check=True)
    assert done.stdout == "[]\n"


def test_a_home_that_is_a_file_is_one_clear_line(tmp_path):
    file = tmp_path / "file"
    file.touch()
    with pytest.raises(InputError, match=r"runs cannot be read from .*: Not a directory; set TRAINLAB_HOME"):
        Home(file).run_ids()


def test_a_copy_of_a_runs_folder_does_not_count_twice(home, create):
    folder = create()
    folder.begin().end("completed")
    shutil.copytree(folder.path, folder.path.with_name("20260101-000000-aaaaaa"))
    with pytest.raises(InputError, match=f"holds run {folder.run_id}, by its own word: a copy"):
        home.records()
