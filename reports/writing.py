"""Writing: a study's report as files. The one thing that the command line calls."""

from __future__ import annotations

import os
from pathlib import Path

from algos.finding import InputError
from experiments.store.sources import Source
from reports.judged import Stated
from reports.report import build
from reports.table import read

PAGE, DATA, FIGURES = "report.html", "report.json", "figures"


def write(source: Source, study: str, out: Path, question: str = "", stated: Stated | None = None) -> Path:
    """Write report.html, report.json and figures/*.pdf, .svg, .csv into `out`; return the page's path.

    question: in place of the study's own. stated: by what runs are judged that do not say it. The same runs give the
    same bytes, as long as the files of users' modules are what they were. InputError, and nothing written, where the
    study does not exist, has no finished runs, or its runs lack their metric, and where `out` cannot be written."""
    from reports.render import html

    report = build(read(source, study, stated), question)
    try:
        (out / FIGURES).mkdir(parents=True, exist_ok=True)
        files = {name: content for drawing in report.drawings for name, content in drawing.files().items()}
        pictures = {name.removesuffix(".svg"): content for name, content in files.items() if name.endswith(".svg")}
        page = html.render(report.document, pictures)
        for name, content in files.items():
            _put(out / FIGURES / name, content)
        _put(out / DATA, report.document.to_json().encode())
        _put(out / PAGE, page.encode())
    except OSError as error:
        said = f"the report cannot be written to {out} ({error.strerror})"
        raise InputError(said, "give another folder with -o") from error
    return out / PAGE


def _put(path: Path, content: bytes) -> None:
    """Whole or not at all."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    temporary.write_bytes(content)
    os.replace(temporary, path)
