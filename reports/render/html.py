"""HTML: the document as one file that needs nothing else: no script, no network, figures as inline SVG."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from importlib import resources
from typing import TYPE_CHECKING

from reports.document import Block, Document, Heading, Parts, Quantity, Term
from reports.figures.drawing import inline
from reports.render import shown

if TYPE_CHECKING:
    from jinja2 import Template
    from markupsafe import Markup

FILE, NEEDS = "report.html", ()
#: Lists with more runs than this are left out of what is printed.
PRINTED = 300
#: Longer words are broken within tables.
_LONGEST = 24


def files(document: Document, pictures: Mapping[str, bytes]) -> dict[str, bytes]:
    """The page, by its file's name. pictures: the SVG of each Picture, by its name."""
    return {FILE: render(document, pictures).encode()}


def render(document: Document, pictures: Mapping[str, bytes]) -> str:
    """The page. The same document gives the same bytes. Everything of the document is escaped; only the style sheet and
    the figures stand as they are."""
    from markupsafe import Markup

    return _template("page.html").render(
        document=document,
        title=shown.visible(document.title),
        contents=[block for block in document.blocks if isinstance(block, Heading) and block.level == 2],
        body=Markup(fragment(document, document.blocks, pictures)),
        style=Markup(_resource("page.css")),
    )


def fragment(document: Document, blocks: tuple[Block, ...], pictures: Mapping[str, bytes]) -> str:
    """Some blocks of a document, to stand in a page of another's making. TypeError for a kind of block that is not
    known, ValueError for a picture that was not drawn."""
    from markupsafe import Markup

    for block in blocks:
        check(block)
    figures = {
        block.name: Markup(inline(shown.picture_of(pictures, block.name), block.name))
        for block in blocks
        if block.kind == "picture"
    }
    return _template("blocks.html").render(
        blocks=blocks, figures=figures, labels=document.labels(), listed=shown.listed(document)
    )


#: The kinds that blocks.html has a part for.
_KINDS = ("heading", "paragraph", "verdict", "table", "picture", "findings", "verbatim", "evidence", "runs")


def check(block: Block) -> None:
    """TypeError for a kind of block that blocks.html has no part for."""
    shown.dispatch(dict.fromkeys(_KINDS, lambda block: None), block)


def _looks(cell: Parts, number: bool = False) -> Markup:
    """The classes of a table's cell: n for a number; long where a word must be broken for the page to hold it."""
    from markupsafe import Markup

    words = shown.plain(cell, in_table=True).split()
    names = ("n " if number else "") + ("long" if any(len(word) > _LONGEST for word in words) else "")
    return Markup(f' class="{names.strip()}"' if names else "")


def _resource(name: str) -> str:
    return (resources.files("reports.render") / name).read_text("utf-8")


@functools.cache
def _template(name: str) -> Template:
    from jinja2 import Environment, StrictUndefined

    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True
    )
    environment.tests["quantity"] = lambda part: isinstance(part, Quantity)
    environment.tests["term"] = lambda part: isinstance(part, Term)
    for use in (shown.visible, shown.tone, shown.basis, shown.complaint, shown.run_cells, shown.runs):
        environment.filters[use.__name__] = use
    environment.filters["looks"] = _looks
    environment.globals |= {"printed": PRINTED, "run_heads": list(zip(shown.RUN_HEADS, shown.RUN_NUMBERS))}
    return environment.from_string(_resource(name))
