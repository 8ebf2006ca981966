"""Space: what an arm is tuned over, axis by axis, some of them only where another has a certain value. Torch-free.

An axis with `given` is an axis only where its condition holds: `optimizer.momentum` only where `optimizer` is muon. An
axis that others depend on stands before them. Two axes may be of one place where their conditions exclude each other
(a learning rate's range for each optimizer).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from algos.finding import InputError
from experiments.tuning.ranges import Dimension, Options


@dataclass(frozen=True)
class Given:
    """A condition: the option at `place` has one of these labels.

    >>> str(Given("optimizer", ("muon", "sgd")))
    'optimizer=muon,sgd'
    """

    place: str
    labels: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.place}={','.join(self.labels)}"


@dataclass(frozen=True)
class Axis:
    """One setting that is searched. lowest, highest: how far its declaration lets the range be widened. given: where it
    is searched; None: everywhere."""

    place: str
    dimension: Dimension
    lowest: float = -math.inf
    highest: float = math.inf
    given: Given | None = None


@dataclass(frozen=True)
class Space:
    """What an arm is tuned over; the learning rate first, the rest by name, after what each depends on."""

    axes: tuple[Axis, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.axes)

    def to_json(self) -> dict[str, str]:
        """
        >>> from experiments.tuning.ranges import Range
        >>> Space((Axis("optimizer.lr", Range(1e-4, 1e-1, log=True)),)).to_json()
        {'optimizer.lr': '0.0001:0.1:log'}
        """
        return {told(axis): str(axis.dimension) for axis in self.axes}

    @property
    def dimensions(self) -> dict[str, Dimension]:
        """Of the axes without a condition."""
        return {axis.place: axis.dimension for axis in self.axes if axis.given is None}

    def active(self, params: Mapping[str, Any]) -> list[Axis]:
        """The axes that some parameters have, in order: all without a condition, and those whose condition holds.

        >>> from experiments.tuning.ranges import Range
        >>> momentum = Axis("optimizer.momentum", Range(0.8, 0.99), given=Given("optimizer", ("muon",)))
        >>> space = Space((Axis("optimizer", Options(("adamw", "muon"))), momentum))
        >>> [axis.place for axis in space.active({"optimizer": "adamw"})]
        ['optimizer']
        """
        chosen: dict[str, str | None] = {}
        found = []
        for axis in self.axes:
            if holds(axis, chosen):
                found.append(axis)
                if isinstance(axis.dimension, Options) and axis.place in params:
                    chosen[axis.place] = axis.dimension.find(params[axis.place])
        return found

    def name(self, axis: Axis) -> str:
        """What Optuna calls the axis: its place, with its condition where another axis has that place too."""
        alone = sum(other.place == axis.place for other in self.axes) == 1
        return axis.place if alone else told(axis)

    def corners(self) -> list[dict[str, Any]]:
        """Parameters that together have both ends of every range and every option."""
        found = [self._filled(end, {}) for end in (0.0, 1.0)]
        for axis in self.axes:
            options = axis.dimension.labels if isinstance(axis.dimension, Options) else ()
            for label in options:
                found += [self._filled(end, {**self._way(axis), axis.place: label}) for end in (0.0, 1.0)]
        return [point for index, point in enumerate(found) if point not in found[:index]]

    def choices(self) -> list[dict[str, Any]]:
        """The options of a run, in as many ways as show every option once; [{}] where there are none."""
        options = {axis.place for axis in self.axes if isinstance(axis.dimension, Options)}
        found = [{place: value for place, value in point.items() if place in options} for point in self.corners()]
        return [point for index, point in enumerate(found) if point not in found[:index]] or [{}]

    def choice(self, axis: Axis) -> dict[str, Any]:
        """The options that make an axis one: {"optimizer": "muon"}."""
        filled = self._filled(0.0, self._way(axis))
        needed = self._way(axis)
        return {place: value for place, value in filled.items() if place in needed}

    def _way(self, axis: Axis) -> dict[str, str]:
        """The labels that make an axis active."""
        if axis.given is None:
            return {}
        parent = next(other for other in self.axes if other.place == axis.given.place)
        return {**self._way(parent), axis.given.place: axis.given.labels[0]}

    def _filled(self, position: float, forced: Mapping[str, str]) -> dict[str, Any]:
        chosen: dict[str, str | None] = {}
        params: dict[str, Any] = {}
        for axis in self.axes:
            if not holds(axis, chosen):
                continue
            dimension = axis.dimension
            if isinstance(dimension, Options):
                label = forced.get(axis.place, dimension.find(dimension.at(position)))
                assert label is not None
                chosen[axis.place] = label
                params[axis.place] = dimension.value(label)
            else:
                params[axis.place] = dimension.at(position)
        return params


def told(axis: Axis) -> str:
    """An axis in words: "optimizer.momentum when optimizer=muon"."""
    return axis.place if axis.given is None else f"{axis.place} when {axis.given}"


def holds(axis: Axis, chosen: Mapping[str, str | None]) -> bool:
    """Whether an axis is one, given the labels of the options chosen before it."""
    return axis.given is None or chosen.get(axis.given.place) in axis.given.labels


def in_order(axes: Sequence[Axis]) -> tuple[Axis, ...]:
    """The axes, the learning rate first, the rest by name, each after the one that it depends on."""
    wanted = sorted(axes, key=lambda axis: (axis.place != "optimizer.lr", axis.place, str(axis.given or "")))
    ordered: list[Axis] = []
    while wanted:
        there = {axis.place for axis in ordered}
        ready = next((axis for axis in wanted if axis.given is None or axis.given.place in there), None)
        if ready is None:
            said = f"{told(wanted[0])} depends on itself"
            raise InputError(said, "give a condition on another setting", place="when")
        ordered.append(ready)
        wanted.remove(ready)
    return tuple(ordered)


def check_once(axes: Sequence[Axis], place: str) -> None:
    """No setting is searched twice at once: axes of one place have conditions that exclude each other."""
    counts = Counter(axis.place for axis in axes)
    for one in axes:
        for other in axes if counts[one.place] > 1 else ():
            if one is not other and one.place == other.place and not _exclusive(one.given, other.given):
                said = f"{one.place} is searched twice where both hold: {told(one)} and {told(other)}"
                raise InputError(said, "leave one out", place=place)
    for axis in axes:
        if axis.given is not None and counts[axis.given.place] > 1:
            said = f"{told(axis)} depends on a setting that is itself searched in two ways"
            raise InputError(said, f"give {axis.given.place} once", place=place)


def _exclusive(one: Given | None, other: Given | None) -> bool:
    return bool(one and other and one.place == other.place and not set(one.labels) & set(other.labels))
