"""Sentence: the numbers that a sentence of a paper writes, each at the precision at which it is written.

A number may be 0.62, -3, 1,230, 4.2e-5, 62 % (a hundredth each), 0.62x; its interval [0.55, 0.70] or ± 0.07; beside it
n = 5, 95 % CI and p < 0.05. A number may be a bound: at least 0.9, below 3, > 0.5. Digits in names (ResNet-18, CIFAR10,
seed_3) are no numbers."""

from __future__ import annotations

import math
import operator
import re
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from reports.quantity import decimals

_NUMBER = r"[+\-−–]?(?:\d{1,3}(?:,\d{3})+|\d+)?(?:\.\d+)?(?:[eE][+\-−]?\d+)?"
_FREE = r"(?<![\w.])(?<![A-Za-z]-)(?<![A-Za-z])"
_PERCENT = r"\s?(?:%|\\%|percent\b|per cent\b|percentage points?\b)"
_INTERVAL = re.compile(rf"[\[(]\s*({_NUMBER}(?:{_PERCENT})?)\s*(?:,|;|to|–|—)\s*({_NUMBER})({_PERCENT})?\s*[\])]")
_ONE = re.compile(rf"{_FREE}({_NUMBER})({_PERCENT})?(?![\w]*[A-Za-wyzA-WYZ_])")
_HALF = re.compile(rf"\s*(?:±|\\pm|\+/-)\s*({_NUMBER})({_PERCENT})?")
_COUNT = re.compile(r"\b[nN]\s?=\s?(\d+)")
_CONFIDENCE = re.compile(r"(\d+(?:\.\d+)?)\s?\\?%\s*(?:t |bootstrap )?(?:CI\b|confidence|interval)", re.IGNORECASE)
#: What makes the number after it a bound. Those that contain others stand before them.
_BOUND_WORDS = {
    ">=": r"≥|⩾|>=|\\geq?\b|\\geqslant\b|\bat least|\bnot? (?:less|fewer|lower) than|\bnot below|\bbetween",
    "<=": r"≤|⩽|<=|\\leq?\b|\\leqslant\b|\bat most|\bnot? (?:more|greater|higher) than|\bnot above",
    ">": r">|\\gt\b|\b(?:more|greater|higher) than|\babove",
    "<": r"<|\\lt\b|\b(?:less|fewer|lower) than|\bbelow",
}
_SIGNS = [(sign, re.compile(rf"(?:{words})[\s$]*$", re.IGNORECASE)) for sign, words in _BOUND_WORDS.items()]
#: 10^{-3}, 2.1 × 10⁻⁵.
_POWER = rf"(?:{_NUMBER}\s*(?:[×x·]|\\times|\\cdot)\s*)?10\s*(?:\^\s*\{{?\s*[-−–]\d+|⁻[⁰¹²³⁴-⁹]+)"
#: A p-value: p < 0.05, $p$ = 0.03, p_{adj} \leq 0.01, a p-value of 0.2, p < 10^{-3}.
_P = re.compile(
    r"(?<![\w\\])(?<!\w-)(?:[pP𝑝𝑃𝒑𝘱𝙥]|\\mathit\{p\})(?:[-\s]?values?)?(?:_\{?\w+\}?)?[\s$*}]*"
    rf"((?:\b(?:of|is|was)\s+)?(?:=|≈|:|\b(?:of|is|was)|{'|'.join(_BOUND_WORDS.values())})[\s$]*)"
    rf"(?:({_POWER})|({_NUMBER})({_PERCENT})?)"
)


@dataclass(frozen=True)
class Written:
    """A number as it stands in text. value: what it says, a percentage as a share. places: decimal places of that.
    sign: "<", "<=", ">" or ">=" where it is written as a bound, as in p < 0.001 or "at least 0.9"."""

    text: str
    value: float
    places: int
    sign: str = ""

    def percent(self) -> Written:
        """The same digits as hundredths."""
        return replace(self, value=self.value / 100, places=self.places + 2)

    def says(self, number: float | None, low: float | None = None, high: float | None = None) -> bool:
        """Whether it is that number, rounded to what is written. low, high: its interval, to which reports round."""
        if number is None or not math.isfinite(number):
            return False
        if self.sign:
            return _HOLDS[self.sign](number, self.value)
        half = 0.5 * 10.0**-self.places
        if abs(number - self.value) <= half * (1 + 1e-9) + 1e-15 * abs(number):
            return True
        if low is None or high is None or self.places > 0:
            return False
        supported = decimals(low, high)
        return supported < 0 and math.isclose(round(number, supported), self.value, rel_tol=1e-9)


_HOLDS: dict[str, Callable[[float, float], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


@dataclass(frozen=True)
class Said:
    """What a sentence says of its number. others: all numbers, where it is not plain which one is meant. p: the p-value
    that stands beside it, or alone."""

    value: Written | None = None
    low: Written | None = None
    high: Written | None = None
    half: Written | None = None
    n: int | None = None
    confidence: float | None = None
    others: tuple[Written, ...] = field(default=())
    p: Written | None = None


def said(sentence: str, written: str = "") -> Said:
    """What a sentence says. written: which of its numbers is meant, as it stands there, where there are several.

    >>> found = said("Muon needs 0.62x [0.55, 0.70] of AdamW's updates (n = 5)")
    >>> found.value.text, found.low.value, found.high.value, found.n
    ('0.62', 0.55, 0.7, 5)
    >>> round(said("97.4 % of CIFAR-10").value.value, 6)
    0.974
    """
    count, confidence = _COUNT.search(sentence), _CONFIDENCE.search(sentence)
    rest = _blank(_CONFIDENCE, _blank(_COUNT, sentence))
    tests = [(found, it) for found in _P.finditer(rest) if (it := _p_value(found))]
    beside = [it for _, it in tests]
    for found, _ in tests:
        rest = _blanked(rest, found)
    n = int(count[1]) if count else None
    level = float(confidence[1]) / 100 if confidence else None
    span = next((found for found in _INTERVAL.finditer(rest) if _bounds(found)), None)
    low, high = (_bounds(span) if span else None) or (None, None)
    outside = _blanked(rest, span)
    numbers = [
        (found, replace(number, sign=_sign(outside[: found.start()])))
        for found in _ONE.finditer(outside)
        if (number := _read(found[1], found[2] or ""))
    ]
    halves: dict[int, Written] = {}
    for found, _ in numbers:
        if (half := _HALF.match(outside, found.end())) and (number := _read(half[1], half[2] or found[2] or "")):
            halves[found.start()] = number
            whole = bool(half[2]) and not found[2]  # 62 ± 7 %
            numbers = [
                (each, it.percent() if whole and each is found else it)
                for each, it in numbers
                if not half.start() <= each.start() < half.end()
            ]
    chosen = _chosen(numbers, span, list(halves), written)
    named = [each for each in beside if written and not chosen and each.text == written]
    p = named[0] if named else beside[0] if len(beside) == 1 else None
    if named or (len(beside) > 1 and chosen is None):
        return Said(None, low, high, None, n, level, () if named else (*(it for _, it in numbers), *beside), p)
    if chosen is None:
        return Said(None, low, high, None, n, level, tuple(number for _, number in numbers), p)
    if chosen[0][2] and span is not None and "%" not in span[0] and "per" not in span[0]:  # 62 % [55, 70]
        low, high = (bound.percent() if bound else None for bound in (low, high))
    others = tuple(beside) if len(beside) > 1 else ()
    return Said(chosen[1], low, high, halves.get(chosen[0].start()), n, level, others, p)


def _chosen(
    numbers: list[tuple[re.Match[str], Written]], span: re.Match[str] | None, halved: list[int], written: str
) -> tuple[re.Match[str], Written] | None:
    """The one number that is meant: the one that was named, the one just before an interval, or the only one."""
    if written:
        return next((pair for pair in numbers if pair[1].text == written), None)
    if span is not None:
        before = [pair for pair in numbers if pair[0].end() <= span.start()]
        return before[-1] if before else None
    if len(halved) == 1:
        return next(pair for pair in numbers if pair[0].start() == halved[0])
    return numbers[0] if len(numbers) == 1 else None


def _bounds(span: re.Match[str]) -> tuple[Written, Written] | None:
    """The two numbers of an interval; None where it is none."""
    percent = span[3] or ""
    first = re.fullmatch(rf"({_NUMBER})({_PERCENT})?", span[1])
    low = _read(first[1], first[2] or percent) if first else None
    high = _read(span[2], percent)
    return (low, high) if low and high and low.value <= high.value else None


def _sign(before: str) -> str:
    """Whether what stands before a number makes it a bound."""
    return next((sign for sign, words in _SIGNS if words.search(before)), "")


def _read(text: str, percent: str) -> Written | None:
    plain = text.replace(",", "").replace("−", "-").replace("–", "-").replace("+", "")
    if not re.search(r"\d", plain.partition("e")[0]):
        return None
    mantissa, _, exponent = plain.lower().partition("e")
    number = Written(text.strip(), float(plain), len(mantissa.partition(".")[2]) - int(exponent or 0))
    return number.percent() if percent else number


def _p_value(found: re.Match[str]) -> Written | None:
    """What is written of a p-value; None where it is none, as p = 2 is of a norm."""
    number = _power(found[2]) if found[2] else _read(found[3], found[4] or "")
    return replace(number, sign=_sign(found[1])) if number and 0 <= number.value <= 1 else None


def _power(text: str) -> Written | None:
    plain = unicodedata.normalize("NFKC", text).replace("−", "-").replace("–", "-")  # superscripts become digits
    parts = re.fullmatch(rf"(?:({_NUMBER})\D.*?)?10[\s^{{]*(-\d+)", plain)
    number = _read(f"{parts[1] or 1}e{parts[2]}", "") if parts else None
    return replace(number, text=text.strip()) if number else None


def _blank(pattern: re.Pattern[str], text: str) -> str:
    """Spaces in place of what matches, so that all else stays where it is."""
    blank: Callable[[re.Match[str]], str] = lambda found: " " * len(found[0])  # noqa: E731
    return pattern.sub(blank, text)


def _blanked(text: str, span: re.Match[str] | None) -> str:
    return text if span is None else text[: span.start()] + " " * len(span[0]) + text[span.end() :]
