"""Markdown, read by two readers of Markdown."""

from __future__ import annotations

import html
import re
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from reports.document import Document
from reports.render.markdown import escaped, render

READERS: dict[str, Callable[[str], str]] = {
    "markdown-it": MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"]).render
}
try:
    import mistune
except ImportError:  # it comes with Jupyter, not with us
    pass
else:
    READERS["mistune"] = mistune.html  # type: ignore[assignment]


def text_of(page: str) -> str:
    return html.unescape(re.sub(r"</?[a-z][^>]*>", "", re.sub(r"<br ?/?>", "\n", page)))


@pytest.mark.parametrize("reader", READERS)
def test_names_are_shown_as_they_are_and_mean_nothing(
    document_of: Callable[..., Document], names: tuple[str, ...], pictures: dict[str, bytes], reader: str
) -> None:
    for name in names:
        page = READERS[reader](render(document_of((name,) * 8), pictures))
        assert text_of(page).count(name) > 100, name
        assert not re.search(r'<em>|<del>|<script|<ol|<strong>|href="http', page), name


def test_tables_have_a_cell_for_each_cell(hostile: Document, pictures: dict[str, bytes]) -> None:
    page = READERS["markdown-it"](render(hostile, pictures))
    expected = sum(
        len(block.columns) * (1 + len(block.rows)) if block.kind == "table" else 8 * (1 + len(block.runs))
        for block in hostile.blocks
        if block.kind in ("table", "runs")
    )
    assert page.count("<td") + page.count("<th") - page.count("<thead") == expected


def test_numbers_lead_to_their_runs(hostile: Document, pictures: dict[str, bytes]) -> None:
    text = render(hostile, pictures)
    places = set(re.findall(r'<a id="([^"]+)">', text))
    assert {"r1", "run-20260101-000000-abc"} <= places
    assert set(re.findall(r"\]\(#([^)]+)\)", text)) <= places


@given(st.text(st.characters(categories=("L", "N", "P", "S")), min_size=1))
def test_any_word_is_shown_as_it_is(word: str) -> None:
    page = READERS["markdown-it"](f"| a |\n| --- |\n| x {escaped(word)} x |")
    assert f"x {word} x" in text_of(page)
