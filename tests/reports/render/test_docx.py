"""The Word document, read back."""

from __future__ import annotations

import io
import re
import zipfile
from typing import Any

import pytest

from reports.document import Document
from reports.render.word import add_table, styled

docx = pytest.importorskip("docx")
pytest.importorskip("typst")
W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"


@pytest.fixture
def content(hostile: Document, pictures: dict[str, bytes]) -> bytes:
    from reports.render.docx import files

    return files(hostile, pictures)["report.docx"]


@pytest.fixture
def word(content: bytes) -> Any:
    return docx.Document(io.BytesIO(content))


def test_names_are_shown_as_they_are(word: Any, names: tuple[str, ...]) -> None:
    told = [paragraph.text for paragraph in word.element.body.iter(f"{W}p") if paragraph.text]
    text = "\n".join(told)
    for name in names:
        assert text.count(name) > 8, name
    assert "first line\nsecond line" in text


def test_headings_are_headings(word: Any, hostile: Document) -> None:
    told = [(p.style.name, p.text) for p in word.paragraphs if p.style.name.startswith("Heading")]
    expected = [
        (f"Heading {block.level - 1}", " ".join(block.text.split("\n")))
        for block in hostile.blocks
        if block.kind == "heading"
    ]
    assert told == expected


def test_tables_have_every_cell_and_repeat_their_heads(word: Any, hostile: Document) -> None:
    expected = [
        (len(block.rows) + 1, len(block.columns)) if block.kind == "table" else (len(block.runs) + 1, 8)
        for block in hostile.blocks
        if block.kind in ("table", "runs")
    ]
    assert [(len(table.rows), len(table.columns)) for table in word.tables] == expected
    for table in word.tables:
        assert table.rows[0]._tr.trPr.find(f"{W}tblHeader") is not None
        widths = [int(column.get(f"{W}w")) for column in table._tbl.tblGrid]
        assert sum(widths) < 9100, "wider than the text"
    assert word.tables[0].cell(1, 1).text == "0.971 [0.960, 0.980]"


def test_pictures_have_alt_text_and_captions(word: Any, hostile: Document) -> None:
    pictures = [block for block in hostile.blocks if block.kind == "picture"]
    shapes = word.inline_shapes
    assert [shape._inline.docPr.get("descr") for shape in shapes] == [b.alt.replace("\n", " ") for b in pictures]
    assert all(shape.width.inches == pytest.approx(2.5, abs=0.02) for shape in shapes), "180 points wide"
    assert {"Two."} <= {p.text for p in word.paragraphs if p.style.name == "Caption"}


def test_every_link_has_its_place_and_none_leads_outside(word: Any, content: bytes) -> None:
    links = [link.get(f"{W}anchor") for link in word.element.body.iter(f"{W}hyperlink")]
    marks = [mark.get(f"{W}name") for mark in word.element.body.iter(f"{W}bookmarkStart")]
    numbers = [mark.get(f"{W}id") for mark in word.element.body.iter(f"{W}bookmarkStart")]
    assert len(links) > 40
    assert set(links) <= set(marks)
    assert len(set(marks)) == len(marks)
    assert len(set(numbers)) == len(numbers)
    assert all(re.fullmatch(r"[A-Za-z_]\w{0,39}", mark) for mark in marks)
    with zipfile.ZipFile(io.BytesIO(content)) as parts:
        assert not any(b'TargetMode="External"' in parts.read(name) for name in parts.namelist())
        assert {info.date_time for info in parts.infolist()} == {(1980, 1, 1, 0, 0, 0)}


def test_no_name_is_a_field(word: Any) -> None:
    """The one field is the page's number."""
    fields = [field.get(f"{W}instr") for part in (word.element, word.sections[0].footer._element)
              for field in part.iter(f"{W}fldSimple")]  # fmt: skip
    assert fields == ["PAGE"]
    assert not list(word.element.iter(f"{W}instrText"))


def test_words_limits_on_properties_are_kept(document_of: Any, pictures: dict[str, bytes]) -> None:
    from reports.render.docx import files

    content = files(document_of(title="T" * 400 + "\x00"), pictures)["report.docx"]
    assert docx.Document(io.BytesIO(content)).core_properties.title == "T" * 255


def test_a_wide_table_has_letters_that_its_words_fit_in() -> None:
    """Two bold words of ten letters in a table of eight columns, in whichever font stands in for Word's."""
    word = styled()
    heads = ["difference\nunit", *(f"column {index}" for index in range(7))]
    rows = [[[("difference", True, "")], *([("1", False, "")] for _ in range(7))]]
    add_table(word, heads, [False] * 8, [0.125] * 8, rows)
    table = word.tables[0]
    first = table.cell(0, 0).paragraphs[0].runs
    assert [(run.text, bool(run.bold)) for run in first] == [("difference", True), ("\nunit", False)]
    points, room = first[0].font.size.pt, table.cell(0, 0).width.pt - 6
    assert 5.5 <= points <= 0.1 * room / 0.6


def test_the_evidence_stands_in_two_columns_and_nothing_else_does(word: Any) -> None:
    from docx.oxml.ns import qn

    columns = [section._sectPr.find(qn("w:cols")).get(qn("w:num")) or "1" for section in word.sections]
    assert columns == ["1", "2", "1"]
    assert {section.page_width for section in word.sections} == {word.sections[0].page_width}
