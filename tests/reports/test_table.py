"""The runs that count: one a seed, and of a run and its forks one."""

from __future__ import annotations

import dataclasses
from typing import Any

from reports.report import build
from reports.table import read

NAME = "sgd-or-adam"


def fork(memory: Any, record: Any, trunk: str) -> None:
    memory.with_file([record], facts={**record.file.facts, "fork": {"trunk": trunk, "update": 100}})


def test_forks_of_one_run_are_one_seed(clean: Any) -> None:
    for record in clean.of(arm="adam", phase="final"):
        fork(clean, record, "20260101-000000-trunk")
    study = read(clean, NAME)
    assert list(study.cells["digits", "adam"].by_seed) == [1]
    assert "cannot be told" in build(study).document.summary


def test_forks_of_runs_of_their_own_are_seeds_of_their_own(clean: Any) -> None:
    for index, record in enumerate(clean.of(arm="adam", phase="final")):
        fork(clean, record, f"20260101-000000-{index}")
    assert list(read(clean, NAME).cells["digits", "adam"].by_seed) == [1, 2, 3, 4, 5, 6]


def test_a_run_counts_before_its_forks_and_theirs(clean: Any) -> None:
    """Seeds 1 and 2 were forked from seed 4's run, seed 3 from seed 2's: of these the origin counts."""
    runs = clean.of(arm="adam", phase="final")
    for record, trunk in ((runs[0], runs[3]), (runs[1], runs[3]), (runs[2], runs[1])):
        fork(clean, record, trunk.run_id)
    assert list(read(clean, NAME).cells["digits", "adam"].by_seed) == [4, 5, 6]


def test_a_fork_counts_where_its_origin_did_not_end(clean: Any) -> None:
    runs = clean.of(arm="adam", phase="final")
    fork(clean, runs[0], runs[3].run_id)
    clean.change(runs[3:4], lambda r: dataclasses.replace(r, status="crashed", final={}))
    assert list(read(clean, NAME).cells["digits", "adam"].by_seed) == [1, 2, 3, 5, 6]
