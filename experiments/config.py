"""RunConfig: everything that decides a run, resolved to the last hyperparameter, frozen and hashed. Torch-free.

`resolve` makes one from layers of plain data (the task's defaults lie under them); `RunConfig.from_json` reads a stored
one back; `digest` names it.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal, TypeVar, get_args

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    PlainValidator,
    ValidationError,
    model_serializer,
    model_validator,
)

from algos import catalogue
from algos.finding import InputError, unknown
from algos.spec import Hyper
from algos.spec import resolve as resolve_hyper
from experiments.layers import KINDS, LISTS, Layer, absent, lay, searched, tidy
from experiments.ranges import Options, Range
from experiments.trainer_words import one_budget, translate

#: The budget's units, each counted in every run.
UNITS = ("updates", "epochs", "examples", "gradients", "seconds")
_DEVICE = re.compile(r"^((auto|cpu|mps)|(cuda|npu)(:\d+)?)\Z")
_INIT = re.compile(r"^(|run:[^@\s]+(@(best|last))?|.+\.safetensors)\Z")


class Frozen(Mapping[str, Any]):
    """A mapping that cannot be changed, to its leaves: mappings inside are Frozen, lists are tuples.

    >>> Frozen({"betas": [0.9, 0.95]})["betas"]
    (0.9, 0.95)
    """

    __slots__ = ("_items",)

    def __init__(self, items: Mapping[str, Any] = {}):
        self._items = {str(key): _freeze(value) for key, value in items.items()}

    def __getitem__(self, key: str) -> Any:
        return self._items[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __hash__(self) -> int:
        return hash(frozenset(self._items.items()))

    def __repr__(self) -> str:
        return repr(self._items)


def _freeze(value: Any) -> Any:
    if isinstance(value, Mapping):
        return value if isinstance(value, Frozen) else Frozen(value)
    return tuple(_freeze(part) for part in value) if isinstance(value, (list, tuple)) else value


def plain(value: Any) -> Any:
    """The value as JSON has it: dicts and lists; a range as its text."""
    if isinstance(value, Mapping):
        return {key: plain(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(part) for part in value]
    return str(value) if isinstance(value, (Range, Options)) else value


def _settings(value: Any) -> Frozen:
    if not isinstance(value, Mapping):
        raise ValueError("not a mapping")
    return Frozen(value)


def _whole(value: Any) -> Any:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value


Model = TypeVar("Model", bound=BaseModel)
Settings = Annotated[Mapping[str, Any], PlainValidator(_settings), PlainSerializer(plain)]
Whole = Annotated[int, BeforeValidator(_whole)]


class Entry(BaseModel):
    """One named thing of the catalogue with its hyperparameters: `{"name": "muon", "lr": 0.02}`; the bare name will do.

    >>> Entry.model_validate("muon").name, Entry.model_validate({"name": "muon", "lr": 0.02}).hyper["lr"]
    ('muon', 0.02)
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    name: str = Field(description="the name of an entry")
    hyper: Settings = Frozen()

    @model_validator(mode="before")
    @classmethod
    def _flat(cls, data: Any) -> Any:
        if isinstance(data, str):
            return {"name": data}
        if isinstance(data, Mapping) and not isinstance(data.get("hyper"), Mapping):
            return {"name": data.get("name"), "hyper": {key: value for key, value in data.items() if key != "name"}}
        return data

    @model_serializer
    def _plain(self) -> dict[str, Any]:
        return {"name": self.name, **plain(self.hyper)}

    def __str__(self) -> str:
        return self.name


class Budget(BaseModel):
    """How long a run trains: exactly one of the five units.

    >>> Budget(updates=600).unit, Budget(updates=600).amount
    ('updates', 600)
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    updates: Whole | None = Field(default=None, gt=0, description="a whole number above 0")
    epochs: float | None = Field(default=None, gt=0, allow_inf_nan=False, description="a number above 0")
    examples: Whole | None = Field(default=None, gt=0, description="a whole number above 0")
    gradients: Whole | None = Field(default=None, gt=0, description="a whole number above 0")
    seconds: float | None = Field(default=None, gt=0, allow_inf_nan=False, description="a number above 0")

    @model_validator(mode="after")
    def _one(self) -> Budget:
        given = [unit for unit in UNITS if getattr(self, unit) is not None]
        if len(given) != 1:
            said = f"a budget has {' and '.join(given) if given else 'no unit'}"
            raise InputError(said, f"give exactly one of {', '.join(UNITS)}, e.g. budget.updates=1000", place="budget")
        return self

    @property
    def unit(self) -> str:
        return next(unit for unit in UNITS if getattr(self, unit) is not None)

    @property
    def amount(self) -> float:
        amount: float = getattr(self, self.unit)
        return amount

    @model_serializer
    def _plain(self) -> dict[str, Any]:
        return {self.unit: self.amount}

    def __str__(self) -> str:
        return f"{self.amount:g} {self.unit}"


class RunConfig(BaseModel):
    """Everything that decides a run. Frozen to the leaves; unknown keys are refused.

    wrappers, compression: innermost first. batch_size: of an update; it is split into `accumulate` micro-batches.
    evaluate_every, log_every, checkpoint_every: in updates; checkpoint_every None: only where the run stops.
    train/loss is recorded as the mean over log_every updates. init: trained weights to start from. form: how the
    optimizer computes. stop: "target" ends a run when the task's target is reached. divergence_bound: a train loss
    above it has diverged. select: which weights are tested. trainer: Lightning's own words, passed through.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, populate_by_name=True)

    schema_version: Whole = Field(default=1, alias="schema", ge=1, le=1, description="1, the only version there is")
    task: str = Field(description="the name of a task")
    model: Entry
    optimizer: Entry
    schedule: Entry
    loss: Entry
    precision: Entry
    budget: Budget
    batch_size: Whole = Field(gt=0, description="a whole number above 0")
    evaluate_every: Whole = Field(gt=0, description="a whole number of updates above 0")
    select: Literal["last", "best"] = Field(description="last or best")
    wrappers: Annotated[tuple[Entry, ...], Field(strict=False)] = ()
    compression: Annotated[tuple[Entry, ...], Field(strict=False)] = ()
    accumulate: Whole = Field(default=1, gt=0, description="a whole number above 0")
    log_every: Whole = Field(default=10, gt=0, description="a whole number of updates above 0")
    checkpoint_every: Whole | None = Field(default=None, gt=0, description="a whole number of updates above 0, or none")
    seed: Whole = Field(default=1, ge=0, lt=2**32, description="a whole number from 0 to 2**32 - 1")
    init: str = Field(default="", pattern=_INIT, description="run:ID, run:ID@best or a file that ends in .safetensors")
    device: str = Field(default="auto", pattern=_DEVICE, description="auto, cpu, cuda, cuda:N, mps, npu or npu:N")
    devices: Whole = Field(default=1, ge=1, le=1, description="1; a run on several devices is not supported yet")
    form: Literal["auto", "torch", "loop", "stacked"] = Field(
        default="auto", description="auto, torch, loop or stacked"
    )
    stop: Literal["budget", "target"] = Field(default="budget", description="budget or target")
    divergence_bound: float = Field(default=1e6, gt=0, description="a number above 0")
    trainer: Settings = Field(default=Frozen(), description="words of Lightning's Trainer, e.g. {benchmark: true}")

    @model_validator(mode="after")
    def _fits(self) -> RunConfig:
        if self.accumulate > self.batch_size:
            raise InputError(
                f"a batch of {self.batch_size} cannot be split into {self.accumulate} micro-batches",
                "give accumulate <= batch_size", place="accumulate",
            )  # fmt: skip
        return self

    def to_json(self) -> dict[str, Any]:
        """The whole config as plain JSON; `from_json` reads it back."""
        return self.model_dump(mode="json", by_alias=True)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> RunConfig:
        """A stored config, as it was: nothing is looked up, so it reads back where an entry has since changed."""
        return validated(cls, plain(data))

    def entries(self) -> Iterator[tuple[str, str, Entry]]:
        """(key, kind of the catalogue, entry) of everything the run uses, e.g. ("optimizer", "optimizers", ...)."""
        for key, kind in KINDS.items():
            value = getattr(self, key)
            for entry in value if isinstance(value, tuple) else (value,):
                yield key, kind, entry

    def __str__(self) -> str:
        return json.dumps(self.to_json())


def digest(config: RunConfig) -> str:
    """sha256 of the config's canonical JSON, in hex. Fields at their default are left out, so that a field added later
    changes no digest; hyperparameters are all in it, so that a changed default does."""
    return hashlib.sha256(canonical(elided(config)).encode()).hexdigest()


def elided(config: RunConfig) -> dict[str, Any]:
    """The config as plain JSON, without the fields that stand at their default."""
    standing = {
        info.alias or name
        for name, info in RunConfig.model_fields.items()
        if not info.is_required() and getattr(config, name) == info.default and name != "schema_version"
    }
    return {key: value for key, value in config.to_json().items() if key not in standing}


def canonical(data: Any) -> str:
    """JSON that is the same for the same data: sorted keys, no spaces, one spelling for each number (1.0 is 1)."""
    return json.dumps(_one_spelling(data), sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def _one_spelling(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _one_spelling(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_one_spelling(part) for part in value]
    if isinstance(value, float):
        return str(value) if not math.isfinite(value) else int(value) if value.is_integer() else value
    return value


def resolve(*layers: Mapping[str, Any]) -> RunConfig:
    """The config that layers of plain data make: later ones lie over earlier ones, the task's defaults under them all.

    A layer is nested or dotted: `{"task": "digits", "optimizer": {"name": "muon"}, "optimizer.lr": 0.02}`. Errors are
    InputErrors that name the dotted place.
    """
    tidied = [tidy(layer) for layer in layers]
    for layer in tidied:
        for key in layer:
            check_key(key)
    one_budget(tidied)
    task = next((layer["task"] for layer in reversed(tidied) if "task" in layer), None)
    if not isinstance(task, str):
        said = "no task" if task is None else f"{task!r} is not a task"
        raise InputError(said, "give one, e.g. task=digits", place="task")
    merged = _laid(_defaults(task), tidied)
    if meant := _meant_schedule(merged):
        merged = _laid({**_defaults(task), "schedule": meant}, tidied)
    for place, dimension in searched(merged).items():
        raise InputError(
            f"{dimension} is a range", "give one value, or tune it with `trainlab tune` or `trainlab sweep`",
            rule="range", place=place,
        )  # fmt: skip
    merged = translate(merged)
    for key in KINDS:
        merged[key] = _resolve_list(key, merged[key]) if key in LISTS else _resolve_entry(key, merged[key], key)
    return validated(RunConfig, merged)


def check_key(key: str, place: str = "") -> None:
    """InputError for what is not a setting of a run; "did you mean optimizer.lr" for a bare hyperparameter."""
    if key in keys():
        return
    for owner in ("optimizer", "model"):
        if any(key in entry.hyper for entry in catalogue.listing(KINDS[owner])):
            raise InputError(f"unknown key '{key}'", f"did you mean {owner}.{key}?", rule="unknown-key", place=place)
    raise unknown("key", key, keys(), place=place)


def keys() -> list[str]:
    """The settings of a run, as users write them."""
    return [info.alias or name for name, info in RunConfig.model_fields.items()]


def _laid(defaults: Layer, layers: Sequence[Layer]) -> Layer:
    for layer in layers:
        defaults = lay(defaults, layer)
    return defaults


def _meant_schedule(merged: Layer) -> Layer:
    """What the optimizer's entry says it is meant to be used with; {} where it says nothing."""
    name = merged["optimizer"]["name"]
    known = isinstance(name, str) and name in catalogue.paths("optimizers")
    return dict(catalogue.describe("optimizers", name).literals.get("schedule", {})) if known else {}


def _defaults(task: str) -> Layer:
    from experiments.tasks import catalogue as tasks

    facts = tasks.describe(task)
    names = ("model", "loss", "optimizer", "schedule", "budget", "batch_size", "evaluate_every", "select")
    stated = tidy({name: getattr(facts, name) for name in names})
    return {"task": task, **stated, "precision": {"name": "fp32"}, "wrappers": [], "compression": []}


def _resolve_list(key: str, entries: list[Layer] | Layer) -> list[Layer]:
    if isinstance(entries, dict):
        raise absent(next(iter(entries)), [], key)
    return [_resolve_entry(key, entry, f"{key}.{entry['name']}") for entry in entries]


def _resolve_entry(key: str, given: Layer, place: str) -> Layer:
    name = given["name"]
    if not isinstance(name, str):
        raise InputError(f"{name!r} is not a name", f"give the name of an entry, e.g. {key}=NAME", place=place)
    declared = catalogue.describe(KINDS[key], name, place=key).hyper
    hyper = {word: _none_option(declared.get(word), value) for word, value in given.items() if word != "name"}
    for word in hyper:
        if word not in declared:
            raise unknown(f"hyperparameter of {name}", word, declared, place=f"{place}.{word}")
    return {"name": name, **resolve_hyper(declared, hyper, place)}


def _none_option(declared: Hyper | None, value: Any) -> Any:
    """None, where one of the options of a hyperparameter is called "none"."""
    return "none" if value is None and declared and "none" in declared.options else value


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
