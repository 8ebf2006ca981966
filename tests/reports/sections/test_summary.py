"""The summary: with many tasks, what chance alone would show stands beside what is shown."""

from __future__ import annotations

from typing import Any

import pytest

from reports.document import Paragraph, Term
from reports.report import build
from reports.table import read

NAME = "sgd-or-adam"


def said(memory: Any) -> str:
    blocks = build(read(memory, NAME)).document.blocks
    paragraphs = (block.parts for block in blocks if isinstance(block, Paragraph))
    return "\n".join(
        "".join(p if isinstance(p, str) else p.term if isinstance(p, Term) else p.text for p in parts)
        for parts in paragraphs
    )


@pytest.mark.parametrize(("count", "expected"), [(2, "0.1 of 2"), (6, "0.3 of 6")])
def test_what_chance_would_show_on_many_tasks(made: Any, digits: Any, count: int, expected: str) -> None:
    """At 5 % a task, 0.05 of each; b is better on one task, and equal on the rest."""
    arms = {"a": {"level": 0.9}, "b": {"level": 0.9}}
    memory = made(arms, tasks={f"t{index}": digits for index in range(count)}, seeds=6, trials=0)
    for record in memory.of(phase="final"):
        better = record.labels.arm == "b" and record.labels.task == "t0"
        value = (0.95 if better else 0.9) + 0.001 * (record.labels.seed * (3 if record.labels.arm == "b" else 2) % 7)
        memory.with_final(record, test__accuracy=value)
    text = said(memory)
    assert f"Some arm is shown to differ from another on 1 of {count} tasks" in text
    assert f"chance alone would show that on up to {expected} tasks on average (5 % on each)" in text


def test_nothing_is_said_of_chance_where_nothing_is_shown_or_of_one_task(made: Any, digits: Any, clean: Any) -> None:
    alike = made({"a": {"level": 0.9}, "b": {"level": 0.9}}, tasks={"s": digits, "t": digits}, seeds=3, trials=0)
    for record in alike.of(phase="final"):
        alike.with_final(record, test__accuracy=0.9 + 0.01 * (record.labels.seed * (record.labels.arm == "b") % 3))
    assert "chance alone" not in said(alike)
    assert "chance alone" not in said(clean)
