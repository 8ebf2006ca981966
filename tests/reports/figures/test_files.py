"""Figure files, read back: exact size, fonts that journals take, their origin, the same bytes in any process."""

from __future__ import annotations

import csv
import io
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from pypdf import PdfReader

from reports.figures.drawing import Drawing
from reports.figures.panel import Ask, Panel, panel
from reports.figures.panels.confusion import of_counts
from reports.figures.style import style

ROOT = Path(__file__).parents[3]
HOSTILE = ("<script>alert(1)</script>", r"\input{/etc/passwd}", "a_b%&$#", "$x^{", "_hidden", "学习率", "x" * 300)
#: Each kind in one style, every style at least once: kind, style, width.
CASES = (
    ("ablation", "neurips", "column", 5.5),
    ("contours", "icml", "column", 3.25),
    ("critical_difference", "ieee", "text", 7.16),
    ("curves", "nature", "column", 89 / 25.4),
    ("parallel", "icml", "text", 6.75),
    ("pareto", "slide", "text", 12.0),
    ("points", "nature", "text", 183 / 25.4),
    ("profiles", "ieee", "column", 3.5),
    ("sensitivity", "patent", "letter", 17.6 / 2.54),
    ("slices", "trainlab", "84mm", 84 / 25.4),
    ("survival", "neurips", "half", 2.7),
    ("confusion", "patent", "a4", 17 / 2.54),
)


def made(kind: str, subject: Any, **ask: str) -> Panel:
    if kind == "confusion":
        return of_counts([[5, 1], [0, 7]], ["cat", "学习率"])
    first = subject.table.arms[0] if kind == "contours" else ""
    task = "" if kind == "critical_difference" else "digits"
    return panel(kind, subject, Ask(**{"task": task, "arm": first, **ask}))


def drawn(kind: str, subject: Any, look: str, width: str | float = "column") -> Drawing:
    with style(look, width) as found:
        return made(kind, subject).drawing(f"{kind}-x", found, width, "sgd-or-adam")


def fonts(reader: PdfReader) -> Iterator[Any]:
    """Every font dictionary of the file."""
    for number in range(1, len(reader.xref[0]) + 1 if reader.xref else 1):
        found = reader.get_object(number)
        if isinstance(found, dict) and found.get("/Type") == "/Font":
            yield found


@pytest.mark.parametrize(("kind", "look", "width", "inches"), CASES)
def test_every_kind_at_its_exact_size(
    kind: str, look: str, width: str, inches: float, subject_of: Callable[..., Any]
) -> None:
    subject = subject_of(("sgd", "adam", "muon"), tasks=2, accident=True)
    drawing = drawn(kind, subject, look, width)
    files = drawing.files(("pdf", "svg", "png"))
    assert set(files) == {f"{kind}-x.{suffix}" for suffix in ("pdf", "svg", "png", "csv")}
    reader = PdfReader(io.BytesIO(files[f"{kind}-x.pdf"]))
    assert len(reader.pages) == 1
    assert float(reader.pages[0].mediabox.width) == pytest.approx(inches * 72, abs=1e-3)
    found = re.search(r'<svg [^>]*width="([\d.]+)pt"', files[f"{kind}-x.svg"].decode())
    assert found
    assert float(found[1]) == pytest.approx(inches * 72, abs=1e-3)
    with Image.open(io.BytesIO(files[f"{kind}-x.png"])) as image:
        dpi = image.info["dpi"][0]
        assert image.width == round(inches * round(dpi))
        assert image.width / dpi == pytest.approx(inches, rel=2e-4)


@pytest.mark.parametrize(("kind", "look", "width", "inches"), CASES)
def test_fonts_are_truetype_and_embedded(
    kind: str, look: str, width: str, inches: float, subject_of: Callable[..., Any]
) -> None:
    pdf = drawn(kind, subject_of(HOSTILE, tasks=2), look, width).files(("pdf",))[f"{kind}-x.pdf"]
    assert b"/Type3" not in pdf
    known = list(fonts(PdfReader(io.BytesIO(pdf))))
    descendants = [font for font in known if font["/Subtype"] == "/CIDFontType2"]
    assert descendants
    assert {str(font["/Subtype"]) for font in known} == {"/Type0", "/CIDFontType2"}
    for font in descendants:
        data = font["/FontDescriptor"]["/FontFile2"].get_data()
        assert data[:4] in (b"\x00\x01\x00\x00", b"true"), "outlines that are not TrueType's"


def test_where_it_comes_from_is_inside_each_file(subject_of: Callable[..., Any]) -> None:
    drawing = drawn("points", subject_of(("sgd", "adam")), "icml")
    files = drawing.files(("pdf", "svg", "png"))
    told = r"study sgd-or-adam; 10 runs; sha256:[0-9a-f]{64}"
    assert re.search(told, str(PdfReader(io.BytesIO(files["points-x.pdf"])).metadata))
    assert re.search(told, files["points-x.svg"].decode())
    with Image.open(io.BytesIO(files["points-x.png"])) as image:
        assert re.search(told, str(image.info["Source"]))
        assert "sgd" in str(image.info["Description"])
    assert "adam" in drawing.alt


def test_the_digest_knows_when_a_run_changed(subject_of: Callable[..., Any]) -> None:
    subject = subject_of(("sgd", "adam"))
    before = drawn("points", subject, "icml").provenance
    assert before == drawn("points", subject_of(("sgd", "adam")), "nature").provenance
    assert before != drawn("points", subject_of(("sgd", "adam"), accident=True), "icml").provenance


@pytest.mark.parametrize("kind", [case[0] for case in CASES])
def test_its_data_stand_beside_it(kind: str, subject_of: Callable[..., Any]) -> None:
    """Every number of a row is the full one, and the runs are named."""
    drawing = drawn(kind, subject_of(("sgd", "adam", "muon"), tasks=2), "icml")
    rows = list(csv.reader(io.StringIO(drawing.files(())[f"{kind}-x.csv"].decode())))
    assert len(rows) == len(drawing.rows) + 1 > 1
    assert all(len(row) == len(rows[0]) for row in rows)
    assert "nan" not in str(rows).replace("nanosecond", "")
    assert drawing.alt


SCRIPT = """
import sys
import numpy as np
from reports.figures.curves import Line, curves
from reports.figures.drawing import Drawing
from reports.figures.legend import legend
from reports.figures.style import marks, style

names = {names!r}

def draw(figure):
    axis = figure.add_subplot()
    x = np.linspace(10, 100, 10)
    looks = marks(names)
    curves(axis, [Line(n, looks[n], [x] * 3, [x**0.5 + s for s in range(3)], [False] * 3) for n in names], x="u", y="l")
    legend(axis)

look = sys.argv[1]
with style(look) as found:
    size = (found.width("column"), 3.0)
    drawing = Drawing("d", size, draw, ("a",), ((1.5,),), alt="学习率", provenance="p; q", look=look)
    import hashlib
    for name, content in sorted(drawing.files(("pdf", "svg", "png")).items()):
        print(name, hashlib.sha256(content).hexdigest())
"""


@pytest.mark.parametrize("look", ["icml", pytest.param("patent", marks=pytest.mark.slow)])
def test_two_processes_give_the_same_bytes(look: str, tmp_path: Path) -> None:
    script = tmp_path / "draw.py"
    script.write_text(SCRIPT.format(names=HOSTILE))
    said = []
    for seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": seed, "SOURCE_DATE_EPOCH": seed, "PYTHONPATH": str(ROOT)}
        done = subprocess.run([sys.executable, str(script), look], capture_output=True, text=True, env=environment)
        assert done.returncode == 0, done.stderr
        said.append(done.stdout)
    assert len(said[0].splitlines()) == 4
    assert said[0] == said[1]


@pytest.mark.parametrize(
    "kind",
    ["ablation", "contours", "curves", *(pytest.param(case[0], marks=pytest.mark.slow) for case in CASES)],
)
def test_a_patent_has_black_and_white_and_nothing_between(kind: str, subject_of: Callable[..., Any]) -> None:
    subject = subject_of(("sgd", "adam", "muon"), tasks=2, accident=True)
    files = drawn(kind, subject, "patent").files(("pdf", "png"))
    with Image.open(io.BytesIO(files[f"{kind}-x.png"])) as image:
        assert {color for _, color in image.convert("RGB").getcolors() or []} == {(0, 0, 0), (255, 255, 255)}
    page = PdfReader(io.BytesIO(files[f"{kind}-x.pdf"])).pages[0]
    content = page.get_contents()
    assert content is not None
    states = page["/Resources"]["/ExtGState"].values()  # type: ignore[index]
    assert {float(state[key]) for state in states for key in ("/CA", "/ca")} <= {0.0, 1.0}
    told = re.findall(rb"([\d. ]+) (?:rg|RG|g|G)\b", content.get_data())
    assert told
    shades = {tuple(map(float, numbers.split())) for numbers in told}
    assert all(len(set(shade)) == 1 and shade[0] in (0.0, 1.0) for shade in shades), shades
