"""Layers: nested plain data of a config, brought to one form and laid over each other. Torch-free.

A layer is what a user, a study or a task says of a config: `{"optimizer": "muon", "optimizer.lr": 0.02, "seed": 3}`.
`tidy` brings it to one form; `lay` puts one over another. In tidy form an entry is `{"name": ..., **hyper}` (without a
name it changes the entry below); wrappers and compression are a list of entries, or `{name: hyper}` for some below.
Laying is not associative, so layers are always folded from the bottom, the task's defaults first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from algos.finding import InputError
from experiments.tuning.ranges import Options, Range, parse_dimension

#: Key of a config -> kind of the catalogue.
KINDS = {
    "model": "architectures",
    "optimizer": "optimizers",
    "schedule": "schedules",
    "loss": "losses",
    "precision": "precision",
    "wrappers": "wrappers",
    "compression": "compression",
}
#: The keys that hold an entry: those, and the data of a module of the user's own.
ENTRIES = frozenset({*KINDS, "data"})
#: The keys whose settings may be mappings themselves, changed one by one: constructor arguments.
NESTED = frozenset({"model", "data"})
#: The keys that hold several entries, innermost first.
LISTS = ("wrappers", "compression")
Layer = dict[str, Any]


def tidy(data: Mapping[str, Any], place: str = "") -> Layer:
    """A layer in tidy form: dotted keys nested, bare names as entries, lists of values as tuples.

    >>> tidy({"optimizer": "muon", "optimizer.lr": 0.02, "wrappers": "cautious+sam", "wrappers.sam.rho": 0.1})
    {'optimizer': {'name': 'muon', 'lr': 0.02}, 'wrappers': [{'name': 'cautious'}, {'name': 'sam', 'rho': 0.1}]}
    """
    layer: Layer = {}
    for dotted in sorted(data, key=lambda key: str(key).count(".")):
        if not isinstance(dotted, str):
            raise InputError(f"the key {dotted!r} is not text", "give the name of a setting", place=place)
        key, *rest = dotted.split(".")
        value: Any = data[dotted]
        for part in reversed(rest):
            value = {part: value}
        where = f"{place}.{key}" if place else key
        said = _tidy_value(key, value, where)
        layer[key] = _over(key, layer[key], said, where) if key in layer else said
    return layer


def _tidy_value(key: str, value: Any, place: str) -> Any:
    if key in LISTS:
        return _tidy_list(value, place)
    if key == "data" and value is None:
        return None
    if key in ENTRIES:
        return _tidy_entry(value, place, nested=key in NESTED)
    if isinstance(value, Mapping):
        return {str(inner): _value(inside) for inner, inside in value.items()}
    return _value(value)


def _tidy_entry(value: Any, place: str, nested: bool = False) -> Layer:
    if isinstance(value, str):
        return {"name": value}
    if not isinstance(value, Mapping):
        raise InputError(f"{value!r} is not an entry", "give a name, or {name: NAME, ...}", place=place)
    for key, inner in value.items():
        if isinstance(inner, Mapping) and not nested:
            raise _no_value(inner, f"{place}.{key}")
    return {str(key): _value(inner) for key, inner in value.items()}


def _no_value(given: Mapping[str, Any], place: str) -> InputError:
    """A mapping where one value stands; of a range with a condition, the form that it has in an arm."""
    shown = ", ".join(f"{key}: {'...' if isinstance(value, Mapping) else value}" for key, value in given.items())
    cure = "give one value a hyperparameter"
    if "when" in given or "range" in given:
        setting = ".".join(place.split(".")[2:] if place.startswith("arms.") else place.split("."))
        cure = f'give the range alone; with a condition, in the arm: when: {{"optimizer=sgd": {{{setting}: 0.5:0.9}}}}'
    return InputError(f"{{{shown}}} is not a value", cure, place=place)


def _tidy_list(value: Any, place: str) -> list[Layer] | Layer:
    if value is None or value in ("", "none"):
        return []
    if isinstance(value, str):
        value = value.split("+")
    elif isinstance(value, Mapping) and "name" in value:
        value = [value]
    if isinstance(value, Mapping):
        return {str(name): _tidy_entry(hyper or {}, f"{place}.{name}") for name, hyper in value.items()}
    if not isinstance(value, (list, tuple)):
        said = f"{value!r} is not a list of entries"
        raise InputError(said, "give names joined with +, innermost first", place=place)
    entries = [_tidy_entry(entry, place) for entry in value]
    names = [entry.get("name") for entry in entries]
    for name in names:
        if name is None:
            raise InputError("an entry of the list has no name", "give {name: NAME, ...}", place=place)
        if names.count(name) > 1:
            raise InputError(f"'{name}' stands there twice", "name each once", place=place)
    return entries


def _value(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _value(inner) for key, inner in value.items()}
    return tuple(map(_value, value)) if isinstance(value, (list, tuple)) else value


def typed(data: Any, place: str = "") -> Any:
    """Overrides from a file with their texts read: "none" is None, ranges and options are such; a path stays text, and
    so does whatever is no plain data.

    >>> typed({"optimizer": {"name": "sgd", "momentum": "0.8,0.9"}, "init": "a,b.safetensors"})
    {'optimizer': {'name': 'sgd', 'momentum': Options(values=(0.8, 0.9))}, 'init': 'a,b.safetensors'}
    """
    if isinstance(data, Mapping):
        return {key: typed(inner, f"{place}.{key}" if place else str(key)) for key, inner in data.items()}
    if isinstance(data, (list, tuple)):
        return [typed(inner, place) for inner in data]
    if not isinstance(data, str) or place.rpartition(".")[2] in ("init", "task", "data"):
        return data
    return None if data == "none" else parse_dimension(data, place) or data


def lay(base: Mapping[str, Any], over: Mapping[str, Any]) -> Layer:
    """`over` on top of `base`, both tidy. An entry that is named anew starts from its own defaults; a budget and a list
    of entries are replaced whole; hyperparameters and trainer words are changed one by one.

    >>> lay({"optimizer": {"name": "adamw", "lr": 0.1}}, {"optimizer": {"name": "muon"}})
    {'optimizer': {'name': 'muon'}}
    >>> lay({"optimizer": {"name": "adamw", "lr": 0.1}}, {"optimizer": {"lr": 0.2}})
    {'optimizer': {'name': 'adamw', 'lr': 0.2}}
    """
    result = dict(base)
    for key, value in over.items():
        result[key] = _over(key, base[key], value, key) if key in base else value
    return result


def laid(defaults: Layer, layers: Sequence[Layer]) -> Layer:
    """The layers on top of each other, the defaults lowest."""
    for layer in layers:
        defaults = lay(defaults, layer)
    return defaults


def _over(key: str, base: Any, over: Any, place: str) -> Any:
    if key in LISTS and isinstance(over, dict):
        return _list_over(base, over, place)
    if key in LISTS or key == "budget" or not (isinstance(base, dict) and isinstance(over, dict)):
        return over
    if key in ENTRIES and "name" in over and over["name"] != base.get("name", over["name"]):
        return over
    return deep(base, over) if key in NESTED else {**base, **over}


def deep(base: Mapping[str, Any], over: Mapping[str, Any]) -> Layer:
    """Mappings inside changed one by one too.

    >>> deep({"widths": {"first": 8, "last": 4}}, {"widths": {"last": 2}})
    {'widths': {'first': 8, 'last': 2}}
    """
    both = {
        key: deep(base[key], over[key])
        for key in base
        if isinstance(base[key], Mapping) and key in over and isinstance(over[key], Mapping)
    }
    return {**base, **over, **both}


def _list_over(base: list[Layer] | Layer, over: Layer, place: str) -> list[Layer] | Layer:
    if isinstance(base, dict):
        return {name: {**base.get(name, {}), **over.get(name, {})} for name in {**base, **over}}
    present = [entry["name"] for entry in base]
    for name in over:
        if name not in present:
            raise absent(name, present, place)
    return [{**entry, **over.get(entry["name"], {})} for entry in base]


def absent(name: str, present: list[str], place: str) -> InputError:
    """A setting of a wrapper that is not in the list."""
    key = place.rsplit(".", 1)[-1]
    full = "+".join([*present, name])
    said = f"'{name}' is not among the {key} here ({', '.join(present) or 'none'})"
    return InputError(said, f"give {key}={full} too", place=f"{place}.{name}")


def leaves(layer: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """(dotted place, value) of every leaf. An entry of a list is found by its name: wrappers.sam.rho.

    >>> list(leaves({"wrappers": [{"name": "sam", "rho": 0.1}], "seed": 1}))
    [('wrappers.sam', 'sam'), ('wrappers.sam.rho', 0.1), ('seed', 1)]
    """
    for key, value in layer.items():
        place = f"{prefix}.{key}" if prefix else key
        if isinstance(value, Mapping):
            yield from leaves(value, place)
        elif isinstance(value, (list, tuple)) and value and all(map(_named, value)):
            for entry in value:
                yield f"{place}.{entry['name']}", entry["name"]
                yield from leaves({k: v for k, v in entry.items() if k != "name"}, f"{place}.{entry['name']}")
        else:
            yield place, value


def _named(part: Any) -> bool:
    return isinstance(part, Mapping) and "name" in part


def searched(layer: Mapping[str, Any]) -> dict[str, Range | Options]:
    """The ranges and options in a layer, by dotted place."""
    return {place: value for place, value in leaves(layer) if isinstance(value, (Range, Options))}


def without_ranges(layer: Mapping[str, Any]) -> Layer:
    """The layer with every range and option left out."""

    def kept(value: Any) -> Any:
        if isinstance(value, Mapping):
            return {key: kept(inner) for key, inner in value.items() if not isinstance(inner, (Range, Options))}
        return [kept(entry) for entry in value] if isinstance(value, list) else value

    cleaned: Layer = kept(layer)
    return cleaned
