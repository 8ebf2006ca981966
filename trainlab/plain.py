"""Plain text and JSON for a terminal or a pipe: aligned columns, one record a line."""

from __future__ import annotations

import json
import math
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
