"""Half lines: what a kill in mid-write left in a spool, taken out of it.

Readers skip half a line. What is glued to one, a whole line behind it, is saved. How far MLflow was told is counted in
bytes of the spool, and is moved with them.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from experiments.store import mirrored, records, spool
from experiments.store.checks.visit import Visit, owned
from experiments.store.home import RunFolder
from experiments.store.mirrored import Mirrored

_START = b'{"kind":'


@dataclass(frozen=True)
class Cleaned:
    """A spool without its half lines. cut: (where, how many bytes) of what was taken out. saved_at: where the
    first line stands that a whole one was glued to, counted in the old file; None where there is none."""

    data: bytes
    cut: tuple[tuple[int, int], ...]
    saved_at: int | None

    def moved(self, offset: int) -> int:
        """Where a place of the old file is in the new one."""
        before = offset if self.saved_at is None else min(offset, self.saved_at)
        return before - sum(min(length, before - at) for at, length in self.cut if at < before)


def check(visit: Visit) -> None:
    for folder in visit.idle():
        for number, path in spool.spools(folder.path):
            found = cleaned(path.read_bytes())
            if found.cut:
                count = len(found.cut)
                said = f"{path.name} holds {count} half line{'s' if count > 1 else ''}, which a kill in mid-write left"
                visit.mend("half-line", f"run {folder.run_id}", said, "taken out", partial(_mend, folder, number))


def cleaned(data: bytes) -> Cleaned:
    """
    >>> cleaned(b'{"kind":"a"}\\n{"kin{"kind":"b"}\\n{"ki').data
    b'{"kind":"a"}\\n{"kind":"b"}\\n'
    """
    kept: list[bytes] = []
    cut: list[tuple[int, int]] = []
    saved_at, at = None, 0
    for line in data.splitlines(keepends=True):
        whole = line.endswith(b"\n")
        start = 0 if whole and (_is_line(line) or not line.strip()) else _glued(line) if whole else len(line)
        if start:
            cut.append((at, start))
        if 0 < start < len(line):
            saved_at = at if saved_at is None else saved_at
        kept.append(line[start:])
        at += len(line)
    return Cleaned(b"".join(kept), tuple(cut), saved_at)


def _glued(line: bytes) -> int:
    """Where in a broken line a whole one begins; its length where none does."""
    start = line.find(_START, 1)
    while start != -1:
        if _is_line(line[start:]):
            return start
        start = line.find(_START, start + 1)
    return len(line)


def _is_line(line: bytes) -> bool:
    return any(True for _ in spool.parse(line))


def _mend(folder: RunFolder, number: int) -> None:
    with owned(folder.path):
        path = folder.path / f"spool.{number}.jsonl"
        size = path.stat().st_size
        found = cleaned(path.read_bytes())
        _replace(path, found.data)
        parts = {key: _moved(part, str(number), size, found) for key, part in mirrored.parts(folder.path).items()}
        if parts:
            mirrored.save_parts(folder.path, parts)
        (folder.path / "record.json").unlink(missing_ok=True)
        folder.record()


def _moved(part: Mirrored, number: str, size: int, found: Cleaned) -> Mirrored:
    offsets = {key: found.moved(at) if key == number else at for key, at in part.offsets.items()}
    same = part.settled.get(number) == size and found.saved_at is None
    settled = {**part.settled, number: len(found.data)} if same else {}
    return replace(part, offsets=offsets, settled=settled)


def _replace(path: Path, data: bytes) -> None:
    """Whole or not at all."""
    temporary = path.with_name(records.temporary_name(path.name))
    try:
        with temporary.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
