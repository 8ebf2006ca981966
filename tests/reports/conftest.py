"""Studies made up in memory: a Source of RunRecords and Series, clean unless a test plants a fault."""

from __future__ import annotations

import dataclasses
import importlib.util
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from experiments.store.schema import Labels, RunFile, RunRecord
from experiments.store.sources import Series

EVALUATIONS = 20


@dataclass
class Memory:
    """A Source of what it was given. `of(...)` picks records; `change(...)` replaces them."""

    records: list[RunRecord] = field(default_factory=list)
    points: dict[tuple[str, str], Series] = field(default_factory=dict)

    def runs(self, query: str = "") -> list[RunRecord]:
        return list(self.records)

    def series(self, run_ids: Iterable[str], metrics: Sequence[str] | None = None) -> list[Series]:
        wanted = set(run_ids)
        return [
            s for (run, metric), s in self.points.items() if run in wanted and (metrics is None or metric in metrics)
        ]

    def of(self, **labels: Any) -> list[RunRecord]:
        return [r for r in self.records if all(getattr(r.labels, key) == value for key, value in labels.items())]

    def change(self, records: Iterable[RunRecord], edit: Callable[[RunRecord], RunRecord]) -> None:
        ids = {record.run_id for record in records}
        self.records = [edit(record) if record.run_id in ids else record for record in self.records]

    def diverge(self, record: RunRecord) -> None:
        self.change([record], lambda r: dataclasses.replace(r, status="diverged", final={}, nonfinite=("train/loss",)))

    def with_file(self, records: Iterable[RunRecord], **changes: Any) -> None:
        self.change(records, lambda r: dataclasses.replace(r, file=dataclasses.replace(r.file, **changes)))

    def with_config(self, records: Iterable[RunRecord], **changes: Any) -> None:
        self.change(
            records,
            lambda r: dataclasses.replace(r, file=dataclasses.replace(r.file, config={**r.file.config, **changes})),
        )

    def with_final(self, record: RunRecord, **values: float) -> None:
        named = {name.replace("__", "/"): value for name, value in values.items()}
        self.change([record], lambda r: dataclasses.replace(r, final={**r.final, **named}))


@dataclass(frozen=True)
class Arm:
    """level: the mean final test accuracy. speed: seconds an update. gradients: an update. lr: where its best is."""

    level: float
    speed: float = 0.01
    gradients: int = 1
    lr: float = 1e-2


TASK = {
    "metric": "accuracy",
    "mode": "max",
    "worst": 0.0,
    "target": 0.9,
    "target_source": "a linear model reaches 0.89",
    "unit": "images",
    "select": "last",
    "title": "Digits",
    "domain": "cv",
    "sizes": {"train": 10_000, "validation": 2_000, "test": 2_000_000},
    "digest": "d1" * 32,
    "baselines": {"linear": 0.89},
    "cite": "@misc{digits, title={Digits}}",
}
SPACE = "1e-4:1.0:log"


def study(
    arms: Mapping[str, Mapping[str, Any]] | None = None,
    *,
    name: str = "sgd-or-adam",
    tasks: Mapping[str, Mapping[str, Any]] | None = None,
    seeds: int = 6,
    trials: int = 8,
    noise: float = 0.002,
    updates: int = 400,
    question: str = "Does Adam beat SGD?",
) -> Memory:
    """A clean study: equal budgets and trials, distinct seeds, flat ends, one machine, one commit."""
    built = {n: Arm(**told) for n, told in (arms or {"sgd": {"level": 0.93}, "adam": {"level": 0.96}}).items()}
    memory = Memory()
    rng = np.random.default_rng(0)
    for task_name, facts in (tasks or {"digits": TASK}).items():
        for arm_name, arm in built.items():
            told = {
                "question": question,
                "digest": "e" * 64,
                "seeds": list(range(1, seeds + 1)),
                "trials": trials,
                "sampler": "random",
                "space": {"optimizer.lr": SPACE},
                "params": {},
                "reason": "",
                "winner": "",
            }
            for number in range(trials):
                lr = float(arm.lr * 10 ** np.linspace(-1.2, 1.2, trials)[number] if number else arm.lr)
                score = arm.level - (0.1 if facts["mode"] == "max" else -0.1) * abs(math.log10(lr / arm.lr))
                _add(
                    memory,
                    Labels(task_name, name, arm_name, "tune", number, 1000 + number),
                    facts,
                    told,
                    arm,
                    lr,
                    score,
                    updates,
                    rng,
                    noise,
                )
            for seed in range(1, seeds + 1):
                level = arm.level + float(rng.normal(0, noise))
                _add(
                    memory,
                    Labels(task_name, name, arm_name, "final", seed - 1, seed),
                    facts,
                    told,
                    arm,
                    arm.lr,
                    level,
                    updates,
                    rng,
                    noise,
                )
    return memory


def _add(
    memory: Memory,
    labels: Labels,
    task: Mapping[str, Any],
    told: Mapping[str, Any],
    arm: Arm,
    lr: float,
    level: float,
    updates: int,
    rng: np.random.Generator,
    noise: float,
) -> None:
    run_id = f"r{len(memory.records):03d}"
    metric = task["metric"]
    at = np.linspace(updates / EVALUATIONS, updates, EVALUATIONS).astype(int)
    start = 0.1 if task["mode"] == "max" else 3 * level
    values = level + (start - level) * np.exp(-12 * at / updates) + rng.normal(0, noise / 2, EVALUATIONS)
    series = {f"val/{metric}": values, "time/train_s": at * arm.speed, "count/gradients": at * arm.gradients}
    for name, numbers in series.items():
        memory.points[run_id, name] = Series(
            run_id, name, tuple(map(int, at)), tuple(map(float, numbers)), tuple(map(int, at))
        )
    final = {"objective": float(values[-1])}
    if labels.phase == "final":
        final[f"test/{metric}"] = level
    memory.records.append(
        RunRecord(
            file=RunFile(
                run_id=run_id,
                name=f"{labels.task} {labels.arm} {labels.phase} {labels.number}",
                labels=labels,
                config={
                    "task": labels.task,
                    "optimizer": {"name": labels.arm, "lr": lr},
                    "budget": {"updates": updates},
                    "seed": labels.seed,
                    "select": "last",
                    "stop": "budget",
                },
                digest="0" * 64,
                facts={
                    "task": dict(task),
                    "study": told,
                    "entries": {
                        "optimizer": {
                            "kind": "optimizers",
                            "name": labels.arm,
                            "title": labels.arm,
                            "cite": f"@article{{{labels.arm}, title={{On {labels.arm}}}}}",
                        }
                    },
                },
                provenance={
                    "commit": "c" * 40,
                    "dirty": False,
                    "packages": {"torch": "2.13.0"},
                    "device": {"asked": "auto", "type": "cpu", "name": "a processor", "threads": 1},
                },
                created=1_700_000_000_000 + len(memory.records),
            ),
            status="completed",
            attempts=1,
            started=1_700_000_000_000,
            ended=1_700_000_060_000,
            last={f"val/{metric}": float(values[-1])},
            final=final,
        )
    )


@pytest.fixture
def clean() -> Memory:
    return study()


@pytest.fixture
def made() -> Callable[..., Memory]:
    """`study`, for tests that shape their own: made({"sgd": {"level": 0.9}, ...}, seeds=3)."""
    return study


@pytest.fixture
def digits() -> dict[str, Any]:
    """The facts of the task that `study` has by default."""
    return dict(TASK)


@pytest.fixture(scope="session")
def homes() -> ModuleType:
    """The module beside this one: studies of users' own modules and of recorded loops, in a real home."""
    spec = importlib.util.spec_from_file_location("homes", Path(__file__).with_name("homes.py"))
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
