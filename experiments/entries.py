"""Entries of a merged layer, resolved: every hyperparameter that the catalogue declares, checked and written out.
Torch-free."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from algos import catalogue
from algos.finding import InputError, unknown
from algos.spec import Hyper
from algos.spec import resolve as resolve_hyper
from experiments.layers import KINDS, Layer, absent, searched


def meant_schedule(merged: Layer) -> Layer:
    """What the optimizer's entry says it is meant to be used with; {} where it says nothing."""
    name = merged["optimizer"]["name"]
    known = isinstance(name, str) and name in catalogue.paths("optimizers")
    return dict(catalogue.describe("optimizers", name).literals.get("schedule", {})) if known else {}


def resolve_list(key: str, entries: list[Layer] | Layer) -> list[Layer]:
    if isinstance(entries, dict):
        raise absent(next(iter(entries)), [], key)
    return [resolve_entry(key, entry, f"{key}.{entry['name']}") for entry in entries]


def resolve_entry(key: str, given: Layer, place: str) -> Layer:
    name = given["name"]
    if not isinstance(name, str):
        raise InputError(f"{name!r} is not a name", f"give the name of an entry, e.g. {key}=NAME", place=place)
    declared = catalogue.describe(KINDS[key], name, place=key).hyper
    hyper = {word: _none_option(declared.get(word), value) for word, value in given.items() if word != "name"}
    for word, value in hyper.items():
        if isinstance(value, Mapping):
            cure = "give one value a hyperparameter"
            raise InputError(f"{dict(value)!r} is not a value", cure, place=f"{place}.{word}")
        if word not in declared:
            raise unknown(f"hyperparameter of {name}", word, declared, place=f"{place}.{word}")
    return {"name": name, **resolve_hyper(declared, hyper, place)}


def _none_option(declared: Hyper | None, value: Any) -> Any:
    """None, where one of the options of a hyperparameter is called "none"."""
    return "none" if value is None and declared and "none" in declared.options else value


def refuse_ranges(merged: Layer) -> None:
    """InputError for a range or options, where one run is asked for."""
    for place, dimension in searched(merged).items():
        raise InputError(
            f"{dimension} is a range", "give one value, or tune it with `trainlab tune` or `trainlab sweep`",
            rule="range", place=place,
        )  # fmt: skip
