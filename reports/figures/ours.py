"""Ours: whether a file that lies where a figure is to be written is one of trainlab's, so that it may be replaced. A
user's own results.csv beside results.pdf may not, nor a picture that was edited by hand."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from algos.finding import InputError

#: What we write into each kind of picture of who made it.
_MARKS = {
    ".pdf": (b"/Creator (trainlab",),
    ".svg": (b"<dc:title>trainlab",),
    ".png": (b"tEXtSoftware\0trainlab", b"iTXtSoftware\0\0\0\0\0trainlab"),
    ".pgf": (b"% Made by trainlab",),
}


def check_ours(files: Mapping[str, bytes], folder: Path) -> None:
    """InputError where writing these files would lose one that we did not write. Data are ours where a picture beside
    them is, or where they have the same columns."""
    pictures = [path for path in folder.glob("*") if path.suffix in _MARKS] if folder.is_dir() else []
    stems = {path.stem for path in pictures if _marked(path)}
    for name, content in files.items():
        path = folder / name
        try:
            there = path.read_bytes()
        except OSError:
            continue  # none, or none that can be read: writing says so
        if there == content or _marked(path, there):
            continue
        same_columns = there.split(b"\n", 1)[0].strip() == content.split(b"\n", 1)[0].strip()
        beside = any(path.stem == stem or path.stem.startswith(f"{stem}-") for stem in stems)
        if path.suffix == ".csv" and (same_columns or beside):
            continue
        said = f"{path} is there, and trainlab did not write it"
        raise InputError(said, "give another name or folder, or move it away", rule="would-overwrite", place="out")


def _marked(path: Path, content: bytes | None = None) -> bool:
    try:
        found = path.read_bytes() if content is None else content
    except OSError:
        return False
    return any(mark in found for mark in _MARKS.get(path.suffix, ()))
