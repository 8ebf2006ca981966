from __future__ import annotations

import math
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from algos.finding import InputError
from experiments.ledger import Ledger
from experiments.opening import opened
from experiments.store.home import Home
from experiments.store.schema import RunRecord


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


def ledger(home: Home, metric: str = "val/acc", mode: str = "max", target: float | None = None) -> Ledger:
    return Ledger(opened(study="s", arm="a", metric=metric, mode=mode if metric else "", target=target, home=home))


def ended(book: Ledger, error: BaseException | None = None) -> RunRecord:
    book.end(error)
    return book.folder.record()


def points(book: Ledger) -> dict[str, dict[int, float]]:
    return {each.metric: dict(zip(each.updates, each.values)) for each in book.folder.series()}


def test_values_of_every_kind_are_numbers_under_flat_names(home: Home) -> None:
    book = ledger(home, "")
    book.log(
        {"a": 1, "b": torch.tensor(2.5), "c": np.float32(3.5), "d": {"e": {0: 4.5}, "f": np.array([5.5])}, "g": True},
        update=np.int64(3),  # type: ignore[arg-type]
    )
    assert ended(book).last.items() >= {"a": 1.0, "b": 2.5, "c": 3.5, "d/e/0": 4.5, "d/f": 5.5, "g": 1.0}.items()


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"a": "0.5"}, "log: 'a' is '0.5', not a number; log numbers; put the rest in config"),
        ({"a": None}, "log: 'a' is None, not a number"),
        ({"a": {"b": 1j}}, "log: 'a/b' is 1j, not a number"),
        ({"a": torch.ones(2)}, r"log: 'a' has shape \(2,\), not one number; log its mean"),
        ({"time/train_s": 1.0}, "log: 'time/train_s' is written by the record itself"),
        ({"": 1.0}, "log: a metric without a name"),
    ],
)
def test_what_is_not_a_number_is_refused_and_nothing_of_that_call_is_kept(
    home: Home, values: dict[str, Any], said: str
) -> None:
    book = ledger(home, "")
    with pytest.raises(InputError, match=f"^{said}"):
        book.log({"good": 1.0, **values}, update=1)
    assert "good" not in ended(book).last


def test_updates_do_not_go_back(home: Home) -> None:
    book = ledger(home, "")
    book.log({"a": 1.0}, update=5)
    with pytest.raises(InputError, match=r"^update: update=4 after update=5; log in order"):
        book.log({"a": 1.0}, update=4)
    with pytest.raises(InputError, match=r"^update: update=5\.5 is not a whole number"):
        book.log({"a": 1.0}, update=5.5)  # type: ignore[arg-type]


def test_a_metric_has_one_point_an_update_and_the_second_is_said(home: Home) -> None:
    book = ledger(home)
    for value in (0.5, 0.6, 0.7):
        book.log({"val/acc": value, "epoch": 0.5}, update=1)
    record = ended(book)
    assert points(book)["val/acc"] == {1: 0.5}
    assert record.final["objective"] == 0.7
    assert [e["text"] for e in record.events] == ["val/acc was logged twice at update 1; its first point is kept"]


def test_a_value_that_is_no_number_twice_is_one_value(home: Home) -> None:
    book = ledger(home, "")
    for _ in range(2):
        book.log({"a": math.nan}, update=1)
    assert not ended(book).events


@pytest.mark.parametrize("order", [("acc", "val/acc"), ("val/acc", "acc")])
def test_another_metric_of_the_name_that_ours_is_stored_under_is_refused(home: Home, order: tuple[str, str]) -> None:
    book = ledger(home, "acc")
    book.log({order[0]: 0.5}, update=1)
    with pytest.raises(InputError, match=r"metric='acc' would be stored as 'val/acc', which is logged too"):
        book.log({order[1]: 0.25}, update=2)
    both = ledger(home, "acc")
    both.log({"acc": 0.5, "val/acc": 0.5}, update=1)  # one metric by two names
    assert ended(both).final == {"objective": 0.5}


@pytest.mark.parametrize("metric", ["val/acc", "val_acc", "acc"])
def test_the_metric_is_found_under_its_canonical_name_with_its_counts(home: Home, metric: str) -> None:
    book = ledger(home, metric, target=0.8)
    book.log({"train/loss": 1.0}, update=5)
    book.log({metric: 0.5}, update=10, examples=640, gradients=20, epochs=0.5)
    book.log({metric: 0.9, "test_acc": 0.85}, update=20, examples=1280, gradients=40)
    record = ended(book)
    found = points(book)
    assert found["val/acc"] == found[metric] == {10: 0.5, 20: 0.9}
    assert found["count/examples"] == {10: 640, 20: 1280}
    assert found["count/updates"] == {10: 10, 20: 20}
    assert record.final == {"objective": 0.9, "test/acc": 0.85}
    assert record.reached is not None
    assert {"update": 20, "value": 0.9, "examples": 1280, "gradients": 40}.items() <= record.reached.items()
    assert 0 < record.reached["train_s"] <= record.last["time/train_s"]


def test_final_values_stand_beside_the_objective(home: Home) -> None:
    book = ledger(home)
    book.log({"val/acc": 0.5}, update=1)
    book.final({"test_acc": np.float64(0.4), "size_mb": 3})
    assert ended(book).final == {"objective": 0.5, "test/acc": 0.4, "size_mb": 3.0}


def test_evaluation_is_apart_from_training(home: Home, jump: Callable[[float], None]) -> None:
    book = ledger(home)
    jump(100)
    with book.evaluating(), book.evaluating():
        jump(1000)
    book.log({"val/acc": 0.5}, update=1)
    last = ended(book).last
    assert 100 <= last["time/train_s"] < 200
    assert 1000 <= last["time/evaluate_s"] < 1100


def test_what_is_apart_is_neither_training_nor_evaluation(home: Home, jump: Callable[[float], None]) -> None:
    book = ledger(home)
    with book.apart():
        jump(1000)
        with book.evaluating():
            jump(200)
        jump(1000)
    book.passed("apart", 0.0)
    book.log({"val/acc": 0.5}, update=1)
    last = ended(book).last
    assert last["time/train_s"] < 100
    assert 200 <= last["time/evaluate_s"] < 300


def test_phases_of_threads_may_end_in_any_order(home: Home, jump: Callable[[float], None]) -> None:
    book = ledger(home)
    one, other = book.evaluating(), book.apart()
    one.__enter__()
    other.__enter__()
    one.__exit__(None, None, None)
    other.__exit__(None, None, None)
    jump(100)
    book.log({"val/acc": 0.5}, update=1)
    assert ended(book).last["time/train_s"] >= 100


@pytest.mark.parametrize("name", ["train/loss", "val/acc"])
def test_a_last_value_that_is_not_finite_is_divergence(home: Home, name: str) -> None:
    book = ledger(home)
    book.log({"val/acc": 0.5, "train/loss": 1.0}, update=1)
    book.log({name: torch.tensor(math.nan)}, update=2)
    record = ended(book)
    assert (record.status, record.reason, record.nonfinite[0]) == ("diverged", f"the last {name} was nan", name)
    assert record.final == {}


def test_a_last_value_that_is_not_finite_is_so_for_who_takes_the_run_up_and_logs_no_other(home: Home) -> None:
    book = ledger(home)
    book.log({"val/acc": 0.5}, update=1)
    book.log({"val/acc": math.nan}, update=2)
    ended(book, KeyboardInterrupt())
    record = ended(Ledger(book.folder, resumed_from=2))
    assert (record.status, record.reason, record.final) == ("diverged", "the last val/acc was nan", {})


def test_a_loss_that_recovered_is_no_divergence(home: Home) -> None:
    book = ledger(home)
    book.log({"val/acc": 0.5, "train/loss": math.inf}, update=1)
    book.log({"train/loss": 1.0}, update=2)
    record = ended(book)
    assert (record.status, record.nonfinite) == ("completed", ("train/loss",))


def test_a_metric_that_never_came_is_a_warning_that_names_what_did(home: Home) -> None:
    book = ledger(home)
    book.log({"val/accuracy": 0.5}, update=1)
    book.final({"test_loss": 3.0})
    said = "the metric 'val/acc' was never logged (logged: val/accuracy); did you mean 'val/accuracy'?"
    with pytest.warns(UserWarning, match="never logged") as warned:
        record = ended(book)
    assert [str(each.message) for each in warned] == [f"run {book.run_id}: {said}"]
    assert (record.status, record.reason, record.final) == ("completed", "", {"test_loss": 3.0})
    assert [(event["name"], event["text"]) for event in record.events] == [("warning", said)]


def test_after_the_end_it_says_so(home: Home) -> None:
    book = ledger(home, "")
    book.end()
    book.end(ValueError("too late"))
    assert book.folder.record().status == "completed"
    with pytest.raises(InputError, match=r"^run .* is over \(completed\); log inside the block that records it"):
        book.log({"a": 1.0}, update=1)


def test_threads_may_share_it(home: Home) -> None:
    book = ledger(home, "")

    def log(name: str) -> None:
        for _ in range(500):
            book.log({name: 1.0}, update=7)

    threads = [threading.Thread(target=log, args=(f"m{number}",)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {f"m{number}" for number in range(4)} <= ended(book).last.keys()
    assert book.folder.series(["m0"])[0].updates == (7,)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_has_no_part_in_it(home: Home) -> None:
    book = ledger(home, "")
    book.log({"a": 1.0}, update=1)
    child = os.fork()
    if child == 0:
        try:
            book.end(ValueError("the child's"))
            book.log({"a": 2.0}, update=2)
        except InputError as error:
            os._exit(7 if "a child of it" in str(error) else 8)
        os._exit(9)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    record = ended(book)
    assert (record.status, record.last["a"]) == ("completed", 1.0)
