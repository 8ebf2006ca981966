"""YAML that knows its lines: where each key stands, so that an error can say so. Torch-free.

YAML 1.2 through ruamel.yaml: duplicate keys are refused, `1e-4` is a number, `no` is text.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.constructor import DuplicateKeyError
from ruamel.yaml.error import MarkedYAMLError, YAMLError

from algos.finding import InputError

#: More values than any file of settings has; a few lines of aliases of aliases, or one that names itself, come to it.
_MOST = 100_000
_DEEPEST = 100


@dataclass(frozen=True)
class Lines:
    """Where the keys of a document stand. places: dotted place -> (line, column), both from 1."""

    source: str
    places: Mapping[str, tuple[int, int]]

    def find(self, place: str) -> str:
        """ "line 3, column 5" of a dotted place, or of the nearest one above it; "" where nothing is known."""
        while place and place not in self.places:
            place = place.rpartition(".")[0]
        return "line {}, column {}".format(*self.places[place]) if place else ""

    def locate(self, error: InputError) -> InputError:
        """The error, told in which file, line and column its place is."""
        place = error.finding.place
        where = self.find(place)
        return error.at(source=self.source, place=f"{where} ({place})" if where else place)


def load_yaml(path: Path) -> tuple[dict[str, Any], Lines]:
    """The mapping in a file as plain data, and its lines; InputError with line and column for what is not YAML."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise InputError("there is no such file", "give the path of a YAML file", source=str(path)) from None
    except IsADirectoryError:
        raise InputError("this is a folder", "give the path of a YAML file", source=str(path)) from None
    except UnicodeDecodeError:
        raise InputError("this is not a text file in UTF-8", "give the path of a YAML file", source=str(path)) from None
    except PermissionError:
        raise InputError("this file may not be read", "mend its permissions", source=str(path)) from None
    return parse_yaml(text, str(path))


def parse_yaml(text: str, source: str) -> tuple[dict[str, Any], Lines]:
    """Like `load_yaml`, of a text.

    >>> parse_yaml("tune: {lr: 1e-4}", "study.yaml")[0]
    {'tune': {'lr': 0.0001}}
    """
    try:
        document = YAML(typ="rt").load(text)
    except DuplicateKeyError as error:
        key = text.splitlines()[error.problem_mark.line][error.problem_mark.column :].partition(":")[0].strip()
        raise InputError(
            f"the key '{key}' stands there twice", "keep one", rule="duplicate-key", source=source, place=_mark(error)
        ) from None
    except MarkedYAMLError as error:
        said = " ".join(str(part) for part in (error.context, error.problem) if part)
        raise InputError(f"not YAML: {said}", "mend it", rule="yaml", source=source, place=_mark(error)) from None
    except (YAMLError, ValueError, TypeError, RecursionError) as error:  # a number of 5,000 digits, Python's own tags
        said = next(iter(str(error).splitlines()), type(error).__name__)
        raise InputError(f"not YAML: {said}", "mend it", rule="yaml", source=source) from None
    if not isinstance(document, CommentedMap):
        raise InputError("the file holds no settings", "give lines of `key: value`", source=source)
    try:
        places = list(itertools.islice(_places(document), _MOST + 1))
    except InputError as error:
        raise error.at(source=source) from None
    if len(places) > _MOST:
        said = f"its aliases unfold to more than {_MOST:,} values"
        raise InputError(said, "write out what is meant", rule="yaml", source=source)
    lines = Lines(source, {place: (line + 1, column + 1) for place, line, column in places})
    return {str(key): _plain(value, lines, str(key)) for key, value in document.items()}, lines


def _places(node: Any, prefix: str = "", depth: int = 0) -> Iterator[tuple[str, int, int]]:
    """(dotted place, line, column), from 0, of every key; an entry in a list stands under its name."""
    if depth > _DEEPEST:
        raise InputError(f"it is more than {_DEEPEST} levels deep", "write it flatter", rule="yaml")
    if isinstance(node, CommentedMap):
        for key, value in node.items():
            place = f"{prefix}{key}"
            if key in node.lc.data:
                yield place, *node.lc.key(key)
            yield from _places(value, f"{place}.", depth + 1)
    elif isinstance(node, CommentedSeq):
        for index, value in enumerate(node):
            name = value.get("name", index) if isinstance(value, CommentedMap) else value
            place = f"{prefix}{name if isinstance(name, str) else index}"
            if index in (node.lc.data or ()):  # not in what has a tag of its own
                yield place, *node.lc.item(index)
            yield from _places(value, f"{place}.", depth + 1)


def _plain(value: Any, lines: Lines, place: str) -> Any:
    if isinstance(value, (CommentedMap, CommentedSeq)) and value.tag.value:
        raise lines.locate(InputError(f"the tag {value.tag.value} means nothing here", "leave it out", place=place))
    if isinstance(value, CommentedMap):
        return {str(key): _plain(inner, lines, f"{place}.{key}") for key, inner in value.items()}
    if isinstance(value, CommentedSeq):
        return [_plain(inner, lines, f"{place}.{index}") for index, inner in enumerate(value)]
    if value is None or isinstance(value, bool):
        return value
    for kind in (int, float, str):
        if isinstance(value, kind):
            return kind(value)
    raise lines.locate(InputError(f"{value} is not text, a number, true, false or null", "quote it", place=place))


def _mark(error: MarkedYAMLError) -> str:
    mark = error.problem_mark or error.context_mark
    return f"line {mark.line + 1}, column {mark.column + 1}" if mark else ""
