"""Styles: the widths that journals publish, a user's own, and what is refused."""

from __future__ import annotations

import threading

import matplotlib
import pytest

from algos.finding import InputError
from reports.figures.fonts import SERIF, families, height_cm, substituted
from reports.figures.journals import STYLES, named
from reports.figures.style import labels, mark, marks, style


@pytest.mark.parametrize(
    ("name", "width", "inches"),
    [
        ("neurips", "text", 5.5),
        ("icml", "column", 3.25),
        ("icml", "text", 6.75),
        ("ieee", "column", 3.5),
        ("ieee", "text", 7.16),
        ("nature", "column", 3.5039),
        ("nature", "text", 7.2047),
        ("patent", "a4", 6.6929),
        ("icml", "120mm", 4.7244),
        ("icml", "4in", 4.0),
        ("icml", "246pt", 246 / 72.27),
        ("icml", 2.5, 2.5),
    ],
)
def test_widths_are_the_journals(name: str, width: str | float, inches: float) -> None:
    assert named(name).width(width) == pytest.approx(inches, abs=5e-5)


def test_a_patents_letters_are_at_least_0_32_cm_high() -> None:
    """PCT rule 11.13(h). The lowest letters too, not the capitals alone."""
    look = STYLES["patent"]
    assert min(look.size, look.small) == look.small
    assert all(height_cm(letter, look.small, look.fonts) >= 0.32 for letter in "xnX0")
    assert max(look.widths.values()) <= 17.6 / 2.54 + 1e-9, "wider than what 37 CFR 1.84 leaves of a letter page"


def test_ones_own_style_is_a_few_keys() -> None:
    look = named({"like": "icml", "size": 8, "widths": {"column": "84mm"}, "fonts": "DejaVu Sans"})
    assert (look.size, look.small, look.fonts) == (8.0, 8.0, ("DejaVu Sans",))
    assert look.width("column") == pytest.approx(84 / 25.4)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ("icmll", "did you mean 'icml'"),
        ({"sise": 8}, "did you mean 'size'"),
        ({"size": "big"}, "give a positive number"),
        ({"widths": {"column": "wide"}}, "widths"),
        ({"ink": "no"}, "true or false"),
        ({"fonts": []}, "give families"),
        ({"like": "nobody"}, "unknown style"),
    ],
)
def test_what_is_no_style_is_refused(given: object, says: str) -> None:
    with pytest.raises(InputError, match=says):
        named(given)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("width", "says"),
    [
        ("wide", "unknown width 'wide'; icml has column"),
        ("0.1in", "a width of 0.1 in; give 0.5 to 60 in"),
        ("-3", "a width of -3 has no unit"),
        ("1000cm", "give 0.5 to 60 in"),
        ("nan", "unknown width 'nan'"),
        ("3", "a width of 3 has no unit; icml has column .3.25 in., .*; or say 84mm, 3.3in, 246pt"),
        ("84", "has no unit"),
        (float("nan"), "give 0.5 to 60 in"),
    ],
)
def test_what_is_no_width_is_refused(width: str | float, says: str) -> None:
    """Also text that may have been meant in inches, millimetres or centimetres."""
    with pytest.raises(InputError, match=says):
        named("icml").width(width)


def test_styles_in_threads_leave_the_users_settings() -> None:
    """They are one for all threads: whoever comes second waits, else it would take the first's for the user's."""
    before, inside, go = dict(matplotlib.rcParams), threading.Event(), threading.Event()
    seen: list[object] = []

    def first() -> None:
        with style("nature"):
            inside.set()
            go.wait(60)
            seen.append(matplotlib.rcParams["font.size"])

    def second() -> None:
        with style("slide"):
            seen.append(matplotlib.rcParams["font.size"])

    threads = [threading.Thread(target=first), threading.Thread(target=second)]
    threads[0].start()
    assert inside.wait(60)
    threads[1].start()
    go.set()
    for thread in threads:
        thread.join(60)
    assert seen == [7.0, 18.0]
    assert dict(matplotlib.rcParams) == before


def test_styles_do_not_leak() -> None:
    before = dict(matplotlib.rcParams)
    with style("nature", width="text", height=2.0) as look:
        assert matplotlib.rcParams["figure.figsize"] == [look.width("text"), 2.0]
        assert matplotlib.rcParams["pdf.fonttype"] == 42
        assert matplotlib.rcParams["savefig.bbox"] is None
    assert dict(matplotlib.rcParams) == before


def test_the_font_that_stands_in_is_said() -> None:
    assert families(SERIF)[0] in SERIF
    assert substituted(("DejaVu Sans",)) == ""
    assert "No Such Font is not installed" in substituted(("No Such Font", "STIXGeneral"))
    assert families(("No Such Font", "STIXGeneral"))[0] == "STIXGeneral"


def test_black_series_differ_in_dash_and_marker_from_the_second_on() -> None:
    with style("patent"):
        looks = [mark(index, 2) for index in range(2)]
    assert {look.color for look in looks} == {"#000000"}
    assert looks[0].dash != looks[1].dash
    assert looks[0].marker != looks[1].marker


def test_lines_that_may_lie_on_each_other_have_dashes() -> None:
    assert len({str(look.dash) for look in marks(["a", "b", "c"], dashed=True).values()}) == 3
    assert len({str(look.dash) for look in marks(["a", "b", "c"]).values()}) == 1


def test_long_names_that_begin_alike_stay_apart() -> None:
    names = ["x" * 300, "x" * 299 + "y", "x" * 150 + "z" + "x" * 150, "_hidden"]
    shown = labels(names)
    assert len(set(shown.values())) == len(names)
    assert all(len(text) <= 29 for text in shown.values())
    assert not shown["_hidden"].startswith("_"), "matplotlib would leave it out of the legend"
