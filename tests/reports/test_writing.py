"""Reports in several formats as files: all or none, and what the command says."""

from __future__ import annotations

import importlib.util
import re
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from algos.finding import InputError
from experiments.store.home import Home
from experiments.store.sources import home as home_source
from reports import writing
from reports.document import Document
from reports.render import formats
from reports.render.formats import FORMATS
from reports.table import read
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
    assert written == {*FILES.values(), "report.json", "references.bib", ".written.json"}
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


@pytest.mark.slow
def test_files_of_an_earlier_report_are_named(clean: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("nbformat")
    write(clean, NAME, tmp_path, formats=["latex", "notebook"])
    write(clean, NAME, tmp_path, formats=["html"])
    assert capsys.readouterr().err == "", "the same document"
    write(clean, NAME, tmp_path, question="another?", formats=["html"])
    told = capsys.readouterr().err.splitlines()
    assert len(told) == 1
    assert "from an earlier report" in told[0]
    count = len(list((tmp_path / "tables").iterdir()))
    assert f"paper.tex, report.ipynb, references.bib, {count} files of tables/ in" in told[0]
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


@pytest.mark.parametrize("name", ["paper.tex", "references.bib", "figures/points-1-digits.csv"])
def test_what_somebody_else_wrote_is_not_written_over(clean: Any, tmp_path: Path, name: str) -> None:
    """The night before the deadline, in the folder of one's own paper."""
    (tmp_path / "figures").mkdir()
    (tmp_path / name).write_text("mine")
    with pytest.raises(InputError, match=rf"{name} in .*: not written by trainlab, or changed since; give another"):
        write(clean, NAME, tmp_path, formats=["html", "latex"])
    assert [file for file in tmp_path.rglob("*") if file.is_file()] == [tmp_path / name]
    assert (tmp_path / name).read_text() == "mine"


@pytest.mark.slow
def test_what_was_edited_since_is_not_written_over(clean: Any, tmp_path: Path) -> None:
    """A notebook that somebody went on from; formats that leave it alone are written."""
    pytest.importorskip("nbformat")
    write(clean, NAME, tmp_path, formats=["notebook", "latex"])
    notebook = tmp_path / "report.ipynb"
    notebook.write_text(notebook.read_text().replace("report.section", "print(1); report.section"))
    edited = notebook.read_bytes()
    write(clean, NAME, tmp_path, question="another?", formats=["latex"])
    with pytest.raises(InputError, match=r"report\.ipynb in"):
        write(clean, NAME, tmp_path, question="a third?", formats=["notebook", "latex"])
    assert notebook.read_bytes() == edited
    assert "another?" in (tmp_path / "paper.tex").read_text("utf-8")
    notebook.unlink()
    write(clean, NAME, tmp_path, question="a third?", formats=["notebook", "latex"])


@pytest.mark.slow
def test_a_report_that_was_killed_while_it_was_written_is_written_again(
    clean: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(clean, NAME, tmp_path)
    whole, left = writing.write_whole, 4

    def killed(path: Path, content: bytes) -> None:
        nonlocal left
        left -= 1
        if not left:
            raise SystemError
        whole(path, content)

    monkeypatch.setattr(writing, "write_whole", killed)
    with pytest.raises(SystemError):
        write(clean, NAME, tmp_path, question="another?")
    monkeypatch.undo()
    write(clean, NAME, tmp_path, question="a third?")


def test_ctrl_c_is_told_and_leaves_nothing(
    clean: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also one that Python forgets, since it came in the midst of a finalizer."""

    class Dying:
        def __del__(self) -> None:
            signal.raise_signal(signal.SIGINT)

    def forgetful(*given: Any) -> Any:
        monkeypatch.setattr(sys, "unraisablehook", lambda _: None)
        Dying()
        return read(*given)

    for reading in (lambda *_: signal.raise_signal(signal.SIGINT), forgetful):
        monkeypatch.setattr(writing, "read", reading)
        monkeypatch.setattr(Study, "__init__", lambda self, name, home: self.__dict__.update(name=name, _home=clean))
        monkeypatch.setattr(home_source, "HomeSource", lambda home: home)
        assert main(["report", NAME, "-o", str(tmp_path / "out")]) == 130
        assert capsys.readouterr().err == "interrupted: no report is written\n"
        assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_ctrl_c_waits_until_what_is_begun_is_written(
    clean: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = writing.write_whole

    def interrupted(path: Path, content: bytes) -> None:
        signal.raise_signal(signal.SIGINT)
        whole(path, content)

    monkeypatch.setattr(writing, "write_whole", interrupted)
    with pytest.raises(KeyboardInterrupt, match="the report is written"):
        write(clean, NAME, tmp_path)
    monkeypatch.undo()
    there = {file: file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()}
    write(clean, NAME, tmp_path)
    assert there == {file: file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()}
