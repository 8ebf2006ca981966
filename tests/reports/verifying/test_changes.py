"""What differs between a document as it is written and as its evidence gives it: anybody's edit of it is found."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from typing import Any

import pytest

from reports.document import Document
from reports.quantity import Quantity
from reports.verifying.changes import Changes, changes, equal
from reports.verifying.places import numbers


def tampered(document: Document, edit: Callable[[dict[str, Any]], None]) -> Document:
    """As somebody with an editor would leave the file."""
    data = json.loads(document.to_json())
    edit(data)
    return Document.from_json(json.dumps(data))


def blocks(data: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    return [block for block in data["blocks"] if block["kind"] == kind]


def first_number(data: Any) -> dict[str, Any] | None:
    """The first quantity with an interval that is found anywhere."""
    if isinstance(data, dict):
        if data.get("statistic") and data.get("low") is not None:
            return data
        data = list(data.values())
    return next((found for item in data if (found := first_number(item))), None) if isinstance(data, list) else None


@pytest.fixture
def document(two: Any, written: Callable[[Any], Document]) -> Document:
    return written(two)


def found(document: Document, edit: Callable[[dict[str, Any]], None]) -> Changes:
    return changes(tampered(document, edit), document)


def test_a_document_is_equal_to_itself(document: Document) -> None:
    same = changes(document, document)
    assert same.none
    assert same.equal == len(list(document.quantities()))
    assert not same.runs.runs


@pytest.mark.parametrize("name", ["value", "low", "high"])
@pytest.mark.parametrize("by", [1.001, 1.0 + 1e-8])
def test_a_number_that_was_tampered_with_is_found(document: Document, name: str, by: float) -> None:
    def edit(data: dict[str, Any]) -> None:
        quantity = first_number(data)
        assert quantity is not None
        quantity[name] *= by

    (change,) = found(document, edit).numbers
    assert change.old is not None
    assert change.new is not None
    assert getattr(change.old, name) == pytest.approx(getattr(change.new, name) * by, rel=1e-12)


def test_a_verdict_that_was_tampered_with_is_found(document: Document) -> None:
    (verdict, *_) = found(document, lambda data: blocks(data, "verdict")[0].update(verdict="cannot be told")).verdicts
    assert verdict.old == "cannot be told"
    assert verdict.new == "better"


def test_words_that_were_tampered_with_are_found(document: Document) -> None:
    def edit(data: dict[str, Any]) -> None:
        rows = next(table["rows"] for table in blocks(data, "table"))
        rows[0][0] = ["another name"]

    assert not found(document, edit).none


def test_a_row_of_the_list_of_runs_that_was_tampered_with_is_found(document: Document) -> None:
    edited = found(document, lambda data: blocks(data, "runs")[0]["runs"][0].update(objective=0.1))
    assert [each.old for each in edited.statements] == ["0.1"]


def test_a_number_that_was_taken_out_or_put_in_is_found(document: Document) -> None:
    def edit(data: dict[str, Any]) -> None:
        data["blocks"].append({"kind": "paragraph", "parts": [{"value": 1.0, "statistic": "invented"}]})

    (change,) = found(document, edit).numbers
    assert (change.old is None, change.new is None) == (False, True)


def test_equal_means_to_nine_digits() -> None:
    def number(value: float | None) -> Quantity:
        return Quantity(value=value, statistic="mean")

    assert equal(number(0.1 + 0.2), number(0.3))
    assert not equal(number(0.3), number(0.3 + 1e-8))
    assert not equal(number(None), number(0.0))
    assert not equal(number(1e-9), number(2e-9))


def test_without_a_basis_runs_are_told_by_their_rows(two: Any, written: Callable[[Any], Document]) -> None:
    old = written(two).model_copy(update={"basis": None})
    run = two.of(phase="final")[0]
    two.change([run], lambda r: dataclasses.replace(r, final={**r.final, "objective": 0.5}))
    assert changes(old, written(two)).runs.edited == {run.run_id: ("objective",)}


def _first(data: dict[str, Any], kind: str) -> dict[str, Any]:
    return blocks(data, kind)[0]


def _table(data: dict[str, Any]) -> dict[str, Any]:
    """The first table of several rows."""
    return next(table for table in blocks(data, "table") if len(table["rows"]) > 1)


def _unit(data: dict[str, Any]) -> None:
    _table(data)["columns"][1]["unit"] = "kg"


def _row_of_nobody(data: dict[str, Any]) -> None:
    rows = _first(data, "runs")["runs"]
    rows.append({**rows[0], "run_id": "20260101-000000-nobody"})


def _sign(data: dict[str, Any]) -> None:
    """A minus before the first number of a table."""
    cells = [cell for table in blocks(data, "table") for row in table["rows"] for cell in row]
    next(cell for cell in cells if cell and isinstance(cell[0], dict) and "statistic" in cell[0]).insert(0, "-")


def _numbers_exchanged(data: dict[str, Any]) -> None:
    """Of a sentence with two numbers of other statistics: each stands where the other stood."""
    for block in data["blocks"]:
        parts = block.get("parts", [])
        at = [index for index, part in enumerate(parts) if isinstance(part, dict) and "statistic" in part]
        if len(at) > 1 and parts[at[0]]["statistic"] != parts[at[1]]["statistic"]:
            parts[at[0]], parts[at[1]] = parts[at[1]], parts[at[0]]
            return
    raise AssertionError("no such sentence")


def _fingerprint(data: dict[str, Any]) -> None:
    data["basis"]["runs"][0]["parts"]["status"] = "0" * 12


def _shown(data: dict[str, Any]) -> None:
    next(block for block in blocks(data, "picture") if block["runs"])["runs"].pop()


FORGED: dict[str, tuple[Callable[[dict[str, Any]], Any], str]] = {
    "the title": (lambda data: data.update(title="Report: another"), "the title"),
    "the summary": (lambda data: data.update(summary="adam: better"), "the summary in one line"),
    "a unit": (_unit, "the unit of"),
    "the order of rows": (lambda data: _table(data)["rows"].reverse(), "in another order"),
    "a run more": (_row_of_nobody, "20260101-000000-nobody is listed"),
    "a run less": (lambda data: _first(data, "runs")["runs"].pop(), "is not listed"),
    "the evidence": (lambda data: _first(data, "evidence")["sets"][0]["runs"].pop(), "The runs behind every number"),
    "a sign": (_sign, ""),
    "a number's place": (_numbers_exchanged, ""),
    "a fingerprint": (_fingerprint, "do not add up"),
    "a picture's runs": (_shown, "the runs of picture"),
    "the weight of a sentence": (lambda data: _first(data, "paragraph").update(role="text"), "the weight of"),
}


@pytest.mark.parametrize("what", FORGED)
def test_what_is_no_number_is_found_where_it_was_forged(document: Document, what: str) -> None:
    edit, place = FORGED[what]
    forged = found(document, edit)
    assert not forged.none
    assert not forged.numbers
    assert forged.statements
    assert all(place in each.place for each in forged.statements)


def test_a_number_that_names_other_runs_than_it_rests_on_is_found(document: Document) -> None:
    def edit(data: dict[str, Any]) -> None:
        quantity = first_number(data)
        assert quantity is not None
        quantity["runs"] = quantity["runs"][1:]

    forged = found(document, edit)
    (key,) = forged.misplaced
    assert key in numbers(document)
    assert not forged.none
    assert forged.moved == ()
