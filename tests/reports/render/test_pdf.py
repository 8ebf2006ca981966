"""The PDF: its text, its links, its pages."""

from __future__ import annotations

import functools
import io
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from reports.document import Document

pypdf = pytest.importorskip("pypdf")
pdf = pytest.importorskip("reports.render.pdf")
pytest.importorskip("typst")


@functools.cache
def made(build: Callable[[], Document], svg: bytes) -> bytes:
    """The PDF of the hostile document, made once."""
    return bytes(pdf.files(build(), {"one": svg, "two": svg})["report.pdf"])


@pytest.fixture
def content(document_of: Callable[[], Document], pictures: dict[str, bytes]) -> bytes:
    return made(document_of, pictures["one"])


@pytest.fixture
def pages(content: bytes) -> Any:
    return pypdf.PdfReader(io.BytesIO(content))


def test_names_are_shown_as_they_are(pages: Any, names: tuple[str, ...]) -> None:
    bare = re.sub(r"\s", "", "".join(page.extract_text() for page in pages.pages))
    for name in names:
        assert bare.count(re.sub(r"\s", "", name)) > 8, name


def test_numbers_lead_to_runs_within_the_file_and_nothing_leads_outside(pages: Any, hostile: Document) -> None:
    notes = [note.get_object() for page in pages.pages for note in page.get("/Annots") or ()]
    assert all(note["/Subtype"] == "/Link" and "/URI" not in note.get("/A", {}) for note in notes)
    assert len(notes) >= sum(quantity.runs in hostile.labels() for quantity in hostile.quantities())


def test_it_has_a_title_an_outline_tags_and_no_date(pages: Any, hostile: Document) -> None:
    assert pages.metadata.title == hostile.title
    assert pages.metadata.get("/CreationDate") is None
    assert [entry.title for entry in pages.outline if not isinstance(entry, list)][:2] == ["Question", "Answer"]
    assert pages.trailer["/Root"]["/MarkInfo"]["/Marked"]
    assert "/OpenAction" not in pages.trailer["/Root"]
    assert "/Names" not in pages.trailer["/Root"] or "/JavaScript" not in pages.trailer["/Root"]["/Names"]


@pytest.mark.skipif(shutil.which("pdftotext") is None, reason="no poppler-utils; .ci/run installs it")
def test_nothing_stands_beyond_the_margins(content: bytes, tmp_path: Path) -> None:
    file = tmp_path / "report.pdf"
    file.write_bytes(content)
    told = subprocess.run(["pdftotext", "-bbox", file, "-"], capture_output=True, text=True, check=True).stdout
    width = float(re.findall(r'<page width="([\d.]+)"', told)[0])
    edges = [float(edge) for edge in re.findall(r'xMax="([\d.]+)"', told)]
    assert len(edges) > 500
    assert max(edges) < width - 50
    assert max(float(edge) for edge in re.findall(r'yMax="([\d.]+)"', told)) < 842


def test_a_long_table_has_its_head_on_each_page(document_of: Any, pictures: dict[str, bytes]) -> None:
    content = pdf.files(document_of(("a", "b", "c", "d", "e", "f", "g", "h"), runs=200), pictures)["report.pdf"]
    texts = [page.extract_text() for page in pypdf.PdfReader(io.BytesIO(content)).pages]
    listing = [text for text in texts if text.count("completed") > 5]
    assert len(listing) > 1
    assert all("Objective" in text for text in listing)


def test_pages_are_numbered(pages: Any) -> None:
    count = len(pages.pages)
    for number, page in enumerate(pages.pages, start=1):
        assert f"{number} / {count}" in page.extract_text()


def test_pictures_have_their_alt_text(pages: Any, hostile: Document) -> None:
    """In the tree of tags that a screen reader goes through."""
    found: list[str] = []
    waiting = [pages.trailer["/Root"]["/StructTreeRoot"]]
    while waiting:
        node = waiting.pop().get_object()
        if not isinstance(node, dict):
            continue
        found += [str(node["/Alt"])] if "/Alt" in node else []
        children = node.get("/K", [])
        waiting += [child for child in (children if isinstance(children, list) else [children])
                    if not isinstance(child, (int, float))]  # fmt: skip
    assert {block.alt for block in hostile.blocks if block.kind == "picture"} <= set(found)
