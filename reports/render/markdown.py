"""Markdown as GitHub reads it: tables, headings, pictures beside it. Every name is escaped."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

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

FILE, NEEDS = "report.md", ()
Labels = Mapping[tuple[str, ...], str]


def files(document: Document, pictures: Mapping[str, bytes]) -> dict[str, bytes]:
    """report.md, which shows figures/NAME.svg for each Picture."""
    return {FILE: render(document, pictures).encode()}


def render(document: Document, pictures: Mapping[str, bytes]) -> str:
    labels = document.labels()
    kinds = {
        "heading": _heading,
        "paragraph": lambda block: _paragraph(block, labels),
        "verdict": lambda block: _verdict(block, labels),
        "table": lambda block: _table(block, labels),
        "picture": lambda block: _picture(block, labels, pictures),
        "findings": _findings,
        "verbatim": _verbatim,
        "evidence": lambda block: _evidence(block, shown.listed(document)),
        "runs": _runs,
    }
    blocks = [str(shown.dispatch(kinds, block)) for block in document.blocks]
    end = (
        f"Written by {escaped(document.made_by)} from the records of study {_bold(document.study)}. "
        "The same document as data: [report.json](report.json)."
    )
    return "\n\n".join((f"# {_one_line(document.title)}", *blocks, "---", end)) + "\n"


def escaped(text: str) -> str:
    r"""The text, so that Markdown shows it letter for letter, also in a table.

    >>> escaped("**a** | <b> #1 https://x.example")
    '\\*\\*a\\*\\* \\| \\<b\\> \\#1 https\\://x.example'
    """
    text = re.sub(r"([\\`*_{}\[\]<>#|~&$])", r"\\\1", shown.visible(text))
    text = re.sub(r"(?i)(https?|ftp|mailto|xmpp)(:)", r"\1\\\2", text)
    text = re.sub(r"(?i)\bwww\.", r"www\\.", text)
    text = re.sub(r"(?<= ) +", lambda found: "&nbsp;" * len(found[0]), text)
    return text.replace("\t", "&emsp;").replace("\n", "<br>")


def _begun(text: str) -> str:
    """A block's text, so that how it begins makes it no list, rule, heading or code."""
    text = re.sub(r"^ +", lambda found: "&nbsp;" * len(found[0]), text)
    return re.sub(r"^(\d*)([-+=.):])", r"\1\\\2", text)


def _one_line(text: str) -> str:
    return escaped(" ".join(text.split("\n")))


def _bold(text: str) -> str:
    """As an element: stars do not always make letters bold where they meet punctuation."""
    return f"<b>{escaped(text)}</b>"


def _sentence(parts: Parts, labels: Labels, in_table: bool = False) -> str:
    return "".join(_part(part, labels, in_table) for part in parts)


def _part(part: str | Quantity | Term, labels: Labels, in_table: bool) -> str:
    if isinstance(part, Quantity):
        said, label = escaped(shown.number(part, in_table)), labels.get(part.runs)
        return f"[{said}](#{label.lower()})" if label else said
    return _bold(part.term) if isinstance(part, Term) else escaped(part)


def _heading(block: Heading) -> str:
    return f"{'#' * min(6, block.level)} {_one_line(block.text)}"


def _paragraph(block: Paragraph, labels: Labels) -> str:
    return _begun(_sentence(block.parts, labels))


def _verdict(block: Verdict, labels: Labels) -> str:
    return _quoted(f"{_bold(block.subject)}: {escaped(block.verdict)}\n\n{_begun(_sentence(block.parts, labels))}")


def _quoted(text: str) -> str:
    return "\n".join(f"> {line}".rstrip() for line in text.split("\n"))


def _table(block: Table, labels: Labels) -> str:
    heads = [escaped(f"{column.head}\n{column.unit}" if column.unit else column.head) for column in block.columns]
    rows = [[_sentence(cell, labels, in_table=True) for cell in row] for row in block.rows]
    table = _grid(heads, [column.number for column in block.columns], rows)
    notes = [f"<sub>{_sentence(note, labels)}</sub>" for note in block.notes]
    return "\n\n".join((_begun(_sentence(block.caption, labels)), table, *notes))


def _grid(heads: Sequence[str], numbers: Sequence[bool], rows: Sequence[Sequence[str]]) -> str:
    rule = ["---:" if number else ":---" for number in numbers]
    return "\n".join(f"| {' | '.join(row)} |" for row in (heads, rule, *rows))


def _picture(block: Picture, labels: Labels, pictures: Mapping[str, bytes]) -> str:
    shown.picture_of(pictures, block.name)
    files = ", ".join(f"[{kind.upper()}](figures/{block.name}.{kind})" for kind in ("pdf", "svg", "csv"))
    alt = _one_line(block.alt)
    return f"![{alt}](figures/{block.name}.svg)\n\n{_begun(_sentence(block.caption, labels))} {files}"


def _findings(block: Findings) -> str:
    if not block.findings:
        return _begun(escaped(block.empty))
    items = []
    for finding in block.findings:
        where, said, cure = shown.complaint(finding)
        pieces = [f"<b>{finding.level}</b>", where and _bold(where), escaped(said), escaped(cure), _code(finding.rule)]
        items.append(f"- {' '.join(piece for piece in pieces if piece)}")
    return "\n".join(items)


def _code(text: str) -> str:
    return f"<code>{escaped(text)}</code>"


def _verbatim(block: Verbatim) -> str:
    """Fenced by more ticks than there are in it."""
    text = shown.visible(block.text)
    fence = "`" * max(3, 1 + max((len(ticks) for ticks in re.findall("`+", text)), default=0))
    return f"{fence}{re.sub(r'[^a-z0-9]', '', block.language.lower())}\n{text}\n{fence}"


def _evidence(block: Evidence, listed: frozenset[str]) -> str:
    parts = []
    for group in block.sets:
        runs = " ".join(f"[{_code(run)}](#run-{run.lower()})" if run in listed else _code(run) for run in group.runs)
        items = "\n".join(f"- {_code(statistic)}" for statistic in group.statistics)
        parts.append(
            f'<a id="{group.label.lower()}"></a><b>{escaped(group.label)}</b>, {shown.runs(len(group.runs))}\n\n'
            f"{items}\n\n{runs}"
        )
    return "\n\n".join(parts)


def _runs(block: RunList) -> str:
    rows = []
    for run in block.runs:
        first, *cells = map(escaped, shown.run_cells(run))
        rows.append([f'<a id="run-{first.lower()}"></a><code>{first}</code>', *cells])
    return _grid(shown.RUN_HEADS, shown.RUN_NUMBERS, rows)
