"""A group's hyperparameters as the mathematics sees them: real numbers as 0-d tensors, the rest as Python values.

A tensor is refilled only when the group's Python value has changed, in place and without reading the device: a schedule
neither recompiles anything nor makes the host wait. In a population every real hyperparameter has one value a member.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from algos.finding import InputError
from algos.spec import Hyper, hyperparameters, resolve


class HyperValues(SimpleNamespace):
    """`hyper.lr`, `hyper.betas`: what `direction` is given. A pair is a tuple of two tensors; whole numbers, flags and
    choices are Python's own, and so is None."""


class HyperTensors:
    """The hyperparameters of one parameter group on one device, in one dtype.

    group: the optimizer's own dict, read at each `refresh`. population: members, or None. Their tensors are 0-d, or
    (members,); `alone`, `members` and `column` are views of them, so that one refresh serves all.
    """

    def __init__(
        self,
        group: Mapping[str, Any],
        declared: Mapping[str, Hyper],
        device: torch.device,
        dtype: torch.dtype,
        population: int | None,
    ):
        self.group = group
        self.device, self.dtype, self.population = device, dtype, population
        self._shape = () if population is None else (population,)
        self._seen: dict[str, Any] = {}
        self._structure: tuple[Any, ...] | None = None
        self._declared = declared
        self._tensors: dict[str, tuple[Tensor, ...]] = {}
        for name, hyper in declared.items():
            if hyper.kind in ("real", "pair"):
                parts = 2 if hyper.kind == "pair" else 1
                self._tensors[name] = tuple(torch.empty(self._shape, device=device, dtype=dtype) for _ in range(parts))
        self.alone = HyperValues()
        self.members = [HyperValues() for _ in range(population or 0)]
        self.column = HyperValues()
        self.refresh()

    def refresh(self) -> None:
        """Bring in what has changed in the group. Cheap when nothing has."""
        group, seen = self.group, self._seen
        for name in self._declared:
            value = group[name]
            if isinstance(value, Tensor):  # may have been filled anew; on an accelerator the host waits for it
                value = value.item()
            if name not in seen or value != seen[name]:
                self._take(name, value)
                seen[name] = tuple(value) if isinstance(value, list) else value

    @property
    def decays(self) -> bool:
        """Whether any member has weight decay: without it the multiplication by one is left out."""
        decay = self.group.get("weight_decay", 0)
        return any(decay) if isinstance(decay, Sequence) else bool(decay)

    def by_member(self) -> dict[str, tuple[Tensor, ...]]:
        """The real hyperparameters that are not None, as (members,) tensors: what torch.vmap runs along."""
        return {name: parts for name, parts in self._tensors.items() if getattr(self.alone, name) is not None}

    def rebuilt(self, tensors: Mapping[str, tuple[Tensor, ...]]) -> HyperValues:
        """These tensors in the place of the real hyperparameters."""
        return HyperValues(**{**vars(self.alone), **{name: _shaped(parts) for name, parts in tensors.items()}})

    @property
    def structure(self) -> tuple[Any, ...]:
        """What the mathematics may branch on: whether there is decay, and the hyperparameters that are no tensors."""
        if self._structure is None:
            tensors = self.by_member()
            static = ((name, value) for name, value in vars(self.alone).items() if name not in tensors)
            self._structure = (self.decays, *static)
        return self._structure

    def standing_for(self, tensors: Mapping[str, tuple[Tensor, ...]]) -> HyperTensors:
        """The same with other tensors in the place of the real hyperparameters."""
        other = copy.copy(self)
        other._tensors = dict(tensors)
        other.alone = self.rebuilt(tensors)
        other.column = self.rebuilt({k: tuple(part.unsqueeze(-1) for part in parts) for k, parts in tensors.items()})
        return other

    def _take(self, name: str, value: Any) -> None:
        parts = self._tensors.get(name)
        if parts is None or value is None or name == "weight_decay" or getattr(self.alone, name, None) is None:
            self._structure = None
        if parts is None or value is None:
            for values in (self.alone, self.column, *self.members):
                setattr(values, name, value)
            return
        for tensor, part in zip(parts, _columns(value, len(parts), self._shape), strict=True):
            if isinstance(part, Sequence):
                tensor.copy_(torch.tensor(part, dtype=tensor.dtype))
            else:
                tensor.fill_(part)
        if getattr(self.alone, name, None) is not None:
            return  # they are views of what was just refilled
        setattr(self.alone, name, _shaped(parts))
        setattr(self.column, name, _shaped(tuple(part.unsqueeze(-1) for part in parts)))
        for index, values in enumerate(self.members):
            setattr(values, name, _shaped(tuple(part[index] for part in parts)))


def _shaped(parts: tuple[Tensor, ...]) -> Tensor | tuple[Tensor, ...]:
    return parts[0] if len(parts) == 1 else parts


def _columns(value: Any, parts: int, shape: tuple[int, ...]) -> list[Any]:
    """A value of a hyperparameter, part by part: each a number, or one number a member.

    >>> _columns([(0.9, 0.99), (0.8, 0.95)], 2, (2,))
    [(0.9, 0.8), (0.99, 0.95)]
    """
    if parts == 1:
        return [value]
    if shape and isinstance(value[0], Sequence):
        return list(zip(*value))
    return list(value)


def checked(hyper: Hyper, value: Any, name: str, owner: str, population: int | None) -> Any:
    """A hyperparameter's value, checked; in a population, a tuple of one a member where a sequence is given."""
    if not _by_member(hyper, value):
        return hyper.check(value, name, owner)
    if population is None or len(value) != population:
        expected = f"{population} values, one a member" if population else hyper.range()
        raise InputError(f"{value} is not valid", f"give {expected}", place=f"{owner}.{name}")
    return tuple(hyper.check(each, name, owner) for each in value)


def _by_member(hyper: Hyper, value: Any) -> bool:
    if not isinstance(value, (list, tuple)) or hyper.kind not in ("real", "pair"):
        return False
    return hyper.kind == "real" or (bool(value) and isinstance(value[0], (list, tuple)))


def resolved(owner: type, given: Mapping[str, Any], population: int | None) -> dict[str, Any]:
    """Every hyperparameter's value, checked; unknown names are refused."""
    declared, name = hyperparameters(owner), owner.__name__
    several = {key: value for key, value in given.items() if key in declared and _by_member(declared[key], value)}
    single = resolve(declared, {key: value for key, value in given.items() if key not in several}, name)
    return {**single, **{key: checked(declared[key], value, key, name, population) for key, value in several.items()}}
