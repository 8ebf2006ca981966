"""Keys: where and what a number is; never how much, nor from which runs."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from reports.document import Block, Column, Document, Heading, Paragraph, Table, Term
from reports.quantity import Quantity
from reports.verifying.places import numbers

ODD = ("<script>alert(1)</script>", "\\input{/etc/passwd}", "a_b%&$#", "学习率/一", "x" * 300, "a: b #2")


def document(*blocks: Block) -> Document:
    return Document(title="t", summary="s", study="x", made_by="m", blocks=blocks)


def number(value: float = 1.0, runs: tuple[str, ...] = ("r",), **arguments: Any) -> Quantity:
    return Quantity(value=value, statistic="count", arguments=arguments, runs=runs)


def table(*rows: tuple[Any, ...]) -> Table:
    heads = tuple(Column(head=head) for head in ("Arm", "At", "Value"))
    cells = tuple(tuple((cell,) if not isinstance(cell, tuple) else cell for cell in row) for row in rows)
    return Table(caption=("c",), columns=heads, rows=cells)


def test_a_key_has_headings_row_column_statistic_and_words() -> None:
    found = numbers(
        document(
            Heading(level=2, text="The results", anchor="results"),
            Heading(level=3, text="digits", anchor="results-1"),
            table((Term(term="adam"), "end", number(metric="acc", n=6))),
        )
    )
    assert list(found) == ["results/digits/adam/Value/count(metric=acc)"]
    assert next(iter(found.values())).place == "The results, digits, adam, Value"


def test_the_value_its_runs_and_numeric_arguments_are_no_part_of_it() -> None:
    one = document(Paragraph(parts=(number(1.0, ("a",), n=3, of="runs"),)))
    two = document(Paragraph(parts=(number(7.0, ("b", "c"), n=9, of="runs"),)))
    assert list(numbers(one)) == list(numbers(two)) == ["top/count(of=runs)"]


def test_a_heading_of_the_same_level_ends_the_one_before() -> None:
    found = numbers(
        document(
            Heading(level=2, text="A", anchor="a"),
            Heading(level=3, text="B", anchor="b"),
            Heading(level=2, text="C", anchor="c"),
            Paragraph(parts=(number(),)),
        )
    )
    assert list(found) == ["c/count"]


def test_doubled_keys_are_numbered_in_the_order_of_reading() -> None:
    found = numbers(document(Paragraph(parts=(number(1), "of", number(2))), Paragraph(parts=(number(3),))))
    assert [(key, each.quantity.value) for key, each in found.items()] == [
        ("top/count", 1),
        ("top/count#2", 2),
        ("top/count#3", 3),
    ]


def test_rows_that_begin_alike_are_told_apart_by_their_next_cells() -> None:
    found = numbers(document(table(("adam", "end", number(1)), ("adam", "cut", number(2)), ("sgd", "end", number(3)))))
    assert list(found) == ["top/adam, end/Value/count", "top/adam, cut/Value/count", "top/sgd/Value/count"]


def test_every_number_of_a_report_has_a_key_of_its_own(two: Any, written: Callable[[Any], Document]) -> None:
    document = written(two)
    assert len(numbers(document)) == len(list(document.quantities())) > 60


def test_names_of_every_kind_stay_as_they_are(made: Callable[..., Any], written: Callable[[Any], Document]) -> None:
    source = made({name: {"level": 0.9 + 0.01 * index} for index, name in enumerate(ODD)}, seeds=3, trials=0)
    keys = numbers(written(source))
    assert len(keys) == len(list(written(source).quantities()))
    for name in ODD:
        assert any(name in key for key in keys), name


def test_keys_stay_when_a_value_changes(two: Any, written: Callable[[Any], Document]) -> None:
    before = numbers(written(two))
    run = two.of(task="cora", arm="adam", phase="final")[0]
    two.change([run], lambda r: dataclasses.replace(r, final={**r.final, "test/accuracy": 0.9601}))
    after = numbers(written(two))
    assert list(before) == list(after)
