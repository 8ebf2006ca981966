"""Notebook: reads the frozen document beside it, report.json, and shows it section by section. It computes nothing, so
it says what the report says; add cells to go on from its numbers. What its cells show is stored in it, for viewers that
run nothing."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from algos.finding import InputError, unknown
from reports.document import Block, Document, Heading
from reports.render import html, markdown, shown

FILE, NEEDS = "report.ipynb", ("nbformat",)
#: The looks that a notebook does not bring.
_STYLE = """
.trainlab-report .card { background: #fff; max-width: 36rem; padding: .5rem; }
.trainlab-report .figures svg { display: block; width: 100%; height: auto; }
.trainlab-report .term { font-weight: 600; white-space: break-spaces; }
.trainlab-report .verdict { border-left: 4px solid #7a8291; padding: .1rem .9rem; margin: .6rem 0; }
.trainlab-report .verdict.good { border-color: #0b8a5e; } .trainlab-report .verdict.bad { border-color: #c0392b; }
.trainlab-report .verdict.mixed { border-color: #b36b00; }
.trainlab-report .mark { font-size: .8em; font-weight: 650; text-transform: uppercase; margin-right: .3rem; }
.trainlab-report .table { overflow-x: auto; }
.trainlab-report td, .trainlab-report th { text-align: left; } .trainlab-report .n { text-align: right; }
.trainlab-report thead small { display: block; font-weight: 400; }
""".strip()
_LOAD = """from reports.render.notebook import Frozen

report = Frozen("report.json", sha256="{sha256}")  # figures/ lie beside it
report"""


class Frozen:
    """A report that was written: its document, and its sections as a notebook shows them.

    path: of report.json; figures/ lie beside it. sha256: of the file that is meant ("": whichever is there). document:
    the blocks and every number; `report.document.quantities()` gives the numbers with the runs behind them. InputError
    where there is no such file, or it is another.
    """

    def __init__(self, path: str | Path, sha256: str = ""):
        self.path = Path(path)
        try:
            content = self.path.read_bytes()
        except OSError as error:
            cure = "open the notebook in the folder that the report was written into"
            raise InputError(f"{self.path} cannot be read ({error.strerror})", cure) from error
        if sha256 and hashlib.sha256(content).hexdigest() != sha256:
            said = f"{self.path} is not the document that this notebook was written for"
            raise InputError(said, "write the report again, with --format notebook among its formats")
        self.document = Document.from_json(content.decode())
        self._pictures = {
            block.name: shown.picture_file(self.path.parent / "figures", block.name)
            for block in self.document.blocks
            if block.kind == "picture"
        }

    def section(self, anchor: str) -> Shown:
        """What stands under a heading of the second level, by its anchor ("answer"). InputError where there is none."""
        found = dict(_sections(self.document))
        if anchor not in found:
            raise unknown("section", anchor, found)
        return Shown(html.fragment(self.document, found[anchor], self._pictures), anchor)

    def __repr__(self) -> str:
        return _contents(self.document)


class Shown:
    """Part of a page, for a notebook to show."""

    def __init__(self, text: str, name: str):
        self._text, self._name = text, name

    def __repr__(self) -> str:
        return f"section {self._name!r}"

    def _repr_html_(self) -> str:
        # The classes keep MathJax from reading $ in names.
        classes = "trainlab-report tex2jax_ignore mathjax_ignore"
        return f'<style>{_STYLE}</style><div class="{classes}">{self._text}</div>'


def files(document: Document, pictures: Mapping[str, bytes]) -> dict[str, bytes]:
    """report.ipynb, with the outputs that running it gives. The same document gives the same bytes."""
    import nbformat

    for block in document.blocks:
        if block.kind == "picture":
            shown.picture_of(pictures, block.name)
        html.check(block)
    said = f"# {markdown.escaped(' '.join(document.title.split()))}\n\n{markdown.escaped(document.summary)}"
    load = _LOAD.replace("{sha256}", hashlib.sha256(document.to_json().encode()).hexdigest())
    cells = [_cell(0, "markdown", said), _code(1, load, {"text/plain": _contents(document)})]
    for index, (anchor, blocks) in enumerate(_sections(document), start=2):
        part = Shown(html.fragment(document, blocks, pictures), anchor)
        data = {"text/html": part._repr_html_(), "text/plain": repr(part)}
        cells.append(_code(index, f"report.section({anchor!r})", data))
    notebook = {
        "cells": cells,
        "metadata": {
            "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
            "language_info": {"name": "python"},
        },
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    nbformat.validate(nbformat.from_dict(notebook))  # type: ignore[no-untyped-call]
    return {FILE: (json.dumps(notebook, ensure_ascii=False, indent=1) + "\n").encode()}


def _cell(index: int, kind: str, source: str) -> dict[str, Any]:
    return {"id": f"cell-{index}", "cell_type": kind, "metadata": {}, "source": source}


def _code(number: int, source: str, data: Mapping[str, str]) -> dict[str, Any]:
    """A cell as it is after the number-th was run: data by its MIME type is what its last line gave."""
    output = {"output_type": "execute_result", "execution_count": number, "metadata": {}, "data": data}
    return _cell(number, "code", source) | {"outputs": [output], "execution_count": number}


def _contents(document: Document) -> str:
    """What a notebook shows of a report as a whole."""
    sections = ", ".join(anchor for anchor, _ in _sections(document))
    return f"{shown.visible(document.title)} ({document.made_by}): {sections}"


def _sections(document: Document) -> list[tuple[str, tuple[Block, ...]]]:
    """The anchor of each heading of the second level, and the blocks from it to the next; what comes before the first
    is called "top"."""
    found: list[tuple[str, list[Block]]] = [("top", [])]
    for block in document.blocks:
        if isinstance(block, Heading) and block.level <= 2:
            found.append((block.anchor, []))
        found[-1][1].append(block)
    return [(anchor, tuple(blocks)) for anchor, blocks in found if blocks]
