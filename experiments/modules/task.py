"""Task: a LightningModule of the user's own as a task, said in Python instead of as settings. Light.

task = tl.Task.from_lightning(Net, Data, metric="val/acc", target=0.9, callbacks=[Ema])
tl.run(task=task, seed=3)
tl.tune("model.lr=1e-4:1e-1:log", task=task, trials=5)
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from algos.finding import InputError
from experiments.modules import reference


@dataclass(frozen=True)
class Task:
    """A module and how it is trained and judged. settings: what it says of a run; whatever else is given lies over it.
    name: what people call it, the class's name by default."""

    reference: str
    settings: Mapping[str, Any]
    name: str

    @classmethod
    def from_lightning(
        cls,
        module: Callable[..., Any] | str,
        datamodule: Callable[..., Any] | str | None = None,
        *,
        metric: str,
        mode: str = "",
        target: float | None = None,
        worst: float | None = None,
        budget: Mapping[str, float] | None = None,
        model: Mapping[str, Any] = {},
        data: Mapping[str, Any] = {},
        trainer: Mapping[str, Any] = {},
        callbacks: Any = (),
        plugins: Any = (),
        name: str = "",
    ) -> Task:
        """The task of a LightningModule and a DataModule: classes, or functions that return one.

        A partial of a class with plain arguments is the class with these arguments (over them lie model and data).
        metric: what the module logs in validation ("val/acc"), or "validation_step:loss" for what that step returns.
        mode: "max" or "min"; told from the metric's name where it says so. target: the value to reach. worst: what a
        diverged run is worth to a tuner; by default it ranks below every run that ended. budget: e.g. {"epochs": 3},
        10 epochs by default. model, data: arguments of the two constructors. trainer: words of Lightning's
        Trainer. callbacks, plugins: classes, functions or instances; every run gets new ones, instances copied.

        Raises InputError for what cannot be a task; constructor arguments are checked when a config is made.
        """
        from experiments.modules import trainer_words

        module, model = _unbound(module, model)
        datamodule, data = _unbound(datamodule, data)
        text = _named(module, "task")
        source = "" if datamodule is None else _named(datamodule, "data")
        words = {key: value for key, value in trainer.items() if key not in ("max_steps", "max_epochs")}
        for key, given in (("callbacks", callbacks), ("plugins", plugins)):
            if given_twice := key in words and _listed(given):
                raise InputError(f"{key} stand in trainer too", "give them once", place=f"trainer.{key}")
            if not given_twice and _listed(given):
                words[key] = tuple(map(reference.name_of, _listed(given)))
        said: dict[str, Any] = {
            "task": text, "metric": metric, "mode": mode, "target": target, "worst": worst, "model": dict(model),
            "trainer": words, "budget": dict(budget or trainer_words.budget(trainer)),
            "data": {"name": source, **data} if source else None,
        }  # fmt: skip
        if data and not source:
            raise InputError("there are arguments, and no DataModule", "give the DataModule's class", place="data")
        return cls(text, {key: value for key, value in said.items() if value not in (None, "", {})}, _label(name, text))

    def overrides(self) -> dict[str, Any]:
        """What it says of a run's config, as plain data."""
        return dict(self.settings)

    def __str__(self) -> str:
        return self.reference


def under(layer: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """A layer whose task is a Task, as two: what the Task says lies under the rest. Others as they are."""
    task = layer.get("task")
    if not isinstance(task, Task):
        return [layer]
    return [task.overrides(), {**layer, "task": task.reference}]


def _unbound(given: Any, hyper: Mapping[str, Any]) -> tuple[Any, Mapping[str, Any]]:
    """A partial as what it calls and the arguments it holds, `hyper` over them; where settings cannot hold them, and
    for anything else, as it is."""
    from experiments.modules import constructor

    if not isinstance(given, functools.partial):
        return given, hyper
    try:
        signature = inspect.signature(given.func)
        bound = signature.bind_partial(*given.args, **given.keywords).arguments
    except (TypeError, ValueError):
        return given, hyper
    held: dict[str, Any] = {}
    for word, value in bound.items():
        held |= value if signature.parameters[word].kind is inspect.Parameter.VAR_KEYWORD else {word: value}
    known = constructor.arguments(given.func)
    told = all((word in known.named or known.open) and word not in constructor.RESERVED for word in held)
    if not (told and constructor.is_plain(held)):
        return given, hyper
    return given.func, {**held, **hyper}


def _named(given: Any, key: str) -> str:
    from experiments.modules import settings

    text = given if isinstance(given, str) else reference.name_of(given)
    settings.of_kind(text, key)
    return text


def _listed(given: Any) -> Sequence[Any]:
    return given if isinstance(given, (list, tuple)) else () if given is None else (given,)


def _label(name: str, text: str) -> str:
    from experiments.modules import settings

    if "/" in name or ":" in name:
        raise InputError(f"the name {name!r} is not valid", "give letters, digits and . _ + -", place="name")
    return name or settings.label(text)
