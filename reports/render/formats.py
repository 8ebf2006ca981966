"""Formats: what a document can be written as. Each is a module of this folder that declares its file (FILE), the
packages that it needs beyond our own (NEEDS), and `files(document, pictures)`: file name -> content."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from algos.finding import InputError, unknown
from reports.document import Document

FORMATS = ("html", "pdf", "latex", "markdown", "docx", "notebook")


@dataclass(frozen=True)
class Format:
    """file: the name of its main file. files: all of them, of a document and the SVG of its pictures by their names."""

    name: str
    file: str
    files: Callable[[Document, Mapping[str, bytes]], dict[str, bytes]]


def chosen(names: Iterable[str]) -> list[Format]:
    """The formats with these names, each once, in their order. InputError where there is none of that name, where its
    packages are not installed, and where none is given."""
    wanted = list(dict.fromkeys(name.strip().lower() for name in names if name.strip()))
    if not wanted:
        raise InputError("no format is given", f"give one or more of {', '.join(FORMATS)}", place="format")
    return [_loaded(name) for name in wanted]


def main_files() -> list[str]:
    """The main file of every format, whether or not its packages are installed."""
    return [importlib.import_module(f"reports.render.{name}").FILE for name in FORMATS]


def _loaded(name: str) -> Format:
    if name not in FORMATS:
        raise unknown("format", name, FORMATS, place="format")
    module = importlib.import_module(f"reports.render.{name}")
    missing = [package for package in module.NEEDS if importlib.util.find_spec(package) is None]
    if missing:
        raise InputError(
            f"the format {name!r} needs {' and '.join(missing)}, which {'is' if len(missing) == 1 else 'are'} not "
            "installed",
            "pip install 'trainlab[documents]'",
            rule="missing-extra",
            place="format",
        )
    return Format(name, module.FILE, module.files)
