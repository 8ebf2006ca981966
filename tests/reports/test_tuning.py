"""What tuning did, as runs tell it: conditions, options, several objectives, and the range that came first."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from reports.table import Cell, read
from reports.tuning import Tuning, holds, tuning

NAME = "sgd-or-adam"


def cell_of(memory: Any, arm: str = "adam") -> Cell:
    return read(memory, NAME).cells["digits", arm]


def told(memory: Any, arm: str = "adam") -> Tuning:
    found = tuning(cell_of(memory, arm))
    assert found is not None
    return found


def say(memory: Any, records: Any, **facts: Any) -> None:
    """More of what runs keep of their study."""
    for record in records:
        study = {**record.file.facts["study"], **facts}
        memory.with_file([record], facts={**record.file.facts, "study": study})


def conditional(memory: Any) -> None:
    """An arm of either optimizer, each with a range of its own for lr; odd trials are sgd's."""
    space = {"optimizer": "adamw,sgd", "optimizer.lr when optimizer=adamw": "1e-4:1e-2:log"}
    space["optimizer.lr when optimizer=sgd"] = "1e-2:1.0:log"
    memory.records = [r for r in memory.records if r.labels.arm == "adam"]
    for record in memory.of(phase="tune"):
        name, lr = ("sgd", 0.9) if record.labels.number % 2 else ("adamw", 0.001 * (1 + record.labels.number))
        memory.with_config([record], optimizer={"name": name, "lr": lr})
        say(memory, [record], space=space, params={"optimizer": {"name": name}, "optimizer.lr": lr})
        memory.with_final(record, objective=0.9 if name == "sgd" else 0.8)
    winner = memory.of(phase="tune", number=1)[0]
    memory.with_config(memory.of(phase="final"), optimizer={"name": "sgd", "lr": 0.9})
    say(memory, memory.of(phase="final"), winner=winner.run_id, space=space)


@pytest.mark.parametrize(
    ("given", "params", "right"),
    [
        ("", {}, True),
        ("optimizer=muon", {}, True),
        ("optimizer=muon", {"optimizer": "muon"}, True),
        ("optimizer=muon,sgd", {"optimizer": {"name": "sgd", "lr": 0.1}}, True),
        ("optimizer=muon", {"optimizer": "sgd"}, False),
        ("batch_size=32", {"batch_size": 32}, True),
        ("batch_size=32", {"batch_size": 64}, False),
        ('w=["a", "b"],none', {"w": ["a", "b"]}, True),
        ('w=["a", "b"],none', {"w": ["a"]}, False),
    ],
)
def test_conditions(given: str, params: dict[str, Any], right: bool) -> None:
    assert holds(given, params) is right


def test_an_axis_under_a_condition_has_its_own_range_and_edge(made: Any) -> None:
    memory = made()
    conditional(memory)
    found = told(memory)
    adamw, sgd = "optimizer.lr when optimizer=adamw", "optimizer.lr when optimizer=sgd"
    assert set(found.hypers) == {adamw, sgd}
    assert found.winner is not None
    assert found.value(found.winner, sgd) == 0.9
    assert found.value(found.winner, adamw) is None, "its condition does not hold in the winner"
    assert (found.edge(sgd), found.edge(adamw)) == ("high", "")
    assert found.options == ("optimizer",)
    assert found.option(found.winner, "optimizer") == '{"name": "sgd"}'


def test_the_first_of_several_objectives_decides_in_its_own_direction(made: Any) -> None:
    memory = made()
    tuner = {"objectives": {"time/train_s": "min", "val/accuracy": "max"}, "warm_start": "older"}
    say(memory, memory.records, tuner=tuner)
    for record in memory.of(arm="adam", phase="tune"):
        memory.change(
            [record], lambda r: dataclasses.replace(r, last={**r.last, "time/train_s": 9.0 - r.labels.number})
        )
    found = told(memory)
    assert found.best is not None
    assert found.best.labels.number == 7, "the fastest"
    assert (found.mode, found.metric, found.warm_start) == ("min", "time/train_s", "older")
    assert found.measured(found.best, "val/accuracy") == found.best.final["objective"]


def test_trials_of_a_widened_range_are_told_apart(made: Any) -> None:
    memory = made()
    say(memory, memory.of(arm="adam", phase="tune")[5:], space={"optimizer.lr": "1.0:10.0:log"})
    found = told(memory)
    assert [r.labels.number for r in found.alike()] == [0, 1, 2, 3, 4]
    assert [(s.low, s.high) for s in found.spans["optimizer.lr"]] == [(1e-4, 1.0), (1.0, 10.0)]


def test_the_winner_is_the_trial_that_the_final_runs_name(made: Any) -> None:
    memory = made()
    named = memory.of(arm="adam", phase="tune")[3]
    say(memory, memory.of(arm="adam", phase="final"), winner=named.run_id)
    assert told(memory).winner is not None
    assert told(memory).winner.run_id == named.run_id  # type: ignore[union-attr]
