"""Figure files: the same bytes twice, fonts that journals take, ids that do not meet in one page."""

from __future__ import annotations

import re

import matplotlib
import numpy as np
import pytest

from reports.figures.curves import Line, curves, limits, thinned
from reports.figures.drawing import Drawing, inline
from reports.figures.style import DASHES, LONGEST, MARKERS, label, mark, marks, style


def lines(*names: str) -> list[Line]:
    x = np.linspace(10, 100, 10)
    looks = marks(names)
    ys = [np.sqrt(x) + seed for seed in range(3)]
    return [Line(name, looks[name], [x] * 3, ys, [False, False, True]) for name in names]


def drawing(*names: str) -> Drawing:
    def draw(figure: object) -> None:
        axis = figure.add_subplot()  # type: ignore[attr-defined]
        curves(axis, lines(*names), x="updates", y="loss", target=5.0)
        figure.legend(loc="outside upper left")  # type: ignore[attr-defined]

    return Drawing("curves-x", (3.5, 2.5), draw, ("arm", "value"), ((names[0], 0.1 + 0.2), ("b", None)))


def test_the_same_bytes_twice_whatever_the_user_set() -> None:
    first = drawing("a", "b").files()
    with matplotlib.rc_context({"font.size": 20, "svg.hashsalt": "other", "lines.linewidth": 9, "pdf.fonttype": 3}):
        again = drawing("a", "b").files()
    assert first == again
    assert matplotlib.rcParams["font.size"] == matplotlib.rcParamsDefault["font.size"]


def test_pdf_embeds_truetype_and_has_the_exact_width() -> None:
    pdf = drawing("a").files()["curves-x.pdf"]
    assert b"/Type3" not in pdf
    assert b"/Subtype /Type3" not in pdf
    assert b"/FontFile2" in pdf
    assert re.search(rb"/MediaBox \[ 0 0 252 180 \]", pdf)
    assert b"CreationDate" not in pdf


def test_svg_needs_no_font_and_has_no_date() -> None:
    svg = drawing("a").files()["curves-x.svg"].decode()
    assert "<text" not in svg
    assert "<dc:date>" not in svg


def test_csv_has_numbers_in_full() -> None:
    assert drawing("a,b").files()["curves-x.csv"].decode() == 'arm,value\n"a,b",0.30000000000000004\nb,\n'


def test_inlined_figures_share_no_id() -> None:
    svg = drawing("a").files()["curves-x.svg"]
    one, other = inline(svg, "f1"), inline(svg, "f2")
    ids = [set(re.findall(r'\bid="([^"]+)"', text)) for text in (one, other)]
    assert len(ids[0]) > 20
    assert not ids[0] & ids[1]
    for text, known in zip((one, other), ids):
        used = set(re.findall(r'href="#([^"]+)"', text)) | set(re.findall(r"url\(#([^)]+)\)", text))
        assert used
        assert used <= known


@pytest.mark.parametrize(
    "name", ["<script>alert(1)</script>", r"\input{/etc/passwd}", "a_b%&$#", "$x^{", "_hidden", "学习率", "x" * 300]
)
def test_hostile_names_are_drawn_as_text(name: str) -> None:
    """No mathematics, no missing glyphs (a warning is an error here), nothing that bursts the figure."""
    assert drawing(name).files()
    assert len(label(name)) <= LONGEST


def test_past_four_series_dash_and_marker_differ_too() -> None:
    looks = [mark(index, 12) for index in range(12)]
    assert len({(look.color, str(look.dash), look.marker) for look in looks}) == 12
    assert len({str(look.dash) for look in looks[:5]}) == min(5, len(DASHES))
    assert len({look.marker for look in looks[:7]}) == len(MARKERS)
    assert {str(mark(index, 4).dash) for index in range(4)} == {"solid"}


def test_the_start_of_training_does_not_press_the_rest_together() -> None:
    x = np.arange(0.0, 101.0)
    y = np.where(x < 10, 100.0, 1.0 + x / 1000)
    _, high = limits([Line("a", mark(0, 1), [x], [y], [False])], None)
    assert high is not None
    assert high < 2


def test_a_mean_of_survivors_is_not_drawn() -> None:
    """The thick line ends where the diverged seed ends."""
    from matplotlib.figure import Figure

    x = np.arange(10.0)
    with style():
        axis = Figure().add_subplot()
        curves(axis, [Line("a", mark(0, 1), [x, x, x[:4]], [x, x, x[:4]], [False, False, True])], x="x", y="y")
        mean = next(line for line in axis.get_lines() if line.get_label() == "a")
    assert np.max(np.asarray(mean.get_xdata())) == 3


def test_a_long_line_keeps_its_ends_and_its_extremes() -> None:
    """100,000 points, of which a spike of one: it is still there, and the line is shorter."""
    x = np.arange(100_000.0)
    y = np.sin(x / 500)
    y[54_321] = 9.0
    few_x, few_y = thinned(x, y)
    assert len(few_x) <= 8_000
    assert (few_x[0], few_x[-1], few_y.max(), few_x[few_y.argmax()]) == (0.0, 99_999.0, 9.0, 54_321.0)
    assert np.all(np.diff(few_x) > 0)
    assert np.array_equal(few_y, y[few_x.astype(int)])
    assert np.array_equal(thinned(x[:5_000], y[:5_000])[1], y[:5_000])
