"""Tuning: the space an arm is searched in, the points drawn from it, and what happens at its edges. Torch-free.

A draw depends on (tuning seed, task, setting, number) and on nothing else. So any number of workers runs the same
set, and arms that share a setting get the same positions of its range: no arm is luckier in its draws than another.

The first two thirds of an arm's trials explore its space. The best of them is at an edge where it stands in the outer
tenth of a range, or where no other trial stood further out, so that nothing shows that the optimum is not beyond. The
rest is then drawn from there to a decade beyond the range. A grid uses all its trials, and so do samplers that model
one space (gp, cmaes, nsga2, nsga3, bruteforce): there an edge is only said.
"""

from __future__ import annotations

import functools
import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from algos import catalogue
from algos.finding import InputError
from algos.spec import Hyper
from experiments.config import RunConfig
from experiments.layers import ENTRIES, KINDS, LISTS, tidy
from experiments.tuning import grid
from experiments.tuning.ranges import Dimension, Options, Range, parse_dimension
from experiments.tuning.spaces import Axis, Given, Space, holds, in_order

#: Drawn here; the others are asked of Optuna, trial by trial.
DRAWN = ("random", "qmc", "grid")
#: They model a space that stays what it is, so all their trials explore it.
_FIXED = ("grid", "gp", "cmaes", "nsga2", "nsga3", "bruteforce")
#: An open end of a range that has no logarithm is approached, never touched: this share of the way.
_TOWARDS_OPEN_END = 0.9


def space_of(config: RunConfig, dimensions: Mapping[str, Dimension]) -> Space:
    """The space of some dimensions around a config, each with the bounds that its declaration sets."""
    return Space(in_order([axis_of(config, place, dimension) for place, dimension in dimensions.items()]))


def declared_search(config: RunConfig, place: str) -> Dimension | None:
    """What the entry of a config says a hyperparameter is searched in; None where it says nothing."""
    hyper = declared(config, place)
    return parse_dimension(hyper.search, place) if hyper and hyper.search else None


def declared(config: RunConfig, place: str) -> Hyper | None:
    """The declaration of what stands at a dotted place of a config (optimizer.lr, wrappers.sam.rho), if it has one."""
    key, *rest = place.split(".")
    if key not in KINDS or not rest or not any(key == owner for owner, _, _ in config.entries()):
        return None
    name = rest[0] if key in LISTS else getattr(config, key).name
    return catalogue.describe(KINDS[key], name, place=key).hyper.get(rest[-1])


def value_at(config: Mapping[str, Any], place: str) -> Any:
    """The value at a dotted place of a stored config.

    >>> value_at({"wrappers": [{"name": "sam", "rho": 0.1}]}, "wrappers.sam.rho")
    0.1
    """
    value: Any = config
    for part in place.split("."):
        if isinstance(value, Mapping):
            value = value[part]
        else:
            value = next(entry for entry in value if entry["name"] == part)
    return value


def params_of(space: Space, config: Mapping[str, Any], told: Mapping[str, Any]) -> dict[str, Any]:
    """What a run's stored config has of a space, place -> value; options as the space has them. told: the parameters
    that its record keeps, which say what a config may not (a whole entry's option has all its defaults there)."""
    params: dict[str, Any] = {}
    chosen: dict[str, str | None] = {}
    for axis in space.axes:
        if not holds(axis, chosen):
            continue
        if not isinstance(axis.dimension, Options):
            params[axis.place] = told[axis.place] if axis.place in told else value_at(config, axis.place)
            continue
        of = axis.dimension.find(told[axis.place]) if axis.place in told else None
        of = of if of is not None else _option(axis, config)
        chosen[axis.place] = of
        params[axis.place] = axis.dimension.value(of) if of is not None else value_at(config, axis.place)
    return params


def _option(axis: Axis, config: Mapping[str, Any]) -> str | None:
    """The label of the option that a stored config has; of several that it may be, the one that says the most."""
    assert isinstance(axis.dimension, Options)
    found = value_at(config, axis.place)
    if axis.place not in ENTRIES:
        of = axis.dimension.find(found)
        return axis.dimension.find(None) if of is None and found == "none" else of
    entries = found if isinstance(found, (list, tuple)) else [found]
    fitting: list[tuple[int, str]] = []
    for label, value in zip(axis.dimension.labels, axis.dimension.values):
        said = tidy({axis.place: value})[axis.place]
        wanted = said if isinstance(said, list) else [said]
        pairs = [(one[word], each.get(word)) for one, each in zip(wanted, entries) for word in one]
        if len(wanted) == len(entries) and all(Options((one,)).find(each) is not None for one, each in pairs):
            fitting.append((len(pairs), label))
    return max(fitting, key=lambda pair: pair[0])[1] if fitting else None


def draw(space: Space, sampler: str, seed: int, task: str, number: int, trials: int) -> dict[str, Any]:
    """The parameters of trial `number`, from 0, of `trials`."""
    if sampler == "grid":
        points = grid.points(space, trials)
        if number < grid.size(space, points):
            return grid.point(space, points, number)
    positions = _richtmyer if sampler == "qmc" else _uniform
    drawn: dict[str, Any] = {}
    chosen: dict[str, str | None] = {}
    for index, axis in enumerate(space.axes):
        if holds(axis, chosen):
            value = axis.dimension.at(positions(index, number, str(seed), task, axis.place))
            drawn[axis.place] = value
            if isinstance(axis.dimension, Options):
                chosen[axis.place] = axis.dimension.find(value)
    return drawn


def explored(sampler: str, trials: int) -> int:
    """How many of an arm's trials explore its space as given.

    >>> explored("random", 20), explored("grid", 20)
    (14, 20)
    """
    return trials if sampler in _FIXED else math.ceil(2 * trials / 3)


def edges(space: Space, best: Mapping[str, Any], tried: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Place -> "low" or "high", of the settings of the best trial that stand at an edge, given all trials. Trials
    compare where they have the setting."""
    found = {}
    for axis in space.active(best):
        values = [params[axis.place] for params in tried if axis in space.active(params)]
        if edge := _edge(axis.dimension, best[axis.place], values):
            found[axis.place] = edge
    return found


def _edge(dimension: Dimension, best: Any, tried: Sequence[Any]) -> str:
    edge = dimension.edge(best)
    if edge or not isinstance(dimension, Range) or len(set(tried)) < 2:
        return edge
    return "high" if best >= max(tried) else "low" if best <= min(tried) else ""


def widened(space: Space, best: Mapping[str, Any], tried: Sequence[Mapping[str, Any]]) -> tuple[Space, str]:
    """The space for the rest of an arm's trials, and why; the same space and "" where the best stands inside.

    >>> space = Space((Axis("optimizer.lr", Range(1e-4, 1e-1, log=True)),))
    >>> moved, why = widened(space, {"optimizer.lr": 0.03}, [{"optimizer.lr": 0.03}, {"optimizer.lr": 0.001}])
    >>> moved.to_json()
    {'optimizer.lr': '0.03:1.0:log'}
    >>> print(why.replace("; ", ";\\n"))
    of the trials in 0.0001:0.1:log none had a higher optimizer.lr than the best, 0.03;
    the rest was drawn from 0.03:1.0:log
    """
    axes, reasons = [], []
    at, active = edges(space, best, tried), space.active(best)
    for axis in space.axes:
        edge = at.get(axis.place, "") if axis in active else ""
        moved = axis.dimension.past(edge, best[axis.place], axis.lowest, axis.highest) if edge else None
        axes.append(replace(axis, dimension=moved or axis.dimension))
        if edge:
            drawn = f"the rest was drawn from {moved}" if moved else "it can go no further"
            reasons.append(f"{_stood(axis, best[axis.place], edge)}; {drawn}")
    return Space(tuple(axes)), "; ".join(reasons)


def unbracketed(space: Space, best: Mapping[str, Any], tried: Sequence[Mapping[str, Any]]) -> str:
    """What to say of a winner beyond which the optimum may lie; "" where trials on both sides of it were worse."""
    at = edges(space, best, tried)
    return "; ".join(_stood(axis, best[axis.place], at[axis.place]) for axis in space.active(best) if axis.place in at)


def _stood(axis: Axis, value: Any, edge: str) -> str:
    if axis.dimension.edge(value):
        return f"the best {axis.place}, {value}, stood at the {edge} edge of {axis.dimension}"
    further = {"high": "higher", "low": "lower"}[edge]
    return f"of the trials in {axis.dimension} none had a {further} {axis.place} than the best, {value}"


def joined(first: Space, second: Space) -> Space:
    """All that was searched: the ranges of both together."""
    axes = []
    for one, other in zip(first.axes, second.axes, strict=True):
        a, b = one.dimension, other.dimension
        both = replace(a, low=min(a.low, b.low), high=max(a.high, b.high)) if _ranges(a, b) else a  # type: ignore
        axes.append(replace(one, dimension=both))
    return Space(tuple(axes))


def _ranges(a: Dimension, b: Dimension) -> bool:
    return isinstance(a, Range) and isinstance(b, Range)


def axis_of(config: RunConfig, place: str, dimension: Dimension, given: Given | None = None) -> Axis:
    """The axis of a dimension around a config that has what the condition says."""
    return replace(_axis(config, place, dimension), given=given)


def _axis(config: RunConfig, place: str, dimension: Dimension) -> Axis:
    hyper = declared(config, place)
    if not isinstance(dimension, Range):
        return Axis(place, dimension)
    if hyper is None and config.of_module:
        return _undeclared(config, place, dimension)
    if hyper is None:
        return Axis(place, dimension, lowest=1 if dimension.whole else 0)
    if hyper.kind not in ("real", "int"):
        raise InputError(f"{place} takes {hyper.range()}, not a range", "give options joined with commas", place=place)
    whole = replace(dimension, whole=True) if hyper.kind == "int" else dimension
    lowest = _reachable(dimension.low, hyper.low, hyper.open_low)
    return Axis(place, whole, lowest, _reachable(dimension.high, hyper.high, hyper.open_high))


def _undeclared(config: RunConfig, place: str, dimension: Range) -> Axis:
    """The axis of an argument of the user's own module, of which nothing says how far it may go: a range above 0 stays
    above 0, a range that is not logarithmic and lies in [0, 1] stays there (it looks like a share), and an argument of
    whole numbers is searched in whole numbers."""
    from experiments.modules.constructor import argument

    taken = argument(config, place)
    if taken is not None and taken.whole and not dimension.whole:
        if not (float(dimension.low).is_integer() and float(dimension.high).is_integer()):
            if taken.annotated:
                said = f"{place} takes a whole number, and {dimension} has other ends"
                raise InputError(said, "give whole ends", place=place)
        else:
            dimension = replace(dimension, whole=True)
    share = not dimension.log and not dimension.whole and dimension.low >= 0 and dimension.high <= 1
    highest = _reachable(dimension.high, 1.0, True) if share else math.inf
    if dimension.low < 0:
        return Axis(place, dimension, -math.inf, highest)
    lowest = min(dimension.low, 1.0) if dimension.whole else _reachable(dimension.low, 0.0, not dimension.log)
    return Axis(place, dimension, lowest, highest)


def _reachable(end: float, bound: float, is_open: bool) -> float:
    """The furthest end of a widened range towards a declared bound."""
    return bound if not is_open or math.isinf(bound) else end + _TOWARDS_OPEN_END * (bound - end)


def _uniform(index: int, number: int, *key: str) -> float:
    """In [0, 1), from a stable hash of the key and the number."""
    text = "\x1f".join((*key, str(number)))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:7], "big") / 2**56


def _richtmyer(index: int, number: int, *key: str) -> float:
    """The number-th point of Richtmyer's sequence (1951), frac(shift + number*sqrt(prime)): evenly spread at every
    length. The shift is random in the key."""
    return (_uniform(0, -1, *key) + number * math.sqrt(_prime(index))) % 1.0


@functools.cache
def _prime(index: int) -> int:
    candidates = (n for n in range(2, 10_000) if all(n % d for d in range(2, math.isqrt(n) + 1)))
    return next(prime for at, prime in enumerate(candidates) if at == index)
