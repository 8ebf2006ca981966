"""Greyscale: whether series can still be told apart in a black-and-white print.

Luminance is CIE L* (0 black, 100 white) of the colour as sRGB shows it. Two series that differ in dash or marker are
told apart by those; others need a difference of lightness that an eye sees across a figure."""

from __future__ import annotations

import itertools
from collections.abc import Mapping

from algos.finding import Finding
from reports.figures.style import Mark

#: In L*. A step of 1 is just seen side by side; lines that lie apart need several times that.
APART = 10.0


def lightness(color: str) -> float:
    """L* of a colour (CIE 1976, D65).

    >>> round(lightness("#ffffff"), 1), round(lightness("#000000"), 1), round(lightness("#777777"), 1)
    (100.0, 0.0, 50.0)
    """
    from matplotlib.colors import to_rgb

    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in to_rgb(color)]
    y = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    return 116 * y ** (1 / 3) - 16 if y > (6 / 29) ** 3 else y * (29 / 3) ** 3


def differences(looks: Mapping[str, Mark]) -> dict[tuple[str, str], float]:
    """|difference of L*| of each pair of series."""
    light = {name: lightness(look.color) for name, look in looks.items()}
    return {(a, b): abs(light[a] - light[b]) for a, b in itertools.combinations(looks, 2)}


def greyscale(looks: Mapping[str, Mark]) -> list[Finding]:
    """A caution for each pair that cannot be told apart in grey and has dash and marker in common."""
    return [
        Finding(
            rule="alike-in-grey",
            said=f"'{a}' and '{b}' differ by {apart:.0f} of 100 in lightness, with the same dash and marker",
            cure="give one of them another dash or marker, or print in colour",
            level="caution",
        )
        for (a, b), apart in differences(looks).items()
        if apart < APART and (str(looks[a].dash), looks[a].marker) == (str(looks[b].dash), looks[b].marker)
    ]
