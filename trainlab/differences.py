"""Differences: what tells the runs of one command apart, in a few words for their names. Torch-free."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from experiments.config import RunConfig, canonical
from experiments.layers import ENTRIES, LISTS
from experiments.modules import reference
from experiments.scalars import print_value

#: Said by every name already, or the same for people.
_SAID = ("schema", "task", "seed", "optimizer")
#: So many characters of a value are enough in a name.
_LONG = 32


def differences(configs: Sequence[RunConfig]) -> list[str]:
    """For each config what not all have, e.g. "hidden=16 wrappers=ema"; "" where there is nothing to tell apart.

    A setting is told where it differs among configs that agree in all it may follow from: a model's width among those
    of one model, what an optimizer has by itself not at all.
    """
    told = [_told(config.to_json()) for config in configs]
    tells = {place: found for place in dict.fromkeys(place for each in told for place in each)
             if (found := _tells(place, told))}  # fmt: skip
    short = [place.rpartition(".")[2] for place in tells]
    keys = {place: last if short.count(last) == 1 else place for place, last in zip(tells, short)}
    return [
        " ".join(f"{keys[place]}={_shown(each[place])}" for place in tells if index in tells[place] and place in each)
        for index, each in enumerate(told)
    ]


def _told(config: Mapping[str, Any]) -> dict[str, Any]:
    """Its settings by dotted place: an entry's name under its key, a list of entries as their names joined with +."""
    found: dict[str, Any] = {}
    for key, value in config.items():
        if key in LISTS:
            found[key] = "+".join(entry["name"] for entry in value) or "none"
            for entry in value:
                found |= {f"{key}.{entry['name']}.{word}": part for word, part in entry.items() if word != "name"}
        elif isinstance(value, Mapping):
            found |= {
                key if word == "name" and key in ENTRIES else f"{key}.{word}": part for word, part in value.items()
            }
        else:
            found[key] = value
    return found


def _tells(place: str, told: Sequence[Mapping[str, Any]]) -> set[int]:
    """Which configs a setting tells apart from others of the same task, optimizer and entry."""
    key = place.partition(".")[0]
    above = ("task", "optimizer", *([key] if key != place else []))
    groups: dict[str, dict[int, str]] = {}
    for index, each in enumerate(told if place not in _SAID else ()):
        group = canonical([each.get(name) for name in above])
        groups.setdefault(group, {})[index] = canonical(each.get(place, "absent"))
    return {index for values in groups.values() if len(set(values.values())) > 1 for index in values}


def _shown(value: Any) -> str:
    if isinstance(value, str):
        said = reference.name(value) if reference.is_reference(value) else value
    else:
        said = f"{value:.6g}" if isinstance(value, float) else print_value(value)
    return said if len(said) <= _LONG else f"{said[: _LONG - 3]}..."
