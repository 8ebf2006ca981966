"""Numbers that are a part of something else, told from those with marks around them."""

from __future__ import annotations

import pytest

from reports.verifying.expression import part


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("1/", ""),
        ("2 × ", ""),
        ("1 − ", ""),
        ("\\frac{1}{", "}"),
        ("log10 ", ""),
        ("≠ ", ""),
        ("cannot be ", ""),
        ("", "^2"),
        ("", " × 10^3"),
        ("", "x 10^3"),
        ("", " - 0.1"),
        ("", "–0.7"),
        ("", ") × 10^3"),
        ("", " basis points"),
        ("", "⁻³"),
    ],
)
def test_a_part(before: str, after: str) -> None:
    assert part(before, after)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("**", "**"),
        ("$", "$"),
        ("(", ")"),
        ("", "x of AdamW's 100"),
        ("", "x 5 seeds"),
        ("CIFAR-10 - ", ""),
        ("5 seeds – ", ""),
        ("and/or ", ""),
        ("seeds 1, 2, ", ""),
        ("", " ± 0.1"),
        ("", " [0.1, 0.2]"),
        ("", "-fold"),
        ("not only ", ""),
        ("", " kilograms"),
        ("", " bits per character"),
    ],
)
def test_marks(before: str, after: str) -> None:
    assert part(before, after) == ""
