"""LaTeX: the document as paper.tex, to be compiled with xelatex or pdflatex beside its figures; references.bib; and
each table as tables/NAME.tex, for a paper of your own. Not report.tex: compiled, that would overwrite the report.pdf of
the format pdf."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from importlib import resources

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
from reports.render import bibtex, booktabs, shown
from reports.render.tex import LONGEST, LONGEST_IN_TABLE, escaped

FILE, NEEDS = "paper.tex", ()
BIBLIOGRAPHY = "references.bib"
#: Tables with more rows are broken over pages.
_LONG = 24
_SIZES = ((6, r"\small"), (8, r"\footnotesize"), (10, r"\scriptsize"))
_LEVELS = {1: "section", 2: "section", 3: "subsection", 4: "subsubsection"}

Labels = Mapping[tuple[str, ...], str]


def files(document: Document, pictures: Mapping[str, bytes]) -> dict[str, bytes]:
    """paper.tex, which shows figures/NAME.pdf for each Picture; and references.bib where the document has BibTeX, for
    papers that cite it; and tables/NAME.tex for each Table."""
    found = {FILE: render(document, pictures).encode(), **booktabs.files(document)}
    cited = [block.text for block in document.blocks if isinstance(block, Verbatim) and block.language == "bibtex"]
    if cited:
        found[BIBLIOGRAPHY] = ("\n\n".join(cited).rstrip() + "\n").encode()
    return found


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
        "evidence": lambda block: _evidence(block, shown.paged_links(block, shown.listed(document))),
        "runs": _runs,
    }
    title = _one_line(document.title)
    made = escaped(f"Written by {document.made_by} from the records of study ")
    return "\n".join(
        [
            (resources.files("reports.render") / "preamble.tex").read_text("utf-8").rstrip("\n"),
            rf"\title{{{title}}}\author{{}}\date{{}}",
            r"\begin{document}",
            r"\maketitle",
            *(str(shown.dispatch(kinds, block)) for block in document.blocks),
            r"\bigskip",
            rf"{{\small {made}\term{{{_one_line(document.study)}}}. The same document as data: report.json.\par}}",
            r"\end{document}",
            "",
        ]
    )


def _one_line(text: str) -> str:
    """For what may hold no line of its own: titles and headings."""
    return escaped(text, newline=" ")


def _cell(text: str) -> str:
    return escaped(text, longest=LONGEST_IN_TABLE)


def _sentence(parts: Parts, labels: Labels, in_table: bool = False) -> str:
    return "".join(_part(part, labels, in_table) for part in parts)


def _part(part: str | Quantity | Term, labels: Labels, in_table: bool) -> str:
    longest = LONGEST_IN_TABLE if in_table else LONGEST
    if isinstance(part, Quantity):
        said, label = escaped(shown.number(part, in_table), longest=longest), labels.get(part.runs)
        return rf"\runs{{{_anchor(label)}}}{{{said}}}" if label else said
    said = escaped(part.term if isinstance(part, Term) else part, longest=longest)
    return rf"\term{{{said}}}" if isinstance(part, Term) else said


def _anchor(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9-]", "-", name)


def _heading(block: Heading) -> str:
    command = _LEVELS.get(block.level, "paragraph")
    return f"\n\\{command}{{{_one_line(block.text)}}}\\label{{{_anchor(block.anchor)}}}"


def _paragraph(block: Paragraph, labels: Labels) -> str:
    said = _sentence(block.parts, labels)
    return f"{{\\large {said}\\par}}\n" if block.role == "lead" else f"{said}\n"


def _verdict(block: Verdict, labels: Labels) -> str:
    tone, word = shown.tone(block.verdict), escaped(block.verdict)
    return rf"\verdict{{{tone}}}{{{_one_line(block.subject)}}}{{{word}}}{{{_sentence(block.parts, labels)}}}" + "\n"


def _table(block: Table, labels: Labels) -> str:
    heads = [
        rf"\bfseries {_cell(column.head)}" + (rf"\par {{\mdseries {_cell(column.unit)}}}" if column.unit else "")
        for column in block.columns
    ]
    rows = [[_sentence(cell, labels, in_table=True) for cell in row] for row in block.rows]
    columns = [("R" if column.number else "L", share) for column, share in zip(block.columns, shown.shares(block))]
    notes = [rf"{_sentence(note, labels)}\par" for note in block.notes]
    return _tabular(_sentence(block.caption, labels), columns, heads, rows, notes)


def _tabular(
    caption: str, columns: list[tuple[str, float]], heads: list[str], rows: list[list[str]], notes: Iterable[str] = ()
) -> str:
    """A table; a long one goes on over pages, with its head on each."""
    spec = "@{}" + "".join(f"{kind}{{{share:.4f}}}" for kind, share in columns) + "@{}"
    size = next((name for most, name in _SIZES if len(columns) <= most), r"\tiny")
    head = " & ".join(heads) + r" \\"
    # A row that begins with a bracket or a star would be read as an argument of the line before it.
    body = "\n".join(rf"{{}}{' & '.join(row)} \\" for row in rows)
    below = "\n".join(notes)
    below = f"\n{{\\footnotesize\\color{{soft}}\\setlength{{\\parskip}}{{.2em}}\n{below}\n}}" if below else ""
    if len(rows) > _LONG:
        over = f"\\caption[]{{{caption}}}\\\\\n" if caption else ""
        again = f"\\toprule\n{head}\n\\midrule"
        return (
            f"{{{size}\n\\begin{{longtable}}{{{spec}}}\n{over}{again}\n\\endfirsthead\n{again}\n\\endhead\n{body}\n"
            f"\\bottomrule\n\\end{{longtable}}}}{below}\n"
        )
    over = f"\\caption[]{{{caption}}}\n" if caption else ""
    return (
        f"\\begin{{table}}[H]\n{over}{size}\n\\begin{{tabular}}{{{spec}}}\n\\toprule\n{head}\n\\midrule\n{body}\n"
        f"\\bottomrule\n\\end{{tabular}}{below}\n\\end{{table}}\n"
    )


def _picture(block: Picture, labels: Labels, pictures: Mapping[str, bytes]) -> str:
    shown.picture_of(pictures, block.name)
    return (
        f"\\begin{{figure}}[H]\n% {_comment(block.alt)}\n"
        f"\\includegraphics[width=\\ownwidth]{{figures/{block.name}.pdf}}\n"
        f"\\caption[]{{{_sentence(block.caption, labels)}}}\n\\end{{figure}}\n"
    )


def _comment(text: str) -> str:
    """On one line, whatever counts as the end of one."""
    return " ".join(shown.visible(text).split())


def _findings(block: Findings) -> str:
    if not block.findings:
        return f"{escaped(block.empty)}\n"
    items = []
    for finding in block.findings:
        where, said, cure = map(escaped, shown.complaint(finding))
        rule = escaped(finding.rule).replace("-", r"-\allowbreak{}")  # typewriter fonts break no word by themselves
        items.append(rf"\finding{{{finding.level}}}{{{where}}}{{{said}}}{{{cure}}}{{{rule}}}")
    return "\n".join((r"\begin{itemize}", *items, r"\end{itemize}", ""))


def _verbatim(block: Verbatim) -> str:
    """Lines of code; BibTeX as the list of references that it stands for."""
    found = bibtex.entries(block.text) if block.language == "bibtex" else []
    if not found:
        return "\n".join(rf"\code{{{escaped(_indented(line)) or '~'}}}" for line in block.text.split("\n")) + "\n"
    items = "\n".join(rf"\bibitem{{{_anchor(entry.key)}}} {escaped(str(entry))}" for entry in found)
    # The document has its own heading.
    return (
        "{\\renewcommand{\\section}[2]{}\n"
        f"\\begin{{thebibliography}}{{{len(found)}}}\\small\n{items}\n\\end{{thebibliography}}}}\n"
    )


def _indented(line: str) -> str:
    stripped = line.lstrip(" ")
    return "\u00a0" * (len(line) - len(stripped)) + stripped


def _evidence(block: Evidence, listed: frozenset[str]) -> str:
    lines = []
    for group in block.sets:
        label = _anchor(group.label)
        head = rf"\textbf{{{escaped(group.label)}}}}} {shown.runs(len(group.runs))}"
        lines.append(rf"\medskip\hypertarget{{{label}}}{{{head}\nopagebreak")
        lines += [rf"\code{{{escaped(statistic)}}}" for statistic in group.statistics]
        ids = (rf"\mbox{{{escaped(run)}}}" if len(run) <= LONGEST else escaped(run) for run in group.runs)
        linked = (rf"\hyperlink{{run-{_anchor(run)}}}{{{said}}}" if run in listed else said
                  for run, said in zip(group.runs, ids))  # fmt: skip
        lines.append(rf"\code{{{' '.join(linked)}}}" + "\n")
    # Two columns, a line broken wherever it must: names of runs are half as wide as a page.
    start = r"\begin{multicols*}{2}\small\setlength{\parskip}{.25em}\renewcommand{\codesize}{\scriptsize}"
    return "\n".join((start, *lines, r"\end{multicols*}", ""))


def _runs(block: RunList) -> str:
    cells = [shown.run_cells(run) for run in block.runs]
    shares = shown.measured([[head, *(row[at] for row in cells)] for at, head in enumerate(shown.RUN_HEADS)],
                            shown.RUN_NUMBERS)  # fmt: skip
    columns = [("R" if number else "L", share) for number, share in zip(shown.RUN_NUMBERS, shares)]
    rows = [
        [rf"\leavevmode\hypertarget{{run-{_anchor(run[0])}}}{{{escaped(run[0])}}}", *map(_cell, run[1:])]
        for run in cells
    ]
    return _tabular("", columns, [rf"\bfseries {head}" for head in shown.RUN_HEADS], rows)
