"""Studies for figures: two hyperparameters, several tasks, diverged runs, names that nobody should give."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from reports.figures.panel import Subject
from reports.table import read

HOSTILE = ("<script>alert(1)</script>", r"\input{/etc/passwd}", "a_b%&$#", "$x^{", "_hidden", "学习率", "x" * 300)
#: Every kind of figure that is drawn of a study.
OF_STUDIES = (
    "ablation", "contours", "critical_difference", "curves", "parallel", "pareto", "points", "profiles", "sensitivity",
    "slices", "survival",
)  # fmt: skip


def _second_hyper(memory: Any) -> None:
    """Trials tuned a width too."""
    for record in memory.of(phase="tune"):
        width = 16 * (1 + (record.labels.number * 5) % 8)
        told = {**record.file.facts["study"], "space": {"optimizer.lr": "1e-4:1.0:log", "model.width": "16:128:int"}}
        config = {**record.config, "model": {"name": "mlp", "width": width}}
        file = dataclasses.replace(record.file, config=config, facts={**record.file.facts, "study": told})
        memory.change([record], lambda r, file=file: dataclasses.replace(r, file=file))


@pytest.fixture
def subject_of(made: Callable[..., Any], digits: dict[str, Any]) -> Callable[..., Subject]:
    """subject_of(names, tasks=2, seeds=5, trials=12, lost=("b",)): a study of those arms, of which `lost` diverge in
    every run, and the first in one trial and one seed."""

    def build(
        names: Sequence[str] = ("sgd", "adam", "muon"), *, tasks: int = 1, seeds: int = 5, trials: int = 12,
        lost: Sequence[str] = (), accident: bool = False, hypers: int = 2,
    ) -> Subject:  # fmt: skip
        arms = {
            name: {
                "level": 0.93 + 0.045 * (i + 1) / len(names),
                "speed": 0.01 * (1 + i % 3),
                "lr": 10 ** (-2 + i % 3 / 2),
            }
            for i, name in enumerate(names)
        }
        memory = made(arms, tasks={f"digits{i or ''}": digits for i in range(tasks)}, seeds=seeds, trials=trials)
        if hypers == 2:
            _second_hyper(memory)
        for record in memory.of():
            if record.labels.arm in lost or (accident and record.labels.arm == names[0] and record.labels.number == 1):
                memory.diverge(record)
        for record in memory.of():
            facts = {**record.file.facts, "parameters": 1000 * (1 + names.index(record.labels.arm))}
            memory.with_file([record], facts=facts)
        return Subject(read(memory, "sgd-or-adam"), memory)

    return build
