"""Booktabs: each table of a document as a file that any article reads with \\input, whatever else is in it. It needs
the package booktabs and nothing of our own: no colours, no links, no commands. Caption and notes stand above it as
comments, for the article's own \\caption.

Heads are broken into lines; columns are as wide as what is in them, in the largest letters at which a table fits a
column of a two-column page; else a page's width. Sentences too long for that are set in lines, in shares of
\\linewidth.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from reports.document import Document, Table
from reports.quantity import Quantity
from reports.render import shown
from reports.render.tex import escaped

TABLES = "tables"
#: TeX's points: ICML's column, the narrowest of those in wide use, and a page's text.
_COLUMN, _PAGE = 234.0, 468.0
#: Sizes, the largest first, and how many points a letter of theirs takes: small ones are wider for their height.
_SIZES = ((r"\small", 4.8), (r"\footnotesize", 4.4), (r"\scriptsize", 4.15))
#: Points between two columns.
_GAP = 6.0
#: Cells of more letters than this are set in lines.
_SENTENCE = 34
#: Words of more letters than this are broken where they must.
_BREAK = 18


@dataclass(frozen=True)
class _Column:
    """cells: as they are read, to be measured. head: its lines."""

    cells: tuple[str, ...]
    head: tuple[str, ...]
    number: bool

    @property
    def width(self) -> int:
        """In letters."""
        return max(map(len, (*self.cells, *self.head)), default=1)


def files(document: Document) -> dict[str, bytes]:
    """tables/NAME.tex for each Table, named after its caption."""
    found: dict[str, bytes] = {}
    for block in document.blocks:
        if isinstance(block, Table):
            told = re.split(r"[(;]|\. |\.$", shown.plain(block.caption))[0]
            name, number = re.sub(r"[^a-z0-9]+", "-", told.lower()).strip("-")[:60].strip("-") or "table", 1
            while (path := f"{TABLES}/{name}{f'-{number}' if number > 1 else ''}.tex") in found:
                number += 1
            found[path] = render(block, document).encode()
    return found


def render(table: Table, document: Document) -> str:
    columns = [_column(table, at) for at in range(len(table.columns))]
    for room in (_COLUMN, _PAGE):
        size = _fitted(columns, room)
        made = (size, _natural(table, columns)) if size else _in_lines(table, columns, room)
        if made is not None:
            break
    assert made is not None, "a page takes every table"
    size, body = made
    wide = room == _PAGE
    where = "as wide as a page's text (table*)" if wide else "fits one column"
    comments = [
        "Needs \\usepackage{booktabs} and nothing else; \\input it between \\begin{table} and \\end{table}: "
        + where
        + ".",
        f"Written by {document.made_by} from the records of study {document.study}.",
        f"Caption: {shown.plain(table.caption)}",
        *(f"Note: {shown.plain(note)}" for note in table.notes),
    ]
    if not body.isascii():
        comments.insert(
            1, "It has letters beyond ASCII: xelatex, or pdflatex with \\usepackage[T1]{fontenc}, may show them."
        )
    head = "\n".join(f"% {' '.join(shown.visible(line).split())}" for line in comments)
    return f"{head}\n{{{size}\\setlength{{\\tabcolsep}}{{{_GAP / 2:g}pt}}%\n{body}}}%\n"


def _column(table: Table, at: int) -> _Column:
    column = table.columns[at]
    cells = tuple(_flat(shown.plain(row[at], in_table=True)) for row in table.rows)
    words = f"{column.head} {column.unit}".split()
    room = max(map(len, (*cells, *words)), default=1)
    lines = [line for text in (column.head, column.unit) for line in _broken(_flat(text), min(room, _SENTENCE))]
    return _Column(cells, tuple(lines), column.number)


def _flat(text: str) -> str:
    return " ".join(text.split())


def _broken(text: str, room: int) -> list[str]:
    lines: list[str] = []
    for word in text.split():
        if lines and len(lines[-1]) + 1 + len(word) <= room:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return lines


def _fitted(columns: list[_Column], room: float) -> str | None:
    """The largest size at which columns as wide as what is in them fit into `room` points."""
    if any(len(cell) > _SENTENCE and not column.number for column in columns for cell in column.cells):
        return None
    whole = sum(column.width for column in columns)
    return next((size for size, points in _SIZES if whole <= _letters(columns, points, room)), None)


def _natural(table: Table, columns: list[_Column]) -> str:
    spec = "".join("r" if column.number else "l" for column in columns)
    return _tabular(spec, [_head(column) for column in columns], [[_cell(cell) for cell in row] for row in table.rows])


def _head(column: _Column) -> str:
    """Its lines, one above the other."""
    lines = [_plain(line) for line in column.head]
    if len(lines) < 2:
        return "".join(lines)
    # A line that begins with a bracket would be read as an argument of the one before it.
    return (
        rf"\begin{{tabular}}[b]{{@{{}}{'r' if column.number else 'l'}@{{}}}}" + r"\\{}".join(lines) + r"\end{tabular}"
    )


def _words(columns: list[_Column]) -> list[int]:
    """The longest word of each column, in letters, and one more; longer words are broken."""
    return [
        1 + min(max((len(word) for text in (*column.cells, *column.head) for word in text.split()), default=1), _BREAK)
        for column in columns
    ]


def _longest_cell(column: _Column) -> int:
    """Of numbers, in letters, and one more: they stand on one line where there is room."""
    return max(map(len, column.cells), default=0) + 1 if column.number else 0


def _letters(columns: list[_Column], points: float, room: float) -> float:
    """That stand on a line of `room` points."""
    return (room - (len(columns) - 1) * _GAP) / points


def _shares(columns: list[_Column], letters: float) -> list[float]:
    """Of a line: each column its longest word, of what is left numbers what they need to stay on one line, then each
    as its text needs."""
    given = [float(word) for word in _words(columns)]
    cells = [float(_longest_cell(column)) for column in columns]
    whole = [min(column.width + 1.0, 45.0) for column in columns]
    for wishes in (cells, whole):
        wanted = [max(wish - has, 0.0) for wish, has in zip(wishes, given)]
        part = min(1.0, max(0.0, letters - sum(given)) / sum(wanted)) if sum(wanted) else 0.0
        given = [has + part * more for has, more in zip(given, wanted)]
    return [width / sum(given) for width in given]


def _in_lines(table: Table, columns: list[_Column], room: float) -> tuple[str, str] | None:
    """None where the longest words and the numbers do not fit into `room` points, unless that is a page's width."""
    words = _words(columns)
    need = sum(max(word, _longest_cell(column)) for word, column in zip(words, columns))
    fitting = [one for one in _SIZES if need <= _letters(columns, one[1], room)]
    if not fitting and room < _PAGE:
        return None
    size, points = (fitting or _SIZES[-1:])[0]
    gaps = (len(columns) - 1) * _GAP
    shares = _shares(columns, _letters(columns, points, room))
    spec = "".join(rf"p{{\dimexpr{share:.4f}\linewidth-{share * gaps:.2f}pt\relax}}" for share in shares)
    sides = [r"\raggedleft" if column.number else r"\raggedright" for column in columns]
    rows = [
        [rf"{side} {_cell(cell, longest=_BREAK)}" for side, cell in zip(sides, row)]
        for row in ([((f"{column.head} {column.unit}".strip()),) for column in table.columns], *table.rows)
    ]
    return size, _tabular(spec, rows[0], rows[1:])


def _tabular(spec: str, head: list[str], rows: list[list[str]]) -> str:
    # A row that begins with a bracket or a star would be read as an argument of the line before it.
    body = "".join(rf"{{}}{' & '.join(row)} \tabularnewline" + "\n" for row in rows)
    return (
        f"\\begin{{tabular}}{{@{{}}{spec}@{{}}}}\n\\toprule\n{' & '.join(head)} \\tabularnewline\n\\midrule\n{body}"
        f"\\bottomrule\n\\end{{tabular}}"
    )


def _cell(parts: object, longest: int = 10**6) -> str:
    told = (
        shown.number(part, in_table=True) if isinstance(part, Quantity) else getattr(part, "term", part)
        for part in parts  # type: ignore[attr-defined]
    )
    return _plain(_flat("".join(told)), longest)


def _plain(text: str, longest: int = 10**6) -> str:
    """Text by commands of LaTeX itself. What has none stays the letter that it is."""
    said = escaped(text, newline=" ", longest=longest)
    said = re.sub(r"\\cjk\{([^{}]*)\}", r"\1", said)
    said = re.sub(r"\\other\{[0-9A-F]+\}\{(.)\}", r"\1", said)
    return said.replace(r"\brk{}", r"\hspace{0pt}").replace(r"\textquotedbl{}", r"\texttt{\char34}")
