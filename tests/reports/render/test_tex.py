"""LaTeX: what is in paper.tex, and what its compilers make of it."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reports.document import Document
from reports.render import pdf
from reports.render.bibtex import entries
from reports.render.latex import files
from reports.render.tex import escaped
from reports.writing import write

#: A command of ours; what else has a backslash is a mistake or a name that escaped.
_OURS = re.compile(
    r"\\(?:text[a-z]+|ensuremath|[a-z]+|other|cjk|brk|newline|S|P|Gamma|Delta|Theta|Lambda|Xi|Pi|Sigma|Upsilon|Phi|Psi"
    r"|Omega|[{}$&#%_ ])"
)


@given(st.text())
def test_no_text_is_a_command(text: str) -> None:
    """Braces balance, and what TeX reads otherwise than it looks stands nowhere bare."""
    told = escaped(text)
    depth = 0
    for piece in re.findall(r"\\[A-Za-z]+|\\.|.", told, re.DOTALL):
        depth += (piece == "{") - (piece == "}")
        assert depth >= 0
        if piece.startswith("\\"):
            assert _OURS.fullmatch(piece), piece
        else:
            assert piece not in '$&#%_^"' + "\n"
    assert depth == 0


@given(st.text("\\inputwre{}/ ", max_size=40))
def test_commands_of_a_name_are_spelt_out(text: str) -> None:
    assert not re.search(r"\\(input|write|include)", escaped(text))


@pytest.mark.parametrize(
    ("text", "field", "expected"),
    [
        (
            "@article{k, title={On {SGD}}, author={G{\\\"o}del and M{\\'a}r, B.}, year=1931}",
            "author",
            "Gödel and Már, B.",
        ),
        ('@misc{k, title="A {B} c", url = {https://x.example/a_b}}', "url", "https://x.example/a_b"),
        ("@misc{k,\n  title = {Poly {\\ss} \\& \\o},\n}", "title", "Poly ß & ø"),
        ("@misc{k, title={Erd{\\H{o}}s \\v{S}i {\\L}uk}}", "title", "Erdős Ši Łuk"),
        ("@misc{k, title={half", "title", None),
    ],
)
def test_bibtex_as_a_reader_reads_it(text: str, field: str, expected: str | None) -> None:
    found = entries(text)
    assert (found[0].fields[field] if found else None) == expected


def test_bibtex_is_beside_it_as_it_was_written(hostile: Document, pictures: dict[str, bytes]) -> None:
    made = files(hostile, pictures)
    (text,) = [block.text for block in hostile.blocks if block.kind == "verbatim" and block.language == "bibtex"]
    assert made["references.bib"].decode() == text + "\n"
    assert made["paper.tex"].decode().count(r"\bibitem{") == text.count("@misc{")


def compiled(folder: Path, program: str) -> str:
    """The text of the PDF, compiled twice, without shell escape."""
    for _ in range(2):
        done = subprocess.run(
            [program, "-interaction=nonstopmode", "-halt-on-error", "-no-shell-escape", "paper.tex"],
            cwd=folder, capture_output=True, text=True, timeout=120, errors="replace",
        )  # fmt: skip
        assert done.returncode == 0, done.stdout[-3000:]
    log = (folder / "paper.log").read_text("utf-8", errors="replace")
    assert "Missing character" not in log
    wide = [float(found) for found in re.findall(r"Overfull \\hbox \(([\d.]+)pt too wide\)", log)]
    assert max(wide, default=0) < 15, wide
    return subprocess.run(
        ["pdftotext", "-raw", folder / "paper.pdf", "-"], capture_output=True, text=True, check=True
    ).stdout


def needs(program: str) -> Any:
    lacking = [name for name in (program, "pdftotext") if shutil.which(name) is None]
    return pytest.mark.skipif(bool(lacking), reason=f"no {', '.join(lacking)}; .ci/run installs it")


def laid(document: Document, pictures: dict[str, bytes], folder: Path) -> Path:
    """The files that paper.tex needs, in a folder."""
    (folder / "figures").mkdir()
    for name, content in files(document, pictures).items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(content)
    pytest.importorskip("typst")
    for name, svg in pictures.items():
        drawn = pdf.compiled("picture.typ", json.dumps({"svg": svg.decode()}), "pdf")
        (folder / "figures" / f"{name}.pdf").write_bytes(drawn)
    return folder


def without_space(text: str) -> str:
    return re.sub(r"\s", "", text)


@pytest.mark.slow
@needs("xelatex")
def test_xelatex_shows_names_as_they_are_and_reads_no_file(
    hostile: Document, pictures: dict[str, bytes], names: tuple[str, ...], tmp_path: Path
) -> None:
    text = compiled(laid(hostile, pictures, tmp_path), "xelatex")
    assert "root:" not in text
    bare = without_space(text)
    for name in names:
        if not name.isascii() and "学" not in name:  # symbols of mathematics come from fonts that call them otherwise
            continue
        assert bare.count(without_space(name)) > 8, name


@pytest.mark.slow
@needs("pdflatex")
def test_pdflatex_does_as_well_without_chinese(
    document_of: Callable[..., Document], pictures: dict[str, bytes], names: tuple[str, ...], tmp_path: Path
) -> None:
    western = tuple(name for name in names if "学" not in name)
    bare = without_space(compiled(laid(document_of(western), pictures, tmp_path), "pdflatex"))
    for name in filter(str.isascii, western):
        assert bare.count(without_space(name)) > 8, name


@pytest.mark.slow
@needs("xelatex")
@pytest.mark.parametrize("program", ["xelatex", "pdflatex"])
def test_a_real_report_compiles(clean: Any, tmp_path: Path, program: str) -> None:
    write(clean, "sgd-or-adam", tmp_path, formats=["latex"])
    text = compiled(tmp_path, program)
    assert "The runs behind every number" in text
