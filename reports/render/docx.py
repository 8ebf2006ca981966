"""DOCX: the document for Word: real headings, tables with heads that repeat, pictures with alt text, captions, and
links from numbers to the runs behind them."""

from __future__ import annotations

import hashlib
import io
import itertools
import json
import zipfile
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from reports.document import (
    Document,
    Evidence,
    Findings,
    Heading,
    Paragraph,
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
from reports.render.pdf import compiled
from reports.render.word import Runs, add_table, columns, hyperlink, look, styled, target

if TYPE_CHECKING:
    from docx.document import Document as Word

FILE, NEEDS = "report.docx", ("docx", "typst")
#: Word keeps a date of making; this is not one.
_EPOCH = datetime(1980, 1, 1, tzinfo=UTC)
_COLORS = {"good": "0B6B4A", "bad": "A11D1D", "mixed": "8A4B00", "open": "3D4554"}
_LEVELS = {"note": "3D4554", "caution": "8A4B00", "error": "A11D1D"}
_SOFT = "565D6B"
#: Dots an inch, of the pictures.
_PPI = 250

Labels = Mapping[tuple[str, ...], str]


def files(document: Document, pictures: Mapping[str, bytes]) -> dict[str, bytes]:
    """report.docx. pictures: the SVG of each Picture, by its name; Word gets them as PNG. The same document gives the
    same bytes."""
    word = styled()
    properties = word.core_properties
    properties.title, properties.subject = (_short(document.title), _short(document.summary))
    properties.author = properties.last_modified_by = _short(document.made_by)
    properties.created = properties.modified = _EPOCH
    properties.comments = ""
    word.add_heading(shown.visible(document.title), level=0)
    page = _Page(word, document.labels(), shown.listed(document), pictures)
    for block in document.blocks:
        shown.dispatch(page.kinds, block)
    page.end(document)
    return {FILE: _without_dates(word)}


def _short(text: str) -> str:
    """Word refuses longer properties."""
    return shown.visible(" ".join(text.split()))[:255]


def _without_dates(word: Word) -> bytes:
    """The file, with its parts in order and no date on them."""
    buffer, out = io.BytesIO(), io.BytesIO()
    word.save(buffer)
    with zipfile.ZipFile(buffer) as made, zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as fixed:
        for name in sorted(made.namelist(), key=lambda name: (name != "[Content_Types].xml", name)):
            info = zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))
            info.compress_type, info.external_attr, info.create_system = zipfile.ZIP_DEFLATED, 0o600 << 16, 3
            fixed.writestr(info, made.read(name))
    return out.getvalue()


class _Page:
    """A Word document being filled, block by block."""

    def __init__(self, word: Word, labels: Labels, listed: frozenset[str], pictures: Mapping[str, bytes]):
        self._word, self._labels, self._listed, self._pictures = word, labels, listed, pictures
        self._bookmarks = itertools.count()
        self.kinds: dict[str, Callable[..., None]] = {
            "heading": self._heading,
            "paragraph": self._paragraph,
            "verdict": self._verdict,
            "table": self._table,
            "picture": self._picture,
            "findings": self._findings,
            "verbatim": self._verbatim,
            "evidence": self._evidence,
            "runs": self._runs,
        }

    def end(self, document: Document) -> None:
        parts = (f"Written by {document.made_by} from the records of study ", Term(term=document.study))
        self._add((*parts, ". The same document as data: report.json."), style="Caption")

    def _add(self, parts: Parts, style: str = "Normal", keep: bool = False) -> Any:
        paragraph = self._word.add_paragraph(style=style)
        paragraph.paragraph_format.keep_with_next = keep or None
        self._sentence(paragraph, parts)
        return paragraph

    def _sentence(self, paragraph: Any, parts: Parts) -> None:
        for text, bold, label in self._pieces(parts):
            if label:
                hyperlink(paragraph, text, _anchor(label))
            else:
                paragraph.add_run(text).bold = bold or None

    def _pieces(self, parts: Parts, in_table: bool = False) -> Runs:
        """Text, whether it is a name, and the label of the runs behind it."""
        for part in parts:
            if isinstance(part, Quantity):
                yield shown.visible(shown.number(part, in_table)), False, self._labels.get(part.runs, "")
            else:
                term = isinstance(part, Term)
                yield shown.visible(part.term if isinstance(part, Term) else part), term, ""

    def _heading(self, block: Heading) -> None:
        level = min(9, max(1, block.level - 1))
        heading = self._word.add_heading(" ".join(shown.visible(block.text).split("\n")), level)
        target(heading, _anchor(block.anchor), next(self._bookmarks))

    def _paragraph(self, block: Paragraph) -> None:
        self._add(block.parts, style="Lead" if block.role == "lead" else "Normal")

    def _verdict(self, block: Verdict) -> None:
        head = self._word.add_paragraph(style="Verdict")
        head.paragraph_format.keep_with_next = True
        head.add_run(shown.visible(block.subject)).bold = True
        look(head.add_run(f"  {block.verdict}"), _COLORS[shown.tone(block.verdict)], bold=True)
        self._add(block.parts, style="Verdict")

    def _table(self, block: Table) -> None:
        self._add(block.caption, style="Caption", keep=True)
        heads = [shown.visible(f"{column.head}\n{column.unit}" if column.unit else column.head)
                 for column in block.columns]  # fmt: skip
        rows = [[[(text, bold, _anchor(label)) for text, bold, label in self._pieces(cell, in_table=True)]
                 for cell in row] for row in block.rows]  # fmt: skip
        add_table(self._word, heads, [column.number for column in block.columns], shown.shares(block), rows)
        for note in block.notes or ((),):
            self._add(note, style="Notes")

    def _picture(self, block: Picture) -> None:
        from docx.shared import Inches

        svg = shown.picture_of(self._pictures, block.name).decode()
        paragraph = self._word.add_paragraph()
        paragraph.paragraph_format.keep_with_next = True
        image = compiled("picture.typ", json.dumps({"svg": svg}), "png", _PPI)
        width = int.from_bytes(image[16:20], "big") / _PPI
        drawn = paragraph.add_run().add_picture(io.BytesIO(image), width=Inches(min(6.3, width)))
        properties = drawn._inline.docPr
        properties.set("descr", shown.visible(block.alt).replace("\n", " "))
        properties.set("title", shown.visible(block.title).replace("\n", " "))
        properties.set("name", block.name)
        self._add(block.caption, style="Caption")

    def _findings(self, block: Findings) -> None:
        if not block.findings:
            self._add((block.empty,))
        for finding in block.findings:
            where, said, cure = map(shown.visible, shown.complaint(finding))
            paragraph = self._word.add_paragraph(style="List Bullet")
            look(paragraph.add_run(f"{finding.level} "), _LEVELS[finding.level], bold=True)
            if where:
                paragraph.add_run(f"{where} ").bold = True
            paragraph.add_run(f"{said} ")
            if cure:
                look(paragraph.add_run(f"{cure} "), _SOFT)
            look(paragraph.add_run(finding.rule), _SOFT, mono=True)

    def _verbatim(self, block: Verbatim) -> None:
        self._word.add_paragraph(shown.visible(block.text), style="Code")

    def _evidence(self, block: Evidence) -> None:
        from docx.shared import Pt

        linked = shown.paged_links(block, self._listed)
        columns(self._word, 2)
        for group in block.sets:
            paragraph = self._add((Term(term=group.label), f" {shown.runs(len(group.runs))}"), keep=True)
            paragraph.paragraph_format.space_after = Pt(1)
            target(paragraph, _anchor(group.label), next(self._bookmarks))
            if group.statistics:
                self._word.add_paragraph(shown.visible("\n".join(group.statistics)), style="Code")
            ids = self._word.add_paragraph(style="Code")
            if not linked:
                ids.add_run(" ".join(map(shown.visible, group.runs)))
                continue
            for run in group.runs:
                if run in linked:
                    hyperlink(ids, shown.visible(run), _anchor(f"run-{run}"))
                    ids.add_run(" ")
                else:
                    ids.add_run(f"{shown.visible(run)} ")
        columns(self._word, 1)

    def _runs(self, block: RunList) -> None:
        cells = [shown.run_cells(run) for run in block.runs]
        columns = [[head, *(row[at] for row in cells)] for at, head in enumerate(shown.RUN_HEADS)]
        rows = [[[(shown.visible(cell), False, "")] for cell in row] for row in cells]
        targets = [(_anchor(f"run-{run.run_id}"), next(self._bookmarks)) for run in block.runs]
        shares = shown.measured(columns, shown.RUN_NUMBERS)
        add_table(self._word, list(shown.RUN_HEADS), list(shown.RUN_NUMBERS), shares, rows, targets)


def _anchor(name: str) -> str:
    """A name as a bookmark's: letters, digits and _, 40 at most."""
    if not name or (len(name) <= 36 and name.isascii() and name.isidentifier()):
        return name
    return f"a_{hashlib.sha256(name.encode('utf-8', 'surrogatepass')).hexdigest()[:24]}"
