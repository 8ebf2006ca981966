"""The tuning section: what was chosen and where from, and the expected best of n where it can be told."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from reports.document import Paragraph, Parts, Table, Term
from reports.report import build
from reports.table import read

NAME = "sgd-or-adam"


def words(parts: Parts) -> str:
    return "".join(p if isinstance(p, str) else p.term if isinstance(p, Term) else p.text for p in parts)


def tables(memory: Any, caption: str) -> list[list[str]]:
    found = [b for b in build(read(memory, NAME)).document.blocks if isinstance(b, Table)]
    return [[words(cell) for cell in row] for table in found if caption in words(table.caption) for row in table.rows]


def notes(memory: Any, caption: str) -> str:
    found = [b for b in build(read(memory, NAME)).document.blocks if isinstance(b, Table)]
    return " ".join(words(note) for table in found if caption in words(table.caption) for note in table.notes)


def prose(memory: Any) -> str:
    return " ".join(words(b.parts) for b in build(read(memory, NAME)).document.blocks if isinstance(b, Paragraph))


def say(memory: Any, **facts: Any) -> None:
    for record in memory.records:
        memory.with_file([record], facts={**record.file.facts, "study": {**record.file.facts["study"], **facts}})


def test_the_expected_best_of_five_trials_of_a_known_case(made: Any) -> None:
    """statistics.json, best_of_n: of 0.7, 0.72, 0.75, 0.8 and 0.9 the unbiased expected best of 1, 2, 4 and 5."""
    memory = made(trials=5)
    for record in memory.of(phase="tune"):
        memory.with_final(record, objective=[0.7, 0.72, 0.75, 0.8, 0.9][record.labels.number])
    row = tables(memory, "Expected best")[0]
    assert [cell.split()[0] for cell in row[2:]] == ["0.774", "0.822", "0.88", "0.9"]


@pytest.mark.parametrize("sampler", ["tpe", "nsga2", "grid", ""])
def test_dependent_samplers_are_refused_with_the_reason(clean: Any, sampler: str) -> None:
    say(clean, sampler=sampler)
    assert tables(clean, "Expected best") == []
    why = (
        f"trials of the {sampler} sampler are not independent draws" if sampler else "sampler drew their trials is not"
    )
    assert f"The expected best of n trials is not given for sgd and adam: {why}" in prose(clean).replace("which ", "")


def test_pruned_trials_have_no_expected_best(clean: Any) -> None:
    clean.change(clean.of(arm="adam", phase="tune")[:1], lambda r: dataclasses.replace(r, status="pruned", final={}))
    assert [row[1] for row in tables(clean, "Expected best")] == ["sgd"]
    assert "is not given for adam: pruned trials have no final objective" in prose(clean)


def test_the_task_and_the_reason_are_named_where_all_trials_diverged(made: Any, digits: Any) -> None:
    """On one task of two: the table above gives it for the other."""
    two = made(tasks={"digits": digits, "cora": {**digits, "title": "Cora"}}, trials=5)
    two.change(
        two.of(task="cora", arm="adam", phase="tune"),
        lambda r: dataclasses.replace(r, status="diverged", final={}),
    )
    rows = [row[:2] for row in tables(two, "Expected best")]
    assert ["digits", "adam"] in rows
    assert ["cora", "adam"] not in rows
    assert "The expected best of n trials is not given for adam on cora: all trials diverged." in prose(two)
    chosen = {tuple(row[:2]): (row[4], row[6]) for row in tables(two, "What tuning chose")}
    assert chosen["cora", "adam"][0].endswith("(an arbitrary choice: all trials diverged)")
    assert chosen["cora", "adam"][1] == "none"
    assert "arbitrary" not in chosen["digits", "adam"][0]


def test_several_objectives_options_and_a_warm_start_are_told(clean: Any) -> None:
    tuner = {"objectives": {"val/accuracy": "max", "time/train_s": "min"}, "warm_start": "older"}
    space = {"optimizer.lr": "1e-4:1.0:log", "wrappers": '["cautious"],none'}
    say(clean, tuner=tuner, space=space, params={"wrappers": ["cautious"]})
    clean.change(clean.of(phase="tune"), lambda r: dataclasses.replace(r, last={**r.last, "time/train_s": 4.0}))
    row = tables(clean, "What tuning chose")[0]
    assert 'wrappers\u00a0["cautious"]' in row[4]
    assert "wrappers among options" in row[5]
    assert row[7] == "time/train_s 4"
    said = notes(clean, "What tuning chose")
    assert "Objectives: val/accuracy (max), time/train_s (min): the first decides" in said
    assert "Warm start: the trials of study older were the sampler's history" in said


def test_where_a_hyperparameter_is_good_and_how_much_it_decides(made: Any) -> None:
    """One hyperparameter decides all of it."""
    memory = made(trials=24)
    row = tables(memory, "Each hyperparameter")[0]
    assert row[2:4] == ["optimizer.lr", "0.01"]
    assert row[6] == "100"
    few = made(trials=4)
    assert tables(few, "Each hyperparameter")[0][6] == "too few trials"
