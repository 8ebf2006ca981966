"""Word: what python-docx has no words for: styles of ours, links and their targets, tables made fast."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING, Any
from xml.sax.saxutils import escape, quoteattr

from reports.render import shown

if TYPE_CHECKING:
    from docx.document import Document as Word

#: Pieces of a sentence: text, whether it is bold, and the bookmark it leads to ("": none).
Runs = Iterator[tuple[str, bool, str]]
Cell = Sequence[tuple[str, bool, str]]

_W = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
#: Width of the text, in twentieths of a point: A4 less its margins.
_TEXT = 9070
#: Lines of tables, in eighths of a point.
_LINE, _HAIR = 8, 2
#: Points beside the text of a cell; how wide a letter is, in ems; the smallest letters, in halves of a point.
_BESIDE, _WIDE, _LEAST = 6.0, 0.66, 11
_SANS, _MONO, _CHINESE = "Calibri", "Consolas", "Noto Sans CJK SC"


def styled() -> Word:
    """An empty document on A4, with the styles Lead, Verdict, Notes and Code beside Word's own."""
    import docx
    from docx.enum.style import WD_STYLE_TYPE
    from docx.shared import Mm, Pt, RGBColor

    word = docx.Document()
    section = word.sections[0]
    section.page_width, section.page_height = Mm(210), Mm(297)
    section.left_margin = section.right_margin = Mm(25)
    section.top_margin = section.bottom_margin = Mm(22)
    styles = word.styles
    made = {name: styles.add_style(name, WD_STYLE_TYPE.PARAGRAPH) for name in ("Lead", "Verdict", "Notes", "Code")}
    for style in made.values():
        style.base_style = styles["Normal"]
    sizes = {"Normal": 10.5, "Lead": 12.5, "Verdict": 10.5, "Notes": 8.5, "Code": 7, "Caption": 9}
    for name, size in sizes.items():
        styles[name].font.size = Pt(size)
    styles["Caption"].font.bold = False
    styles["Caption"].paragraph_format.space_before = Pt(8)
    styles["Caption"].paragraph_format.space_after = Pt(3)
    made["Notes"].font.color.rgb = RGBColor(0x56, 0x5D, 0x6B)
    styles["Caption"].font.color.rgb = RGBColor(0x56, 0x5D, 0x6B)
    for name in ("Normal", "Code"):
        _fonts(styles[name], _MONO if name == "Code" else _SANS)
    made["Verdict"].paragraph_format.left_indent = Mm(5)
    made["Notes"].paragraph_format.space_after = Pt(2)
    made["Code"].paragraph_format.space_after = Pt(4)
    made["Code"].paragraph_format.line_spacing = 1.0
    _page_number(section.footer.paragraphs[0])
    return word


def _fonts(style: Any, name: str) -> None:
    from docx.oxml.ns import qn

    style.font.name = name
    style.element.rPr.rFonts.set(qn("w:eastAsia"), _CHINESE)


def columns(word: Word, count: int) -> None:
    """What follows stands in so many columns, on the same page."""
    from docx.enum.section import WD_SECTION
    from docx.oxml.ns import qn

    section = word.add_section(WD_SECTION.CONTINUOUS)
    found = section._sectPr.find(qn("w:cols"))
    found.set(qn("w:num"), str(count))
    found.set(qn("w:space"), "360")


def _page_number(paragraph: Any) -> None:
    from docx.enum.text import WD_ALIGN_PARAGRAPH
    from docx.oxml import parse_xml

    paragraph.alignment = WD_ALIGN_PARAGRAPH.CENTER
    paragraph._p.append(parse_xml(f'<w:fldSimple xmlns:w="{_W}" w:instr="PAGE"><w:r><w:t>1</w:t></w:r></w:fldSimple>'))


def look(run: Any, color: str, *, bold: bool = False, mono: bool = False) -> None:
    """color: six hexadecimal digits."""
    from docx.shared import Pt, RGBColor

    run.font.color.rgb = RGBColor.from_string(color)
    run.bold = bold or None
    if mono:
        run.font.name, run.font.size = _MONO, Pt(8)


def hyperlink(paragraph: Any, text: str, bookmark: str) -> None:
    """A link within the document, at the end of a paragraph."""
    from docx.oxml import OxmlElement
    from docx.oxml.ns import qn

    link = OxmlElement("w:hyperlink")
    link.set(qn("w:anchor"), bookmark)
    run = paragraph.add_run(text)
    paragraph._p.remove(run._r)
    link.append(run._r)
    paragraph._p.append(link)


def target(paragraph: Any, bookmark: str, number: int) -> None:
    """The place that links to this bookmark lead to. number: its own in the document."""
    from docx.oxml import parse_xml

    properties = paragraph._p.pPr
    start, end = (parse_xml(text) for text in _bookmark(bookmark, number, f' xmlns:w="{_W}"'))
    paragraph._p.insert(0 if properties is None else 1, start)
    paragraph._p.append(end)


def _bookmark(name: str, number: int, space: str = "") -> tuple[str, str]:
    """Its two ends."""
    start = f'<w:bookmarkStart{space} w:id="{number}" w:name={quoteattr(name)}/>'
    return start, f'<w:bookmarkEnd{space} w:id="{number}"/>'


def add_table(
    word: Word,
    heads: Sequence[str],
    numbers: Sequence[bool],
    shares: Sequence[float],
    rows: Sequence[Sequence[Cell]],
    targets: Sequence[tuple[str, int]] = (),
) -> None:
    """A table whose head is repeated on each page. heads: with their units on a second line. numbers: which columns are
    aligned right. shares: of the width. targets: a bookmark for each row, and its number. Its letters are as small as
    its longest words need. Written as XML: python-docx takes seconds for a thousand rows."""
    from docx.oxml import parse_xml

    widths = [round(_TEXT * share) for share in shares]
    size = _size(heads, numbers, rows, widths)
    named = [head.partition("\n") for head in heads]
    told = [[(name, True, ""), (f"\n{unit}" if unit else "", False, "")] for name, _, unit in named]
    head = _row(told, numbers, widths, size, _LINE, head=True)
    body = [
        _row(row, numbers, widths, size, _LINE if index == len(rows) - 1 else _HAIR, mark=mark)
        for index, (row, mark) in enumerate(zip_longest(rows, targets[: len(rows)]))
    ]
    grid = "".join(f'<w:gridCol w:w="{width}"/>' for width in widths)
    text = (
        f'<w:tbl xmlns:w="{_W}"><w:tblPr><w:tblW w:w="{sum(widths)}" w:type="dxa"/><w:tblBorders>'
        f'<w:top w:val="single" w:sz="{_LINE}" w:space="0" w:color="000000"/></w:tblBorders>'
        '<w:tblLayout w:type="fixed"/><w:tblCellMar><w:left w:w="60" w:type="dxa"/><w:right w:w="60" w:type="dxa"/>'
        '</w:tblCellMar><w:tblLook w:firstRow="1" w:firstColumn="1"/></w:tblPr>'
        f"<w:tblGrid>{grid}</w:tblGrid>{head}{''.join(body)}</w:tbl>"
    )
    word.element.body.insert_element_before(parse_xml(text), "w:sectPr")


def _size(heads: Sequence[str], numbers: Sequence[bool], rows: Sequence[Sequence[Cell]], widths: Sequence[int]) -> int:
    """Of the letters, in halves of a point: at which the words of each column fit into it, whichever font stands in."""
    most = next((size for columns, size in ((5, 18), (8, 15), (10, 13)) if len(heads) <= columns), 12)
    columns = [[head, *("".join(text for text, *_ in row[at]) for row in rows)] for at, head in enumerate(heads)]
    fits = (
        2 * (width / 20 - _BESIDE) / (_WIDE * max(letters - shown.PAD, 1))
        for width, letters in zip(widths, shown.longest_words(columns, numbers))
    )
    return max(_LEAST, min(most, *(int(size) for size in fits)))


def _row(
    cells: Sequence[Cell],
    numbers: Sequence[bool],
    widths: Sequence[int],
    size: int,
    line: int,
    *,
    head: bool = False,
    mark: tuple[str, int] | None = None,
) -> str:
    properties = "<w:cantSplit/><w:tblHeader/>" if head else "<w:cantSplit/>"
    start, end = _bookmark(*mark) if mark else ("", "")
    told = []
    for index, (cell, number, width) in enumerate(zip(cells, numbers, widths)):
        align = "right" if number else "left"
        inner = "".join(_run(text, bold, to, size) for text, bold, to in cell)
        color = "000000" if line == _LINE else "C0C4CC"
        told.append(
            f'<w:tc><w:tcPr><w:tcW w:w="{width}" w:type="dxa"/><w:tcBorders>'
            f'<w:bottom w:val="single" w:sz="{line}" w:space="0" w:color="{color}"/></w:tcBorders>'
            f'<w:vAlign w:val="{"bottom" if head else "top"}"/></w:tcPr><w:p><w:pPr>'
            f'<w:spacing w:before="30" w:after="30"/><w:jc w:val="{align}"/></w:pPr>'
            f"{'' if index else start}{inner}{'' if index else end}</w:p></w:tc>"
        )
    return f"<w:tr><w:trPr>{properties}</w:trPr>{''.join(told)}</w:tr>"


def _run(text: str, bold: bool, to: str, size: int) -> str:
    lines = "<w:br/>".join(
        "<w:tab/>".join(f'<w:t xml:space="preserve">{escape(piece)}</w:t>' for piece in line.split("\t"))
        for line in text.split("\n")
    )
    run = f'<w:r><w:rPr>{"<w:b/>" if bold else ""}<w:sz w:val="{size}"/></w:rPr>{lines}</w:r>'
    return f"<w:hyperlink w:anchor={quoteattr(to)}>{run}</w:hyperlink>" if to else run
