"""Writing: a study's report, or any document, as files. What the command line calls.

A folder may hold more than we wrote: a paper of that name, a notebook that somebody went on from. What was written is
kept in a list beside it (.written.json: name -> sha256), and nothing else is written over."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from algos.finding import InputError
from experiments.store.records import write_whole
from experiments.store.sources import Source
from reports.document import Document
from reports.interrupts import heard, uninterrupted
from reports.judged import Stated
from reports.render.booktabs import TABLES
from reports.render.formats import Format, chosen, main_files
from reports.render.latex import BIBLIOGRAPHY
from reports.report import build
from reports.table import read
from reports.verifying.prints import based

DATA, FIGURES, WRITTEN = "report.json", "figures", ".written.json"


def write(
    source: Source,
    study: str,
    out: Path,
    question: str = "",
    stated: Stated | None = None,
    formats: Sequence[str] = ("html",),
) -> Path:
    """Write a study's report into `out`: report.json, figures/*.pdf, .svg and .csv, and a file for each of the formats
    (`reports.render.formats.FORMATS`); return the path of the first.

    question: in place of the study's own. stated: by what runs are judged that do not say it. The same runs give the
    same bytes, as long as the files of users' modules are what they were. InputError, and nothing written, where the
    study does not exist, has no finished runs, or its runs lack their metric, where a format is unknown or its packages
    are not installed, and where `out` cannot be written."""
    wanted = chosen(formats)
    with heard():
        table = read(source, study, stated)
        report = build(table, question)
        figures = {name: content for drawing in report.drawings for name, content in drawing.files().items()}
    return put(based(report.document, table, question, source), figures, out, wanted)


def put(document: Document, figures: Mapping[str, bytes], out: Path, formats: Sequence[Format]) -> Path:
    """Write a document, with the files of its figures by their names, into `out`; the path of the first format's file.
    All is made before anything is written, and then all is written: Ctrl-C waits for it. Where another document stood
    there, the standard error names the files that still show it. InputError, and nothing written, where a file of these
    names is not as we wrote it."""
    pictures = {name.removesuffix(".svg"): content for name, content in figures.items() if name.endswith(".svg")}
    files = {f"{FIGURES}/{name}": content for name, content in figures.items()}
    files[DATA] = document.to_json().encode()
    with heard():
        for form in formats:
            files |= form.files(document, pictures)
    known, made = _written(out), {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}
    _check(out, files, known)
    left = _left(out, files, known)
    try:
        (out / FIGURES).mkdir(parents=True, exist_ok=True)
        with uninterrupted("the report is written"):
            _note(out, {name: [*known.get(name, ()), made[name]] if name in made else known[name]
                        for name in known | made})  # fmt: skip
            for name, content in files.items():
                (out / name).parent.mkdir(parents=True, exist_ok=True)
                write_whole(out / name, content)
            _note(out, {**known, **{name: [digest] for name, digest in made.items()}})
    except OSError as error:
        said = f"the report cannot be written to {out} ({error.strerror})"
        raise InputError(said, "give another folder with -o") from error
    if left:
        print(f"note: from an earlier report, not of {DATA} as it is now: {', '.join(left)} in {out}", file=sys.stderr)
    return out / formats[0].file


def _left(out: Path, files: Mapping[str, bytes], known: Mapping[str, Sequence[str]]) -> list[str]:
    """What will stay in a folder of the document that was written there before; none where it is the same document."""
    try:
        if (out / DATA).read_bytes() == files[DATA]:
            return []
    except OSError:
        pass  # none, or one that cannot be read: then whatever lies there is of another
    tables = [name for name in known if name.startswith(f"{TABLES}/")]
    left = [name for name in (*main_files(), BIBLIOGRAPHY, *tables) if name not in files and (out / name).is_file()]
    count = sum(name in tables for name in left)
    told = [f"{count} file{'' if count == 1 else 's'} of {TABLES}/"] if count else []
    return [*(name for name in left if name not in tables), *told]


def _written(out: Path) -> dict[str, list[str]]:
    """File -> sha256 of what we last wrote there; both of two where we were killed between them."""
    try:
        found: Any = json.loads((out / WRITTEN).read_bytes())
    except (OSError, ValueError):
        return {}
    return {str(name): list(map(str, digests)) for name, digests in found.items()} if isinstance(found, dict) else {}


def _note(out: Path, written: Mapping[str, Sequence[str]]) -> None:
    write_whole(out / WRITTEN, (json.dumps(written, indent=1, sort_keys=True) + "\n").encode())


def _check(out: Path, files: Mapping[str, bytes], known: Mapping[str, Sequence[str]]) -> None:
    """InputError where a file would be lost that is not as we wrote it."""
    lost = []
    for name, content in files.items():
        try:
            there = (out / name).read_bytes()
        except OSError:
            continue  # none, or none that can be read: writing says so
        if there != content and hashlib.sha256(there).hexdigest() not in known.get(name, ()):
            lost.append(name)
    if lost:
        more = f" and {len(lost) - 3} more" if len(lost) > 3 else ""
        said = f"{', '.join(lost[:3])}{more} in {out}: not written by trainlab, or changed since"
        cure = "give another folder with -o, or move what is there away"
        raise InputError(said, cure, rule="would-overwrite", place="out")
