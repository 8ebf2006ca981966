"""Writing: a study's report, or any document, as files. What the command line calls."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from algos.finding import InputError
from experiments.store.records import write_whole
from experiments.store.sources import Source
from reports.document import Document
from reports.judged import Stated
from reports.render.formats import Format, chosen, main_files
from reports.render.latex import BIBLIOGRAPHY
from reports.report import build
from reports.table import read
from reports.verifying.prints import based

DATA, FIGURES = "report.json", "figures"


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
    table = read(source, study, stated)
    report = build(table, question)
    figures = {name: content for drawing in report.drawings for name, content in drawing.files().items()}
    return put(based(report.document, table, question, source), figures, out, wanted)


def put(document: Document, figures: Mapping[str, bytes], out: Path, formats: Sequence[Format]) -> Path:
    """Write a document, with the files of its figures by their names, into `out`; the path of the first format's file.
    All is made before anything is written. Where another document stood there, the standard error names the files that
    still show it."""
    pictures = {name.removesuffix(".svg"): content for name, content in figures.items() if name.endswith(".svg")}
    files = {f"{FIGURES}/{name}": content for name, content in figures.items()}
    files[DATA] = document.to_json().encode()
    for form in formats:
        files |= form.files(document, pictures)
    left = _left(out, files)
    try:
        (out / FIGURES).mkdir(parents=True, exist_ok=True)
        for name, content in files.items():
            write_whole(out / name, content)
    except OSError as error:
        said = f"the report cannot be written to {out} ({error.strerror})"
        raise InputError(said, "give another folder with -o") from error
    if left:
        print(f"note: from an earlier report, not of {DATA} as it is now: {', '.join(left)} in {out}", file=sys.stderr)
    return out / formats[0].file


def _left(out: Path, files: Mapping[str, bytes]) -> list[str]:
    """What will stay in a folder of the document that was written there before; none where it is the same document."""
    try:
        if (out / DATA).read_bytes() == files[DATA]:
            return []
    except OSError:
        pass  # none, or one that cannot be read: then whatever lies there is of another
    return [name for name in (*main_files(), BIBLIOGRAPHY) if name not in files and (out / name).is_file()]
