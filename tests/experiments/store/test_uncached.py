"""A home read from its files alone: what somebody put there in place of a run, or wrote into one, is refused."""

from __future__ import annotations

import json
import shutil

import pytest

from algos.finding import InputError
from experiments.store.uncached import UncachedHome


def ended(folder):
    attempt = folder.begin()
    attempt.points(10, {"val/accuracy": 0.5})
    attempt.final({"objective": 0.5, "test/accuracy": 0.5})
    attempt.end("completed")


def test_it_says_what_the_home_says(home, create) -> None:
    for _ in range(2):
        ended(create())
    assert UncachedHome(home).runs() == home.records()
    assert UncachedHome(home).series(home.run_ids()) == home.series(home.run_ids())


def test_a_copy_of_a_run_under_another_name_is_no_run(home, create) -> None:
    folder = create()
    ended(folder)
    shutil.copytree(folder.path, folder.path.with_name("20260101-000000-copied"))
    with pytest.raises(InputError, match=f"20260101-000000-copied holds run {folder.run_id}"):
        UncachedHome(home).runs()


@pytest.mark.parametrize("kind", ["final", "points"])
@pytest.mark.parametrize("value", ["0.99", None, True, [1]])
def test_a_value_that_is_no_number_is_refused(home, create, kind, value) -> None:
    folder = create()
    ended(folder)
    (path,) = folder.path.glob("spool.*.jsonl")
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    metric = {"final": "test/accuracy", "points": "val/accuracy"}[kind]
    next(line for line in lines if line["kind"] == kind)["values"][metric] = value
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    with pytest.raises(InputError, match=f"for {metric}, which is no number"):
        UncachedHome(home).runs()
    with pytest.raises(InputError, match=f"for {metric}, which is no number"):
        UncachedHome(home).series([folder.run_id], [metric])


def test_a_run_that_is_deleted_while_the_others_are_read_is_left_out(home, create, monkeypatch) -> None:
    gone, left = create(), create()
    ids = home.run_ids()
    shutil.rmtree(gone.path)
    monkeypatch.setattr(type(home), "run_ids", lambda self: ids)
    assert [record.run_id for record in UncachedHome(home).runs()] == [left.run_id]
