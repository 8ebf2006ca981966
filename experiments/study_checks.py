"""What holds for a study before anything runs: names, arms, shared settings, the ends of ranges. Torch-free."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from algos.finding import InputError, unknown
from experiments.config import canonical, check_key, plain
from experiments.layers import ENTRIES, Layer, leaves, searched, tidy
from experiments.modules.reference import is_reference
from experiments.tuning import objectives, samplers
from experiments.tuning.arm_spaces import WHEN, apart
from experiments.tuning.drawing import declared_search
from experiments.tuning.ranges import Options, Range, label
from experiments.tuning.spaces import told

if TYPE_CHECKING:
    from experiments.study import StudyConfig

NAME = re.compile(r"^[A-Za-z0-9][A-Za-z0-9._+-]*\Z")
NAMED = "letters, digits and . _ + -, e.g. muon-vs-adamw"


def check_names(study: StudyConfig) -> None:
    if not study.arms:
        raise InputError("a study with no arms", "give arms, e.g. arms: {adamw: {optimizer: adamw}}", place="arms")
    if not study.tasks:
        raise InputError("a study with no tasks", "give tasks, e.g. tasks: [digits]", place="tasks")
    for key in ("tasks", "arms"):
        for name, layer in getattr(study, key).items():
            if not isinstance(layer, Mapping):
                raise InputError(
                    f"{plain(layer)!r} is not overrides",
                    "give settings, e.g. {optimizer: adamw}",
                    place=f"{key}.{name}",
                )
            if not NAME.match(name):
                raise InputError(f"the name {name!r} is not valid", f"give {NAMED}", place=f"{key}.{name}")
    if study.tune and study.tune.warm_start == study.name:
        raise InputError("a study cannot warm itself", "name another study", place="tune.warm_start")
    seeds = study.seeds
    if not seeds or len(set(seeds)) < len(seeds) or min(seeds) < 0:
        raise InputError(f"{list(seeds)} are not seeds", "give 1 or more different whole numbers from 0", place="seeds")


def check_arm(arm: str, layer: Mapping[str, Any], study: StudyConfig) -> None:
    own = apart(layer, f"arms.{arm}")
    for key in (*own.fixed, *own.options):
        place = f"arms.{arm}.{key}"
        check_key(key, place)
        if key in ("task", "seed", "budget", "metric", "mode", "target", "worst"):
            cure = {"task": "list it under tasks", "seed": "set seeds for the whole study"}
            raise InputError(
                f"an arm has no {key} of its own, so that arms are comparable",
                cure.get(key, "set it for the study or a task"),
                place=place,
            )
    for word in ("max_steps", "max_epochs"):
        if word in (own.fixed.get("trainer") or {}):
            said = "an arm has no budget of its own, so that arms are comparable"
            raise InputError(said, "set it for the study or a task", place=f"arms.{arm}.trainer.{word}")


def check_shared(study: StudyConfig) -> None:
    """What holds for all arms: no ranges there, no task and no seed."""
    for prefix, layer in (("config", study.config), *((f"tasks.{task}", layer) for task, layer in study.tasks.items())):
        tidied = tidy(layer, prefix)
        for key in tidied:
            check_key(key, f"{prefix}.{key}")
            if key == "seed" or (key == "task" and not (prefix != "config" and is_reference(tidied["task"]))):
                raise InputError(f"{key} is not set here", "use tasks and seeds of the study", place=f"{prefix}.{key}")
        for place, dimension in searched(tidied).items():
            raise InputError(f"{dimension} is a range", "give it in an arm or in tune.space", place=f"{prefix}.{place}")


def check_space(study: StudyConfig, task: str, arm: str) -> None:
    """Ranges have two ends and options differ; the sampler can do something with them."""
    space = study.space(task, arm)
    for axis in space.axes:
        place, dimension = origin(study, task, arm, axis.place), axis.dimension
        if isinstance(dimension, Range) and not dimension.low < dimension.high:
            said = f"{told(axis)} has a range with nothing in it, {dimension}"
            raise InputError(said, "give two different ends, the low one first", place=place)
        if isinstance(dimension, Options):
            _check_options(told(axis), dimension, place)
    if study.tune and space:
        samplers.check_space(study.tune, space, f"arms.{arm}")


def _check_options(what: str, options: Options, place: str) -> None:
    if any(isinstance(value, float) and math.isnan(value) for value in options.values):
        raise InputError(f"{what} has nan among its options", "leave it out", place=place)
    if len(options.values) < 2:
        said = f"{what} has {len(options.values) or 'no'} option{'s' * (not options.values)} to choose from"
        raise InputError(said, "give two or more, or set the value", place=place)
    for index, value in enumerate(options.values):
        if Options(options.values[:index]).find(value) is not None:
            raise InputError(f"{what} has the option {label(value)} twice", "give it once", place=place)


def check_ends(study: StudyConfig, task: str, arm: str) -> None:
    """The ends of every range and all options are values that the run would take."""
    for params in study.space(task, arm).corners():
        study.run_config(task, arm, study.seeds[0], params)


def check_objectives(study: StudyConfig, task: str) -> None:
    """What is tuned by is measured, and the task's own metric is not turned round."""
    asked = study.tune.objectives if study.tune else None
    if not asked:
        return
    metric, mode, known = objectives.of_task(study, task)
    for name, wanted in asked.items():
        place = f"tune.objectives.{name}"
        if name in ("objective", metric) and wanted != mode:
            said = f"{name} of {task} is better the {'higher' if mode == 'max' else 'lower'}"
            raise InputError(said, f"give {name}: {mode}", place=place)
        if known is not None and name not in known and not name.startswith("train/"):
            raise unknown("metric", name, known, place=place)


def check_stop(study: StudyConfig, task: str, arm: str) -> None:
    """Runs that stop at their target have no objective to be tuned by: the slower one overshoots more."""
    if study.tune and study.run_config(task, arm, study.seeds[0]).stop == "target":
        raise InputError(
            "runs that stop at their target cannot be compared by what they reach, so nothing can be tuned",
            "leave stop: target out (reports give the time to target anyway), or tune nothing",
            place=origin(study, task, arm, "stop"),
        )


def check_twins(study: StudyConfig) -> None:
    tasks = study.definition()["tasks"]
    seen: dict[str, str] = {}
    for arm in study.arms:
        what = canonical({task: tasks[task][arm] for task in study.tasks})
        if what in seen:
            raise InputError(f"arms {seen[what]} and {arm} are the same", "change one, or drop it", place=f"arms.{arm}")
        seen[what] = arm


def check_asked(study: StudyConfig) -> None:
    """Every place of tune.space is searched by some arm, unless all of them fix it."""
    asked = study.tune.space if study.tune and study.tune.space else {}
    for place, said in asked.items():
        configs = [study.run_config(task, arm, study.seeds[0]) for task in study.tasks for arm in study.arms]
        if said == "" and not any(declared_search(config, place) for config in configs):
            raise InputError(
                "no entry here declares what to search it in", f"give a range, e.g. {place}: 1e-4:1e-1:log",
                place=f"tune.space.{place}",
            )  # fmt: skip


def check_searched(study: StudyConfig) -> None:
    """Where a module of the user's own is tuned, some arm says what to search: nothing there declares it."""
    spaces = {task: [study.space(task, arm) for arm in study.arms] for task in study.tasks}
    for task, found in spaces.items():
        config = study.run_config(task, next(iter(study.arms)), study.seeds[0])
        if study.tune and config.of_module and not any(found):
            cure = "give a range, e.g. model.lr=1e-4:1e-1:log"
            raise InputError(f"nothing says what to search on {task}", cure, rule="no-range", place="tune")
    if study.tune and not any(space for found in spaces.values() for space in found):
        said = "there is nothing to tune: no arm has a range, and what they use declares none"
        raise InputError(said, "give an arm a range, e.g. optimizer.lr: 1e-4:1e-1:log, or leave tune out", place="tune")


def origin(study: StudyConfig, task: str, arm: str, place: str) -> str:
    """Where in the study the setting at a place of a run's config was given."""
    tune = {"tune.space": study.tune.space} if study.tune and study.tune.space else {}
    budget: dict[str, Layer] = {"": {"budget": study.budget.model_dump()}} if study.budget else {}
    for text, layer in (study.arms[arm].get(WHEN) or {}).items():
        if any(place == said or place.startswith(f"{said}.") for said in _places(layer)):
            return f"arms.{arm}.{WHEN}.{text}.{place}"
    layers = {
        f"arms.{arm}": {key: value for key, value in study.arms[arm].items() if key != WHEN},
        f"tasks.{task}": study.tasks[task],
        **budget,
        "config": study.config,
        **tune,
    }
    for prefix, layer in layers.items():
        if any(_related(place, said) for said in _places(layer)):
            return f"{prefix}.{place}".strip(".")
    return f"tasks.{task}" if place == "task" else place


def _places(layer: Mapping[str, Any]) -> Iterator[str]:
    said = apart(layer)
    yield from said.options
    for place, _ in leaves(said.fixed):
        yield place.removesuffix(".name") if place.partition(".")[0] in ENTRIES else place


def _related(place: str, said: str) -> bool:
    return place == said or place.startswith(f"{said}.") or said.startswith(f"{place}.")
