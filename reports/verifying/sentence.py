"""Sentence: the numbers that a sentence of a paper writes, each at the precision at which it is written.

A number may be 0.62, -3, 1,230, 4.2e-5, 62 % (a hundredth each), 0.62x; its interval [0.55, 0.70] or ± 0.07; beside it
n = 5, 95 % CI and p < 0.05. A number may be a bound: at least 0.9, below 3, not > 0.5, between 0.5 and 0.7. Digits in
names (ResNet-18, CIFAR10, seed_3) are no numbers, and 0.62 is not what 0.62 × 10^3, 1/0.62 or 0.62 million say."""

from __future__ import annotations

import math
import operator
import re
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from reports.quantity import decimals
from reports.verifying.expression import part

_NUMBER = r"[+\-−–]?(?:\d{1,3}(?:,\d{3})+|\d+)?(?:\.\d+)?(?:[eE][+\-−]?\d+)?"
_FREE = r"(?<![\w.])(?<![A-Za-z]-)(?<![A-Za-z])"
_PERCENT = r"(?:[\s~$}*]|\\[,;:! ])*(?:\\?%|[％﹪٪]|per[ -]?cent\b|pct\b|pp\b|percentage[ -]points?\b)"
_INTERVAL = re.compile(rf"[\[(]\s*({_NUMBER}(?:{_PERCENT})?)\s*(?:,|;|to|–|—)\s*({_NUMBER})({_PERCENT})?\s*[\])]")
#: The last lookahead keeps a number whole: 0.62k is not 0, and 0.62.3 is none.
_ONE = re.compile(rf"{_FREE}({_NUMBER})({_PERCENT})?(?![\w]*[A-Za-wyzA-WYZ_])(?!\.?\d)")
_HALF = re.compile(rf"\s*(?:±|\\pm|\+/-)\s*({_NUMBER})({_PERCENT})?")
_COUNT = re.compile(r"\b[nN]\s?=\s?(\d+)")
_CONFIDENCE = re.compile(r"(\d+(?:\.\d+)?)\s?\\?%\s*(?:t |bootstrap )?(?:CI\b|confidence|interval)", re.IGNORECASE)
#: What makes the number after it a bound. Those that contain others stand before them.
_BOUND_WORDS = {
    ">=": r"≥|⩾|>=|\\geq?\b|\\geqslant\b|\bat least|\bnot? (?:less|fewer|lower) than|\bnot below",
    "<=": r"≤|⩽|<=|\\leq?\b|\\leqslant\b|\bat most|\bnot? (?:more|greater|higher) than|\bnot above",
    ">": r">|\\gt\b|\b(?:more|greater|higher) than|\babove",
    "<": r"<|\\lt\b|\b(?:less|fewer|lower) than|\bbelow",
}
_SIGNS = [(sign, re.compile(rf"(?:{words})[\s$]*$", re.IGNORECASE)) for sign, words in _BOUND_WORDS.items()]
#: What before a bound's words makes it the opposite one, and before ">" an arrow or a tag: -> 0.5, <b>0.5.
_NOT = re.compile(r"(?:\b(?:not|never|cannot)|n['’]t|[!¬]|\\(?:not|neg)\b)\s*(?:(?:be|even|a|the)\s+)*$", re.IGNORECASE)
_OPPOSITE = {">=": "<", "<=": ">", ">": "<=", "<": ">="}
_ARROW = re.compile(r"(?:[-=–—~>]|</?[A-Za-z][^<>]*)$")
_BETWEEN = re.compile(r"\bbetween[\s$]*$", re.IGNORECASE)
#: The other end of "between 0.5 and 0.7".
_AND = re.compile(rf"\s*[x×]?[\s$]*and[\s$]*({_NUMBER})({_PERCENT})?", re.IGNORECASE)
#: 10^{-3}, 2.1 × 10⁻⁵.
_POWER = rf"(?:{_NUMBER}\s*(?:[×x·]|\\times|\\cdot)\s*)?10\s*(?:\^\s*\{{?\s*[-−–]\d+|⁻[⁰¹²³⁴-⁹]+)"
#: A p-value: p < 0.05, $p$ = 0.03, p_{adj} \leq 0.01, a p-value of 0.2, p < 10^{-3}.
_P = re.compile(
    r"(?<![\w\\])(?<!\w-)(?:[pP𝑝𝑃𝒑𝘱𝙥]|\\mathit\{p\})(?:[-\s]?values?)?(?:_\{?\w+\}?)?[\s$*}]*"
    rf"((?:\b(?:of|is|was)\s+)?(?:[=≈≃~∼:]|\\(?:approx|sim)\b|\b(?:of|is|was)|{'|'.join(_BOUND_WORDS.values())})[\s$]*"
    r"|(?<=value)[\s$]+)"
    rf"(?:({_POWER})|({_NUMBER})({_PERCENT})?)"
)


#: Longer exponents and numbers are not read.
_EXPONENT, _DIGITS = 4, 100


@dataclass(frozen=True)
class Written:
    """A number as it stands in text. value: what it says, a percentage as a share. places: decimal places of that.
    sign: "<", "<=", ">" or ">=" where it is written as a bound, as in p < 0.001 or "at least 0.9". upto: the other
    bound of "between 0.5 and 0.7"."""

    text: str
    value: float
    places: int
    sign: str = ""
    upto: float | None = None

    def percent(self) -> Written:
        """The same digits as hundredths."""
        upto = None if self.upto is None else self.upto / 100
        return replace(self, value=self.value / 100, places=self.places + 2, upto=upto)

    def says(self, number: float | None, low: float | None = None, high: float | None = None) -> bool:
        """Whether it is that number, rounded to what is written. low, high: its interval, to which reports round."""
        if number is None or not math.isfinite(number):
            return False
        if self.sign:
            return _HOLDS[self.sign](number, self.value) and (self.upto is None or number <= self.upto)
        if self._rounds(number):
            return not self.coarse(number, low, high)
        if low is None or high is None or self.places > 0:
            return False
        supported = decimals(low, high)
        return supported < 0 and math.isclose(round(number, supported), self.value, rel_tol=1e-9)

    def coarse(self, number: float, low: float | None = None, high: float | None = None) -> bool:
        """Whether it says the number only because it says so little: 0 of 0.4, 1 of 0.62. What is written has a digit
        of the number, or is as fine as its interval is wide.

        >>> zero = Written("0", 0.0, 0)
        >>> zero.coarse(0.4), zero.coarse(0.4, -1.2, 2.0), zero.coarse(0.0), Written("0.6", 0.6, 1).coarse(0.62)
        (True, False, False, False)
        """
        if not self._rounds(number) or number == 0 or math.isclose(number, self.value, rel_tol=1e-9):
            return False
        first = 10.0 ** math.floor(math.log10(abs(number)))
        wide = 0.0 if low is None or high is None else high - low
        return 10.0**-self.places > max(first, wide) * (1 + 1e-9)

    def _rounds(self, number: float) -> bool:
        return abs(number - self.value) <= 0.5 * 10.0**-self.places * (1 + 1e-9) + 1e-15 * abs(number)


_HOLDS: dict[str, Callable[[float, float], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


@dataclass(frozen=True)
class Said:
    """What a sentence says of its number. others: all numbers, where it is not plain which one is meant. p: the p-value
    that stands beside it, or alone. left: numbers that it writes besides these. unclear: why it cannot be told what it
    says; "" where it can."""

    value: Written | None = None
    low: Written | None = None
    high: Written | None = None
    half: Written | None = None
    n: int | None = None
    confidence: float | None = None
    others: tuple[Written, ...] = ()
    p: Written | None = None
    left: tuple[str, ...] = ()
    unclear: str = ""


def said(sentence: str, written: str = "") -> Said:
    """What a sentence says. written: which of its numbers is meant, as it stands there, where there are several.

    >>> found = said("Muon needs 0.62x [0.55, 0.70] of AdamW's updates (n = 5)")
    >>> found.value.text, found.low.value, found.high.value, found.n
    ('0.62', 0.55, 0.7, 5)
    >>> round(said("97.4 % of CIFAR-10").value.value, 6)
    0.974
    """
    counts = list(dict.fromkeys(int(found[1]) for found in _COUNT.finditer(sentence)))
    levels = list(dict.fromkeys(float(found[1]) / 100 for found in _CONFIDENCE.finditer(sentence)))
    rest = _blank(_CONFIDENCE, _blank(_COUNT, sentence))
    tests = [(found, it) for found in _P.finditer(rest) if (it := _p_value(found))]
    beside = [it for _, it in tests]
    for found, _ in tests:
        rest = _blanked(rest, found)
    spans = [found for found in _INTERVAL.finditer(rest) if _bounds(found)]
    numbers = _numbers(rest, spans)
    chosen = _chosen(numbers, spans[0] if spans else None, written)
    named = [each for each in beside if written and not chosen and each.text == written]
    p = named[0] if named else beside[0] if len(beside) == 1 else None
    span = _own(chosen, numbers, spans, bool(written))
    low, high = (_bounds(span) if span else None) or (None, None)
    if chosen and chosen.found[2] and span is not None and "%" not in span[0] and "per" not in span[0]:
        low, high = (bound.percent() if bound else None for bound in (low, high))  # 62 % [55, 70]
    others = tuple(each.number for each in numbers) if chosen is None and not named else ()
    if len(beside) > 1 and not named:
        others += tuple(beside)
    return Said(
        value=chosen.number if chosen else None,
        low=low,
        high=high,
        half=chosen.half if chosen else None,
        n=counts[0] if counts else None,
        confidence=levels[0] if levels else None,
        others=others,
        p=p,
        left=_left(numbers, chosen, spans, span, [each for each in beside if each is not p]),
        unclear=_two("n = {}", counts) or _two("a confidence of {:.0%}", levels) or _spoilt(rest, chosen, span),
    )


@dataclass(frozen=True)
class _Number:
    """A number where it stands. end: behind it, its percent sign, its half width and its other bound."""

    found: re.Match[str]
    number: Written
    end: int
    half: Written | None = None


def _numbers(text: str, spans: list[re.Match[str]]) -> list[_Number]:
    """The numbers of a text outside of intervals, in order; half widths and second bounds are of the one before."""
    for span in spans:
        text = _blanked(text, span)
    numbers: list[_Number] = []
    for found in _ONE.finditer(text):
        number = _read(found[1], found[2] or "")
        if number is None or (numbers and found.start() < numbers[-1].end):
            continue
        before, end, half = text[: found.start()], found.end(), None
        if (width := _HALF.match(text, end)) and (half := _read(width[1], width[2] or found[2] or "")):
            end = width.end()
            number = number.percent() if width[2] and not found[2] else number  # 62 ± 7 %
        elif _BETWEEN.search(before) and (other := _AND.match(text, end)) and (upto := _read(other[1], other[2] or "")):
            end = other.end()
            number = number.percent() if other[2] and not found[2] else number  # between 62 and 70 %
            number = replace(number, upto=upto.value)
        sign = ">=" if number.upto is not None else _sign(before)
        numbers.append(_Number(found, replace(number, sign=sign), end, half))
    return numbers


def _chosen(numbers: list[_Number], span: re.Match[str] | None, written: str) -> _Number | None:
    """The one number that is meant: the one that was named, the one just before an interval, or the only one."""
    if written:
        named = _read(written, "")  # YAML reads `written: 0.9680` as 0.968
        alike = [each for each in numbers if named and _read(each.found[1], "") and _bare(each) == named.value]
        exact = next((each for each in numbers if each.number.text == written), None)
        return exact or (alike[0] if len(alike) == 1 else None)
    if span is not None:
        before = [each for each in numbers if each.end <= span.start()]
        return before[-1] if before else None
    halved = [each for each in numbers if each.half]
    if len(halved) == 1:
        return halved[0]
    return numbers[0] if len(numbers) == 1 else None


def _bare(number: _Number) -> float:
    """Its digits, whatever percent sign is behind them."""
    told = _read(number.found[1], "")
    assert told is not None
    return told.value


def _own(
    chosen: _Number | None, numbers: list[_Number], spans: list[re.Match[str]], named: bool
) -> re.Match[str] | None:
    """The interval of a number: the next one, with no other number between; without a number, the first one."""
    if chosen is None:
        return None if named or not spans else spans[0]
    after = next((span for span in spans if span.start() >= chosen.end), None)
    if after is None or any(chosen.end <= each.found.start() < after.start() for each in numbers):
        return None
    return after


def _left(
    numbers: list[_Number],
    chosen: _Number | None,
    spans: list[re.Match[str]],
    own: re.Match[str] | None,
    beside: list[Written],
) -> tuple[str, ...]:
    """What is written besides the number that is meant, as it stands there, in order."""
    if chosen is None and own is None:
        return tuple(each.text for each in beside)
    told = [(each.found.start(), each.number.text) for each in numbers if each is not chosen]
    told += [(span.start(), span[0]) for span in spans if span is not own]
    return (*(text for _, text in sorted(told)), *(f"p {each.sign or '='} {each.text}" for each in beside))


def _two(form: str, told: list[Any]) -> str:
    return f"it says {' and '.join(form.format(each) for each in told)}" if len(told) > 1 else ""


def _spoilt(text: str, chosen: _Number | None, span: re.Match[str] | None) -> str:
    """Of what the number is only a part; "" where it stands alone."""
    if chosen is None:
        return ""
    before = text[: chosen.found.start()]
    if (
        chosen.number.upto is not None
        and (between := _BETWEEN.search(before))
        and _NOT.search(before[: between.start()])
    ):
        return "it says not between"
    ends = dict.fromkeys([chosen.found.end(), chosen.end, *([span.end()] if span else [])])
    of = part(before, "") or next((of for end in ends if (of := part("", text[end:]))), "")
    return f"{chosen.number.text} is only a part of what it says ({of})" if of else ""


def _bounds(span: re.Match[str]) -> tuple[Written, Written] | None:
    """The two numbers of an interval; None where it is none."""
    percent = span[3] or ""
    first = re.fullmatch(rf"({_NUMBER})({_PERCENT})?", span[1])
    low = _read(first[1], first[2] or percent) if first else None
    high = _read(span[2], percent)
    return (low, high) if low and high and low.value <= high.value else None


def _sign(before: str) -> str:
    """Whether what stands before a number makes it a bound, and which."""
    for sign, words in _SIGNS:
        if found := words.search(before):
            earlier = before[: found.start()]
            if found[0][0] in "<>" and _ARROW.search(earlier):
                return ""
            return _OPPOSITE[sign] if _NOT.search(earlier) else sign
    return ""


def _read(text: str, percent: str) -> Written | None:
    plain = text.replace(",", "").replace("−", "-").replace("–", "-").replace("+", "")
    if not re.search(r"\d", plain.partition("e")[0]):
        return None
    mantissa, _, exponent = plain.lower().partition("e")
    if len(exponent) > _EXPONENT or len(mantissa) > _DIGITS:
        return None
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
