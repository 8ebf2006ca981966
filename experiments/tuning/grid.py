"""Grid: the points of a space, evenly spread along each axis, each enumerated exactly once. Torch-free.

The points make a forest: an axis branches into its points, and under each of an option's branches stand the axes that
depend on it. Axes that do not hold are no branch, so nothing is multiplied by them.
"""

from __future__ import annotations

import math
from typing import Any

from experiments.tuning.ranges import Dimension, Options
from experiments.tuning.spaces import Space


def points(space: Space, trials: int) -> list[int]:
    """Points per axis, as equal as may be, together at most `trials`.

    >>> from experiments.tuning.ranges import Range
    >>> from experiments.tuning.spaces import Axis
    >>> points(Space((Axis("a", Range(0, 1)), Axis("b", Range(0, 1)))), 7)
    [3, 2]
    """
    counts = [1] * len(space.axes)
    while True:
        now, room = size(space, counts), []
        for index, axis in enumerate(space.axes):
            more = [count + (at == index) for at, count in enumerate(counts)]
            if counts[index] < _most(axis.dimension) and now < size(space, more) <= trials:
                room.append(index)
        if not room:
            return counts
        counts[min(room, key=lambda index: counts[index])] += 1


def size(space: Space, counts: list[int]) -> int:
    """How many points there are in all."""
    return math.prod(_size(space, counts, root) for root in _roots(space))


def point(space: Space, counts: list[int], number: int) -> dict[str, Any]:
    """The point of a number, from 0; the first axis changes fastest."""
    values: dict[str, Any] = {}
    _fill(space, counts, _roots(space), number, values)
    return {axis.place: values[axis.place] for axis in space.axes if axis.place in values}


def _fill(space: Space, counts: list[int], indices: list[int], number: int, values: dict[str, Any]) -> None:
    for index in indices:
        number, within = divmod(number, _size(space, counts, index))
        axis = space.axes[index]
        for value in _values(axis.dimension, counts[index]):
            below = _under(space, index, value)
            size_below = math.prod(_size(space, counts, child) for child in below)
            if within < size_below:
                values[axis.place] = value
                _fill(space, counts, below, within, values)
                break
            within -= size_below


def _size(space: Space, counts: list[int], index: int) -> int:
    """The points of an axis, with those of all that depends on it."""
    if not any(axis.given and axis.given.place == space.axes[index].place for axis in space.axes):
        return counts[index]
    values = _values(space.axes[index].dimension, counts[index])
    return sum(math.prod(_size(space, counts, child) for child in _under(space, index, value)) for value in values)


def _roots(space: Space) -> list[int]:
    return [index for index, axis in enumerate(space.axes) if axis.given is None]


def _under(space: Space, index: int, value: Any) -> list[int]:
    """The axes that depend on an axis and hold where it has a value."""
    parent = space.axes[index]
    if not isinstance(parent.dimension, Options):
        return []
    label = parent.dimension.find(value)
    return [
        at
        for at, axis in enumerate(space.axes)
        if axis.given and axis.given.place == parent.place and label in axis.given.labels
    ]


def _most(dimension: Dimension) -> float:
    if isinstance(dimension, Options):
        return len(dimension.values)
    return dimension.high - dimension.low + 1 if dimension.whole else math.inf


def _values(dimension: Dimension, count: int) -> list[Any]:
    middle = isinstance(dimension, Options)
    positions = [(at + 0.5) / count if middle or count == 1 else at / (count - 1) for at in range(count)]
    return [dimension.at(position) for position in positions]
