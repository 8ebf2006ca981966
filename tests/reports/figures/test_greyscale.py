"""Lightness by CIE's own numbers; what a black-and-white print cannot tell apart is said."""

from __future__ import annotations

import pytest

from reports.figures.greyscale import APART, differences, greyscale, lightness
from reports.figures.style import Mark, mark, marks


@pytest.mark.parametrize(
    ("color", "expected"),
    # CIE L* of sRGB's primaries (D65), as in Lindbloom's calculator
    [("#ff0000", 53.24), ("#00ff00", 87.74), ("#0000ff", 32.30), ("#808080", 53.59), ("#010101", 0.27)],
)
def test_lightness_of_known_colours(color: str, expected: float) -> None:
    assert lightness(color) == pytest.approx(expected, abs=0.01)


def test_red_and_mid_grey_are_one_grey() -> None:
    looks = {"a": Mark("#ff0000", "solid", "o"), "b": Mark("#808080", "solid", "o")}
    found = greyscale(looks)
    assert [finding.rule for finding in found] == ["alike-in-grey"]
    assert "'a' and 'b'" in found[0].said
    assert not greyscale({**looks, "b": Mark("#808080", "solid", "s")})
    assert not greyscale({**looks, "b": Mark("#808080", (0, (5, 2)), "o")})


@pytest.mark.parametrize("count", [1, 2, 3, 4, 7, 12, 30])
def test_our_own_series_pass(count: int) -> None:
    assert not greyscale({str(index): mark(index, count) for index in range(count)})


def test_the_series_that_share_a_dash_differ_in_lightness() -> None:
    assert min(differences(marks(["a", "b", "c", "d"])).values()) >= APART
