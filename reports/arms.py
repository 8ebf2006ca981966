"""Arms: in which config keys they differ, what was tuned and the seed aside."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from experiments.store.queries import flatten
from reports.judged import recorded
from reports.table import Cell
from reports.tuning import tuning

#: Keys that tell runs apart, not arms.
_ASIDE = {"seed", "task", "schema", "recorded"}


def configs(cell: Cell) -> dict[str, Any]:
    """What the newest run of an arm on a task says of its config, flat."""
    runs = cell.finals or cell.tunes
    return {key: value for key, value in flatten(runs[-1].config).items() if key not in _ASIDE}


def tuned(cells: Iterable[Cell]) -> set[str]:
    """Config keys that were tuned for any of the arms."""
    return {place for cell in cells for place in searched(cell)}


def searched(cell: Cell) -> dict[str, None]:
    """Config keys that were tuned for an arm on a task, numbers before options, without the conditions under which."""
    if (told := tuning(cell)) is None:
        return {}
    hypers = (*told.hypers, *told.options, *(cell.told.get("space") or {}))
    return dict.fromkeys(hyper.partition(" when ")[0] for hyper in hypers)


def has(config: Mapping[str, Any], key: str) -> bool:
    """Whether a flat config has a key, or a section of that name."""
    return key in config or any(place.startswith(f"{key}.") for place in config)


def unevenly_tuned(cells: Sequence[Cell]) -> list[str]:
    """Keys that were tuned for some arms of a task and not for others. Arms of our runner and recorded ones are told
    apart each among themselves."""
    found: dict[str, None] = {}
    for theirs in (False, True):
        places = [searched(cell) for cell in cells if is_recorded(cell) == theirs]
        found |= {key: None for told in places for key in told if any(key not in other for other in places)}
    return list(found)


def differing(cells: Sequence[Cell]) -> list[str]:
    """Keys in which arms of one task differ, in the order of the configs. The words of a recorded run's config are its
    maker's, so arms of our runner and recorded ones are told apart each among themselves."""
    groups = [[cell for cell in cells if is_recorded(cell) == theirs] for theirs in (False, True)]
    return list(dict.fromkeys(key for group in groups for key in _differing(group)))


def is_recorded(cell: Cell) -> bool:
    """Whether other code than our runner made an arm's runs."""
    return any(map(recorded, (*cell.finals, *cell.tunes)))


def _differing(cells: Sequence[Cell]) -> list[str]:
    known = [configs(cell) for cell in cells]
    aside = tuned(cells)
    keys = dict.fromkeys(key for config in known for key in config)
    return [key for key in keys if key not in aside and len({repr(config.get(key)) for config in known}) > 1]
