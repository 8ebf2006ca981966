"""Study: a question as tasks x arms x seeds under equal budgets, how arms are tuned, and what is due. Torch-free.

`load_study` reads a YAML file; every config of the study is resolved and checked before anything runs. `due` asks the
study's design what to do next; sweep, resume, plan and status are all this one call.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PrivateAttr, model_validator

from algos.finding import InputError
from experiments import study_checks
from experiments.config import (
    Budget,
    Frozen,
    RunConfig,
    Settings,
    Whole,
    canonical,
    elided,
    plain,
    resolve,
    validated,
)
from experiments.layers import Layer, lay, leaves, tidy, typed
from experiments.modules.reference import is_reference
from experiments.modules.settings import label
from experiments.modules.task import Task
from experiments.overrides import Overrides
from experiments.store.schema import Labels, RunRecord
from experiments.tuning import arm_spaces, samplers
from experiments.tuning.ranges import Range
from experiments.tuning.spaces import Space
from experiments.tuning.tune import Tune
from experiments.yaml_lines import load_yaml

#: Tuning runs take their seeds from the next thousand above the final runs' seeds.
_SEEDS_APART = 1000


def _named(value: Any) -> Any:
    """Names as a mapping to layers: `[digits]`, `digits` and `{digits: }` are `{digits: {}}`."""
    if isinstance(value, str):
        return {value: {}}
    if isinstance(value, (list, tuple)) and all(isinstance(name, str) for name in value):
        return {name: {} for name in value}
    return (
        {name: {} if layer is None else layer for name, layer in value.items()} if isinstance(value, Mapping) else value
    )


def _tasks(value: Any) -> Any:
    """Tasks by what they are called; `[my_module.py:Net]` is `{Net: {task: my_module.py:Net}}`, and so is a Task."""
    given = [value] if isinstance(value, (str, Task)) else value
    if isinstance(given, (list, tuple)) and all(isinstance(each, (str, Task)) for each in given):
        named = [(each.name if isinstance(each, Task) else label(each), each) for each in given]
        for name, _ in named:
            if [each for each, _ in named].count(name) > 1 and not all(each == name for _, each in named):
                cure = "name them, e.g. tasks: {first: {task: a.py:Net}, second: {task: b.py:Net}}"
                raise InputError(f"two tasks are called {name}", cure, place="tasks")
        return {name: _task(each, {}) for name, each in named}
    if not isinstance(given, Mapping):
        return given
    return {
        label(str(name)): _task(str(name) if is_reference(name) else layer, layer if is_reference(name) else {})
        for name, layer in given.items()
    }


def _task(said: Any, layer: Any) -> Any:
    """What a task overrides, given a Task, a reference, a name or what it overrides."""
    if isinstance(said, Task):
        return said.overrides()
    if isinstance(said, str):
        return {"task": said, **(layer or {})} if is_reference(said) else {}
    return {} if said is None else said


def _arms(value: Any) -> Any:
    """Arms; `[adamw, muon]` names optimizers."""
    if isinstance(value, (list, tuple)) and all(isinstance(name, str) for name in value):
        return {name: {"optimizer": name} for name in value}
    return _named(value)


def _population(value: Any) -> Any:
    if value is False:
        return "off"  # YAML's `off`, where it is read as false
    number = int(value) if isinstance(value, str) and value.isdigit() else value
    if value in ("off", "auto") or (isinstance(number, int) and not isinstance(number, bool) and number >= 2):
        return number
    said = f"{value!r} is not valid"
    raise InputError(said, "give off, auto or a whole number from 2", rule="bad-value", place="population")


def _seeds(value: Any) -> Any:
    if isinstance(value, int) and not isinstance(value, bool) and value > 0:
        return tuple(range(1, value + 1))
    return tuple(value) if isinstance(value, list) else value


class StudyConfig(BaseModel):
    """A study. tasks, arms: name -> what it overrides; a module of the user's own is {NAME: {task: FILE.py:CLASS}},
    and in a list it is named by its class. config: overrides for every run. budget: for every run, else
    each task's own. seeds: of the final runs, paired across arms; `seeds: 5` is 1 to 5. tune: absent where nothing is
    tuned. population: how many runs of one shape train together; it changes rounding, which training can amplify, and
    is no part of what the study is, but with a pruner or a sampler that is asked."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    name: str = Field(pattern=study_checks.NAME, description=f"a name of {study_checks.NAMED}")
    question: str = Field(default="", description="text")
    tasks: Annotated[Settings, BeforeValidator(_tasks)] = Field(description="names of tasks, e.g. tasks: [digits]")
    arms: Annotated[Settings, BeforeValidator(_arms)] = Field(
        default=Frozen(), description="names with overrides, e.g. arms: {adamw: {optimizer: adamw}}"
    )
    config: Settings = Field(default=Frozen(), description="overrides for every run")
    budget: Budget | None = Field(default=None, description="a budget, e.g. budget: {updates: 2000}")
    seeds: Annotated[tuple[Whole, ...], BeforeValidator(_seeds)] = Field(
        default=(1, 2, 3), description="how many seeds, or a list of them"
    )
    tune: Tune | None = Field(default=None, description="how arms are tuned, e.g. tune: {trials: 20}")
    design: Literal["compare"] = Field(default="compare", description="compare")
    population: Annotated[str | int, BeforeValidator(_population)] = Field(
        default="auto", description="off, auto or a whole number from 2"
    )
    _spaces: dict[tuple[str, str], Space] = PrivateAttr(default_factory=dict)
    _configs: dict[tuple[str, str, int, str], RunConfig] = PrivateAttr(default_factory=dict)  # a run is asked for often
    _jobs: dict[tuple[str, int], Job] = PrivateAttr(default_factory=dict)
    _digest: str = PrivateAttr(default="")

    @model_validator(mode="after")
    def _checked(self) -> StudyConfig:
        """Everything that could fail later fails here."""
        study_checks.check_names(self)
        for arm, layer in self.arms.items():
            study_checks.check_arm(arm, layer, self)
        study_checks.check_shared(self)
        for task in self.tasks:
            for arm in self.arms:
                self._spaces[task, arm] = arm_spaces.space(self, task, arm)
                study_checks.check_space(self, task, arm)
                study_checks.check_ends(self, task, arm)
                study_checks.check_stop(self, task, arm)
            study_checks.check_objectives(self, task)
        study_checks.check_asked(self)
        study_checks.check_searched(self)
        study_checks.check_twins(self)
        return self

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> StudyConfig:
        """A study from plain data, as a YAML file holds it; InputError that names the dotted place."""
        overrides = ("arms", "tasks", "config", "tune")
        return validated(cls, {key: typed(value, key) if key in overrides else value for key, value in data.items()})

    @property
    def jobs(self) -> dict[tuple[str, int], Job]:
        """The jobs a design has made of this study before, for it to keep: what is due is asked after every run."""
        return self._jobs

    def run_config(self, task: str, arm: str, seed: int, params: Mapping[str, Any] = {}) -> RunConfig:
        """The config of one run: the study's, the task's and the arm's overrides, and what was tuned. An error's
        place is the study's: arms.muon.optimizer.lr."""
        key = (task, arm, seed, repr(sorted(params.items())))
        if key not in self._configs:
            self._configs[key] = self._resolved(task, arm, seed, params)
        return self._configs[key]

    def _resolved(self, task: str, arm: str, seed: int, params: Mapping[str, Any]) -> RunConfig:
        layers = [self.config, *([{"budget": self.budget.model_dump()}] if self.budget else []), self.tasks[task]]
        own = arm_spaces.layers_of(arm_spaces.apart(self.arms[arm]), params)
        try:
            return resolve({"task": task}, *layers, *own, {"seed": seed})
        except InputError as error:
            raise error.at(place=study_checks.origin(self, task, arm, error.finding.place)) from None

    def space(self, task: str, arm: str) -> Space:
        """What an arm is tuned over on a task: its own ranges, else the study's, else what its optimizer declares.
        Empty where nothing is tuned."""
        return self._spaces[task, arm]

    def tuning_seed(self, number: int) -> int:
        """The seed of a tuning run: never a final run's, and the same for trial `number` of every arm.

        >>> StudyConfig.of({"name": "a", "tasks": ["digits"], "arms": ["adamw"], "seeds": 3}).tuning_seed(2)
        1002
        """
        return _SEEDS_APART * (1 + max(self.seeds) // _SEEDS_APART) + number

    def definition(self) -> dict[str, Any]:
        """What the study is, as plain JSON: every arm's resolved config and space on every task, seeds and tuning.
        Its wording (question, order of keys, where a budget stands) is not in it."""
        runs = {
            task: {arm: {**self._shown(task, arm), "space": self.space(task, arm).to_json()} for arm in self.arms}
            for task in self.tasks
        }
        tune = self.tune.definition() if self.tune else None
        told: dict[str, Any] = {"design": self.design, "seeds": list(self.seeds), "tune": tune, "tasks": runs}
        if isinstance(self.population, int) and self.tune and (self.tune.prunes or self.tune.asks):
            told["population"] = self.population  # trials that start together know less of one another
        return told

    def digest(self) -> str:
        """sha256 of the definition, in hex."""
        if not self._digest:
            self._digest = hashlib.sha256(canonical(self.definition()).encode()).hexdigest()
        return self._digest

    def to_json(self) -> dict[str, Any]:
        """The study as it was written, as plain JSON; `StudyConfig.of` reads it back."""
        data: dict[str, Any] = plain(self.model_dump(mode="json", exclude_none=True))
        return {key: value for key, value in data.items() if (key, value) != ("population", "auto")}

    def _shown(self, task: str, arm: str) -> dict[str, Any]:
        config = elided(self.run_config(task, arm, seed=1))
        dropped = ("seed", "schema") if is_reference(config["task"]) else ("task", "seed", "schema")
        return {key: value for key, value in config.items() if key not in dropped}


@dataclass(frozen=True)
class Job:
    """One run that is due. config: None only where the sampler is to be asked for parameters within `space` (then
    `asked` completes it). resume: the id of an unfinished run to go on with. winner: the id of the tuning run a final
    run repeats. reason: what a report should say of how the parameters came about."""

    labels: Labels
    config: RunConfig | None
    space: Space = field(default_factory=Space)
    params: Mapping[str, Any] = field(default_factory=Frozen)
    reason: str = ""
    winner: str = ""
    resume: str = ""

    @property
    def ask(self) -> bool:
        return self.config is None

    def asked(self, study: StudyConfig, params: Mapping[str, Any]) -> Job:
        """The job with the parameters that the sampler gave."""
        config = study.run_config(self.labels.task, self.labels.arm, self.labels.seed, params)
        return replace(self, config=config, params=Frozen(params))

    def facts(self, study: StudyConfig) -> dict[str, Any]:
        """What the run's record keeps of its study, as plain JSON."""
        tune = study.tune
        return {
            "question": study.question,
            "digest": study.digest(),
            "seeds": list(study.seeds),
            "trials": tune.trials if tune and self.space else 0,
            "sampler": tune.sampler.name if tune and self.space else "",
            "tuner": samplers.facts(tune, self.space) if tune and self.space else {},
            "population": study.population,
            "space": self.space.to_json(),
            "params": plain(self.params),
            "reason": self.reason,
            "winner": self.winner,
        }


def load_study(path: str | Path) -> StudyConfig:
    """The study in a YAML file; InputError with file, line and column for whatever is wrong in it."""
    data, lines = load_yaml(Path(path))
    try:
        return StudyConfig.of(data)
    except InputError as error:
        raise lines.locate(error) from None


def tuning_study(
    overrides: Overrides, trials: int, sampler: str | Mapping[str, Any] = "random", name: str = "", **tune: Any
) -> StudyConfig:
    """The study that `trainlab tune` makes: one arm, its ranges; `seed=1,2,3` are the final runs' seeds (else 1). tune:
    what else a study says under that word (pruner, objectives, ...); overrides may say it too, and go before.

    Without a name it is called after what it is, so that the same command goes on with the same study.
    """
    said = {"trials": trials, "sampler": sampler, **tune, **_of_tuning(overrides)}
    overrides = overrides.without(*(key for key, _ in overrides.settings if key.startswith("tune.")))
    tasks = overrides.get("task")
    if not tasks or any(not isinstance(task, (str, Task)) for task in tasks):
        raise InputError(
            "no task" if not tasks else f"{tasks} are not tasks", "give one, e.g. task=digits", place="task"
        )
    budget = {key.partition(".")[2]: values[0] for key, values in overrides.settings if key.startswith("budget.")}
    own = any(isinstance(task, Task) or is_reference(task) for task in tasks)
    shared = _of_task(overrides) if own else Overrides()
    apart = ("task", "seed", "budget", *(key for key, _ in overrides.settings if key.startswith("budget.")))
    layer = overrides.without(*apart, *(key for key, _ in shared.settings)).layer()
    arm = str(layer.get("optimizer", {}).get("name", "own" if own else "default"))
    data: dict[str, Any] = {
        "name": name or "unnamed",
        "tasks": _under(tasks, shared.layer(), budget) if own else list(tasks),
        "arms": {arm: layer},
        "seeds": list(overrides.get("seed") or (1,)),
        "tune": said,
        **({"budget": budget} if budget else {}),
    }
    study = validated(StudyConfig, data)
    named = name or f"tune-{'-'.join(study.tasks)}-{arm}-{study.digest()[:6]}"
    return validated(StudyConfig, {**data, "name": named})


def _of_tuning(overrides: Overrides) -> dict[str, Any]:
    """What overrides say of tuning: tune.sampler=tpe tune.sampler.n_startup_trials=5 tune.pruner=median."""
    found: dict[str, Any] = {}
    for key, values in sorted(overrides.settings):
        _, word, rest = f"{key}..".split(".", 2)
        rest = rest.rstrip(".")
        if not key.startswith("tune."):
            continue
        if len(values) > 1:
            raise InputError(f"{key} has several values", "give one", place=key)
        if not rest:
            found[word] = values[0]
        elif word in ("sampler", "pruner"):
            entry = found.get(word, {})
            found[word] = {**({"name": entry} if isinstance(entry, str) else entry), rest: values[0]}
        else:
            found[word] = {**found.get(word, {}), rest: values[0]}
    return found


def _of_task(overrides: Overrides) -> Overrides:
    """What belongs to a module task and to no arm: what it is trained on and in, and how it is judged. What is searched
    is the arm's."""
    keys = ("data", "metric", "mode", "target", "worst", "trainer")
    return Overrides(
        tuple(
            (key, values)
            for key, values in overrides.settings
            if key.partition(".")[0] in keys and len(values) == 1 and not isinstance(values[0], Range)
        )
    )


def _under(tasks: Sequence[str | Task], shared: Layer, budget: Mapping[str, float]) -> dict[str, Layer]:
    """The tasks of a command by name, what else it says of them over what they say themselves."""
    under = {name: lay(tidy(layer), shared) for name, layer in _tasks(list(tasks)).items()}
    return {name: {key: said for key, said in layer.items() if not (budget and key == "budget")}
            for name, layer in under.items()}  # fmt: skip


def due(study: StudyConfig, runs: Sequence[RunRecord]) -> list[Job]:
    """What can be run now, given the study's runs: a pure function of both. Empty once the study is done, or while
    all that is left waits for runs in progress. Ask again when runs have ended."""
    from experiments.designs import compare

    return {"compare": compare.due}[study.design](study, runs)


def difference(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """The dotted changes from one definition to another, e.g. "tasks.digits.adamw.optimizer.lr: 0.001 -> 0.01"."""
    before, after = dict(leaves(plain(old))), dict(leaves(plain(new)))
    return [
        f"{place}: {_shown(before, place)} -> {_shown(after, place)}"
        for place in dict.fromkeys([*before, *after])
        if canonical(before.get(place, "absent")) != canonical(after.get(place, "absent"))
    ]


def _shown(found: Mapping[str, Any], place: str) -> str:
    return str(found.get(place, "absent"))
