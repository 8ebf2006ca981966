"""Cells: the rows of a CSV file, and what a cell of one says: a number, a time, a word."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

from algos.finding import InputError


def table(path: Path, may_be_empty: bool = False) -> tuple[list[str], list[tuple[int, list[str]]]]:
    """The header of a CSV file and its rows with their lines. InputError for what is none, and for one without rows
    unless it may be empty."""
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror})", "give a CSV file", rule="no-source") from None
    except UnicodeDecodeError as error:
        said = f"{path.name} is not a CSV file in UTF-8 (byte {error.start})"
        raise InputError(said, "save it as CSV in UTF-8", rule="wrong-kind") from None
    first = text.partition("\n")[0]
    if not text.strip() or "\0" in first:
        raise InputError(
            f"{path.name} is {'no CSV file' if text.strip() else 'empty'}",
            "give a table with a header",
            rule="empty-source",
        )
    delimiter = max(",;\t", key=first.count)
    lines = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    header = [name.strip() for name in next(lines)]
    twice = next((name for name in header if header.count(name) > 1), None)
    if twice is not None or len(header) < 2:
        said = f"two columns are called '{twice}'" if twice is not None else "there is one column only"
        raise InputError(said, "give a table whose first line names its columns", rule="wrong-kind", source=path.name)
    rows = list(_rows(lines, len(header), path.name))
    if not rows and not may_be_empty:
        raise InputError(f"{path.name} has a header and no rows", "give a table with results", rule="empty-source")
    return header, rows


def _rows(lines: Iterator[list[str]], width: int, source: str) -> Iterator[tuple[int, list[str]]]:
    reader: csv.Reader = lines  # type: ignore[assignment,name-defined,unused-ignore]
    try:
        for row in lines:
            if not any(cell.strip() for cell in row):
                continue
            if len(row) != width:
                said = f"line {reader.line_num}: {len(row)} cells, but the header has {width}"
                raise InputError(
                    said, "mend that line; a cell with a comma is quoted", rule="broken-cells", source=source
                )
            yield reader.line_num, row
    except csv.Error as error:
        raise InputError(
            f"line {reader.line_num}: {error}", "mend that line", rule="broken-cells", source=source
        ) from None


def plain(text: str) -> bool | int | float | str:
    """A cell as what it says; a whole number to its last digit.

    >>> plain("true"), plain("18446744073709551615"), plain("1e-4"), plain("adamw"), plain("nan")
    (True, 18446744073709551615, 0.0001, 'adamw', 'nan')
    """
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    if re.fullmatch(r"[+-]?\d{1,40}", text) and not re.fullmatch(r"[+-]?0\d+", text):
        return int(text)
    value = number(text)
    return text if value is None or not math.isfinite(value) or re.fullmatch(r"[+-]?0\d+", text) else value


def number(text: str) -> float | None:
    """The number that a cell holds, nan and inf too; None where it holds none."""
    try:
        return float(text) if "_" not in text else None
    except ValueError:
        return None


def milliseconds(text: str) -> int | None:
    """A time as milliseconds since 1970: of seconds, of milliseconds, or of an ISO date, whose zone is UTC where it
    says none.

    >>> [milliseconds(text) for text in ("1700000000", "1700000000000", "2023-11-14T22:13:20", "soon")]
    [1700000000000, 1700000000000, 1700000000000, None]
    """
    value = number(text)
    if value is not None and math.isfinite(value) and value >= 0:
        return round(value if value > 1e11 else value * 1000)
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return round((found if found.tzinfo else datetime.fromisoformat(f"{text}+00:00")).timestamp() * 1000)
