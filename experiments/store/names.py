"""Names: metric and parameter names as MLflow accepts them, and back.

MLflow takes letters, digits and `_ - . / : space`, at most 250 characters, and no name that a file system would read as
another (`a//b`, `../a`). Names that are fine stay as they are. Other characters become `_x<code point in hex>_`, as in
`mean_x40_1`; an underscore that would make an innocent name look so is written `_x5F_` itself. What is then still too
long is cut and ends in a hash, `_xL<16 digits>_`; who needs it back keeps a table of those, as the mirror does.

>>> encode("val/accuracy"), encode("mean@1"), decode("mean_x40_1")
('val/accuracy', 'mean_x40_1', 'mean@1')
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping

_MOST = 250
#: The length of a name that was cut.
CUT = _MOST
_FINE = re.compile(r"[/\w.\- :]")
_ESCAPE = re.compile(r"_x(?:([0-9A-F]{2,6})|(L[0-9a-f]{16})|(NONE))_")
_EMPTY = "_xNONE_"


def encode(name: str) -> str:
    """The name as MLflow accepts it; different names never meet."""
    if not name:
        return _EMPTY
    tokens = [char if _FINE.fullmatch(char) else _escape(char) for char in name]
    for index in _misread(name):
        tokens[index] = _escape(name[index])
    text = "".join(tokens)
    position = 0
    for index, token in enumerate(tokens):
        if token == "_" and _ESCAPE.match(text, position):
            tokens[index] = _escape("_")
        position += len(token)
    encoded = "".join(tokens)
    if len(encoded) <= _MOST:
        return encoded
    tail = f"_xL{hashlib.sha256(name.encode(errors='surrogatepass')).hexdigest()[:16]}_"
    return encoded[: _MOST - len(tail)] + tail


def decode(encoded: str, cut: Mapping[str, str] | None = None) -> str:
    """The name that was encoded. cut: the table of those that were cut, from what they became to what they were."""
    if cut and encoded in cut:
        return cut[encoded]
    return (
        ""
        if encoded == _EMPTY
        else _ESCAPE.sub(lambda match: chr(int(match[1], 16)) if match[1] else match[0], encoded)
    )


def is_cut(encoded: str) -> bool:
    """Whether the name was too long, so that `decode` needs the table.

    >>> is_cut(encode("a" * 251)), is_cut(encode("a" * 250))
    (True, False)
    """
    return re.search(r"_xL[0-9a-f]{16}_$", encoded) is not None


def _escape(char: str) -> str:
    return f"_x{ord(char):02X}_"


def _misread(name: str) -> list[int]:
    """Where a file system would read the name as another: slashes at the ends or in a row, and dots alone."""
    places = []
    start = 0
    for part in name.split("/"):
        if not part:
            places.append(start if start < len(name) else start - 1)
        elif part in (".", "..") or (start == 0 and part.startswith("..")):
            places.append(start)
        start += len(part) + 1
    return places
