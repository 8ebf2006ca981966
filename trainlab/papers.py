"""Papers: what a BibTeX entry is called in a listing."""

from __future__ import annotations

import re

_FIELD = r"\b{name}\s*=\s*(?:\{{((?:[^{{}}]|\{{[^{{}}]*\}})*)\}}|\"([^\"]*)\"|(\d+))"


def short(bibtex: str) -> str:
    """Authors and year of the first entry; "" where it says neither.

    >>> short("@misc{jordan2024muon, author = {Jordan, Keller and Jin, Yuchen and You, Jiacheng}, year = {2024}}")
    'Jordan et al. 2024'
    >>> short('@book{nocedal, author = "Jorge Nocedal and Stephen J. Wright", year = 2006}')
    'Nocedal & Wright 2006'
    """
    first = re.split(r"\n@", bibtex.strip(), maxsplit=1)[0]
    names = [_surname(name) for name in re.split(r"\s+and\s+", _field(first, "author")) if name.strip()]
    who = f"{names[0]} et al." if len(names) > 2 else " & ".join(names)
    return " ".join(part for part in (who, _field(first, "year")) if part)


def _field(entry: str, name: str) -> str:
    found = re.search(_FIELD.format(name=name), entry, re.IGNORECASE)
    return " ".join(next((part for part in found.groups() if part is not None), "").split()) if found else ""


def _surname(name: str) -> str:
    """`Last, First` or `First Last`, without LaTeX's braces and accents."""
    plain = re.sub(r"\\[\"'`^~=.]|\\[a-zA-Z]+\s?|[{}]", "", name).strip()
    return plain.partition(",")[0] if "," in plain else plain.rpartition(" ")[2]
