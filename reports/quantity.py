"""Quantity: a number of a report, with its uncertainty, how it was computed and from which runs."""

from __future__ import annotations

import math
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

#: More decimal places than this are not written out.
_PLACES = 12
#: Below this, numbers with an interval are in scientific notation.
_SMALL = 1e-4
#: The line between shown and not shown, on whose side a p-value is seen to be.
_ALPHA = 0.05
#: The statistic of a p-value's floor, which is shown as the p-value beside it is.
_FLOOR = "smallest possible p"


class Quantity(BaseModel):
    """One number.

    value: None where there is none ("not reached"; `absent` then says which word to show). low, high: its interval, or
    None. unit: "" for a plain number, "p" for a p-value, else shown after it. statistic: the function that made it,
    "module.name" in `reports.statistics`, or "count", "value" or "difference". arguments: what it was given besides the
    runs (metric, arms, confidence). runs: ids of the runs it rests on, in order.

    >>> Quantity(value=0.97423, low=0.97012, high=0.97834, statistic="student.mean_interval").text
    '0.9742 [0.9701, 0.9783]'
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    value: float | None
    low: float | None = None
    high: float | None = None
    unit: str = ""
    statistic: str
    arguments: dict[str, Any] = Field(default_factory=dict)
    runs: tuple[str, ...] = ()
    absent: str = "none"

    @property
    def number(self) -> str:
        """The number and its interval, without the unit: for tables, whose heads have it."""
        if self.value is None:
            return self.absent
        if self.unit == "p" or self.statistic == _FLOOR:
            return p_value(self.value)
        if self.low is None or self.high is None:
            return plain(self.value)
        value, low, high = together(self.value, self.low, self.high)
        return f"{value} [{low}, {high}]"

    @property
    def text(self) -> str:
        """The number as it stands in a sentence."""
        shown = self.number
        if self.unit == "p":
            return f"p {shown}" if shown.startswith("<") else f"p = {shown}"
        return f"{shown} {self.unit}" if self.unit and self.value is not None else shown


def decimals(low: float, high: float) -> int:
    """Decimal places that an interval supports: two digits of its half width. Negative: rounded to tens, hundreds.

    >>> decimals(0.9701, 0.9783), decimals(870.0, 1130.0)
    (4, -1)
    """
    half = (high - low) / 2
    if not half > 0:
        scale = max(abs(low), abs(high))
        return min(_PLACES, 3 - math.floor(math.log10(scale))) if scale > 0 else 0
    return min(_PLACES, 1 - math.floor(math.log10(half)))


def together(value: float, low: float, high: float) -> tuple[str, str, str]:
    """A value and its bounds at one precision: as many digits as the interval supports, and enough for the sign of a
    bound to show. Very small ones are in scientific notation.

    >>> together(0.03, 0.0002, 0.0598)
    ('0.0300', '0.0002', '0.0598')
    >>> together(2e-8, 1e-8, 3.1e-8)
    ('2.0e−08', '1.0e−08', '3.1e−08')
    """
    places, numbers = decimals(low, high), (value, low, high)
    if 0 < max(map(abs, numbers)) < _SMALL:
        return scientific(value, places), scientific(low, places), scientific(high, places)
    while places < _PLACES and any(bound != 0 and round(bound, places) == 0 for bound in (low, high)):
        places += 1
    shown = (
        scientific(number, _PLACES) if number != 0 and round(number, places) == 0 else rounded(number, places)
        for number in (low, high)
    )
    return rounded(value, places), *shown  # type: ignore[return-value]


def scientific(number: float, places: int) -> str:
    """A number to so many decimal places, as digits and an exponent; at least two digits."""
    digits = max(1, math.floor(math.log10(abs(number))) + places) if number else 1
    return f"{number:.{digits}e}".replace("-", "−")


def rounded(number: float, places: int) -> str:
    """A number at so many decimal places, with a true minus sign, and never "-0.00".

    >>> rounded(-0.001, 2), rounded(-1234.0, -1)
    ('0.00', '−1,230')
    """
    near = round(number, places) + 0.0
    return f"{near:,.{max(0, places)}f}".replace("-", "−")


def plain(number: float) -> str:
    """A number whose uncertainty is not known: whole numbers in full, others to four digits at most; with a true minus
    sign.

    >>> plain(1200.0), plain(0.97428), plain(-1.7), plain(3.2e-5)
    ('1,200', '0.9743', '−1.7', '3.2e−05')
    """
    if number == int(number) and abs(number) < 1e9:
        shown = f"{int(number):,}"
    else:
        shown = f"{number:,.0f}" if 1e4 <= abs(number) < 1e9 else f"{number:,.4g}"
    return shown.replace("-", "−")


def p_value(p: float) -> str:
    """Three places, a half rounded up, never "0.000"; two where the third is 0 and p is not small; more where it takes
    them to show on which side of 0.05 it is. A smaller p-value is never shown as a greater one.

    >>> p_value(0.00004), p_value(0.0312), p_value(0.4), p_value(0.125), p_value(0.9999), p_value(0.05004)
    ('< 0.001', '0.031', '0.40', '0.125', '1.00', '0.05004')
    """
    if p < 0.001:
        return "< 0.001"
    places, exact = 3, Decimal(repr(float(p)))
    while places < _PLACES and p != _ALPHA and float(_half_up(exact, places)) == _ALPHA:
        places += 1
    shown = f"{_half_up(exact, places):f}"
    return shown.removesuffix("0") if p >= 0.0995 else shown


def _half_up(number: Decimal, places: int) -> Decimal:
    return number.quantize(Decimal(1).scaleb(-places), ROUND_HALF_UP)
