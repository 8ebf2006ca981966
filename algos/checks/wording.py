"""Wording: what was found, in a line that is read at a glance."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping

#: The longest message of a line, in characters.
MOST = 150
_SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[A-Z])|\n")


def sentence(text: str, most: int = MOST) -> str:
    """The first line or sentence, cut to some characters; what was cut shows as three dots.

    >>> sentence("RuntimeError: Could not run 'aten::add'. This could be because")
    "RuntimeError: Could not run 'aten::add'. ..."
    >>> sentence("differs by 1.0e-03 (e.g. so)"), sentence("a long word", most=9)
    ('differs by 1.0e-03 (e.g. so)', 'a lon ...')
    """
    text = text.strip()
    first = _SENTENCE.split(text, maxsplit=1)[0].rstrip()
    if first == text and len(text) <= most:
        return text
    return f"{first[: most - 4].rstrip()} ..."


def by_rate(reached: Mapping[float, float], before: float) -> str:
    """Results by their rate, from the smallest rate on; neighbours that look alike are told once,
    and what is above the value before is "more".

    >>> by_rate({0.1: 25.0, 0.01: 3.0, 1.0: float("inf"), 0.001: 3.001, 0.0001: 7.5}, before=24.0)
    '7.5 at 0.0001, 3 at 0.001 to 0.01, more at 0.1 to 1'
    """
    told = []
    shown = {rate: "more" if result > before else f"{result:.3g}" for rate, result in reached.items()}
    for result, rates in itertools.groupby(sorted(reached), key=lambda rate: shown[rate]):
        first, *others = rates
        told.append(f"{result} at {first:g}" + (f" to {others[-1]:g}" if others else ""))
    return ", ".join(told)
