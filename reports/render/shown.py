"""Shown: how text, numbers and verdicts of a document look, whatever the format. Renderers take what they show from
here."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from algos.finding import Finding
from reports.document import Document, Evidence, Parts, RunList, RunRow, Table, Term
from reports.quantity import Quantity

#: The heads of the list of runs, and which of them are numbers.
RUN_HEADS = ("Run", "Task", "Arm", "Phase", "Number", "Seed", "Status", "Objective")
RUN_NUMBERS = (False, False, False, False, True, True, False, True)
#: Categories of characters that nobody sees: halves, unassigned and private ones, separators of lines, and formatting,
#: which can turn what stands beside a name around. Joiners of letters and of emoji are needed.
_UNSEEN, _JOINERS = ("Cs", "Cn", "Co", "Cf", "Zl", "Zp"), "\u200c\u200d"

#: What stands between two columns, in letters.
PAD = 3
#: How much wider bold letters are.
_BOLD = 1.15
#: More links than this from the evidence to the list of runs are left out of pages.
_LINKS = 3000

Tone = Literal["good", "bad", "mixed", "open"]


def dispatch(renderers: Mapping[str, Callable[..., Any]], block: Any, *given: Any) -> Any:
    """What the renderer of this kind of block makes of it. TypeError for a kind that the format does not know: nothing
    of a document is left out in silence."""
    kind = str(getattr(block, "kind", type(block).__name__))
    if kind not in renderers:
        raise TypeError(f"no renderer for blocks of kind {kind!r} (known: {', '.join(renderers)})")
    return renderers[kind](block, *given)


def visible(text: str) -> str:
    """The text, with what cannot be seen made seen: control characters as their pictures, marks of direction,
    zero-width spaces and halves of characters as their code. New lines and tabs stay.

    >>> visible("a\\x1b[31m b\\u202ec"), visible("two\\nlines")
    ('a␛[31m b⟨U+202E⟩c', 'two\\nlines')
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(map(_seen, text.replace("\r\n", "\n")))


def _seen(char: str) -> str:
    code = ord(char)
    if char in "\n\t":
        return char
    if code < 0x20:
        return chr(0x2400 + code)
    if code == 0x7F:
        return "\u2421"
    if 0x80 <= code < 0xA0 or (unicodedata.category(char) in _UNSEEN and char not in _JOINERS):
        return f"⟨U+{code:04X}⟩"
    return char


def number(quantity: Quantity, in_table: bool = False) -> str:
    """A number as it stands in a sentence, or without its unit in a table, whose heads have it."""
    return quantity.number if in_table else quantity.text


def plain(parts: Parts, in_table: bool = False) -> str:
    """A sentence without links or looks."""
    told = (
        number(part, in_table) if isinstance(part, Quantity) else part.term if isinstance(part, Term) else part
        for part in parts
    )
    return visible("".join(told))


def basis(quantity: Quantity, labels: Mapping[tuple[str, ...], str]) -> str:
    """What a number was computed with and from: "student.mean_interval, 3 runs (R2)"."""
    label = labels.get(quantity.runs)
    return f"{quantity.statistic}, {runs(len(quantity.runs))}" + (f" ({label})" if label else "")


def runs(count: int) -> str:
    return f"{count:,} run{'' if count == 1 else 's'}"


def tone(verdict: str) -> Tone:
    """Whether a verdict says that its first is better, or worse, that it depends, or leaves it open; whatever its
    words.

    >>> [tone(word) for word in ("better", "worse", "depends on the clock", "no difference shown", "cannot be told")]
    ['good', 'bad', 'mixed', 'open', 'open']
    """
    words = verdict.lower().split()
    if {"depends", "part", "partly", "mixed"} & set(words):
        return "mixed"
    if {"no", "not", "cannot", "never"} & set(words):
        return "open"
    return "bad" if "worse" in words else "good" if {"better", "best", "shown"} & set(words) else "open"


def complaint(finding: Finding) -> tuple[str, str, str]:
    """A finding in three pieces to be read one after the other, any of which may be empty: where, what is said, and
    the cure.

    >>> complaint(Finding("few-seeds", "only 3 seeds", "run 5", source="digits"))
    ('digits:', 'only 3 seeds;', 'run 5.')
    """
    where = ", ".join(part for part in (finding.source, finding.place) if part)
    said = f"{finding.said.removesuffix('.')};" if finding.cure else _ended(finding.said)
    return where and f"{where}:", said, _ended(finding.cure)


def _ended(text: str) -> str:
    return text if not text or text.endswith((".", "!", "?")) else f"{text}."


def run_cells(run: RunRow) -> tuple[str, ...]:
    """A row of the list of runs, as RUN_HEADS says."""
    objective = "-" if run.objective is None else f"{run.objective:.5g}".replace("-", "−")
    return run.run_id, run.task, run.arm, run.phase, str(run.number), str(run.seed), run.status, objective


def listed(document: Document) -> frozenset[str]:
    """The runs that the document has a row for, so that a link to it leads somewhere."""
    return frozenset(run.run_id for block in document.blocks if isinstance(block, RunList) for run in block.runs)


def paged_links(block: Evidence, known: frozenset[str]) -> frozenset[str]:
    """Of the runs that have a row, those that the evidence leads to on pages: all, or none where there are so many that
    their links would weigh more than the document. The ids are there all the same, and numbers lead to their sets."""
    return known if sum(len(group.runs) for group in block.sets) <= _LINKS else frozenset()


def picture_of(pictures: Mapping[str, bytes], name: str) -> bytes:
    """The SVG of a picture. ValueError where it was not drawn, and for a name that is no file's: formats that show the
    file itself write it in a path."""
    _check_name(name)
    if name not in pictures:
        raise ValueError(f"the document shows a picture {name!r} that was not drawn ({len(pictures)} were)")
    return pictures[name]


def picture_file(folder: Path, name: str) -> bytes:
    """The SVG of a picture that was written."""
    _check_name(name)
    return (folder / f"{name}.svg").read_bytes()


def _check_name(name: str) -> None:
    if not re.fullmatch(r"[\w-][\w.-]*", name, re.ASCII):
        raise ValueError(f"{name!r} cannot name a picture's files: letters, digits, _ . and - can")


def shares(table: Table) -> list[float]:
    """How much of a table's width each column takes, for formats that do not measure text. Sums to 1."""
    rows = [[plain(cell, in_table=True) for cell in row] for row in table.rows]
    return [
        round(share, 4)
        for share in measured(
            [[f"{column.head} {column.unit}", *(row[at] for row in rows)] for at, column in enumerate(table.columns)],
            [column.number for column in table.columns],
        )
    ]


def measured(columns: list[list[str]], numbers: Sequence[bool]) -> list[float]:
    """The shares of columns with these texts, the first of each its head, which may be broken between words. First
    each gets room for its longest word, then numbers for all they say on one line, then sentences what is left.

    >>> [round(share, 2) for share in measured([["Arm", "sgd"], ["What", "it takes a while to say"]], [False, False])]
    [0.21, 0.79]
    """
    words = [float(word) for word in longest_words(columns, numbers)]
    wholes = [max(map(_width, cells), default=0) for _, *cells in columns]
    lines = [max(word, PAD + min(whole, 30)) if number else word for word, whole, number in zip(words, wholes, numbers)]
    wished = [max(line, PAD + min(whole, 45)) for line, whole in zip(lines, wholes)]
    given, room = words, _letters(len(columns)) - sum(words)
    for next_to in (lines, wished):
        wish = sum(next_to) - sum(given)
        part = min(1.0, max(0.0, room / wish)) if wish > 0 else 0.0
        given = [low + part * (high - low) for low, high in zip(given, next_to)]
        room -= wish
    return [width / sum(given) for width in given]


def longest_words(columns: Sequence[Sequence[str]], numbers: Sequence[bool]) -> list[int]:
    """In letters, with the space between columns: of each column's texts, the longest word that is not broken. Heads
    and names are bold, which is wider."""
    return [
        PAD + math.ceil(_BOLD * min(max(map(_longest_word, column), default=0), 24 if number else 18))
        for column, number in zip(columns, numbers)
    ]


def _letters(columns: int) -> int:
    """About as many letters stand on a line of a table with so many columns, whose letters are smaller the more it
    has."""
    return next((letters for most, letters in ((6, 112), (8, 132), (10, 152)) if columns <= most), 172)


def _longest_word(text: str) -> int:
    return max((_width(word) for word in re.split(r"\s+", text)), default=0)


def _width(text: str) -> int:
    """In letters; Chinese characters are as wide as two."""
    return sum(2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in text)
