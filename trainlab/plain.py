"""Plain text and JSON for a terminal or a pipe: aligned columns, one record a line."""

from __future__ import annotations

import json
import math
import shutil
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any


def columns(rows: Sequence[Sequence[Any]], head: Sequence[str] = ()) -> str:
    """Rows as aligned columns, numbers to the right; the last column is not padded.

    >>> print(columns([("muon", 0.02), ("adamw", 0.001)], head=("name", "lr")))
    name      lr
    muon    0.02
    adamw  0.001
    """
    texts = [[text(value) for value in row] for row in rows]
    table = [list(head), *texts] if head else texts
    if not table:
        return ""
    right = [bool(rows) and all(_numeric(row[place]) for row in rows) for place in range(len(table[0]))]
    widths = [max(len(row[place]) for row in table) for place in range(len(table[0]))]
    lines = []
    for row in table:
        cells = [cell.rjust(width) if end else cell.ljust(width) for cell, width, end in zip(row, widths, right)]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def wrapped(rows: Sequence[Sequence[str]], head: Sequence[str], width: int) -> str:
    """Texts as aligned columns that together take `width`, or as little above it as their longest words allow: the
    widest columns give way, and what does not fit goes on below, in its own column.

    >>> print(wrapped([("lion", "one buffer per weight"), ("sgd", "none")], ("name", "state"), 18))
    name  state
    lion  one buffer
          per weight
    sgd   none
    """
    table = [list(head), *rows]
    widths = [max(len(row[place]) for row in table) for place in range(len(head))]
    least = [max(len(word) for row in table for word in row[place].split() or [""]) for place in range(len(head))]
    while sum(widths) + 2 * (len(head) - 1) > width:
        giving = [place for place in range(len(head)) if widths[place] > least[place]]
        if not giving:
            break
        widths[max(giving, key=widths.__getitem__)] -= 1
    lines = []
    for row in table:
        cells = [textwrap.wrap(cell, size, break_on_hyphens=False) for cell, size in zip(row, widths)]
        for line in range(max(1, *map(len, cells))):
            texts = [cell[line] if line < len(cell) else "" for cell in cells]
            lines.append("  ".join(each.ljust(size) for each, size in zip(texts, widths)).rstrip())
    return "\n".join(lines)


def screen_width() -> int:
    """Characters a line: COLUMNS, else the terminal's, else (a file, a pipe) 160."""
    return shutil.get_terminal_size((160, 24)).columns


def _numeric(value: Any) -> bool:
    return value is None or (isinstance(value, (int, float)) and not isinstance(value, bool))


def text(value: Any) -> str:
    """A value for people: four significant digits, nothing for None.

    >>> text(0.123456), text(600), text((0.9, 0.95)), text(None)
    ('0.1235', '600', '0.9/0.95', '')
    """
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, (list, tuple)):
        return "/".join(text(part) for part in value)
    return str(value)


def duration(seconds: float) -> str:
    """Seconds for people.

    >>> duration(3.24), duration(75), duration(3700)
    ('3.2 s', '1:15', '1:01:40')
    """
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def as_json(data: Any) -> str:
    """JSON that every reader takes: what is not finite is null.

    >>> as_json({"loss": float("nan")})
    '{\\n  "loss": null\\n}'
    """
    return json.dumps(_finite(data), indent=2, default=str, allow_nan=False)


def _finite(data: Any) -> Any:
    if isinstance(data, Mapping):
        return {str(key): _finite(value) for key, value in data.items()}
    if isinstance(data, (list, tuple)):
        return [_finite(value) for value in data]
    return None if isinstance(data, float) and not math.isfinite(data) else data
