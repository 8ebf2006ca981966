"""Declarations: what an entry of the catalogue says of itself. Torch-free.

A hyperparameter is declared once, in the class body, and everything else comes from that: the constructor, the range
check and its message, the search space, the help and the docs.

    class Lion(PerTensorOptimizer):
        lr: float = Real(1e-4, above=0, search="1e-5:1e-2:log", unit="weight units per update")

A file of the catalogue has one literal `SPEC = Spec(build=Lion, cite=...)`. Declarations and SPEC hold literals only
(the one exception is `build=`), so `catalogue` reads them with `ast` and listing imports nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from algos.finding import InputError, unknown

HyperKind = Literal["real", "int", "flag", "choice", "pair", "text"]


@dataclass(frozen=True)
class Hyper:
    """A declared hyperparameter: its default, its range, what to search, its unit.

    low/high bound the range; open_low/open_high exclude the bound itself. search: "LOW:HIGH[:log|:int]", or options
    joined with commas; empty: not tuned by default. A pair is two reals in one range, written 0.9/0.95 on the command
    line. added: it came to an entry that was there; a config where it stands at its default has the digest that it had.
    """

    kind: HyperKind
    default: Any
    low: float = -math.inf
    high: float = math.inf
    open_low: bool = False
    open_high: bool = False
    options: tuple[Any, ...] = ()
    search: str = ""
    unit: str = ""
    optional: bool = False
    added: bool = False

    def range(self) -> str:
        """The valid values, in words.

        >>> Real(0.1, above=0, high=1).range()
        'a number in (0, 1]'
        """
        if self.kind == "flag":
            return "true or false"
        if self.kind == "choice":
            return "one of " + ", ".join(str(option) for option in self.options)
        if self.kind == "text":
            return "text"
        noun = {"real": "a number", "int": "a whole number", "pair": "two numbers a/b, each"}[self.kind]
        opening, closing = (
            "(" if self.open_low or self.low == -math.inf else "[",
            ")" if self.open_high or self.high == math.inf else "]",
        )
        text = f"{noun} in {opening}{self.low:g}, {self.high:g}{closing}"
        return f"{text} or none" if self.optional else text

    def check(self, value: Any, name: str, owner: str = "") -> Any:
        """`value` in the declared type, or InputError naming argument, value and range."""
        if value is None and self.optional:
            return None
        checked = self._coerce(value)
        if checked is None or not self._inside(checked):
            place = f"{owner}.{name}" if owner else name
            raise InputError(f"{_shown(value)} is not valid", f"give {self.range()}", rule="out-of-range", place=place)
        return checked

    def _coerce(self, value: Any) -> Any:
        if self.kind == "flag":
            return value if isinstance(value, bool) else None
        if self.kind == "choice":
            return (
                value if value in self.options and not (isinstance(value, bool) and True not in self.options) else None
            )
        if self.kind == "text":
            return value if isinstance(value, str) else None
        if self.kind == "pair":
            if not isinstance(value, (list, tuple)) or len(value) != 2 or not all(_is_number(part) for part in value):
                return None
            return tuple(float(part) for part in value)
        if not _is_number(value):
            return None
        if self.kind == "int":
            return int(value) if float(value).is_integer() else None
        return float(value)

    def _inside(self, value: Any) -> bool:
        if self.kind not in ("real", "int", "pair"):
            return True
        parts = value if isinstance(value, tuple) else (value,)
        return all(self._number_inside(part) for part in parts)

    def _number_inside(self, number: float) -> bool:
        if not math.isfinite(number):
            return False
        above = number > self.low if self.open_low else number >= self.low
        below = number < self.high if self.open_high else number <= self.high
        return above and below


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _shown(value: Any) -> str:
    return "/".join(str(part) for part in value) if isinstance(value, (list, tuple)) else repr(value)


def _bounds(above: float | None, low: float | None, below: float | None, high: float | None) -> dict[str, Any]:
    return {
        "low": above if above is not None else (-math.inf if low is None else low),
        "high": below if below is not None else (math.inf if high is None else high),
        "open_low": above is not None,
        "open_high": below is not None,
    }


def Real(
    default: float | None, *, above: float | None = None, low: float | None = None, below: float | None = None,
    high: float | None = None, search: str = "", unit: str = "", optional: bool = False,
) -> Any:  # fmt: skip
    """A real number: above/below exclude the bound, low/high include it."""
    return Hyper("real", default, **_bounds(above, low, below, high), search=search, unit=unit, optional=optional)


def Int(
    default: int | None, *, above: float | None = None, low: float | None = None, below: float | None = None,
    high: float | None = None, search: str = "", unit: str = "", optional: bool = False,
) -> Any:  # fmt: skip
    """A whole number."""
    return Hyper("int", default, **_bounds(above, low, below, high), search=search, unit=unit, optional=optional)


def Pair(
    first: float, second: float, *, above: float | None = None, low: float | None = None, below: float | None = None,
    high: float | None = None, unit: str = "",
) -> Any:  # fmt: skip
    """Two real numbers in one range, e.g. betas."""
    return Hyper("pair", (float(first), float(second)), **_bounds(above, low, below, high), unit=unit)


def Flag(default: bool) -> Any:
    """True or false."""
    return Hyper("flag", default)


def Choice(default: Any, options: tuple[Any, ...], *, search: str = "", added: bool = False) -> Any:
    """One of the options."""
    return Hyper("choice", default, options=tuple(options), search=search, added=added)


def Text(default: str) -> Any:
    """Free text."""
    return Hyper("text", default)


#: The constructors by name, for reading declarations with ast.
CONSTRUCTORS: dict[str, Callable[..., Any]] = {
    "Real": Real,
    "Int": Int,
    "Pair": Pair,
    "Flag": Flag,
    "Choice": Choice,
    "Text": Text,
}


def hyperparameters(owner: type) -> dict[str, Hyper]:
    """The hyperparameters declared in a class and its bases, bases first."""
    found: dict[str, Hyper] = {}
    for cls in reversed(owner.__mro__):
        found.update({name: value for name, value in vars(cls).items() if isinstance(value, Hyper)})
    return found


def resolve(declared: Mapping[str, Hyper], given: Mapping[str, Any], owner: str) -> dict[str, Any]:
    """Every declared hyperparameter with its value: given and checked, or the default. Unknown names are refused."""
    for name in given:
        if name not in declared:
            raise unknown(f"hyperparameter of {owner}", name, declared, place=f"{owner}.{name}")
    return {
        name: hyper.check(given[name], name, owner) if name in given else hyper.default
        for name, hyper in declared.items()
    }


class Declared:
    """A class whose hyperparameters are declared in its body; the constructor checks them and sets them as attributes.

    >>> class Warmup(Declared):
    ...     fraction: float = Real(0.1, low=0, high=1)
    >>> Warmup(fraction=0.2).fraction
    0.2
    """

    def __init__(self, **hyper: Any):
        for name, value in resolve(hyperparameters(type(self)), hyper, type(self).__name__).items():
            setattr(self, name, value)


@dataclass(frozen=True)
class Spec:
    """What an entry is: how to build it, whom to cite, what it asks of the loop.

    build: class or function; each kind's signature stands in `contracts`. cite: BibTeX. needs: capabilities it asks
    for, e.g. "names" (parameter names, so give it the model), "directions" (a per-tensor optimizer), "second_gradient".
    elementwise: the mathematics treats each number alone, so all tensors may be flattened into one. accepts: kinds of
    `Signature` an architecture or loss can serve. schedule: what an optimizer is meant to be used with, where an arm
    names none. state, cost: in words, for listings. extra: the optional dependency group.
    """

    build: Callable[..., Any]
    cite: str = ""
    needs: tuple[str, ...] = ()
    elementwise: bool = False
    accepts: tuple[str, ...] = ()
    schedule: Mapping[str, Any] = field(default_factory=dict)
    state: str = ""
    cost: str = ""
    extra: str = ""
    kind: str = ""
    name: str = ""
    title: str = ""
    hyper: Mapping[str, Hyper] = field(default_factory=dict)
