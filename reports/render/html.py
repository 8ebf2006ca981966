"""HTML: the document as one file that needs nothing else: no script, no network, figures as inline SVG."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from importlib import resources
from typing import TYPE_CHECKING

from reports.document import Document, Heading, Quantity, Term
from reports.figures.drawing import inline

if TYPE_CHECKING:
    from jinja2 import Template


def render(document: Document, pictures: Mapping[str, bytes]) -> str:
    """The page. pictures: the SVG of each Picture, by its name. The same document gives the same bytes.

    Everything of the document is escaped; only the style sheet and the figures stand as they are.
    """
    from markupsafe import Markup

    figures = {name: Markup(inline(svg, name)) for name, svg in pictures.items()}
    return _template().render(
        document=document,
        contents=[block for block in document.blocks if isinstance(block, Heading) and block.level == 2],
        figures=figures,
        labels=document.labels(),
        style=Markup((resources.files("reports.render") / "page.css").read_text("utf-8")),
    )


@functools.cache
def _template() -> Template:
    from jinja2 import Environment, StrictUndefined

    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True
    )
    environment.tests["quantity"] = lambda part: isinstance(part, Quantity)
    environment.tests["term"] = lambda part: isinstance(part, Term)
    return environment.from_string((resources.files("reports.render") / "page.html").read_text("utf-8"))
