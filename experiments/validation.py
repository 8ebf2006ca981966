"""Validation: pydantic's complaints as one InputError that names the dotted place and the fix. Torch-free."""

from __future__ import annotations

from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ValidationError

from algos.finding import InputError, unknown

Model = TypeVar("Model", bound=BaseModel)


def validated(model: type[Model], data: Any, place: str = "") -> Model:
    """`model` of `data`; the first thing that is wrong, as one InputError that names its dotted place."""
    try:
        return model.model_validate(data)
    except ValidationError as error:
        raise _first(model, error, place) from None


def _first(model: type[BaseModel], error: ValidationError, prefix: str) -> InputError:
    found = error.errors(include_url=False)
    first = next((each for each in found if each["type"] == "extra_forbidden"), found[0])
    cause = first.get("ctx", {}).get("error")
    if isinstance(cause, InputError):
        return cause.at(place=".".join(part for part in (prefix, cause.finding.place) if part))
    names = [str(part) for part in first["loc"]]
    owner, info = _field(model, names)
    place = ".".join(part for part in (prefix, *names) if part)
    if first["type"] == "extra_forbidden":
        return unknown("key", names[-1], [i.alias or n for n, i in owner.model_fields.items()], place=place)
    if first["type"] == "missing":
        return InputError(f"'{names[-1]}' is missing", f"give {info.description if info else 'it'}", place=place)
    cure = f"give {info.description}" if info and info.description else first["msg"].lower()
    return InputError(f"{first['input']!r} is not valid", cure, rule="bad-value", place=place)


def _field(model: type[BaseModel], names: list[str]) -> tuple[type[BaseModel], Any]:
    """The model and field that a place of pydantic's leads to."""
    owner, info = model, None
    for name in names:
        found = next((i for n, i in owner.model_fields.items() if name in (n, i.alias)), None)
        if found is None:
            break
        info = found
        inner = [kind for kind in (info.annotation, *get_args(info.annotation)) if isinstance(kind, type)]
        owner = next((kind for kind in inner if issubclass(kind, BaseModel)), owner)
    return owner, info
