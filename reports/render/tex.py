"""TeX: text as TeX shows it, letter for letter: nothing of it is a command, and no two letters become a third."""

from __future__ import annotations

import re
import unicodedata

from reports.render.shown import visible

_SPECIAL = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "#": r"\#", "%": r"\%", "_": r"\_",
    "^": r"\textasciicircum{}", "~": r"\textasciitilde{}", "<": r"\textless{}", ">": r"\textgreater{}",
    "|": r"\textbar{}", '"': r"\textquotedbl{}", "'": r"\textquotesingle{}", "`": r"\textasciigrave{}",
    "\t": r"\quad{}", "\u00a0": "~",
}  # fmt: skip
#: What pdflatex and xelatex both have, though their text fonts may not.
_SYMBOLS = {
    "−": r"\ensuremath{-}", "×": r"\texttimes{}", "±": r"\textpm{}", "·": r"\textperiodcentered{}", "÷": r"\textdiv{}",
    "…": r"\textellipsis{}", "–": r"\textendash{}", "—": r"\textemdash{}", "“": r"\textquotedblleft{}",
    "”": r"\textquotedblright{}", "‘": r"\textquoteleft{}", "’": r"\textquoteright{}", "•": r"\textbullet{}",
    "°": r"\textdegree{}", "µ": r"\textmu{}", "€": r"\texteuro{}", "£": r"\textsterling{}", "©": r"\textcopyright{}",
    "®": r"\textregistered{}", "™": r"\texttrademark{}", "§": r"\S{}", "¶": r"\P{}", "†": r"\textdagger{}",
    "≤": r"\ensuremath{\leq}", "≥": r"\ensuremath{\geq}", "≈": r"\ensuremath{\approx}", "≠": r"\ensuremath{\neq}",
    "∞": r"\ensuremath{\infty}", "→": r"\ensuremath{\rightarrow}", "←": r"\ensuremath{\leftarrow}",
    "↑": r"\ensuremath{\uparrow}", "↓": r"\ensuremath{\downarrow}", "√": r"\ensuremath{\surd}",
    "∑": r"\ensuremath{\sum}", "∂": r"\ensuremath{\partial}", "∇": r"\ensuremath{\nabla}", "∈": r"\ensuremath{\in}",
    "⟨": r"\ensuremath{\langle}", "⟩": r"\ensuremath{\rangle}", "¬": r"\textlnot{}", "¹": r"\textonesuperior{}",
    "²": r"\texttwosuperior{}", "³": r"\textthreesuperior{}",
}  # fmt: skip
_GREEK = "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi . pi rho . sigma tau upsilon phi chi psi omega"  # noqa: E501
_GREEK_CAPITALS = "Gamma Delta Theta Lambda Xi Pi Sigma Upsilon Phi Psi Omega"
for _index, _name in enumerate(_GREEK.split()):
    if _name != ".":
        _SYMBOLS[chr(0x3B1 + _index)] = rf"\ensuremath{{\{_name}}}"
for _name in _GREEK_CAPITALS.split():
    _SYMBOLS[unicodedata.lookup(f"GREEK CAPITAL LETTER {'LAMDA' if _name == 'Lambda' else _name.upper()}")] = (
        rf"\ensuremath{{\{_name}}}"
    )
#: Latin letters that the fonts of pdflatex lack.
_NOT_IN_T1 = "¸ĦħĸĿŀŉŦŧſ"
#: Words longer than this may be broken between any two of their letters: on a line, and in a table.
LONGEST, LONGEST_IN_TABLE = 30, 18


def escaped(text: str, newline: str = "\\newline{}", longest: int = LONGEST) -> str:
    r"""The text for TeX. newline: what a new line becomes. longest: how long words are kept whole.

    >>> escaped(r"\input{x} a_b 50 % C:--d")
    '\\textbackslash{}input\\{x\\} a\\_b 50 \\% C:-{}-d'
    >>> escaped("学习率 🚀")
    '\\cjk{学习率} \\other{1F680}{🚀}'
    """
    return newline.join(_line(line, longest) for line in visible(text).split("\n"))


def _line(text: str, longest: int) -> str:
    pieces = re.split(r"( +)", text)
    return "".join(
        _spaces(piece) if piece.startswith(" ") else _word(piece, len(piece) > longest) for piece in pieces if piece
    )


def _spaces(piece: str) -> str:
    """Spaces of which TeX leaves none out."""
    return piece if len(piece) == 1 else r"\ " * len(piece)


def _word(word: str, long: bool) -> str:
    found: list[str] = []
    index = 0
    while index < len(word):
        end = index
        while end < len(word) and _chinese(word[end]):
            end += 1
        if end > index:
            found.append(rf"\cjk{{{word[index:end]}}}")
            index = end
            continue
        found.append(_char(word[index], word[index + 1 : index + 2]))
        index += 1
    return r"\brk{}".join(found) if long else "".join(found)


def _char(char: str, following: str) -> str:
    if char in _SPECIAL:
        return _SPECIAL[char]
    if char in "-," and following == char:
        return f"{char}{{}}"  # else two become a dash, or a quotation mark
    if char in _SYMBOLS:
        return _SYMBOLS[char]
    if ord(char) < 0x180 and char not in _NOT_IN_T1:
        return char
    return rf"\other{{{ord(char):04X}}}{{{char}}}"


def _chinese(char: str) -> bool:
    """Also Japanese and Korean, and their punctuation."""
    return ord(char) >= 0x1100 and unicodedata.east_asian_width(char) in "WF" and unicodedata.category(char) != "So"
