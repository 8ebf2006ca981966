"""PGF: names are printed by TeX and never read by it."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from algos.finding import InputError
from reports.figures.panel import Ask, panel
from reports.figures.pgf import escaped
from reports.figures.style import style

HOSTILE = ("<script>alert(1)</script>", r"\input{/etc/passwd}", "a_b%&$#", "$x^{", "_hidden", "学习率", "~`'\"|--{}")
needs_tex = pytest.mark.skipif(not shutil.which("xelatex"), reason="XeLaTeX is not installed")


def points(subject_of: Callable[..., Any], names: tuple[str, ...]) -> dict[str, bytes]:
    with style("icml") as look:
        return panel("points", subject_of(names), Ask()).drawing("p", look, "column", "s").files(("pgf",))


def test_every_sign_that_tex_reads_is_escaped() -> None:
    assert escaped("a_b%&$#") == r"a\_b\%\&\$\#"
    assert escaped("x^2~{}") == r"x\textasciicircum{}2\textasciitilde{}\{\}"


@needs_tex
@pytest.mark.slow
@pytest.mark.parametrize("program", ["xelatex", "pdflatex"])
def test_a_document_with_it_prints_the_names(subject_of: Callable[..., Any], tmp_path: Path, program: str) -> None:
    if not shutil.which(program) or not shutil.which("pdftotext"):
        pytest.skip(f"{program} or pdftotext is not installed")
    (tmp_path / "p.pgf").write_bytes(points(subject_of, HOSTILE)["p.pgf"])
    start = "\\documentclass{article}\\usepackage[T1]{fontenc}\\usepackage{textcomp,pgf}"
    (tmp_path / "t.tex").write_text(f"{start}\\begin{{document}}\\input{{p.pgf}}\\end{{document}}")
    command = [program, "-interaction=nonstopmode", "-halt-on-error", "t.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-2000:]
    text = subprocess.run(["pdftotext", "t.pdf", "-"], cwd=tmp_path, capture_output=True, text=True).stdout
    for name in HOSTILE[:5]:
        assert name in text.replace("’", "'")
    assert "root:" not in text


@needs_tex
@pytest.mark.slow
def test_where_it_comes_from_is_a_comment_and_the_bytes_repeat(subject_of: Callable[..., Any]) -> None:
    first = points(subject_of, ("a", "学习率"))["p.pgf"]
    assert first == points(subject_of, ("a", "学习率"))["p.pgf"]
    assert b"sha256:" in first.split(b"\\begingroup")[0]
    assert "学习率" not in first.decode().split("\\begingroup")[1], "text that a TeX font may lack is drawn as outlines"


def test_without_xelatex_it_says_so(subject_of: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(InputError, match="xelatex"):
        points(subject_of, ("a", "b"))
