"""Queries: the small language of `trainlab runs 'QUERY'`.

    task=digits arm=muon status=completed val/accuracy>0.9 optimizer.lr<=1e-3

Terms joined by spaces must all hold. A term is field, operator, value. Fields: study, task, arm, phase, status, seed,
number, run (the start of its id), name; any key of the config (`optimizer.lr`); any metric (its final value, else its
last one). Operators: = != < <= > >= and ~ (contains). A run without the field matches no term but !=. What has spaces
is quoted: name~"with space". A list of entries (wrappers, compression) equals each of its names, and all of them in
their order: wrappers=galore, wrappers=sam+asam, wrappers=none.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from algos.finding import InputError, closest
from experiments.layers import LISTS
from experiments.store.schema import STATUSES, RunRecord
from experiments.store.sources import Source

Wanted = Callable[[RunRecord], bool]

_TERM = re.compile(r"(?P<field>[^=!<>~]+?)\s*(?P<operator>!=|<=|>=|=|<|>|~)\s*(?P<value>.*)", re.DOTALL)
_FIELDS: Mapping[str, Callable[[RunRecord], Any]] = {
    "study": lambda record: record.labels.study,
    "task": lambda record: record.labels.task,
    "arm": lambda record: record.labels.arm,
    "phase": lambda record: record.labels.phase,
    "number": lambda record: record.labels.number,
    "seed": lambda record: record.labels.seed,
    "status": lambda record: record.status,
    "run": lambda record: record.run_id,
    "name": lambda record: record.file.name,
    "created": lambda record: record.file.created,
    "started": lambda record: record.started,
    "ended": lambda record: record.ended,
    "parent": lambda record: record.file.parent,
}
_ABSENT = object()


def parse(text: str, among: Iterable[RunRecord] = ()) -> Wanted:
    """What `text` asks for, as a test of one record. "" asks for all.

    among: records whose config keys and metrics are known to exist; a field that none of them has is refused, with
    "did you mean". Without them only the form is checked.

    >>> parse("task=digits seed<=3")  # doctest: +ELLIPSIS
    <function ...>
    """
    terms = [_term(word) for word in _words(text)]
    records = list(among)
    if records:
        for field, _, _ in terms:
            _check_field(field, records)
    tests = [_test(*term) for term in terms]
    return lambda record: all(test(record) for test in tests)


def field_of(record: RunRecord, name: str) -> Any:
    """The value of a field, or None where the run does not have it."""
    value = _lookup(record, name)
    return None if value is _ABSENT else value


def sort(records: Iterable[RunRecord], key: str) -> list[RunRecord]:
    """By a field, ascending; `-field` descends. Runs without it come last, either way."""
    found = list(records)
    name, descending = key.removeprefix("-"), key.startswith("-")
    if found:
        _check_field(name, found)
    having = [record for record in found if field_of(record, name) is not None]
    lacking = [record for record in found if field_of(record, name) is None]
    return sorted(having, key=lambda record: _order(field_of(record, name)), reverse=descending) + lacking


def find(source: Source, text: str) -> RunRecord:
    """The one run that `text` names: its id, the start of its id, or its name."""
    records = source.runs()
    for matches in (
        [record for record in records if record.run_id == text],
        [record for record in records if record.file.name == text],
        [record for record in records if text and record.run_id.startswith(text)],
    ):
        if len(matches) == 1:
            return matches[0]
        if matches:
            ids = ", ".join(record.run_id for record in matches[:5]) + (", ..." if len(matches) > 5 else "")
            raise InputError(
                f"'{text}' means any of {len(matches)} runs ({ids})", "give more of the id", rule="ambiguous-run"
            )
    guess = closest(text, [name for record in records for name in (record.run_id, record.file.name)])
    cure = f"did you mean '{guess}'?" if guess else "`trainlab runs` lists them"
    raise InputError(f"no run is called '{text}'", cure, rule="unknown-run")


def flatten(config: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """A nested config with dotted keys; lists of sections are numbered by their names where they have one.

    >>> flatten({"optimizer": {"name": "lion", "betas": [0.9, 0.99]}, "wrappers": [{"name": "sam", "rho": 0.05}]})
    {'optimizer.name': 'lion', 'optimizer.betas': [0.9, 0.99], 'wrappers.sam.name': 'sam', 'wrappers.sam.rho': 0.05}
    """
    flat: dict[str, Any] = {}
    for key, value in config.items():
        flat.update(_flatten_value(f"{prefix}{key}", value))
    return flat


def _flatten_value(place: str, value: Any) -> dict[str, Any]:
    if isinstance(value, Mapping):
        return flatten(value, f"{place}.") if value else {place: {}}
    if isinstance(value, (list, tuple)) and value and all(isinstance(item, Mapping) for item in value):
        names = [str(item.get("name", index)) for index, item in enumerate(value)]
        if len(set(names)) < len(names):
            names = [str(index) for index in range(len(value))]
        flat: dict[str, Any] = {}
        for name, item in zip(names, value):
            flat.update(_flatten_value(f"{place}.{name}", item))
        return flat
    return {place: value}


def _words(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError as error:
        raise InputError(f"the query {text!r} cannot be read ({error})", "close the quotes", rule="bad-query") from None


def _term(word: str) -> tuple[str, str, str]:
    match = _TERM.fullmatch(word)
    if match is None:
        raise InputError(
            f"'{word}' is not a term of a query",
            "write field, operator, value without spaces, e.g. task=digits or val/accuracy>0.9",
            rule="bad-query",
        )
    field, operator, value = match["field"], match["operator"], match["value"]
    if not value and operator not in ("=", "!="):
        raise InputError(f"'{word}' has no value", f"write it without spaces, e.g. {word}0.9", rule="bad-query")
    if field == "status" and operator in ("=", "!=") and value not in STATUSES:
        guess = closest(value, STATUSES)
        cure = (f"did you mean '{guess}'? " if guess else "") + f"(valid: {', '.join(STATUSES)})"
        raise InputError(f"status '{value}' does not exist", cure, rule="bad-query")
    return field, operator, value


def _check_field(name: str, records: Iterable[RunRecord]) -> None:
    if name in _FIELDS:
        return
    known = set(_FIELDS)
    for record in records:
        if _lookup(record, name) is not _ABSENT:
            return
        known |= flatten(record.config).keys() | record.last.keys() | record.final.keys()
        if name in record.nonfinite:
            return  # measured, and no number now
    guess = closest(name, known)
    cure = f"did you mean '{guess}'?" if guess else f"fields are {', '.join(_FIELDS)}, config keys and metrics"
    raise InputError(f"no run has a field '{name}'", cure, rule="unknown-field")


def _lookup(record: RunRecord, name: str) -> Any:
    if name in _FIELDS:
        return _FIELDS[name](record)
    if name in record.final:
        return record.final[name]
    if name in record.last:
        return record.last[name]
    if name in LISTS and isinstance(record.config.get(name), (list, tuple)):
        return "+".join(str(entry["name"]) for entry in record.config[name]) or "none"  # as on the command line
    flat = flatten(record.config)
    if name not in flat and f"{name}.name" in flat:
        name = f"{name}.name"  # optimizer=muon, as on the command line
    return flat.get(name, _ABSENT)


def _test(field: str, operator: str, value: str) -> Wanted:
    def holds(record: RunRecord) -> bool:
        found = _lookup(record, field)
        if found is _ABSENT or found is None:
            return operator == "!="
        if field == "run" and operator in ("=", "!="):
            return str(found).startswith(value) == (operator == "=")
        if field in LISTS and operator in ("=", "!="):
            return (value == found or value in str(found).split("+")) == (operator == "=")
        return _compare(found, operator, value)

    return holds


def _compare(found: Any, operator: str, value: str) -> bool:
    text = written(found)
    if operator == "~":
        return value.lower() in text.lower()
    numbers = _number(found), _number(value)
    left: Any
    right: Any
    if numbers[0] is not None and numbers[1] is not None:
        left, right = numbers
    else:
        left, right = text, value
    match operator:
        case "=":
            return bool(left == right)
        case "!=":
            return bool(left != right)
        case "<":
            return bool(left < right)
        case "<=":
            return bool(left <= right)
        case ">":
            return bool(left > right)
    return bool(left >= right)


def written(value: Any) -> str:
    """A value as the command line writes it: true, 0.9/0.95."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (list, tuple)):
        return "/".join(written(item) for item in value)
    return str(value)


def _number(value: Any) -> float | None:
    if isinstance(value, bool):
        return None
    try:
        return float(value)
    except (TypeError, ValueError):
        return None


def _order(value: Any) -> tuple[int, float, str]:
    number = _number(value)
    return (1, 0.0, written(value)) if number is None else (0, number, "")
