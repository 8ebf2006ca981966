"""Values as text and back: what `key=value` on a command line can hold. Torch-free.

    1, -3              whole numbers          true, false, none
    1e-4, .5, inf      numbers                0.9/0.95             a tuple of numbers
    adamw, run:17      text                   "1e-4"               text in quotes is text, whatever it looks like
    ["a", "b"]         any list, as JSON      {"depth": 2}         any mapping, as JSON

`parse_value(print_value(x))` is x, and `print_value` quotes only where it must.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any

from algos.finding import InputError

_WHOLE = re.compile(r"[+-]?[0-9]+")
_REAL = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?|[+-]?inf")
_WORDS = {"true": True, "false": False, "none": None}
_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*"|[^,"][^,]*|(?=,)|$')


def parse_value(text: str, place: str = "") -> Any:
    """
    >>> [parse_value(text) for text in ("1e-4", "2", "0.9/0.95", "true", "none", "muon", '"2"')]
    [0.0001, 2, (0.9, 0.95), True, None, 'muon', '2']
    """
    if text.startswith('"'):
        return _unquoted(text, place)
    if text in _WORDS:
        return _WORDS[text]
    if text[:1] in ("[", "{"):
        return _structure(text)
    number = _number(text)
    if number is not None:
        return number
    parts = [_number(part) for part in text.split("/")]
    return tuple(parts) if len(parts) > 1 and None not in parts else text


def print_value(value: Any) -> str:
    """The text that `parse_value` reads as this value."""
    if value is None or isinstance(value, bool):
        return {None: "none", True: "true", False: "false"}[value]
    if isinstance(value, (int, float)):
        assert not math.isnan(value), "nan is not a value of a config"
        return repr(value)
    if isinstance(value, (list, tuple)) and len(value) > 1 and all(map(_is_number, value)):
        return "/".join(print_value(part) for part in value)
    if isinstance(value, (list, tuple, Mapping)):
        return json.dumps(value, ensure_ascii=False, default=dict)
    text = str(value)
    bare = not any(mark in text for mark in ',"') and isinstance(parse_value(text), str)
    return text if bare else json.dumps(text, ensure_ascii=False)


def split_values(text: str, place: str = "") -> list[str]:
    """The pieces between commas; a comma in quotes does not split.

    >>> split_values('1,"a,b",3')
    ['1', '"a,b"', '3']
    """
    pieces, position = [], 0
    while True:
        match = _structured(text, position) or _QUOTED.match(text, position)
        if match is None or (match.end() < len(text) and text[match.end()] != ","):
            raise InputError(f"{text} has a quote that does not close", "close it, or leave it out", place=place)
        pieces.append(match[0])
        if match.end() == len(text):
            return pieces
        position = match.end() + 1


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _structured(text: str, position: int) -> re.Match[str] | None:
    """The list or mapping in JSON at a position, commas and all, if it ends where a value may end."""
    if text[position : position + 1] not in ("[", "{"):
        return None
    try:
        _, end = json.JSONDecoder().raw_decode(text, position)
    except json.JSONDecodeError:
        return None
    return re.compile(r".*", re.DOTALL).match(text, position, end) if text[end : end + 1] in ("", ",") else None


def _structure(text: str) -> Any:
    try:
        return _tuples(json.loads(text))
    except json.JSONDecodeError:
        return text


def _tuples(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _tuples(inner) for key, inner in value.items()}
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


def _number(text: str) -> int | float | None:
    if _WHOLE.fullmatch(text):
        return int(text)
    return float(text) if _REAL.fullmatch(text) else None


def _unquoted(text: str, place: str) -> str:
    try:
        value = json.loads(text, strict=False)
    except json.JSONDecodeError:
        value = None
    if not isinstance(value, str):
        raise InputError(f"{text} is not text in quotes", 'give "text", with \\" for a quote inside', place=place)
    return value
