"""The question: what each arm fixed and tuned, and only what the runs say."""

from __future__ import annotations

from typing import Any

from reports.document import Paragraph, Parts, Table, Term
from reports.sections.question import question
from reports.table import read

NAME = "sgd-or-adam"


def words(parts: Parts) -> str:
    return "".join(p if isinstance(p, str) else p.term if isinstance(p, Term) else p.text for p in parts)


def table(memory: Any, caption: str) -> tuple[list[str], list[list[str]]]:
    blocks = question(read(memory, NAME), "")
    (found,) = [b for b in blocks if isinstance(b, Table) and words(b.caption).startswith(caption)]
    return [column.head for column in found.columns], [[words(cell) for cell in row] for row in found.rows]


def prose(memory: Any) -> str:
    return " ".join(words(b.parts) for b in question(read(memory, NAME), "") if isinstance(b, Paragraph))


def searching(memory: Any, records: Any, space: dict[str, str]) -> None:
    for each in records:
        memory.with_file([each], facts={**each.file.facts, "study": {**each.file.facts["study"], "space": space}})


def imported(memory: Any, kind: str, **task: Any) -> None:
    for each in memory.records:
        told = {"recorded": "imported", "source": {"kind": kind}, "task": {**each.task, **task}}
        memory.with_file([each], facts={**each.file.facts, **told})


def test_a_value_that_one_arm_fixed_and_others_tuned_is_shown(clean: Any) -> None:
    """The newcomer's hot_sgd: lr 5 is fixed, only its weight decay is tuned."""
    hot = clean.of(arm="sgd")
    clean.with_config(hot, optimizer={"name": "sgd", "lr": 5, "weight_decay": 1e-4})
    clean.with_config(clean.of(arm="adam"), optimizer={"name": "adam", "lr": 0.0123456, "weight_decay": 0.05})
    searching(clean, hot, {"optimizer.weight_decay": "1e-5:1e-1:log"})
    assert table(clean, "The arms") == (
        ["Arm", "Optimizer"],
        [["sgd", "sgd, lr 5, weight decay tuned"], ["adam", "adam, lr tuned, weight decay 0.05"]],
    )


def test_what_every_arm_tuned_has_its_own_table(clean: Any) -> None:
    assert table(clean, "The arms")[1] == [["sgd", "sgd"], ["adam", "adam"]]


def test_a_condition_is_no_part_of_the_key(clean: Any) -> None:
    clean.with_config(clean.of(arm="sgd"), optimizer={"name": "sgd", "lr": 0.1, "momentum": 0.9})
    searching(clean, clean.of(arm="sgd"), {"optimizer.momentum when optimizer=sgd": "0.1:0.99"})
    assert table(clean, "The arms")[1][0] == ["sgd", "sgd, lr 0.1, momentum tuned"]


def test_numbers_have_four_digits(clean: Any) -> None:
    clean.with_config(clean.of(arm="adam"), optimizer={"name": "adam", "lr": 0.01, "eps": 0.001000413550104885})
    assert table(clean, "The arms")[1][1] == ["adam", "adam, eps 0.001"]


def test_trials_of_one_arm_alone_show_no_trials_values(made: Any) -> None:
    """As Optuna's: settings without groups, and no final runs."""
    memory = made({"opt1": {"level": 0.9}})
    memory.records = memory.of(phase="tune")
    for at, each in enumerate(memory.records):
        memory.with_file([each], config={"seed": at, "lr": 0.001000413550104885 + at})
    searching(memory, memory.records, {"lr": "1e-4:1.0:log"})
    imported(memory, "optuna")
    assert table(memory, "The arm") == (["Arm", "Runs from"], [["opt1", "Optuna's records"]])


def test_which_split_an_objective_of_optunas_is_of_is_not_known(clean: Any) -> None:
    assert "tuned on each task by validation" in prose(clean)
    imported(clean, "optuna")
    assert "by validation" not in prose(clean)
    assert "by which split is not recorded" in prose(clean)


def test_imported_runs_with_their_validation_were_tuned_by_it(clean: Any) -> None:
    imported(clean, "csv")
    assert "tuned on each task by validation" in prose(clean)
    assert "All were imported from a CSV file" in prose(clean)


def test_a_unit_that_no_run_says_is_left_out(clean: Any) -> None:
    assert "Unit" in table(clean, "The task")[0]
    imported(clean, "mlflow", unit="", sizes={})
    assert "Unit" not in table(clean, "The task")[0]


def note(memory: Any) -> str:
    blocks = question(read(memory, NAME), "")
    (found,) = [b for b in blocks if isinstance(b, Table) and words(b.caption).startswith("The arm")]
    return " ".join(map(words, found.notes))


def test_what_tuning_chose_among_is_not_the_same_in_all(made: Any) -> None:
    """One arm of an Optuna study: the optimizer was searched, and the final runs have the one that won."""
    memory = made({"adam": {"level": 0.93}})
    memory.with_config(memory.records, optimizer="adam", loss="hinge")
    memory.with_config(memory.of(phase="tune")[:5], optimizer="sgd")
    imported(memory, "optuna")
    assert note(memory) == "The same in all: loss hinge."
    memory.with_config(memory.records, optimizer="adam")
    assert "optimizer adam" in note(memory)
    searching(memory, memory.records, {"optimizer": "adam,sgd"})
    assert note(memory) == "The same in all: loss hinge."


def test_an_arm_of_another_setting_on_another_task_says_where(made: Any, digits: Any) -> None:
    memory = made(tasks={"digits": digits, "cora": digits}, trials=0)
    memory.with_config(memory.of(arm="sgd", task="cora"), optimizer={"name": "sgd", "lr": 0.5})
    assert table(memory, "The arms")[1] == [
        ["sgd", "digits: sgd, lr 0.01; cora: sgd, lr 0.5"],
        ["adam", "adam, lr 0.01"],
    ]
