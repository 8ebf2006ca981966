"""Tune: how the arms of a study are tuned. Torch-free.

A sampler or pruner is an entry: its name, or {name: tpe, n_startup_trials: 5}. Optuna's own are meant (`samplers`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, field_serializer, model_validator

from algos.finding import InputError
from experiments.config import Entry, Settings, Whole, plain
from experiments.scalars import parse_value
from experiments.tuning import samplers
from experiments.tuning.drawing import DRAWN

#: What stays out of a study's definition where it is not said, so that older studies keep theirs.
_ELIDED = ("objectives", "warm_start")


class Tune(BaseModel):
    """How every arm is tuned. trials: runs an arm gets on each task. seed: of the draws. space: what is searched
    where an arm has no ranges of its own: settings with ranges, or settings whose entry declares a range. pruner: ends
    runs early, so that budgets are unequal: none unless asked for. objectives: metric -> max or min; the first chooses
    the winner among those that no other beats in all. warm_start: another study, whose trials the sampler knows."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    trials: Whole = Field(gt=0, description="a whole number of runs above 0")
    sampler: Entry = Field(default=Entry(name="random"), description=f"{', '.join(samplers.SAMPLERS)}")
    seed: Whole = Field(default=1, ge=0, description="a whole number from 0")
    space: Settings | None = Field(default=None, description="{optimizer.lr: 1e-4:1e-1:log}, or [optimizer.lr]")
    pruner: Entry = Field(default=Entry(name="none"), description=f"{', '.join(samplers.PRUNERS)}")
    objectives: Settings | None = Field(default=None, description="{val/accuracy: max, time/train_s: min}")
    warm_start: str = Field(default="", description="the name of another study")

    @model_validator(mode="before")
    @classmethod
    def _spelled(cls, data: Any) -> Any:
        if not isinstance(data, Mapping):
            return data
        said = dict(data)
        if isinstance(said.get("space"), (list, tuple)):
            said["space"] = {str(place): "" for place in said["space"]}
        for kind in ("sampler", "pruner"):
            if kind in said:
                said[kind] = _entry(kind, said[kind])
        if said.get("warm_start", "") is None:
            said["warm_start"] = ""
        return said

    @model_validator(mode="after")
    def _fits(self) -> Tune:
        name = self.sampler.name
        if self.pruner.name != "none":
            if name in ("nsga2", "nsga3"):
                said = f"{name} makes generations of whole runs, so it takes no pruner"
                raise InputError(said, "leave the pruner out, or give another sampler, e.g. tpe", place="tune.pruner")
            if self.several:
                said = "Optuna prunes by one objective, and these are several"
                raise InputError(said, "leave the pruner out, or give one objective", place="tune.pruner")
        if name == "cmaes" and self.several:
            raise InputError(
                "cmaes takes one objective", "give another sampler, e.g. tpe or nsga2", place="tune.sampler"
            )
        if self.warm_start and name in samplers.LEARN_NOTHING:
            why = "learns nothing" if name in DRAWN else "learns from its own generations only"
            said = f"the sampler {name} {why}, so another study cannot warm it"
            raise InputError(said, "leave warm_start out, or give e.g. sampler: tpe", place="tune.warm_start")
        self._check_objectives()
        return self

    def _check_objectives(self) -> None:
        for metric, mode in (self.objectives or {}).items():
            place = f"tune.objectives.{metric}"
            if mode not in ("max", "min"):
                raise InputError(f"{mode!r} is not valid", "give max or min", rule="bad-value", place=place)
            if metric.startswith("test/"):
                said = "what is tuned by the test split is no test any more"
                raise InputError(said, f"give val/{metric.partition('/')[2]}", place=place)
        if self.objectives is not None and not self.objectives:
            raise InputError("no objectives", "give e.g. {val/accuracy: max}, or leave it out", place="tune.objectives")

    @property
    def several(self) -> bool:
        """Whether there are several objectives."""
        return len(self.objectives or {}) > 1

    @property
    def prunes(self) -> bool:
        return self.pruner.name != "none"

    @property
    def asks(self) -> bool:
        """Whether parameters are asked of a sampler, one trial after another, and not drawn."""
        from experiments.tuning.drawing import DRAWN

        return self.sampler.name not in DRAWN

    @field_serializer("sampler", "pruner")
    def _plain(self, entry: Entry) -> Any:
        return {"name": entry.name, **plain(entry.hyper)} if entry.hyper else entry.name

    def definition(self) -> dict[str, Any]:
        """What of it is part of what a study is, as plain JSON."""
        said = self.model_dump(exclude={"space"})
        return {key: value for key, value in said.items() if key not in _ELIDED or value not in (None, "")}


def _entry(kind: str, said: Any) -> Any:
    """A sampler or pruner in whatever way it was given, checked."""
    if said is None:
        said = "none"
    if isinstance(said, str):
        said = parse_value(said, kind) if said.startswith("{") else said
    if isinstance(said, Entry):
        return samplers.checked(kind, said, f"tune.{kind}")
    if not isinstance(said, (str, Mapping)) or (isinstance(said, Mapping) and not isinstance(said.get("name"), str)):
        raise InputError(f"{said!r} is no {kind}", "give a name, or {name: NAME, ...}", place=f"tune.{kind}")
    return samplers.checked(kind, Entry.model_validate(said), f"tune.{kind}")
