"""The checklist answers from the runs, and changes with them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from reports.document import Parts, Table, Term
from reports.sections.checklist import ITEMS, checklist
from reports.table import read

NAME = "sgd-or-adam"
COMPUTE = "Is the compute stated, failed and preliminary runs too?"


def words(parts: Parts) -> str:
    return "".join(p if isinstance(p, str) else p.term if isinstance(p, Term) else p.text for p in parts)


def answers(memory: Any) -> dict[str, tuple[str, str]]:
    (table,) = [block for block in checklist(read(memory, NAME)) if isinstance(block, Table)]
    return {words(item): (words(word), words(why)) for item, word, why in table.rows}


def test_a_clean_study_has_a_yes_for_all_that_it_tells(clean: Any) -> None:
    found = answers(clean)
    assert set(found) == set(ITEMS)
    assert {item for item, (word, _) in found.items() if word != "yes"} == {COMPUTE}, "tuning runs tell no time"
    assert all(why for _, why in found.values())


BREAKS: dict[str, tuple[Callable[[Any], Any], str]] = {
    "Are results of several seeds reported?": (
        lambda m: setattr(m, "records", [r for r in m.records if r.labels.phase == "tune" or r.labels.seed < 3]),
        "no",
    ),
    "Was every arm tuned equally?": (lambda m: m.records.remove(m.of(arm="sgd", phase="tune")[0]), "no"),
    "Had every arm the same budget?": (lambda m: m.with_config(m.of(arm="sgd"), budget={"updates": 9}), "no"),
    "Was the test split read only once, at the end?": (
        lambda m: m.with_final(m.of(phase="tune")[0], test__accuracy=0.9),
        "no",
    ),
    "Is the code's version known, without uncommitted changes?": (
        lambda m: m.with_file(m.records[:1], provenance={"commit": "c", "dirty": True}),
        "no",
    ),
    "Are versions of packages stored?": (lambda m: m.with_file(m.records[:1], provenance={}), "not recorded"),
    "Is the device stated?": (lambda m: m.with_file(m.records, provenance={}), "not recorded"),
    "Are the makers of methods and data cited?": (
        lambda m: m.with_file(m.records, facts={**m.records[0].file.facts, "entries": {}}),
        "not recorded",
    ),
}


@pytest.mark.parametrize("item", BREAKS)
def test_what_is_broken_is_no_yes(clean: Any, item: str) -> None:
    spoil, word = BREAKS[item]
    spoil(clean)
    assert answers(clean)[item][0] == word
