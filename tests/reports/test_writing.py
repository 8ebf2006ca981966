"""Reports in several formats as files: all or none, and what the command says."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from typing import Any

import pytest

from algos.finding import InputError
from experiments.store.home import Home
from reports.document import Document
from reports.render import formats
from reports.render.formats import FORMATS
from reports.writing import write
from trainlab.cli import main
from trainlab.study_handle import Study

NAME = "sgd-or-adam"
FILES = {"html": "report.html", "pdf": "report.pdf", "latex": "paper.tex", "markdown": "report.md",
         "docx": "report.docx", "notebook": "report.ipynb"}  # fmt: skip


def test_every_format_beside_the_data_and_the_figures(clean: Any, tmp_path: Path) -> None:
    pytest.importorskip("typst")
    pytest.importorskip("docx")
    pytest.importorskip("nbformat")
    path = write(clean, NAME, tmp_path / "out", formats=FORMATS[::-1])
    assert path == tmp_path / "out" / "report.ipynb"
    written = {file.name for file in (tmp_path / "out").iterdir() if file.is_file()}
    assert written == {*FILES.values(), "report.json", "references.bib"}
    assert set(FILES) == set(FORMATS)
    assert any((tmp_path / "out" / "figures").glob("*.pdf"))


@pytest.mark.parametrize("form", ["latex", "markdown"])
def test_the_data_are_always_written(clean: Any, tmp_path: Path, form: str) -> None:
    assert write(clean, NAME, tmp_path, formats=[form]).name == FILES[form]
    assert Document.from_json((tmp_path / "report.json").read_text("utf-8")).study == NAME
    assert not (tmp_path / "report.html").exists()


def test_figures_that_a_format_shows_are_there(clean: Any, tmp_path: Path) -> None:
    write(clean, NAME, tmp_path, formats=["latex", "markdown"])
    for name, pattern in (("paper.tex", r"\]\{(figures/[^}]+)\}"), ("report.md", r"\]\((figures/[^)]+)\)")):
        found = re.findall(pattern, (tmp_path / name).read_text("utf-8"))
        assert len(found) >= 4
        assert all((tmp_path / file).exists() for file in found)


def test_no_format_writes_what_compiling_another_would_overwrite() -> None:
    """paper.tex makes paper.pdf, .log, .aux; report.pdf is trainlab's."""
    stem = Path(FILES["latex"]).stem
    assert stem not in {Path(file).stem for form, file in FILES.items() if form != "latex"}


def test_files_of_an_earlier_report_are_named(clean: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("nbformat")
    write(clean, NAME, tmp_path, formats=["latex", "notebook"])
    write(clean, NAME, tmp_path, formats=["html"])
    assert capsys.readouterr().err == "", "the same document"
    write(clean, NAME, tmp_path, question="another?", formats=["html"])
    told = capsys.readouterr().err.splitlines()
    assert len(told) == 1
    assert "from an earlier report" in told[0]
    assert "paper.tex, report.ipynb, references.bib in" in told[0]
    write(clean, NAME, tmp_path, question="again?", formats=["html", "latex", "notebook"])
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("given", [["html", "word"], []])
def test_an_unknown_format_writes_nothing(clean: Any, tmp_path: Path, given: list[str]) -> None:
    with pytest.raises(InputError, match=r"valid: docx, html|one or more of html"):
        write(clean, NAME, tmp_path / "out", formats=given)
    assert not (tmp_path / "out").exists()


def test_a_missing_package_writes_nothing(clean: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(formats.importlib.util, "find_spec", lambda name: None if name == "typst" else find(name))
    with pytest.raises(InputError, match=r"pip install 'trainlab\[documents\]'"):
        write(clean, NAME, tmp_path / "out", formats=["html", "pdf"])
    assert not (tmp_path / "out").exists()


def test_a_full_disk_leaves_the_earlier_report_as_it_was(
    clean: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(clean, NAME, tmp_path)
    before = {file: file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()}

    def full(path: Path, content: bytes) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(InputError, match="No space left on device"):
        write(clean, NAME, tmp_path, question="another?")
    assert {file: file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()} == before


def test_the_command_names_each_file_and_refuses_before_it_reads(
    homes: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    home = Home(tmp_path / "home")
    for arm, level in (("sgd", 0.90), ("<script>alert(1)", 0.93)):
        homes.recorded(home, arm, level, test=True)
    monkeypatch.setenv("TRAINLAB_HOME", str(home.path))
    monkeypatch.chdir(tmp_path)
    assert main(["report", "mine", "--format", "markdown, LaTeX"]) == 0
    told = capsys.readouterr().out.split()
    assert [Path(word).name for word in told if word.startswith("/")] == ["report.md", "paper.tex"]
    assert all(Path(word).exists() for word in told if word.startswith("/"))
    assert r"\<script\>alert(1)" in (tmp_path / "mine-report" / "report.md").read_text("utf-8")
    assert main(["report", "no-such-study", "--format", "htlm", "-o", "other"]) == 2
    assert "did you mean 'html'" in capsys.readouterr().err
    assert not (tmp_path / "other").exists()
    assert Study("mine", home).report(tmp_path / "python", formats="markdown,html").name == "report.md"
    assert (tmp_path / "python" / "report.html").exists()
