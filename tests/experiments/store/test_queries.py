"""A query selects what it says, and a wrong one is told what would be right."""

from __future__ import annotations

import pytest

from algos.finding import InputError
from experiments.store.queries import field_of, find, flatten, parse, sort
from experiments.store.schema import Labels, RunFile, RunRecord


def record(run_id: str, **given) -> RunRecord:
    optimizer = {
        "name": given.pop("optimizer", "adamw"),
        "lr": given.pop("lr", 1e-3),
        "betas": [0.9, 0.99],
        "nesterov": True,
    }
    config = {"task": "digits", "optimizer": optimizer, "wrappers": [{"name": "sam", "rho": 0.05}], "clip": None}
    labels = Labels(given.pop("task", "digits"), arm=given.pop("arm", "adamw"), seed=given.pop("seed", 1))
    file = RunFile(run_id, given.pop("name", run_id), labels, config, "")
    return RunRecord(file, given.pop("status", "completed"), **given)


RUNS = [
    record("20260101-a", lr=1e-3, last={"val/accuracy": 0.95, "mean@1": 1.0}, seed=1),
    record("20260101-b", lr=1e-2, last={"val/accuracy": 0.5}, final={"test/accuracy": 0.4}, optimizer="muon", seed=10),
    record("20260202-c", status="diverged", arm="m x", name="my run", seed=2),
]


class Runs:
    """A Source of those three."""

    def runs(self, query: str = "") -> list[RunRecord]:
        return RUNS

    def series(self, run_ids, metrics=None):
        return []


@pytest.mark.parametrize(
    ("query", "chosen"),
    [
        ("", "abc"),
        ("task=digits", "abc"),
        ("status=completed val/accuracy>0.9", "a"),
        ("status!=completed", "c"),
        ("optimizer.lr<=1e-3", "ac"),
        ("optimizer.lr=0.01", "b"),
        ("optimizer=muon", "b"),
        ("optimizer~MU", "b"),
        ("optimizer.betas=0.9/0.99", "abc"),
        ("optimizer.nesterov=true", "abc"),
        ("wrappers.sam.rho>=0.05", "abc"),
        ("seed>2", "b"),  # by number, not by letter
        ("run=20260101", "ab"),
        ("run!=20260101", "c"),
        ("'name~y r'", "c"),
        ("arm='m x'", "c"),
        ("test/accuracy<1", "b"),
        ("test/accuracy!=1", "abc"),  # a run without it is not equal to 1
        ("val/accuracy>0 val/accuracy<0.9", "b"),
        ("mean@1=1", "a"),
    ],
)
def test_a_query_selects(query, chosen):
    wanted = parse(query, RUNS)
    assert "".join(run.run_id[-1] for run in RUNS if wanted(run)) == chosen


@pytest.mark.parametrize(
    ("query", "chosen"),
    [
        ("wrappers=sam", "sb"),
        ("wrappers=asam", "b"),
        ("wrappers=sam+asam", "b"),
        ("wrappers=asam+sam", ""),  # the order is innermost first, and another one is another algorithm
        ("wrappers!=sam", "n"),
        ("wrappers!=sam+asam", "sn"),
        ("wrappers=none", "n"),
        ("wrappers~ASA", "b"),
        ("wrappers=sa", ""),
    ],
)
def test_wrappers_are_found_by_a_name_among_them_and_by_all_of_them(query, chosen):
    runs = [record("s"), record("b"), record("n")]
    runs[1].config["wrappers"].append({"name": "asam", "rho": 0.5})
    runs[2].config["wrappers"].clear()
    wanted = parse(query, runs)
    assert "".join(run.run_id for run in runs if wanted(run)) == chosen
    assert [field_of(run, "wrappers") for run in runs] == ["sam", "sam+asam", "none"]


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("taks=digits", "did you mean 'task'"),
        ("val/acuracy>0.9", "did you mean 'val/accuracy'"),
        ("optimizer.lrr=1", "did you mean 'optimizer.lr'"),
        ("status=complete", "did you mean 'completed'"),
        ("digits", "write field, operator, value"),
        ("name='half", "close the quotes"),
    ],
)
def test_a_wrong_query_is_told_what_would_be_right(query, said):
    with pytest.raises(InputError, match=said):
        parse(query, RUNS)


def test_runs_sort_by_number_and_those_without_come_last():
    assert [run.run_id[-1] for run in sort(RUNS, "seed")] == ["a", "c", "b"]
    assert [run.run_id[-1] for run in sort(RUNS, "-val/accuracy")] == ["a", "b", "c"]
    assert [run.run_id[-1] for run in sort(RUNS, "val/accuracy")] == ["b", "a", "c"]


def test_a_run_is_found_by_id_start_of_id_or_name():
    assert find(Runs(), "20260101-a") is find(Runs(), "20260101-a") is RUNS[0]
    assert find(Runs(), "202602") is find(Runs(), "my run") is RUNS[2]
    with pytest.raises(InputError, match=r"any of 2 runs \(20260101-a, 20260101-b\)"):
        find(Runs(), "20260101")
    with pytest.raises(InputError, match="no run is called 'my rn'; did you mean 'my run'"):
        find(Runs(), "my rn")


def test_sections_of_one_name_are_numbered():
    assert flatten({"wrappers": [{"name": "sam"}, {"name": "sam"}]}) == {
        "wrappers.0.name": "sam",
        "wrappers.1.name": "sam",
    }
    assert field_of(RUNS[0], "nothing") is None
