"""Expression: whether a number in a sentence is a part of something else, so that its digits are not what is said:
1/0.62, 1 − 0.62, 0.62 × 10^3, 0.62², 0.62 million, log 0.62, not 0.62, a range 0.6–0.62.

Marks that stand around numbers without changing them are none: **0.62**, $0.62$, (0.62), 0.62x."""

from __future__ import annotations

import re

#: A number of its own, as the first operand is; not the digits of a name.
_OPERAND = r"(?<![\w.\-])[\d.,]*\d\s*(?:\\?%)?[)\]}]*"
_OPEN = r"[\s$({\[]*"
_BEFORE = re.compile(
    rf"(?:{_OPERAND}\s*[/*÷·×x^−+-]{_OPEN}"  # 1/, 10^{, 1 −
    rf"|{_OPERAND}–"  # a range; with spaces around it, a dash
    rf"|[^\s\d]\^{_OPEN}"
    rf"|\\frac\{{[^{{}}]*\}}\{{\s*|\\frac\{{\s*"
    rf"|(?:√|\b(?:sqrt|log|ln|lg|exp)(?:_?\{{?\d*\}}?)){_OPEN}"
    rf"|(?:≠|!=|\\neq?\b){_OPEN}"
    rf"|(?:\b(?:not|never|cannot)|n['’]t)\s+(?:be\s+|\*+)?{_OPEN})$",
    re.IGNORECASE,
)
_NAMED = r"thousands?|[mbtr]+illions?|hundreds?|dozens?|per\s?mille|promille|basis points?|orders? of magnitude"
_AFTER = re.compile(
    rf"[\s$)\]}}]*(?:"
    rf"[/÷^]\s*[\d({{\\]"
    rf"|\*{{1,2}}\s*\d"
    rf"|[×·]\s*[\d(]|\s[xX]\s*\d|[xX]\d|[xX]\s*10\s*(?:\^|\*\*|[⁻⁺⁰¹²³⁴-⁹])"
    rf"|\\(?:times|cdot)\s*[\d({{]"
    rf"|[−+-]\s?\d|–\d"
    rf"|[⁻⁺⁰¹²³⁴-⁹‰‱]"
    rf"|(?:(?-i:[kKMGB])|bn|bps?|ppm|{_NAMED})\b"
    rf")",
    re.IGNORECASE,
)


def part(before: str, after: str) -> str:
    """What makes a number a part of something else, of the text before and after it; "" where it stands alone.

    >>> part("needs 1/", " of them"), part("in **", "**x of them"), part("", " × 10^3 updates")
    ('1/', '', '× 10^3')
    """
    if found := _BEFORE.search(before):
        return found[0].strip()
    return _word(after) if _AFTER.match(after) else ""


def _word(after: str) -> str:
    """The beginning of what follows, as much as tells it."""
    return " ".join(after.split()[:2])
