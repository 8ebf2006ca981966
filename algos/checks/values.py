"""Values of a hyperparameter: others that are valid, and some that are not."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from algos.finding import InputError
from algos.spec import Hyper


def other_values(name: str, hyper: Hyper, value: Any) -> Iterator[Any]:
    """Valid values that differ from this one, the most telling first; for a pair, each part alone.

    >>> from algos.spec import Int, Real
    >>> list(other_values("momentum", Real(0.9, low=0, below=1), 0.9))
    [0.72, 0.45, 0.95]
    >>> list(other_values("steps", Int(5, low=1, high=6), 5))
    [6, 4, 2, 1]
    """
    for candidate in dict.fromkeys(_candidates(name, hyper, value)):
        if candidate != value and _valid(hyper, candidate):
            yield candidate


def _candidates(name: str, hyper: Hyper, value: Any) -> Iterator[Any]:
    if hyper.kind == "flag":
        yield not value
    elif hyper.kind == "choice":
        yield from hyper.options
    elif hyper.kind == "pair":
        first, second = value
        yield from ((other, second) for other in _others(name, first))
        yield from ((first, other) for other in _others(name, second))
    elif hyper.kind == "int":
        yield from (1, 2, 3) if value is None else (value + 1, value - 1, value // 2, value // 4, 1, 2)
    elif hyper.kind == "real":
        yield from (0.1, 1.0, 1e-3) if value is None else _others(name, value)


def _others(name: str, value: float) -> Iterator[float]:
    if value == 0:
        yield from (0.1, 1.0, 1e-2)
        return
    if name.endswith("eps") or abs(value) < 1e-5:
        yield from (1e-2, 1e-1, 1e3)
    yield from (round(value * 0.8, 15), value * 0.5)
    yield (value + 1) / 2 if 0 < value < 1 else value * 1.5


def _valid(hyper: Hyper, value: Any) -> bool:
    try:
        hyper.check(value, "value")
    except InputError:
        return False
    return True


def invalid_values(hyper: Hyper) -> Iterator[Any]:
    """Of the wrong type, and beyond each bound.

    >>> from algos.spec import Int
    >>> list(invalid_values(Int(5, low=1, high=6)))
    ['a word', nan, 0, 7, 5.5]
    """
    if hyper.kind == "text":
        yield 3
        return
    yield "a word"
    if hyper.kind in ("real", "int"):
        yield float("nan")
    if hyper.kind in ("real", "int", "pair"):
        low, high = _beyond(hyper)
        for bad in (low, high):
            if bad is not None:
                yield (bad, _inside(hyper)) if hyper.kind == "pair" else bad
                if hyper.kind == "pair":
                    yield (_inside(hyper), bad)
    if hyper.kind == "int":
        yield 5.5
    if hyper.kind == "flag":
        yield 1


def _beyond(hyper: Hyper) -> tuple[Any, Any]:
    """A number below the range and one above it; the bound itself where that is excluded."""
    low = None if hyper.low == -float("inf") else (hyper.low if hyper.open_low else hyper.low - 1)
    high = None if hyper.high == float("inf") else (hyper.high if hyper.open_high else hyper.high + 1)
    return low, high


def _inside(hyper: Hyper) -> float:
    return float(hyper.default[0])
