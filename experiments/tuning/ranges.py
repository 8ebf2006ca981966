"""Range and Options: what a value is searched in, as text, as positions in [0, 1], and its edges. Torch-free.

    1e-4:1e-1:log    a range, uniform in the logarithm        32:256:int     whole numbers, both ends included
    0.8:0.99         a range, uniform                         0.8,0.9,0.99   options (two or more values)

A position is where a value stands in its range, in the range's own measure: 0 at the low end, 1 at the high end.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from algos.finding import InputError
from experiments.scalars import parse_value, print_value, split_values

_NUMBER = r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
_RANGE = re.compile(rf"({_NUMBER}):({_NUMBER})((?::[A-Za-z]*)*)")
#: How far past an edge a range is moved: a factor of ten where it is logarithmic, its own width otherwise.
DECADE = 10.0
#: The outer part of a range, at either end, that counts as its edge.
EDGE = 0.1


@dataclass(frozen=True)
class Range:
    """All numbers between low and high, both included. whole: whole numbers only. log: uniform in the logarithm.

    >>> Range(1e-4, 1e-2, log=True).at(0.5)
    0.001
    """

    low: float
    high: float
    log: bool = False
    whole: bool = False

    def __str__(self) -> str:
        ends = f"{_number(self.low, self.whole)}:{_number(self.high, self.whole)}"
        return ends + ":int" * self.whole + ":log" * self.log

    def at(self, position: float) -> float | int:
        """The value at a position, rounded to as few digits as the range allows, so that people can copy it."""
        if self.whole:
            return self._whole_at(position)
        exact = self._inverse(self._measure(self.low) + position * (self._measure(self.high) - self._measure(self.low)))
        for digits in range(4, 17):
            rounded = float(f"{exact:.{digits}g}")
            if abs(self.position(rounded) - self.position(exact)) <= 1e-3:
                break
        return min(max(rounded, self.low), self.high)

    def _whole_at(self, position: float) -> int:
        low, high = self._measure(self.low - 0.5), self._measure(self.high + 0.5)
        return int(min(max(round(self._inverse(low + position * (high - low))), self.low), self.high))

    def position(self, value: float) -> float:
        low, high = self._measure(self.low), self._measure(self.high)
        return (self._measure(value) - low) / (high - low)

    def edge(self, value: float) -> str:
        """ "low" or "high" where the value stands in the outer tenth, else "".

        >>> Range(1e-4, 1e-1, log=True).edge(0.09)
        'high'
        """
        position = self.position(value)
        return "low" if position <= EDGE + 1e-9 else "high" if position >= 1 - EDGE - 1e-9 else ""

    def past(self, edge: str, value: float, lowest: float = -math.inf, highest: float = math.inf) -> Range | None:
        """From the value (at least the outer tenth) to a decade beyond the edge, within [lowest, highest]; None where
        there is no room beyond.

        >>> str(Range(1e-4, 1e-1, log=True).past("high", 0.03))
        '0.03:1.0:log'
        """
        if edge == "high":
            ends = (min(self.at(1 - EDGE), value), min(self._beyond(self.high, 1), highest))
            moved = ends[1] > self.high
        else:
            ends = (max(self._beyond(self.low, -1), lowest), max(self.at(EDGE), value))
            moved = ends[0] < self.low
        if self.whole:
            ends = (math.ceil(ends[0]), math.floor(ends[1]))
        return replace(self, low=ends[0], high=ends[1]) if moved and ends[0] < ends[1] else None

    def _beyond(self, end: float, sign: int) -> float:
        return end * DECADE**sign if self.log else end + sign * (self.high - self.low)

    def _measure(self, value: float) -> float:
        return math.log(value) if self.log else value

    def _inverse(self, measured: float) -> float:
        return math.exp(measured) if self.log else measured


@dataclass(frozen=True)
class Options:
    """Some values of any kind, in no order: they have no edge. A sampler sees their labels only.

    >>> str(Options((0.8, 0.9)))
    '0.8,0.9'
    >>> Options((None, {"rho": 0.05, "name": "sam"})).labels
    ('none', '{"name": "sam", "rho": 0.05}')
    """

    values: tuple[Any, ...]

    def __str__(self) -> str:
        return ",".join(self.labels)

    @property
    def labels(self) -> tuple[str, ...]:
        """The values as text, as a command line has them: `parse_value` reads each back."""
        return tuple(label(value) for value in self.values)

    def value(self, of: str) -> Any:
        """The value with a label."""
        return self.values[self.labels.index(of)]

    def find(self, value: Any) -> str | None:
        """The label of a value, also as JSON has it (lists for tuples); None where it is no option."""
        if (exact := label(value)) in self.labels:
            return exact
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            return None
        return next((of for of, own in zip(self.labels, self.values) if _is_number(own) and own == value), None)

    def at(self, position: float) -> Any:
        return self.values[min(int(position * len(self.values)), len(self.values) - 1)]

    def edge(self, value: Any) -> str:
        return ""

    def past(self, edge: str, value: Any, lowest: float = -math.inf, highest: float = math.inf) -> Range | None:
        return None


Dimension = Range | Options


def parse_range(text: str, place: str = "") -> Range | None:
    """The range a text spells; None where it spells none; InputError where it tries to and is wrong.

    >>> parse_range("1e-4:1e-1:log")
    Range(low=0.0001, high=0.1, log=True, whole=False)
    """
    match = _RANGE.fullmatch(text)
    if not match:
        return None
    low, high, words = float(match[1]), float(match[2]), match[3].split(":")[1:]
    for word in words:
        if word not in ("log", "int"):
            raise InputError(f"'{text}' has an unknown scale '{word}'", "give LOW:HIGH[:log][:int]", place=place)
    if low == high:
        raise InputError(f"the range '{text}' has equal ends", f"give the value itself: {match[1]}", place=place)
    if not low < high:
        raise InputError(f"the range '{text}' is empty", "give the low end first, then the high one", place=place)
    if "log" in words and low <= 0:
        raise InputError(f"the range '{text}' has no logarithm", "start a log range above 0", place=place)
    if "int" in words and not (low.is_integer() and high.is_integer()):
        raise InputError(f"the range '{text}' is not of whole numbers", "give whole ends or drop :int", place=place)
    return Range(low, high, log="log" in words, whole="int" in words)


def parse_dimension(text: str, place: str = "") -> Dimension | None:
    """A range, or options joined with commas; None where the text is one value.

    >>> parse_dimension("0.8,0.9"), parse_dimension("muon")
    (Options(values=(0.8, 0.9)), None)
    """
    found = parse_range(text, place)
    if found or "," not in text:
        return found
    return Options(tuple(parse_value(piece, place) for piece in split_values(text, place)))


def label(value: Any) -> str:
    """A value as text: the same for the same value, in whatever order its keys stand.

    >>> label((0.9, 0.95)), label("a,b"), label(["cautious", "sam"])
    ('0.9/0.95', '"a,b"', '["cautious", "sam"]')
    """
    return print_value(_in_order(value))


def _in_order(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _in_order(value[key]) for key in sorted(value, key=lambda key: (key != "name", str(key)))}
    return [_in_order(part) for part in value] if isinstance(value, (list, tuple)) else value


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _number(value: float, whole: bool) -> str:
    return str(int(value)) if whole else repr(float(value))
