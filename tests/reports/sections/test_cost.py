"""What runs used: the failed and the tuning ones too."""

from __future__ import annotations

import dataclasses
from typing import Any

from reports.document import Paragraph, Parts, Table, Term
from reports.sections.cost import cost
from reports.table import read

NAME = "sgd-or-adam"


def words(parts: Parts) -> str:
    return "".join(p if isinstance(p, str) else p.term if isinstance(p, Term) else p.text for p in parts)


def counted(memory: Any, updates: float = 400) -> Any:
    """Every run says at its end what it used: 0.01 s and one gradient an update, 1 s of evaluation."""
    told = {"count/updates": updates, "count/gradients": updates, "time/train_s": updates / 100, "time/evaluate_s": 1.0}
    memory.change(memory.records, lambda r: dataclasses.replace(r, last={**r.last, **told}))
    return memory


def rows(memory: Any) -> list[list[str]]:
    (table,) = [piece for piece in cost(read(memory, NAME)) if isinstance(piece, Table)]
    return [[words(cell) for cell in row] for row in table.rows]


def test_sums_by_arm_and_phase_and_of_all(made: Any) -> None:
    found = rows(counted(made(seeds=3, trials=4)))
    assert found[0] == ["sgd", "tuning", "4", "1,600", "1,600", "16", "4", "0", "10"]
    assert found[1][:6] == ["sgd", "final", "3", "1,200", "1,200", "12"]
    assert found[-1][:6] == ["all", "all", "14", "5,600", "5,600", "56"]


def test_what_crashed_and_was_pruned_counts_with_what_it_used(made: Any) -> None:
    memory = counted(made(seeds=3, trials=4))
    memory.change(memory.of(arm="sgd", phase="tune")[:1], lambda r: dataclasses.replace(r, status="pruned", final={}))
    row = rows(memory)[0]
    assert row[3] == "1,600"
    assert row[7] == "25"


def test_what_diverged_and_crashed_is_a_cost_of_failure(made: Any) -> None:
    """2 of 3 final runs of sgd failed, with a third of the seconds each."""
    memory = counted(made(seeds=3, trials=4))
    first, second, _ = memory.of(arm="sgd", phase="final")
    memory.diverge(first)
    memory.change([second], lambda r: dataclasses.replace(r, status="crashed", final={}))
    assert rows(memory)[1][7] == "66.67"
    for record in memory.of(arm="adam", phase="final"):
        memory.diverge(record)
    assert rows(memory)[3][7] == "100"


def test_what_a_run_used_after_its_last_evaluation_is_said_to_be_more(made: Any) -> None:
    memory = counted(made(seeds=3, trials=4))
    record = memory.of(arm="sgd", phase="final")[0]
    memory.diverge(record)
    told = [words(note) for piece in cost(read(memory, NAME)) if isinstance(piece, Table) for note in piece.notes]
    assert not any("they used more" in note for note in told)
    event = ({"name": "diverged", "update": 425},)
    memory.change([record], lambda r: dataclasses.replace(r, events=event))
    (table,) = [piece for piece in cost(read(memory, NAME)) if isinstance(piece, Table)]
    assert any("Of 1 of these only what they had used by their last" in words(note) for note in table.notes)


def test_imported_epochs_are_counted_as_such(made: Any) -> None:
    memory = counted(made(seeds=3, trials=4))
    for each in memory.records:
        facts = {**each.file.facts, "recorded": "imported", "source": {"kind": "csv", "steps": "epochs"}}
        memory.with_file([each], facts=facts)
    (table,) = [piece for piece in cost(read(memory, NAME)) if isinstance(piece, Table)]
    heads = [column.head for column in table.columns]
    assert heads[3] == "Epochs"
    assert heads[-1] == "An epoch takes"


def test_what_does_not_tell_is_said_and_not_taken_for_nothing(made: Any) -> None:
    memory = counted(made(seeds=3, trials=4))
    memory.change(memory.of(arm="sgd", phase="tune")[:1], lambda r: dataclasses.replace(r, last={}))
    assert rows(memory)[0][3] == "1,200 but for 1 that do not tell"
    silent = made(seeds=3, trials=4)
    assert rows(silent)[0][3] == "not recorded"


def test_the_cost_of_tuning_beside_that_of_the_final_runs(made: Any) -> None:
    (said,) = [words(p.parts) for p in cost(read(counted(made(seeds=3, trials=4)), NAME)) if isinstance(p, Paragraph)]
    assert said == "Tuning took 1.333 times the training time of the final runs."
