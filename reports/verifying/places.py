"""Places: where each number of a document stands, and by that its key.

A key says where and what, never how much nor from which runs: the headings above, the row and column of a table, the
statistic and those of its arguments that are words (numbers among them may follow from the data). So a number keeps its
key when its evidence changes. Doubled keys are numbered in the order of reading: "...#2"."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from reports.document import (
    Block,
    Document,
    Evidence,
    Findings,
    Heading,
    Paragraph,
    Parts,
    Picture,
    RunList,
    Table,
    Verbatim,
    Verdict,
)
from reports.quantity import Quantity

Place = tuple[str, ...]


@dataclass(frozen=True)
class Number:
    """A number of a document. place: in words; of a number in a text, with its statistic."""

    key: str
    place: str
    quantity: Quantity


@dataclass(frozen=True)
class Sentence:
    """Text of a document with its numbers. place: the headings and what is below them, as a key has them; words: as
    people read them."""

    place: Place
    words: Place
    parts: Parts
    in_table: bool = False


def numbers(document: Document) -> dict[str, Number]:
    """Every number by its key, in the order of reading."""
    found: dict[str, Number] = {}
    seen: dict[str, int] = {}
    for sentence in sentences(document):
        for part in sentence.parts:
            if isinstance(part, Quantity):
                name = f"{'/'.join(sentence.place)}/{computed(part)}"
                seen[name] = seen.get(name, 0) + 1
                key = f"{name}#{seen[name]}" if seen[name] > 1 else name
                in_text = "" if sentence.in_table else f" ({computed(part)})"
                found[key] = Number(key, ", ".join(sentence.words) + in_text, part)
    return found


def computed(quantity: Quantity) -> str:
    """The statistic with the arguments that are words.

    >>> computed(Quantity(value=1, statistic="student.welch", arguments={"than": "sgd", "confidence": 0.95}))
    'student.welch(than=sgd)'
    """
    given = ", ".join(f"{key}={value}" for key, value in sorted(quantity.arguments.items()) if isinstance(value, str))
    return f"{quantity.statistic}({given})" if given else quantity.statistic


def sentences(document: Document) -> Iterator[Sentence]:
    """Everything in a document that is read, but for the lists of runs and what is derived from numbers."""
    headings: list[Heading] = []
    for block in document.blocks:
        if isinstance(block, Heading):
            headings = [each for each in headings if each.level < block.level]
            headings.append(block)
        place = tuple(each.anchor if each.level <= 2 else each.text for each in headings) or ("top",)
        words = tuple(each.text for each in headings) or ("the beginning",)
        for below, parts in _of(block):
            cell = isinstance(block, Table) and len(below) == 2
            yield Sentence((*place, *below), (*words, *below), parts, cell)


def text(parts: Parts) -> str:
    """Its words, without its numbers."""
    return "".join(part if isinstance(part, str) else "" if isinstance(part, Quantity) else part.term for part in parts)


def _of(block: Block) -> Iterator[tuple[Place, Parts]]:
    """(where below the headings, text) of a block."""
    if isinstance(block, Heading):
        yield (), (block.text,)
    elif isinstance(block, Paragraph):
        yield (), block.parts
    elif isinstance(block, Verdict):
        yield (block.subject,), block.parts
    elif isinstance(block, Picture):
        yield (block.name,), (block.title,)
        yield (block.name,), block.caption
        yield (block.name, "description"), (block.alt,)
    elif isinstance(block, Findings):
        yield from (((finding.rule,), (str(finding),)) for finding in block.findings)
        if not block.findings:
            yield (), (block.empty,)
    elif isinstance(block, Verbatim):
        yield (block.language,), (block.text,)
    elif isinstance(block, Table):
        yield from _of_table(block)
    else:
        assert isinstance(block, (RunList, Evidence))


def _of_table(table: Table) -> Iterator[tuple[Place, Parts]]:
    yield ("caption",), table.caption
    for name, row in zip(_row_names(table.rows), table.rows):
        yield from (((name, column.head), cell) for column, cell in zip(table.columns, row))
    yield from ((("note",), note) for note in table.notes)


def _row_names(rows: Sequence[tuple[Parts, ...]]) -> list[str]:
    """The words of each row's first cell; of further ones, where that alone does not tell the rows apart."""
    names = [""] * len(rows)
    for column in range(max(map(len, rows), default=0)):
        told: Mapping[str, int] = {name: names.count(name) for name in names}
        for index, row in enumerate(rows):
            more = text(row[column]).strip() if column < len(row) else ""
            if told[names[index]] > 1 or column == 0:
                names[index] = ", ".join(word for word in (names[index], more) if word)
    return names
