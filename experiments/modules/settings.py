"""Settings of a user's own module: its defaults, what may be said, and the config's parts as objects again.

A task `FILE.py:CLASS` has no declaration to read, so its file is imported when a config is resolved, and Lightning with
it. Whatever is wrong is said then, in one line, and not in the middle of a run.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from algos.finding import InputError, closest
from experiments.entries import meant_schedule, refuse_ranges, resolve_entry, resolve_list
from experiments.layers import LISTS, Layer, laid
from experiments.modules import constructor, reference, trainer_words
from experiments.store.metric_names import canonical_metric, inferred_mode

if TYPE_CHECKING:
    import lightning.pytorch as pl

    from experiments.config import RunConfig

#: What a module does itself unless an arm replaces it.
OWN = ("optimizer", "schedule", "loss", "precision")
#: Lightning trains for 1,000 epochs where nothing is said, which nobody means.
BUDGET = {"epochs": 10}
_MEASURED = re.compile(r"validation_step:\w\S*")


def label(task: str) -> str:
    """What people call a task: its class, where it is a module of theirs. Never holds "/" or ":".

    >>> label("nets/my_module.py:Net"), label("digits")
    ('Net', 'digits')
    """
    return reference.name(task).lstrip("_") or "module" if reference.is_reference(task) else task


def resolved(task: str, layers: Sequence[Layer]) -> Layer:
    """The merged config of a module task, every part checked and written out. layers: tidy, the lowest first."""
    target = of_kind(task, "task")
    own: Layer = {
        "task": task, "model": {"name": label(task)}, **{key: {"name": "own"} for key in OWN}, "budget": dict(BUDGET),
        "batch_size": None, "evaluate_every": None, "select": "last", "wrappers": [], "compression": [],
    }  # fmt: skip
    merged = laid(own, layers)
    if merged["optimizer"]["name"] != "own":
        meant = meant_schedule(merged) or {"name": "constant"}
        merged = laid({**own, "schedule": meant}, layers)
    refuse_ranges(merged)
    _refuse(merged)
    merged["model"] = _model(task, target, merged["model"])
    merged["data"] = _data(target, merged.get("data"))
    merged |= _metric(merged)
    merged = trainer_words.translate(merged)
    for key in OWN:
        merged[key] = _entry(key, merged[key], target)
    for key in LISTS:
        merged[key] = resolve_list(key, merged[key])
    return merged


def module(config: RunConfig) -> pl.LightningModule:
    """A new module of the config's task. Raises whatever the user's constructor raises."""
    made: pl.LightningModule = _made(config.task, config.model.hyper, "task")
    return made


def datamodule(config: RunConfig) -> pl.LightningDataModule | None:
    """A new DataModule of the config; None where the module loads its own data."""
    if config.data is None:
        return None
    made: pl.LightningDataModule = _made(config.data.name, config.data.hyper, "data")
    return made


def _made(text: str, hyper: Mapping[str, Any], key: str) -> Any:
    made = constructor.called(of_kind(text, key), hyper)
    if not isinstance(made, _kind(key)):
        said = f"{reference.shown(text)} returned {_what(made)}, not a {_kind(key).__name__}"
        raise InputError(said, "return one", rule="not-a-module", place=key)
    return made


def of_kind(text: str, key: str) -> Callable[..., Any]:
    """The class or factory of a reference. key: "task", a LightningModule, or "data", a LightningDataModule."""
    if not reference.is_reference(text):
        raise InputError(f"'{text}' is no class", f"give {key}=FILE.py:CLASS", place=key)
    found: Any = reference.load(text, place=key)
    wanted, text = _kind(key).__name__, reference.shown(text)
    cure = f"give {key}=FILE.py:CLASS of a {wanted}, or a function that returns one"
    if isinstance(found, _kind(key)):
        cure = f"give its class, {key}=FILE.py:{type(found).__name__}, or a function that makes it: runs start afresh"
        raise InputError(f"{text} is an instance", cure, rule="not-a-module", place=key)
    if not callable(found) or (inspect.isclass(found) and not issubclass(found, _kind(key))):
        if inspect.isclass(found) and any(base.__module__.startswith("pytorch_lightning") for base in found.__mro__):
            cure = "import lightning.pytorch as pl, the same library under its present name"
        raise InputError(f"{text} is {_what(found)}, not a {wanted}", cure, rule="not-a-module", place=key)
    made: Callable[..., Any] = found
    return made


def _kind(key: str) -> type:
    import lightning.pytorch as pl

    return pl.LightningModule if key == "task" else pl.LightningDataModule


def _what(found: Any) -> str:
    if inspect.isclass(found):
        bases = [base.__name__ for base in found.__mro__[1:-1]]
        return f"a class ({', '.join(bases[:1])})" if bases else "a plain class"
    return "a module" if inspect.ismodule(found) else f"a {type(found).__name__}"


def _refuse(merged: Layer) -> None:
    """What means nothing, or something else, where Lightning's own loop runs."""
    cures = {
        "batch_size": (None, "give the DataModule's own argument, e.g. data.batch_size=64"),
        "accumulate": (1, "give trainer.accumulate_grad_batches=N"),
    }
    for key, (blank, cure) in cures.items():
        if merged.get(key, blank) != blank:
            raise InputError("the batches are those of the module's own loader", cure, place=key)
    if merged.get("stop") == "target" and merged.get("target") is None:
        raise InputError("stop=target, and there is no target", "give target=VALUE too", place="stop")
    if merged.get("form", "auto") != "auto" and merged["optimizer"]["name"] == "own":
        cure = "leave it out, or name an optimizer"
        raise InputError("it says how an optimizer of the catalogue computes", cure, place="form")
    if merged["optimizer"]["name"] != "own" and merged["schedule"]["name"] == "own":
        said = "the module's own schedule is bound to its own optimizer, which is replaced"
        raise InputError(said, "name a schedule, or leave it out", place="schedule")
    words = merged.get("trainer") or {}
    if (
        merged["evaluate_every"] is not None
        and isinstance(words, Mapping)
        and words.get("accumulate_grad_batches", 1) != 1
    ):
        said = "Lightning counts batches between validations, which are not whole updates under accumulation"
        raise InputError(said, "leave it out, or give trainer.val_check_interval=BATCHES", place="evaluate_every")
    for word in ("val_check_interval", "check_val_every_n_epoch"):
        if merged["evaluate_every"] is not None and isinstance(words, Mapping) and words.get(word) is not None:
            said = "with evaluate_every it says twice when to evaluate"
            raise InputError(said, "give one of them", place=f"trainer.{word}")


def _model(task: str, target: Callable[..., Any], given: Layer) -> Layer:
    if given["name"] != label(task):
        if "name" in constructor.arguments(target).named:
            return {"name": label(task), **constructor.checked(target, {"name": given["name"]}, "model")}
        cure = "leave model out; model.ARGUMENT=VALUE sets what its constructor takes"
        raise InputError(f"the model is {label(task)} itself, not {given['name']!r}", cure, place="model")
    hyper = {word: value for word, value in given.items() if word != "name"}
    return {"name": label(task), **constructor.checked(target, hyper, "model")}


def _data(target: Callable[..., Any], given: Layer | None) -> Layer | None:
    if not given or given.get("name") in (None, "", "none"):
        if given and set(given) - {"name"}:
            place = f"data.{next(word for word in given if word != 'name')}"
            raise InputError("there is no data to set it of", "give data=FILE.py:CLASS too", place=place)
        _loads_its_own(target)
        return None
    name = given["name"]
    hyper = {word: value for word, value in given.items() if word != "name"}
    return {"name": name, **constructor.checked(of_kind(name, "data"), hyper, "data")}


def _loads_its_own(target: Callable[..., Any]) -> None:
    import lightning.pytorch as pl

    if inspect.isclass(target) and getattr(target, "train_dataloader", None) is pl.LightningModule.train_dataloader:
        said = f"{target.__name__} has no train_dataloader, and no data is given"
        raise InputError(said, "give data=FILE.py:CLASS, a LightningDataModule", place="data")


def _metric(merged: Layer) -> Layer:
    metric, mode = merged.get("metric"), merged.get("mode") or ""
    if not metric:
        cure = (
            "give metric=NAME, what the module logs in validation, e.g. metric=val/acc, or metric=validation_step:loss"
        )
        raise InputError("no metric", cure, rule="no-metric", place="metric")
    if not isinstance(metric, str) or (":" in metric and not _MEASURED.fullmatch(metric)):
        cure = "give what the module logs, e.g. metric=val/acc, or metric=validation_step:NAME, what that returns"
        raise InputError(f"{metric!r} is no name of a metric", cure, place="metric")
    mode = mode or inferred_mode(canonical_metric(metric))
    if not mode:
        said = f"whether more or less of '{metric}' is better cannot be told from its name"
        raise InputError(said, "give mode=max or mode=min", rule="no-mode", place="mode")
    return {"metric": metric, "mode": mode}


def _entry(key: str, given: Layer, target: Callable[..., Any]) -> Layer:
    if given["name"] != "own":
        return resolve_entry(key, given, key)
    for word in given:
        if word != "name":
            own = constructor.arguments(target).named
            meant = word if word in own else closest(word, own) or word
            cure = f"set the module's own argument, e.g. model.{meant}, or name one: {key}=NAME {key}.{word}=VALUE"
            raise InputError(f"the module's own {key} has no setting '{word}' here", cure, place=f"{key}.{word}")
    return {"name": "own"}
