"""The results: each arm's mean with what there is to know of it."""

from __future__ import annotations

from typing import Any

import pytest

from reports.document import Parts, Table, Term
from reports.sections.results import results
from reports.table import read

NAME = "sgd-or-adam"


def words(parts: Parts) -> str:
    return "".join(p if isinstance(p, str) else p.term if isinstance(p, Term) else p.text for p in parts)


def notes(memory: Any) -> str:
    found = [piece for piece in results(read(memory, NAME)) if isinstance(piece, Table)]
    return " ".join(words(note) for note in found[0].notes)


@pytest.mark.parametrize(("metric", "said"), [("accuracy", True), ("score", False)])
def test_an_interval_that_leaves_what_a_share_can_be_is_said_to_be_cut(
    made: Any, digits: Any, metric: str, said: bool
) -> None:
    """0.96, 0.98, 1.0: 0.98 with 4.303 * 0.02 / sqrt(3) = 0.0497 to each side is up to 1.03. A score has no bound."""
    memory = made(tasks={"digits": {**digits, "metric": metric}}, seeds=3)
    for record in memory.of(arm="adam", phase="final"):
        memory.with_final(record, **{f"test__{metric}": 0.94 + 0.02 * record.labels.seed})
    told = f"The t interval of adam goes beyond 1, where no {metric} can be: read it as cut at 1."
    assert (told in notes(memory)) == said


def test_an_interval_within_its_bounds_has_no_note(clean: Any) -> None:
    assert "cut at" not in notes(clean)
