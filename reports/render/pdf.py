"""PDF: the document on pages, set by typst. Its text goes to typst as data, never as markup, so nothing in it can be
an instruction; links lead from numbers to the runs behind them."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from importlib import resources
from typing import TYPE_CHECKING, Any

from reports.document import (
    Document,
    Evidence,
    Findings,
    Heading,
    Parts,
    Picture,
    RunList,
    Table,
    Term,
    Verbatim,
    Verdict,
)
from reports.quantity import Quantity
from reports.render import shown

if TYPE_CHECKING:
    import typst

FILE, NEEDS = "report.pdf", ("typst",)

Data = dict[str, Any]
Labels = Mapping[tuple[str, ...], str]


def files(document: Document, pictures: Mapping[str, bytes]) -> dict[str, bytes]:
    """The PDF, by its file's name. pictures: the SVG of each Picture, by its name. The same document gives the same
    bytes where the same fonts are installed: it has no date."""
    return {FILE: compiled("pages.typ", json.dumps(data(document, pictures), ensure_ascii=False), "pdf")}


def compiled(template: str, given: str, form: str, ppi: float = 144) -> bytes:
    """What typst makes of one of our templates, which finds `given` in `sys.inputs.document`. It may read no
    file but our own, and our templates ask no network."""
    found = _compiler().compile(
        (resources.files("reports.render") / template).read_bytes(),
        format=form,  # type: ignore[arg-type]
        sys_inputs={"document": given},
        ppi=ppi,
        timestamp=0,
    )
    assert isinstance(found, bytes)
    return found


@functools.cache
def _compiler() -> typst.Compiler:
    """One for the process, since it looks for fonts when it is made."""
    import typst

    return typst.Compiler(root=str(resources.files("reports.render")))


def data(document: Document, pictures: Mapping[str, bytes]) -> Data:
    """The document as the template reads it: text, numbers as they are shown, and where they lead."""
    labels, listed = document.labels(), shown.listed(document)
    kinds = {
        "heading": lambda block: _heading(block),
        "paragraph": lambda block: {"role": block.role, "parts": _parts(block.parts, labels)},
        "verdict": lambda block: _verdict(block, labels),
        "table": lambda block: _table(block, labels),
        "picture": lambda block: _picture(block, labels, pictures),
        "findings": lambda block: _findings(block),
        "verbatim": lambda block: _verbatim(block),
        "evidence": lambda block: _evidence(block, shown.paged_links(block, listed)),
        "runs": lambda block: _runs(block),
    }
    return {
        "title": shown.visible(document.title),
        "summary": shown.visible(document.summary),
        "made_by": document.made_by,
        "study": shown.visible(document.study),
        "blocks": [{"kind": block.kind, **shown.dispatch(kinds, block)} for block in document.blocks],
    }


def _parts(parts: Parts, labels: Labels, in_table: bool = False) -> list[Data]:
    return [_part(part, labels, in_table) for part in parts]


def _part(part: str | Quantity | Term, labels: Labels, in_table: bool) -> Data:
    if isinstance(part, Quantity):
        return {"text": shown.visible(shown.number(part, in_table)), "look": "number", "to": labels.get(part.runs, "")}
    term = isinstance(part, Term)
    return {"text": shown.visible(part.term if isinstance(part, Term) else part), "look": "term" if term else "text"}


def _heading(block: Heading) -> Data:
    return {"level": block.level, "text": shown.visible(block.text), "anchor": block.anchor}


def _verdict(block: Verdict, labels: Labels) -> Data:
    return {
        "subject": shown.visible(block.subject),
        "verdict": block.verdict,
        "tone": shown.tone(block.verdict),
        "parts": _parts(block.parts, labels),
    }


def _table(block: Table, labels: Labels) -> Data:
    columns = [
        {"head": shown.visible(column.head), "unit": shown.visible(column.unit), "number": column.number}
        for column in block.columns
    ]
    rows = [[_parts(cell, labels, in_table=True) for cell in row] for row in block.rows]
    notes = [_parts(note, labels) for note in block.notes]
    shares = shown.shares(block)
    return {
        "caption": _parts(block.caption, labels),
        "columns": columns,
        "rows": rows,
        "notes": notes,
        "shares": shares,
    }


def _picture(block: Picture, labels: Labels, pictures: Mapping[str, bytes]) -> Data:
    svg = shown.picture_of(pictures, block.name).decode()
    return {"svg": svg, "alt": shown.visible(block.alt), "caption": _parts(block.caption, labels)}


def _findings(block: Findings) -> Data:
    found = []
    for finding in block.findings:
        where, said, cure = map(shown.visible, shown.complaint(finding))
        found.append({"level": finding.level, "where": where, "said": said, "cure": cure, "rule": finding.rule})
    return {"findings": found, "empty": shown.visible(block.empty)}


def _verbatim(block: Verbatim) -> Data:
    return {"text": shown.visible(block.text), "language": block.language}


def _evidence(block: Evidence, listed: frozenset[str]) -> Data:
    sets = [
        {
            "label": group.label,
            "count": shown.runs(len(group.runs)),
            "statistics": [shown.visible(text) for text in group.statistics],
            "runs": [{"id": shown.visible(run), "to": f"run-{run}" if run in listed else ""} for run in group.runs],
        }
        for group in block.sets
    ]
    return {"sets": sets}


def _runs(block: RunList) -> Data:
    rows = [{"to": f"run-{run.run_id}", "cells": [shown.visible(cell) for cell in shown.run_cells(run)]}
            for run in block.runs]  # fmt: skip
    return {"heads": list(shown.RUN_HEADS), "numbers": list(shown.RUN_NUMBERS), "rows": rows}
