"""Lightning's words, `trainer.*`, for a user's own module: passed as they are, but for the few that a run owns.

Where Lightning's own loop runs, its words mean what they always do. Only the budget and the device are settings of a
run, because studies compare by them; what would end a run by another rule is refused.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from algos.finding import InputError, unknown
from experiments.frozen import plain
from experiments.layers import Layer
from experiments.modules import constructor, reference

if TYPE_CHECKING:
    from experiments.config import RunConfig

#: Word -> what to do instead.
OWNED = {
    "fast_dev_run": "give budget.updates=1",
    "max_time": "give budget.seconds=S",
    "min_epochs": "runs use their whole budget; leave it out",
    "min_steps": "runs use their whole budget; leave it out",
}
#: Word -> the setting of a run that it is.
MAPPED = {"max_steps": "budget", "max_epochs": "budget", "accelerator": "device", "devices": "devices"}


def translate(merged: Layer) -> Layer:
    """A merged layer with Lightning's words checked, and those that are settings of a run turned into them."""
    said = merged.get("trainer") or {}
    if not isinstance(said, Mapping):
        cure = "give words of Lightning's Trainer, e.g. trainer.benchmark=true"
        raise InputError(f"{said!r} is not valid", cure, place="trainer")
    known = _known()
    words: dict[str, Any] = {}
    ours: Layer = {}
    for word, value in said.items():
        place = f"trainer.{word}"
        if word not in known:
            raise unknown("word of Lightning's Trainer", word, known, place=place)
        if word in OWNED:
            if value not in (None, False):
                raise InputError("a run does not take Lightning's word", OWNED[word], rule="trainer-word", place=place)
        elif word in MAPPED:
            ours |= _ours(word, value, place)
        else:
            words[word] = _kept(value, place)
    if {"max_steps", "max_epochs"} <= {word for word in said if _limits(said[word])}:
        raise InputError("with max_epochs it makes two budgets", "give one of them", place="trainer.max_steps")
    if words.get("precision") is not None and merged["precision"]["name"] != "own":
        said_twice = f"with precision={merged['precision']['name']} it makes two precisions"
        raise InputError(said_twice, "give one of them", place="trainer.precision")
    return {**merged, **ours, "trainer": words}


def words(config: RunConfig) -> dict[str, Any]:
    """What Lightning's Trainer is made with: the config's words, lists as lists, a new object for each reference."""
    return {word: _object(value, f"trainer.{word}") for word, value in plain(config.trainer).items()}


def budget(given: Mapping[str, Any]) -> Layer:
    """The budget that max_steps or max_epochs say; {} where they set no limit.

    >>> budget({"max_steps": 100}), budget({"max_epochs": 3, "benchmark": True}), budget({"max_steps": -1})
    ({'updates': 100}, {'epochs': 3}, {})
    """
    units = {"max_steps": "updates", "max_epochs": "epochs"}
    return next(({unit: given[word]} for word, unit in units.items() if word in given and _limits(given[word])), {})


def _limits(value: Any) -> bool:
    return value is not None and value != -1


def _ours(word: str, value: Any, place: str) -> Layer:
    if word in ("max_steps", "max_epochs"):
        found = budget({word: value})
        if not found and word == "max_epochs" and value == -1:
            raise InputError("a run has a budget", "give budget.updates, budget.epochs or budget.seconds", place=place)
        return {"budget": found} if found else {}
    if word == "accelerator":
        if not isinstance(value, str):
            raise InputError(f"{value!r} is not valid", "give auto, cpu, gpu, cuda, mps or npu", place=place)
        return {"device": "cuda" if value == "gpu" else value}
    return {} if value == "auto" else {"devices": int(value) if isinstance(value, str) and value.isdigit() else value}


def _known() -> list[str]:
    import lightning.pytorch as pl

    return [name for name in inspect.signature(pl.Trainer.__init__).parameters if name != "self"]


def _kept(value: Any, place: str) -> Any:
    """The value as the config keeps it: plain data; a reference for what is none. What a reference names is there."""
    if isinstance(value, (list, tuple)):
        return tuple(_kept(part, place) for part in value)
    if isinstance(value, Mapping):
        return {key: _kept(inner, place) for key, inner in value.items()}
    if not constructor.is_plain(value):
        value = reference.name_of(value)
    if reference.is_reference(value) and not place.endswith("default_root_dir"):
        _makable(value, place)
    return value


def _makable(text: str, place: str) -> None:
    found = reference.load(text, place=place)
    if inspect.isclass(found) or inspect.isroutine(found):
        missing = [each.name for each in constructor.arguments(found).named.values() if each.required]
        if missing:
            cure = "give a function that makes it, FILE.py:FUNCTION, or in Python an instance"
            raise InputError(f"{reference.shown(text)} needs {', '.join(missing)}", cure, place=place)


def _object(value: Any, place: str) -> Any:
    if isinstance(value, list):
        made = [_object(part, place) for part in value]
        return [each for part in made for each in (part if isinstance(part, list) else [part])]
    if isinstance(value, dict):
        return {key: _object(inner, place) for key, inner in value.items()}
    if reference.is_reference(value) and not place.endswith("default_root_dir"):
        return reference.fresh(value, place=place)
    return value
