"""Document: a report as typed blocks. What is written for people is one of these; renderers add nothing to it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from algos.finding import Finding, InputError
from reports.quantity import Quantity

#: 2 has the basis; a document of schema 1 is read as one without.
SCHEMA = 2


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
    """One claim's answer. subject: of what ("muon against adamw, on digits"); verdict: what it comes to, of the first
    that the subject names; parts: the sentences, with what the verdict holds for."""

    kind: Literal["verdict"] = "verdict"
    subject: str
    verdict: Literal["better", "worse", "no difference shown", "depends on the clock", "cannot be told"]
    parts: Parts

    @field_validator("verdict", mode="before")
    @classmethod
    def _as_it_was_said(cls, word: Any) -> Any:
        """Documents written before claims had verdicts of their own said it in other words."""
        earlier = {"shown": "better", "shown in part": "better", "not shown": "no difference shown"}
        return earlier.get(word, word)


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


class RunPrint(Model):
    """What the numbers rest on of one run, as fingerprints: of each part ("status", "final test/accuracy", "series
    val/accuracy"), and sha256 of them all. See `reports.verifying.prints`."""

    run_id: str
    sha256: str
    parts: dict[str, str]


class Basis(Model):
    """What a document was made from, so that it can be made again: the question and metric that its reader stated ("":
    the runs' own), what kind of source was read ("home", "mlflow"; "" where that is not known), and its runs."""

    question: str = ""
    metric: str = ""
    mode: str = ""
    source: str = ""
    runs: tuple[RunPrint, ...] = ()


class Document(Model):
    """title, summary (one line, for lists and previews) and the blocks in order. basis: None where it is not known: of
    documents that an older trainlab wrote."""

    title: str
    summary: str
    study: str
    made_by: str
    blocks: tuple[Block, ...]
    basis: Basis | None = None

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
        """InputError where it is no document, or a newer trainlab wrote it; pydantic's error where its parts are
        none."""
        data: Any = json.loads(text)
        if not isinstance(data, dict) or not {"schema", "study", "blocks"} <= data.keys():
            raise InputError("this is not a report's data", "give the report.json that `trainlab report` wrote")
        return cls.model_validate(migrated(data))


def migrated(data: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a document of any schema up to this one, as this one has them. InputError for others."""
    fields = {key: value for key, value in data.items() if key != "schema"}
    if data["schema"] == 1:
        return {**fields, "basis": None}
    if data["schema"] != SCHEMA:
        raise InputError(
            f"the document has schema {data['schema']}, this trainlab reads 1 to {SCHEMA}",
            "read it with the trainlab that wrote it, or write the report again",
            rule="unknown-schema",
        )
    return fields


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
