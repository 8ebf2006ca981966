"""The document as data: a round trip, a version, and the runs behind every number."""

import json

import pytest
from pydantic import ValidationError

from algos.finding import Finding, InputError
from reports.document import (
    Basis,
    Block,
    Column,
    Document,
    Findings,
    Heading,
    Paragraph,
    Picture,
    RunPrint,
    Table,
    Term,
    Verbatim,
    Verdict,
    evidence,
)
from reports.quantity import Quantity


def number(*runs: str, statistic: str = "student.mean_interval") -> Quantity:
    return Quantity(value=1.5, low=1.0, high=2.0, statistic=statistic, arguments={"metric": "m"}, runs=runs)


BLOCKS: tuple[Block, ...] = (
    Heading(level=2, text="Answer", anchor="answer"),
    Paragraph(parts=("a ", number("r1", "r2"), Term(term="<b>"))),
    Verdict(subject="digits", verdict="not shown", parts=(number("r3"),)),
    Table(caption=("c",), columns=(Column(head="h"),), rows=((("x", number("r1", "r2", statistic="count")),),)),
    Picture(name="p", title="t", caption=(number("r3"),), alt="a", runs=("r3",)),
    Findings(findings=(Finding("rule", "said", level="note"),)),
    Verbatim(text="@a{}", language="bibtex"),
)


def document() -> Document:
    return Document(title="t", summary="s", study="x", made_by="m", blocks=(*BLOCKS, evidence(BLOCKS)))


def test_round_trip() -> None:
    first = document()
    again = Document.from_json(first.to_json())
    assert again == first
    assert again.to_json() == first.to_json()


def test_every_number_is_found_wherever_it_stands() -> None:
    assert [quantity.runs for quantity in document().quantities()] == [("r1", "r2"), ("r3",), ("r1", "r2"), ("r3",)]


def test_numbers_of_the_same_runs_share_one_label() -> None:
    assert document().labels() == {("r1", "r2"): "R1", ("r3",): "R2"}
    (block,) = [b for b in document().blocks if b.kind == "evidence"]
    assert block.sets[0].statistics == ("student.mean_interval(metric=m)", "count(metric=m)")


def test_a_newer_schema_is_refused_in_one_line() -> None:
    data = json.loads(document().to_json())
    assert data["schema"] == 2
    with pytest.raises(InputError, match="schema 99"):
        Document.from_json(json.dumps({**data, "schema": 99}))


def test_a_document_of_schema_1_is_read_as_one_that_does_not_say_what_it_rests_on() -> None:
    data = json.loads(document().to_json())
    old = {**{key: value for key, value in data.items() if key != "basis"}, "schema": 1}
    before = json.dumps(old)
    assert Document.from_json(before) == document()
    assert json.dumps(old) == before


def test_what_it_rests_on_comes_back() -> None:
    prints = (RunPrint(run_id="r1", sha256="0" * 64, parts={"status": "abc"}),)
    told = Basis(question="Why?", metric="val/acc", mode="max", source="home", runs=prints)
    whole = document().model_copy(update={"basis": told})
    assert Document.from_json(whole.to_json()).basis == told


@pytest.mark.parametrize("text", ["[]", "1", "{}", '{"schema": 2}'])
def test_what_is_no_document_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="not a report's data"):
        Document.from_json(text)


def test_unknown_blocks_are_refused() -> None:
    data = json.loads(document().to_json())
    data["blocks"].append({"kind": "script"})
    with pytest.raises(ValidationError):
        Document.from_json(json.dumps(data))
