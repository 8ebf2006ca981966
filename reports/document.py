"""Document: a report as typed blocks. What is written for people is one of these; renderers add nothing to it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from algos.finding import Finding, InputError
from reports.quantity import Quantity

SCHEMA = 1


class Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Term(Model):
    """A name given by a user (of an arm, a study, a file): shown as it is, apart from the sentence around it."""

    term: str


Part = str | Quantity | Term
#: A sentence: text with quantities and names in it.
Parts = tuple[Part, ...]


class Heading(Model):
    kind: Literal["heading"] = "heading"
    level: int
    text: str
    anchor: str


class Paragraph(Model):
    """role: "text", or "lead" for what must be read first."""

    kind: Literal["paragraph"] = "paragraph"
    parts: Parts
    role: Literal["text", "lead"] = "text"


class Verdict(Model):
    """The answer for one task. verdict: what it comes to, in a word or two; parts: the sentences."""

    kind: Literal["verdict"] = "verdict"
    subject: str
    verdict: Literal["shown", "shown in part", "not shown", "depends on the clock", "cannot be told"]
    parts: Parts


class Column(Model):
    """unit: under the head. number: aligned as numbers are."""

    head: str
    unit: str = ""
    number: bool = False


class Table(Model):
    """rows: as many cells as columns; the first cell of a row names it. notes: footnotes."""

    kind: Literal["table"] = "table"
    caption: Parts
    columns: tuple[Column, ...]
    rows: tuple[tuple[Parts, ...], ...]
    notes: tuple[Parts, ...] = ()


class Picture(Model):
    """A figure. name: of its files, figures/<name>.pdf, .svg and .csv. alt: what a reader who cannot see it must
    know."""

    kind: Literal["picture"] = "picture"
    name: str
    title: str
    caption: Parts
    alt: str
    runs: tuple[str, ...] = ()


class Findings(Model):
    """empty: what is said where there are none."""

    kind: Literal["findings"] = "findings"
    findings: tuple[Finding, ...]
    empty: str = ""


class Verbatim(Model):
    """Text kept as it is; language: "bibtex", "json"."""

    kind: Literal["verbatim"] = "verbatim"
    text: str
    language: str


class RunRow(Model):
    run_id: str
    name: str
    task: str
    arm: str
    phase: str
    number: int
    seed: int
    status: str
    objective: float | None
    digest: str


class RunList(Model):
    """Every run of the study, finished or not."""

    kind: Literal["runs"] = "runs"
    runs: tuple[RunRow, ...]


class RunSet(Model):
    """Runs that some numbers rest on. label: "R3". statistics: what was computed from them."""

    label: str
    runs: tuple[str, ...]
    statistics: tuple[str, ...]


class Evidence(Model):
    """The run ids behind every number."""

    kind: Literal["evidence"] = "evidence"
    sets: tuple[RunSet, ...]


Block = Annotated[
    Heading | Paragraph | Verdict | Table | Picture | Findings | Verbatim | RunList | Evidence,
    Field(discriminator="kind"),
]


class Document(Model):
    """title, summary (one line, for lists and previews) and the blocks in order."""

    title: str
    summary: str
    study: str
    made_by: str
    blocks: tuple[Block, ...]

    def quantities(self) -> Iterator[Quantity]:
        """Every number, in the order of reading."""
        for block in self.blocks:
            yield from quantities(block)

    def labels(self) -> dict[tuple[str, ...], str]:
        """Runs -> the label of their set in the evidence."""
        return {group.runs: group.label for block in self.blocks if isinstance(block, Evidence) for group in block.sets}

    def to_json(self) -> str:
        """Canonical: the same document gives the same text."""
        data = {"schema": SCHEMA, **self.model_dump(mode="json")}
        return json.dumps(data, ensure_ascii=False, indent=1, allow_nan=False) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Document:
        """InputError where a newer trainlab wrote it."""
        data: dict[str, Any] = json.loads(text)
        schema = data.pop("schema", None)
        if schema != SCHEMA:
            raise InputError(
                f"the document has schema {schema}, this trainlab reads {SCHEMA}",
                "read it with the trainlab that wrote it, or write the report again",
                rule="unknown-schema",
            )
        return cls.model_validate(data)


def quantities(block: Block) -> Iterator[Quantity]:
    """The numbers of one block."""
    sentences: Iterable[Parts]
    if isinstance(block, Table):
        sentences = [block.caption, *(cell for row in block.rows for cell in row), *block.notes]
    elif isinstance(block, Picture):
        sentences = [block.caption]
    elif isinstance(block, (Paragraph, Verdict)):
        sentences = [block.parts]
    else:
        sentences = []
    for parts in sentences:
        yield from (part for part in parts if isinstance(part, Quantity))


def evidence(blocks: Iterable[Block]) -> Evidence:
    """The run sets of all numbers, labelled R1, R2, ... in the order of reading."""
    groups: dict[tuple[str, ...], list[str]] = {}
    for block in blocks:
        for quantity in quantities(block):
            if quantity.runs:
                said = groups.setdefault(quantity.runs, [])
                text = _computed(quantity)
                if text not in said:
                    said.append(text)
    return Evidence(
        sets=tuple(
            RunSet(label=f"R{index}", runs=runs, statistics=tuple(said))
            for index, (runs, said) in enumerate(groups.items(), start=1)
        )
    )


def _computed(quantity: Quantity) -> str:
    given = ", ".join(f"{key}={value}" for key, value in quantity.arguments.items())
    return f"{quantity.statistic}({given})" if given else quantity.statistic
