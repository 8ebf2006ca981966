"""Overrides: `optimizer=muon optimizer.lr=0.02 seed=1,2,3`, from a command line or from Python. Torch-free.

optimizer=muon optimizer.lr=0.02         set
optimizer=adamw,muon seed=1,2,3          each combination, one run each
optimizer.lr=1e-4:1e-1:log               a range, for tune and sweep
wrappers=cautious+sam                    a list, innermost first; wrappers.sam.rho=0.05 sets one of its own
optimizer.betas=0.9/0.95                 a tuple
tune.sampler=tpe tune.pruner=median      how an arm is tuned, for tune
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from algos import catalogue
from algos.finding import InputError, closest
from experiments.config import check_key, keys
from experiments.layers import ENTRIES, KINDS, LISTS, Layer, tidy
from experiments.modules.reference import is_reference
from experiments.scalars import parse_value, print_value, split_values
from experiments.tuning.ranges import Options, Range, parse_range

_KEY = re.compile(r"[A-Za-z_][\w-]*(\.[A-Za-z_][\w-]*)*")


@dataclass(frozen=True)
class Overrides:
    """Dotted keys with their values, in the order given. Several values of a key make combinations; a value may be a
    Range."""

    settings: tuple[tuple[str, tuple[Any, ...]], ...] = ()

    def expand(self) -> list[Layer]:
        """A layer for each combination; the first key changes slowest.

        >>> [layer["seed"] for layer in parse(["task=digits", "seed=1,2"]).expand()]
        [1, 2]
        """
        names = [key for key, _ in self.settings]
        budgets = sorted({key for key in names if key.startswith("budget.")})
        if len(budgets) > 1:
            raise InputError(f"{' and '.join(budgets)} are two budgets", "give one of them", place="budget")
        return [
            tidy(dict(zip(names, values))) for values in itertools.product(*(values for _, values in self.settings))
        ]

    def layer(self) -> Layer:
        """One layer, for an arm that is tuned: several values of a hyperparameter are the options to choose from.

        >>> parse(["optimizer.momentum=0.8,0.9"]).layer()
        {'optimizer': {'momentum': Options(values=(0.8, 0.9))}}
        """
        said: dict[str, Any] = {}
        for key, values in self.settings:
            if len(values) > 1 and (key in ENTRIES or key in ("task", "seed")):
                place = f"{key}={','.join(map(_print, values))}"
                raise InputError(
                    f"{place} is several, one arm has one", "give one, or write a study and sweep it", place=key
                )
            said[key] = values[0] if len(values) == 1 else Options(values)
        return tidy(said)

    def without(self, *names: str) -> Overrides:
        return Overrides(tuple((key, values) for key, values in self.settings if key not in names))

    def get(self, name: str) -> tuple[Any, ...]:
        """The values of a key; none where it is not given."""
        return next((values for key, values in self.settings if key == name), ())

    def arguments(self) -> list[str]:
        """The command line that says the same: `parse(x.arguments()) == x`."""
        return [f"{key}={','.join(map(_print, values))}" for key, values in self.settings]


def parse(arguments: Sequence[str]) -> Overrides:
    """The overrides that arguments `key=value` spell; InputError with "did you mean" for one that does not.

    >>> parse(["optimizer=adamw,muon", "optimizer.lr=1e-3"]).settings
    (('optimizer', ('adamw', 'muon')), ('optimizer.lr', (0.001,)))
    """
    return _unique((key, _parse_values(text, key)) for key, text in map(_split, arguments))


def given(settings: Mapping[str, Any]) -> Overrides:
    """The same from Python: `given({"optimizer": {"name": "muon", "lr": 0.02}, "seed": [1, 2]})`.

    A list is several values, each a run (but for wrappers and compression, which are lists themselves); a tuple is one
    value; text is read as on the command line.
    """
    return _unique(_flat(settings))


def _flat(settings: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, tuple[Any, ...]]]:
    for name, value in settings.items():
        key = f"{prefix}{name}"
        _check(key, key)
        if isinstance(value, Mapping) and not (key in LISTS and "name" in value):
            if key in ENTRIES and "name" in value:
                yield key, _values(key, value["name"])
            yield from _flat({k: v for k, v in value.items() if not (key in ENTRIES and k == "name")}, f"{key}.")
        else:
            yield key, _values(key, value)


def _values(key: str, value: Any) -> tuple[Any, ...]:
    if isinstance(value, str):
        return _parse_values(value, key)
    if isinstance(value, range):
        return tuple(value)
    if not isinstance(value, list):
        return (value,)
    if key in LISTS and not any(isinstance(part, (list, tuple)) for part in value):
        return (tuple(value),)
    if not value:
        raise InputError("the list is empty", "give one or more values", place=key)
    return tuple(each for part in value for each in (_parse_values(part, key) if isinstance(part, str) else (part,)))


def _parse_values(text: str, key: str) -> tuple[Any, ...]:
    pieces = split_values(text, key)
    if len(pieces) > 1 and "" in pieces:
        raise InputError(f"{key}={text} has an empty value", "give values joined with single commas", place=key)
    return tuple(parse_range(piece, key) or parse_value(piece, key) for piece in pieces)


def _unique(settings: Iterator[tuple[str, tuple[Any, ...]]]) -> Overrides:
    found: dict[str, tuple[Any, ...]] = {}
    for key, values in settings:
        if key in found:
            both = ",".join(map(_print, found[key] + values))
            raise InputError(f"{key} is given twice", f"give it once; {key}={both} makes a run of each", place=key)
        found[key] = values
    return Overrides(tuple(found.items()))


def _split(argument: str) -> tuple[str, str]:
    key, equals, text = argument.partition("=")
    if not equals:
        raise InputError(f"'{argument}' has no '='", _meant(argument), rule="no-value")
    _check(key, argument)
    return key, text


def _check(key: str, argument: str) -> None:
    if key.partition(".")[0] == "tune":  # how an arm is tuned: `tuning_study` reads it, and no run has it
        return
    if not _KEY.fullmatch(key):
        raise InputError(
            f"'{argument}' does not start with a key", "give key=value, e.g. optimizer.lr=0.02", rule="bad-key"
        )
    check_key(key.partition(".")[0])


def _meant(word: str) -> str:
    """What an argument without "=" most likely should be: a name of a task or an entry, or a key without its value."""
    from experiments.tasks import catalogue as tasks

    if is_reference(word):
        return f"did you mean task={word}?"
    options = {name: f"task={name}" for name in tasks.paths()}
    for key in reversed(KINDS):
        options |= {name: f"{key}={name}" for name in catalogue.paths(KINDS[key])}
    options |= {key: f"{key}=VALUE" for key in keys()}
    guess = closest(word, options)
    return f"did you mean {options[guess]}?" if guess else "give key=value, e.g. task=digits optimizer=muon"


def _print(value: Any) -> str:
    return str(value) if isinstance(value, Range) else print_value(value)
