"""Constructors: the arguments of a user's class or factory as settings, checked, written out, and given back to it.
Torch-free.

`model.width=32` is an argument of the class's constructor, `data.batch_size=64` one of the DataModule's. Defaults that
are plain data are written into the config, so that the record has them; others stay the class's own business.
"""

from __future__ import annotations

import functools
import inspect
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import UnionType
from typing import TYPE_CHECKING, Any, Union, get_args, get_origin

from algos.finding import InputError, unknown
from experiments.frozen import plain
from experiments.layers import deep
from experiments.modules import reference
from experiments.scalars import print_value

if TYPE_CHECKING:
    from experiments.config import RunConfig

#: What an entry of a config is written with itself, so that no argument can be called so.
RESERVED = ("name", "hyper")
_KINDS = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


@dataclass(frozen=True)
class Argument:
    """One argument. default: inspect.Parameter.empty where it must be given. annotation: as written, or empty."""

    name: str
    default: Any
    annotation: Any

    @property
    def required(self) -> bool:
        return self.default is inspect.Parameter.empty

    @property
    def whole(self) -> bool:
        """Whether it takes whole numbers: so annotated, or with a whole default and no annotation."""
        if self.annotation is not inspect.Parameter.empty:
            return self.annotation in (int, "int")
        return isinstance(self.default, int) and not isinstance(self.default, bool)

    @property
    def annotated(self) -> bool:
        return self.annotation is not inspect.Parameter.empty

    def told(self) -> str:
        """Its type for people; "" where nothing says.

        >>> Argument("width", 32, "int").told()
        'int'
        """
        if self.annotation is inspect.Parameter.empty:
            return ""
        return self.annotation if isinstance(self.annotation, str) else inspect.formatannotation(self.annotation)


@dataclass(frozen=True)
class Arguments:
    """All arguments of a class or factory. open: whether it takes any others too (**kwargs)."""

    owner: str
    named: Mapping[str, Argument]
    open: bool


def arguments(target: Any) -> Arguments:
    """What a class's constructor or a factory can be called with, by keyword."""
    named = target.func if isinstance(target, functools.partial) else target
    owner = getattr(named, "__name__", type(named).__name__)
    try:
        signature = inspect.signature(target)
    except (TypeError, ValueError):
        return Arguments(owner, {}, open=True)
    parameters = signature.parameters.values()
    taken = {
        each.name: Argument(each.name, each.default, each.annotation) for each in parameters if each.kind in _KINDS
    }
    return Arguments(owner, taken, any(each.kind is inspect.Parameter.VAR_KEYWORD for each in parameters))


def checked(target: Any, given: Mapping[str, Any], place: str) -> dict[str, Any]:
    """Every argument as the config keeps it: what was given, over the defaults that are plain data.

    A default that is a mapping is changed one by one. place: "model" or "data". InputError for an argument that is not
    there, one that must be given and is not, a value that is no plain data, and one that is not what a plain annotation
    (int, float, bool, str, or several of them, or None) says; a whole 3.0 is 3 where only whole numbers are taken.

    >>> def net(width=32, *, names=("a",), act=print): ...
    >>> checked(net, {"width": 8}, "model")
    {'width': 8, 'names': ['a']}
    """
    known = arguments(target)
    for word, value in given.items():
        if word in RESERVED:
            said = f"an argument called '{word}' cannot be set here"
            raise InputError(said, _factory(known), place=f"{place}.{word}")
        if word not in known.named and not known.open:
            raise unknown(f"argument of {known.owner}", word, known.named, place=f"{place}.{word}")
        if not is_plain(value):
            said = f"{value!r} is no plain value (a number, text, true, false, none, or lists and mappings of them)"
            raise InputError(_line(said), _factory(known), place=f"{place}.{word}")
    given = {word: _fitting(value, known.named.get(word), f"{place}.{word}") for word, value in given.items()}
    missing = [each.name for each in known.named.values() if each.required and each.name not in given]
    if missing:
        reserved = [word for word in missing if word in RESERVED]
        cure = _factory(known) if reserved else f"give {' '.join(f'{place}.{word}=VALUE' for word in missing)}"
        raise InputError(f"{known.owner} needs {', '.join(missing)}", cure, rule="missing-argument", place=place)
    defaults = {word: plain(each.default) for word, each in known.named.items() if _written(each)}
    return {**defaults, **deep(_mappings(defaults), plain(given))}


def called(target: Any, hyper: Mapping[str, Any]) -> Any:
    """The target called with a config's arguments; one at its default is left to it, lists are lists where its default
    or annotation says so, else tuples. Raises whatever the user's code raises."""
    known = arguments(target).named
    given = {}
    for word, value in hyper.items():
        argument = known.get(word)
        if argument is not None and is_plain(argument.default) and plain(argument.default) == plain(value):
            continue
        given[word] = _like(value, argument)
    return target(**given)


def argument(config: RunConfig, place: str) -> Argument | None:
    """The argument that a place of a config is (model.width, data.batch_size); None where it is none."""
    key, _, word = place.partition(".")
    text = config.task if key == "model" else config.data.name if key == "data" and config.data else ""
    return arguments(reference.load(text, place=key)).named.get(word) if text else None


#: What a plain annotation says, for people.
_PLAIN = {"int": "a whole number", "float": "a number", "bool": "true or false", "str": "text", "None": "none"}


def _fitting(value: Any, argument: Argument | None, place: str) -> Any:
    """The value as an argument's plain annotation has it; InputError where it cannot be."""
    taken = _taken(argument.annotation) if argument else ()
    if not taken or argument is None or (type(value) is type(argument.default) and value == argument.default):
        return value
    kind = "None" if value is None else type(value).__name__
    if kind in taken or (kind == "int" and "float" in taken):
        return value
    if kind == "float" and "int" in taken and value.is_integer():
        return int(value)
    cure = f"give {' or '.join(_PLAIN[each] for each in taken)}"
    if "str" in taken and kind in ("int", "float", "bool", "None"):
        cure += f", in quotes: {place}='\"{print_value(value)}\"'"
    raise InputError(_line(f"{value!r} is not of its annotation, {argument.told()}"), cure, place=place)


def _taken(annotation: Any) -> tuple[str, ...]:
    """The plain types that an annotation takes, by name; none where it says anything else.

    >>> _taken(int), _taken("Optional[float]"), _taken("str | None"), _taken("list[int]")
    (('int',), ('float', 'None'), ('str', 'None'), ())
    """
    if isinstance(annotation, str):
        said = re.sub(r"\s|typing\.", "", annotation)
        if inner := re.fullmatch(r"Optional\[(.*)\]", said):
            said = f"{inner[1]}|None"
        elif inner := re.fullmatch(r"Union\[(.*)\]", said):
            said = inner[1].replace(",", "|")
        names = said.split("|")
    elif get_origin(annotation) in (Union, UnionType):
        names = [_named(each) for each in get_args(annotation)]
    else:
        names = [_named(annotation)]
    return tuple(names) if all(name in _PLAIN for name in names) else ()


def _named(kind: Any) -> str:
    known: dict[Any, str] = {int: "int", float: "float", bool: "bool", str: "str", type(None): "None"}
    return known.get(kind, "") if isinstance(kind, type) else ""


def _factory(known: Arguments) -> str:
    return (
        f"write a function that makes {known.owner} from plain values, and give FILE.py:FUNCTION instead of the class"
    )


def _line(said: str) -> str:
    said = " ".join(said.split())
    return said if len(said) <= 200 else f"{said[:197]}..."


def _written(argument: Argument) -> bool:
    return not argument.required and argument.name not in RESERVED and is_plain(argument.default)


def is_plain(value: Any) -> bool:
    """Whether JSON can hold it, lists for tuples."""
    if isinstance(value, Mapping):
        return all(isinstance(key, str) and key and is_plain(inner) for key, inner in value.items())
    if type(value) in (list, tuple):
        return all(map(is_plain, value))
    return value is None or type(value) in (bool, int, str) or (type(value) is float and math.isfinite(value))


def _mappings(defaults: Mapping[str, Any]) -> dict[str, Any]:
    return {word: value for word, value in defaults.items() if isinstance(value, Mapping)}


def _like(value: Any, argument: Argument | None) -> Any:
    pattern = argument.default if argument else None
    if isinstance(value, Mapping):
        return plain(value)
    if not isinstance(value, (list, tuple)):
        return value
    annotation = argument.annotation if argument else ""
    said = annotation if isinstance(annotation, str) else getattr(get_origin(annotation) or annotation, "__name__", "")
    inner = [tuple(part) if isinstance(part, list) and not _lists(pattern) else part for part in plain(value)]
    return inner if isinstance(pattern, list) or said.lower().startswith("list") else tuple(inner)


def _lists(pattern: Any) -> bool:
    return isinstance(pattern, (list, tuple)) and len(pattern) > 0 and isinstance(pattern[0], list)
