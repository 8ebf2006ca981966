"""Drawn: a Picture of the document together with the Drawing that makes its files."""

from __future__ import annotations

import re
from dataclasses import dataclass

from reports.document import Block, Parts, Picture, Term
from reports.figures.drawing import Drawing
from reports.figures.style import label


@dataclass(frozen=True)
class Drawn:
    picture: Picture
    drawing: Drawing


Piece = Block | Drawn


def file_name(*words: str) -> str:
    """A file's name out of anything: lower case, at most 60 characters.

    >>> file_name("curves", "<script>", "Fashion MNIST")
    'curves-script-fashion-mnist'
    """
    return re.sub(r"[^a-z0-9]+", "-", "-".join(words).lower()).strip("-")[:60].strip("-")


def full_names(arms: list[str]) -> Parts:
    """What the caption adds where the figure could not show a name in full."""
    changed = [arm for arm in arms if label(arm) != arm]
    parts: Parts = ()
    for arm in changed:
        parts += (f" “{label(arm)}” is ", Term(term=arm), ".")
    return parts
