"""Tables for a paper: plain articles that have booktabs alone take each of them, in one column or across two."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from reports.document import Column, Document, Table, Term
from reports.render import booktabs
from reports.writing import write


def compiled(folder: Path, program: str, body: str) -> str:
    """The log of a plain article with two columns as narrow as ICML's."""
    if shutil.which(program) is None:
        pytest.skip(f"no {program}; .ci/run installs it")
    geometry = r"\setlength{\textwidth}{487.8pt}\setlength{\columnsep}{19.8pt}"
    article = rf"\documentclass[twocolumn]{{article}}{geometry}\usepackage{{booktabs}}\begin{{document}}{body}"
    (folder / "mine.tex").write_text(article + "\n\\end{document}\n", "utf-8")
    done = subprocess.run(
        [program, "-interaction=nonstopmode", "-halt-on-error", "mine.tex"], cwd=folder, capture_output=True
    )
    log = (folder / "mine.log").read_text("utf-8", "replace")
    assert done.returncode == 0, log[-3000:]
    return log


def one(document_of: Callable[..., Document], table: Table) -> str:
    document = document_of(tuple("abcdefgh"))
    (content,) = booktabs.files(document.model_copy(update={"blocks": (table,)})).values()
    return content.decode()


@pytest.mark.slow
@pytest.mark.parametrize("program", ["xelatex", "pdflatex"])
def test_any_article_takes_every_table_of_a_report(clean: Any, tmp_path: Path, program: str) -> None:
    write(clean, "sgd-or-adam", tmp_path, formats=["latex"])
    files = sorted((tmp_path / "tables").glob("*.tex"))
    assert len(files) > 3
    body = []
    for path in files:
        star = "*" if "(table*)" in path.read_text("utf-8").splitlines()[0] else ""
        body.append(f"\\begin{{table{star}}}\\caption{{A}}\\input{{tables/{path.stem}}}\\end{{table{star}}}\\clearpage")
    log = compiled(tmp_path, program, "\n".join(body))
    wide = [float(found) for found in re.findall(r"Overfull \\hbox \(([\d.]+)pt too wide\)", log)]
    assert max(wide, default=0) < 1, wide


@pytest.mark.slow
@pytest.mark.parametrize("program", ["xelatex", "pdflatex"])
def test_names_are_no_commands(document_of: Callable[..., Document], tmp_path: Path, program: str) -> None:
    names = [r"\input{/etc/passwd}", "a_b%&$#^~", '[2] "quoted" <x>', "*", "x" * 90, "−±≤…", "{", "a--b"]
    rows = tuple(((Term(term=name),), ("0.5",), ("a sentence of words that go on " * 3,)) for name in names)
    columns = (Column(head="[Arm]"), Column(head="* loss", unit="[95 % t]", number=True), Column(head="Why"))
    for number, kept in enumerate((2, 3)):
        table = Table(caption=("\\input%\nx",), columns=columns[:kept], rows=tuple(row[:kept] for row in rows))
        (tmp_path / f"t{number}.tex").write_text(one(document_of, table), "utf-8")
    log = compiled(tmp_path, program, r"\noindent\input{t0}\par\noindent\input{t1}")
    assert "passwd" not in log


def test_a_table_is_as_its_article_needs_it(document_of: Callable[..., Document]) -> None:
    narrow = Table(
        caption=("digits: final runs (best first).",),
        columns=(Column(head="Arm"), Column(head="Test accuracy", unit="mean [95 % t interval]", number=True)),
        rows=(((Term(term="sgd"),), ("0.97 [0.96, 0.98]",)),),
        notes=(("One note.",),),
    )
    text = one(document_of, narrow)
    first, *rest = text.splitlines()
    assert first.startswith("% Needs \\usepackage{booktabs} and nothing else")
    assert first.endswith("fits one column.")
    assert "% Note: One note." in rest
    assert "{}sgd & 0.97 [0.96, 0.98] \\tabularnewline" in rest
    assert not re.findall(r"\\(term|runs|brk|cjk|other|color|hyperlink|newline)\b", text)
    wide = narrow.model_copy(update={"columns": narrow.columns * 4, "rows": (narrow.rows[0] * 4,)})
    assert "(table*)" in one(document_of, wide).splitlines()[0]


def test_tables_of_one_caption_have_files_of_their_own(document_of: Callable[..., Document]) -> None:
    table = Table(caption=("学习率.",), columns=(Column(head="Arm"),), rows=((("a",),),))
    document = document_of(tuple("abcdefgh")).model_copy(update={"blocks": (table, table)})
    files = booktabs.files(document)
    assert list(files) == ["tables/table.tex", "tables/table-2.tex"]
    assert files == booktabs.files(document)
