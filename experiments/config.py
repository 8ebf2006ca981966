"""RunConfig: everything that decides a run, resolved to the last hyperparameter, frozen and hashed. Torch-free.

`resolve` makes one from layers of plain data (the task's defaults lie under them); `RunConfig.from_json` reads a stored
one back; `digest` names it.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    PlainValidator,
    model_serializer,
    model_validator,
)

from algos import catalogue
from algos.finding import InputError, unknown
from experiments.entries import meant_schedule, refuse_ranges, resolve_entry, resolve_list
from experiments.frozen import Frozen, plain
from experiments.layers import KINDS, LISTS, Layer, laid, tidy
from experiments.modules.reference import is_reference
from experiments.modules.task import under
from experiments.trainer_words import one_budget, translate
from experiments.validation import validated

#: The budget's units, each counted in every run.
UNITS = ("updates", "epochs", "examples", "gradients", "seconds")
#: What only a module of the user's own has (task=FILE.py:CLASS); blank in the config of a task of the catalogue.
OF_MODULES = ("data", "metric", "mode", "target", "worst")
_DEVICE = re.compile(r"^((auto|cpu|mps)|(cuda|npu)(:\d+)?)\Z")
_INIT = re.compile(r"^(|run:[^@\s]+(@(best|last))?|.+\.safetensors)\Z")


def _settings(value: Any) -> Frozen:
    if not isinstance(value, Mapping):
        raise ValueError("not a mapping")
    return Frozen(value)


def _whole(value: Any) -> Any:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value


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

    Where the task is a module of the user's own, model.hyper and data.hyper are constructor arguments; metric, mode,
    target and worst are what a task of the catalogue states itself; batch_size is None (the loader's own), and
    evaluate_every None leaves it to the module's Trainer words; the entry `own` keeps what the module does.
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
    batch_size: Whole | None = Field(gt=0, description="a whole number above 0")
    evaluate_every: Whole | None = Field(gt=0, description="a whole number of updates above 0")
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
    form: Literal["auto", "torch", "loop", "stacked", "compiled"] = Field(
        default="auto", description="auto, torch, loop, stacked or compiled"
    )
    stop: Literal["budget", "target"] = Field(default="budget", description="budget or target")
    divergence_bound: float = Field(default=1e6, gt=0, description="a number above 0")
    trainer: Settings = Field(default=Frozen(), description="words of Lightning's Trainer, e.g. {benchmark: true}")
    data: Entry | None = Field(default=None, description="a LightningDataModule, e.g. data=my_module.py:Data")
    metric: str = Field(default="", description="the name of what the module logs in validation, e.g. metric=val/acc")
    mode: Literal["", "max", "min"] = Field(default="", description="max or min")
    target: float | None = Field(default=None, allow_inf_nan=False, description="a number, or none")
    worst: float | None = Field(default=None, allow_inf_nan=False, description="a number, or none")

    @model_validator(mode="after")
    def _fits(self) -> RunConfig:
        if self.of_module:
            return self
        for key in ("batch_size", "evaluate_every"):
            if getattr(self, key) is None:
                cure = f"give {RunConfig.model_fields[key].description}"
                raise InputError("None is not valid", cure, rule="bad-value", place=key)
        if self.batch_size is not None and self.accumulate > self.batch_size:
            raise InputError(
                f"a batch of {self.batch_size} cannot be split into {self.accumulate} micro-batches",
                "give accumulate <= batch_size", place="accumulate",
            )  # fmt: skip
        return self

    @property
    def of_module(self) -> bool:
        """Whether the task is a module of the user's own, FILE.py:CLASS."""
        return is_reference(self.task)

    def to_json(self) -> dict[str, Any]:
        """The whole config as plain JSON; `from_json` reads it back. What only modules have, where it is set."""
        data = self.model_dump(mode="json", by_alias=True)
        return {key: value for key, value in data.items() if not (key in OF_MODULES and value in (None, ""))}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> RunConfig:
        """A stored config, as it was: nothing is looked up, so it reads back where an entry has since changed."""
        return validated(cls, plain(data))

    def entries(self) -> Iterator[tuple[str, str, Entry]]:
        """(key, kind of the catalogue, entry) of everything the run uses of the catalogue, e.g. ("optimizer",
        "optimizers", ...)."""
        for key, kind in KINDS.items():
            value = getattr(self, key)
            for entry in value if isinstance(value, tuple) else (value,):
                if not (self.of_module and (key == "model" or entry.name == "own")):
                    yield key, kind, entry

    def __str__(self) -> str:
        return json.dumps(self.to_json())


def digest(config: RunConfig) -> str:
    """sha256 of the config's canonical JSON, in hex. Fields at their default are left out, so that a field added later
    changes no digest; hyperparameters are all in it, so that a changed default does, but for those that were `added`
    to an entry and stand at their default."""
    return hashlib.sha256(canonical(elided(config)).encode()).hexdigest()


def elided(config: RunConfig) -> dict[str, Any]:
    """The config as plain JSON, without the fields that stand at their default."""
    standing = {
        info.alias or name
        for name, info in RunConfig.model_fields.items()
        if not info.is_required() and getattr(config, name) == info.default and name != "schema_version"
    }
    kept = {key: value for key, value in config.to_json().items() if key not in standing}
    if isinstance(kept["optimizer"], dict):
        kept["optimizer"] = _without_added("optimizers", kept["optimizer"])
    return kept


def _without_added(kind: str, entry: dict[str, Any]) -> dict[str, Any]:
    """An entry without the hyperparameters that it did not have at first, where they stand at their default."""
    declared = catalogue.describe(kind, entry["name"]).hyper if entry["name"] in catalogue.paths(kind) else {}
    return {
        key: value
        for key, value in entry.items()
        if not (key in declared and declared[key].added and declared[key].default == value)
    }


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
    tidied = [tidy(part) for layer in tidied for part in under(layer)]
    task = next((layer["task"] for layer in reversed(tidied) if "task" in layer), None)
    if not isinstance(task, str):
        said = "no task" if task is None else f"{task!r} is not a task"
        raise InputError(said, "give one, e.g. task=digits", place="task")
    if is_reference(task):
        from experiments.modules.settings import resolved

        return validated(RunConfig, resolved(task, tidied))
    merged = laid(_defaults(task), tidied)
    if meant := meant_schedule(merged):
        merged = laid({**_defaults(task), "schedule": meant}, tidied)
    refuse_ranges(merged)
    _refuse_of_modules(merged)
    merged = translate(merged)
    for key in KINDS:
        merged[key] = resolve_list(key, merged[key]) if key in LISTS else resolve_entry(key, merged[key], key)
    return validated(RunConfig, merged)


def _refuse_of_modules(merged: Layer) -> None:
    for key in OF_MODULES:
        if merged.get(key) not in (None, ""):
            said = f"'{merged['task']}' is a task of the catalogue, which states its own"
            raise InputError(said, f"leave {key} out, or give a module of yours: task=FILE.py:CLASS", place=key)


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


def _defaults(task: str) -> Layer:
    from experiments.tasks import catalogue as tasks

    facts = tasks.describe(task)
    names = ("model", "loss", "optimizer", "schedule", "budget", "batch_size", "evaluate_every", "select")
    stated = tidy({name: getattr(facts, name) for name in names})
    return {"task": task, **stated, "precision": {"name": "fp32"}, "wrappers": [], "compression": []}
