"""BibTeX: entries as they are written, and as a reader reads them. For lists of references; nothing is executed."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass

_ACCENTS = {
    '"': "\u0308", "'": "\u0301", "`": "\u0300", "^": "\u0302", "~": "\u0303", "=": "\u0304", ".": "\u0307",
    "v": "\u030c", "c": "\u0327", "u": "\u0306", "H": "\u030b", "k": "\u0328", "r": "\u030a",
}  # fmt: skip
_LETTERS = {
    "ss": "ß", "o": "ø", "O": "Ø", "l": "ł", "L": "Ł", "ae": "æ", "AE": "Æ", "oe": "œ", "OE": "Œ", "aa": "å",
    "AA": "Å", "i": "i", "j": "j",
}  # fmt: skip
#: Where an entry may say that it appeared, the first that it has.
_VENUES = ("journal", "booktitle", "howpublished", "publisher", "school", "institution", "archiveprefix")


@dataclass(frozen=True)
class Entry:
    """kind: "article". key: what it is cited by. fields: in lower case -> text without BibTeX's braces. text: all as it
    was written."""

    kind: str
    key: str
    fields: dict[str, str]
    text: str

    def __str__(self) -> str:
        """Authors. Title. Venue, year. Where; or the text itself where it has neither author nor title."""
        authors = re.sub(r"\s+and\s+", "; ", self.fields.get("author", ""))
        venue = next((self.fields[name] for name in _VENUES if self.fields.get(name)), "")
        place = ", ".join(part for part in (venue, self.fields.get("year", "")) if part)
        where = self.fields.get("url") or self.fields.get("doi") or self.fields.get("eprint") or ""
        pieces = [piece.rstrip(".") for piece in (authors, self.fields.get("title", ""), place, where) if piece]
        return ". ".join(pieces) + "." if authors or self.fields.get("title") else self.text


def entries(text: str) -> list[Entry]:
    """The entries of a BibTeX text, in order. What is no entry is left out.

    >>> [str(entry) for entry in entries('@misc{k, author={G{\\\\"o}del, Kurt and Noether, Emmy}, title="On {X}", year=1931}')]
    ['Gödel, Kurt; Noether, Emmy. On X. 1931.']
    """  # noqa: E501
    found = []
    for match in re.finditer(r"@(\w+)\s*\{\s*([^,\s}]*)\s*,?", text):
        end = _closing(text, text.index("{", match.start()))
        if end is not None:
            fields = _fields(text[match.end() : end])
            found.append(Entry(match[1].lower(), match[2], fields, text[match.start() : end + 1]))
    return found


def _closing(text: str, start: int) -> int | None:
    """Where the brace at `start` is closed; None where it is not."""
    depth = 0
    for index in range(start, len(text)):
        if text[index] in "{}" and text[index - 1] != "\\":
            depth += 1 if text[index] == "{" else -1
            if depth == 0:
                return index
    return None


def _fields(text: str) -> dict[str, str]:
    found: dict[str, str] = {}
    index = 0
    while (match := re.compile(r"\s*,?\s*([\w-]+)\s*=\s*").match(text, index)) is not None:
        start = match.end()
        if text[start : start + 1] == "{":
            end = _closing(text, start)
            value, index = (text[start + 1 :], len(text)) if end is None else (text[start + 1 : end], end + 1)
        elif text[start : start + 1] == '"':
            quoted = re.compile(r'"((?:[^"{}]|\{[^{}]*\})*)"').match(text, start)
            value, index = (text[start:], len(text)) if quoted is None else (quoted[1], quoted.end())
        else:
            bare = re.compile(r"[^,\s]*").match(text, start)
            assert bare is not None
            value, index = bare[0], bare.end()
        found.setdefault(match[1].lower(), plain(value))
    return found


def plain(value: str) -> str:
    r"""A field without TeX: accents as letters, no braces. With other commands in it, they stay, and the braces.

    >>> plain(r"{\'E}cole, {SGD} \& \v{S}i, Erd{\H{o}}s"), plain(r"{\"u} \input{x}")
    ('École, SGD & Ši, Erdős', '{ü} \\input{x}')
    """
    text = re.sub(r"""\\(?:(["'`^~=.])|([vcuHkr])(?=[\s{]))\s*(?:\{\\?(\w)\}|\\?(\w))""", _accented, value)
    text = re.sub(r"\\(ss|o|O|l|L|ae|AE|oe|OE|aa|AA|i|j)(?![A-Za-z])(\{\}|\s)?", lambda m: _LETTERS[m[1]], text)
    text = re.sub(r"\\([&%$#_])", r"\1", text)
    text = text if re.search(r"\\[A-Za-z]", text) else re.sub(r"[{}]", "", text)
    return " ".join(unicodedata.normalize("NFC", text).replace("--", "–").split())


def _accented(match: re.Match[str]) -> str:
    accent, letter = match[1] or match[2], match[3] or match[4]
    return unicodedata.normalize("NFC", letter + _ACCENTS[accent])
