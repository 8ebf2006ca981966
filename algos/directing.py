"""A step whose directions components change before they are applied."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from torch import Tensor

from algos.units import Unit

#: (params, grads, directions) -> directions: lists over the parameters that have a gradient.
Directing = Callable[[Sequence[Tensor], Sequence[Tensor], Sequence[Tensor]], Sequence[Tensor]]


def directed_step(units: Sequence[Unit], directing: Directing) -> None:
    """Every unit's direction, all of them changed together, then applied."""
    directions = [unit.direction() for unit in units]
    split = [part for unit, direction in zip(units, directions, strict=True) for part in unit.split(direction)]
    params = [param for unit in units for param in unit.params]
    grads = [grad for unit in units for grad in unit.grads]
    changed = list(directing(params, grads, split))
    assert len(changed) == len(split), "the hook must return one direction for each it was given"
    for unit in units:
        unit.apply(unit.join(changed[: len(unit.params)]))
        del changed[: len(unit.params)]
