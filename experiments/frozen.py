"""Frozen: plain data that cannot be changed, to its leaves, and back to the plain data of JSON. Torch-free."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from experiments.tuning.ranges import Options, Range


class Frozen(Mapping[str, Any]):
    """A mapping that cannot be changed, to its leaves: mappings inside are Frozen, lists are tuples.

    >>> Frozen({"betas": [0.9, 0.95]})["betas"]
    (0.9, 0.95)
    """

    __slots__ = ("_items",)

    def __init__(self, items: Mapping[str, Any] = {}):
        self._items = {str(key): _freeze(value) for key, value in items.items()}

    def __getitem__(self, key: str) -> Any:
        return self._items[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __hash__(self) -> int:
        return hash(frozenset(self._items.items()))

    def __repr__(self) -> str:
        return repr(self._items)


def _freeze(value: Any) -> Any:
    if isinstance(value, Mapping):
        return value if isinstance(value, Frozen) else Frozen(value)
    return tuple(_freeze(part) for part in value) if isinstance(value, (list, tuple)) else value


def plain(value: Any) -> Any:
    """The value as JSON has it: dicts and lists; a range as its text."""
    if isinstance(value, Mapping):
        return {key: plain(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(part) for part in value]
    return str(value) if isinstance(value, (Range, Options)) else value
