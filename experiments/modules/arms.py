"""Arms: what a study changes on a user's own LightningModule: its optimizer, schedule, loss, precision, and the
components around its training.

`own` keeps the module's. What cannot be replaced rightly is refused in one line.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import lightning.pytorch as pl
import torch.nn.functional as F
from lightning.pytorch.core.optimizer import _configure_optimizers
from lightning.pytorch.utilities.model_helpers import is_overridden
from torch import Tensor, nn
from torch.optim import Optimizer, lr_scheduler

from algos import catalogue
from algos.contracts import Component, overrides
from algos.finding import InputError
from experiments.config import Entry, RunConfig
from experiments.modules import loss as losses
from experiments.modules import precision
from experiments.modules.components import ComponentCallback
from experiments.modules.groups import optimizer_over
from experiments.modules.refused import check_arm
from experiments.modules.schedule import Scheduled, scheduled

OWN = "own"
#: torch's losses over class numbers, as modules and as functions.
_CLASSIFY = (nn.CrossEntropyLoss, nn.NLLLoss)
_CLASSIFYING = (F.cross_entropy, F.nll_loss)
#: Schedules that keep the rates their optimizer was made with (as initial_lr) and change nothing else in it; of several
#: schedules in one, where all of them do.
_KEEP_RATES = (
    lr_scheduler.LambdaLR, lr_scheduler.MultiplicativeLR, lr_scheduler.StepLR, lr_scheduler.MultiStepLR,
    lr_scheduler.ExponentialLR, lr_scheduler.ConstantLR, lr_scheduler.LinearLR, lr_scheduler.PolynomialLR,
    lr_scheduler.CosineAnnealingLR, lr_scheduler.CosineAnnealingWarmRestarts, lr_scheduler.ReduceLROnPlateau, Scheduled,
)  # fmt: skip
_OF_SEVERAL = (lr_scheduler.SequentialLR, lr_scheduler.ChainedScheduler)


@dataclass(frozen=True)
class Equipment:
    """What an arm gives the Trainer."""

    callbacks: list[pl.Callback] = field(default_factory=list)
    plugins: list[Any] = field(default_factory=list)


def check(module: pl.LightningModule, config: RunConfig) -> None:
    """Raises InputError for what the config and the module tell before there is a Trainer; changes nothing."""
    replaced = [key for key in ("optimizer", "schedule") if getattr(config, key).name != OWN]
    if replaced and not module.automatic_optimization:
        raise _by_itself(replaced[0], "optimizes by itself (automatic_optimization=False)")
    if replaced and config.schedule.name == OWN:
        raise InputError(
            "the module's own schedule is bound to its own optimizer, which is replaced",
            "give a schedule, e.g. schedule=constant, or optimizer=own", place="schedule",
        )  # fmt: skip
    if config.loss.name != OWN:
        _new_loss(module, config.loss)
    check_arm(module, _components(config), config.trainer)
    _plugins(config)


def equip(module: pl.LightningModule, config: RunConfig, fraction: Callable[[], float]) -> Equipment:
    """Changes the module as the config says (its `configure_optimizers`; what it trains on, in its `training_step`),
    and returns what its Trainer needs.

    fraction: says how much of the budget is used, in [0, 1]. Raises InputError for what cannot be right; what shows
    only when the module makes its optimizer, or in the Trainer, is raised in fit.
    """
    check(module, config)
    components = _components(config)
    if config.optimizer.name != OWN or config.schedule.name != OWN:
        arm = _Arm(config, fraction, any(overrides(component, "direction") for component in components))
        theirs = module.configure_optimizers if is_overridden("configure_optimizers", module) else None
        vars(module)["configure_optimizers"] = functools.partial(_configured, module, theirs, arm)
    callbacks: list[pl.Callback] = []
    if config.loss.name != OWN:
        held, loss = _new_loss(module, config.loss)
        step = losses.InTraining(module, held.owner, held.attribute, held.name, loss)
        vars(module)["training_step"] = step
        callbacks.append(_TrainsOn(step))
    if components or config.optimizer.name != OWN:
        callbacks.append(ComponentCallback(components, fraction))
    return Equipment(callbacks, _plugins(config))


# Optimizer and schedule


@dataclass(frozen=True)
class _Arm:
    config: RunConfig
    fraction: Callable[[], float]
    directed: bool


def _configured(module: pl.LightningModule, theirs: Callable[[], Any] | None, arm: _Arm) -> dict[str, Any]:
    """What configure_optimizers returns in an arm that replaces the optimizer, the schedule or both."""
    given = theirs() if theirs is not None else None
    optimizers, schedules, _ = _configure_optimizers([] if given is None else given)
    config = arm.config
    if len(optimizers) > 1:
        key = "optimizer" if config.optimizer.name != OWN else "schedule"
        raise _by_itself(key, f"has {len(optimizers)} optimizers")
    if config.optimizer.name == OWN:
        if not optimizers:
            raise InputError(
                "the module has no optimizer of its own", "give one, e.g. optimizer=adamw", place="optimizer"
            )
        optimizer = _freed(optimizers[0], [each["scheduler"] if isinstance(each, dict) else each for each in schedules])
    else:
        directed = arm.directed and "closure" not in catalogue.describe("optimizers", config.optimizer.name).needs
        form = "stacked" if directed and config.form == "auto" else config.form
        hyper = dict(config.optimizer.hyper)
        optimizer = optimizer_over(module, _trained(module, optimizers), config.optimizer.name, form=form, **hyper)
        if hasattr(optimizer, "expect") and config.budget.unit == "updates":
            optimizer.expect(int(config.budget.amount))
    schedule = scheduled(optimizer, config.schedule.name, fraction=arm.fraction, **config.schedule.hyper)
    return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}


def _trained(module: pl.LightningModule, optimizers: list[Any]) -> list[nn.Parameter] | None:
    """The parameters that theirs trains; None where that is all there are, frozen ones too: they may thaw."""
    if not optimizers:
        return None
    theirs = [param for group in optimizers[0].param_groups for param in group["params"]]
    known, chosen = {id(param) for param in module.parameters()}, {id(param) for param in theirs}
    if not chosen <= known:
        raise InputError(
            "configure_optimizers trains tensors that are not the module's parameters",
            "register them as parameters, or give optimizer=own", place="optimizer",
        )  # fmt: skip
    return None if known <= chosen else theirs


def _freed(optimizer: Optimizer, schedules: list[Any]) -> Optimizer:
    """Their optimizer without their schedules: at the rates it was made with."""
    for schedule in schedules:
        if (name := _changes_more(schedule)) is not None:
            raise InputError(
                f"the module's own schedule ({name}) may set rates and momenta when it is made, so what its optimizer "
                "has without it is not known",
                "give the optimizer too, e.g. optimizer=adamw optimizer.lr=1e-3, or schedule=own", place="schedule",
            )  # fmt: skip
    if not schedules and any("initial_lr" in group for group in optimizer.param_groups):
        raise InputError(
            "the module makes a schedule that configure_optimizers does not return, and steps it itself",
            "return it there, or give schedule=own", place="schedule",
        )  # fmt: skip
    for group in optimizer.param_groups:
        rate = group.get("initial_lr", group["lr"])
        group["lr"] = rate.clone() if isinstance(rate, Tensor) else rate
    return optimizer


def _changes_more(schedule: Any) -> str | None:
    """The name of a schedule that may do more than keep the rates and change them; None where it is known not to."""
    if type(schedule) in _OF_SEVERAL:
        return next(filter(None, map(_changes_more, schedule._schedulers)), None)
    return None if type(schedule) in _KEEP_RATES else type(schedule).__name__


def _by_itself(key: str, said: str) -> InputError:
    return InputError(
        f"the module {said}, and only it knows which steps when", f"give {key}=own and compare other things",
        rule="own-optimization", place=key,
    )  # fmt: skip


# Loss


def _new_loss(module: pl.LightningModule, entry: Entry) -> tuple[_Held, losses.CatalogueLoss]:
    """Where the module holds its classification loss, and what takes its place."""
    found = list(_losses(module))
    classifying = [each for each in found if each.classifies]
    if len(classifying) != 1:
        listed = ", ".join(f"self.{each.name} ({each.kind})" for each in classifying or found) or "none"
        said = "holds several classification losses" if classifying else "holds no classification loss as an attribute"
        raise InputError(
            f"the module {said}: {listed}",
            "set one, self.loss = nn.CrossEntropyLoss(), and use it in training_step; or give loss=own", place="loss",
        )  # fmt: skip
    held = classifying[0]
    return held, losses.module(entry.name, **_carried(held, entry))


def _carried(held: _Held, entry: Entry) -> dict[str, Any]:
    """The loss's hyperparameters, with what theirs was made with where the arm is silent."""
    hyper = dict(entry.hyper)
    words: dict[str, Any] = {"weight": None, "reduction": "mean", "size_average": None, "reduce": None}
    declared = catalogue.describe("losses", entry.name).hyper
    if "ignore_index" in declared and hyper.get("ignore_index") is None:
        hyper["ignore_index"] = held.given("ignore_index", losses.IGNORED)
    smoothing = held.given("label_smoothing", 0.0)
    if "label_smoothing" not in declared:
        words["label_smoothing"] = 0.0
    elif smoothing and not hyper.setdefault("label_smoothing", smoothing):
        raise InputError(
            f"self.{held.name} ({held.kind}) has label_smoothing={smoothing}, and loss '{entry.name}' is given none",
            f"give loss.label_smoothing={smoothing}, or make it without", place="loss",
        )  # fmt: skip
    for word, plain in words.items():
        if (value := held.given(word, plain)) is not plain and value != plain:
            shown = "class weights" if word == "weight" else f"{word}={value!r}"
            raise InputError(
                f"self.{held.name} ({held.kind}) has {shown}, which loss '{entry.name}' does not take",
                "give loss=own, or make it without", place="loss",
            )  # fmt: skip
    return hyper


class _TrainsOn(pl.Callback):
    """Keeps the arm's loss where Lightning differentiates it (checkpointed activations are computed again there), and
    tells in the first batch where it is not what is trained on."""

    def __init__(self, step: losses.InTraining):
        self.step = step

    def on_before_backward(self, trainer: pl.Trainer, pl_module: pl.LightningModule, loss: Tensor) -> None:
        if pl_module.automatic_optimization:
            self.step.check_used()
        self.step.put()

    def on_after_backward(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self.step.take_back()

    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        if not pl_module.automatic_optimization:
            self.step.check_used()

    def on_exception(self, trainer: pl.Trainer, pl_module: pl.LightningModule, exception: BaseException) -> None:
        self.step.take_back_all()


@dataclass(frozen=True)
class _Held:
    """An attribute that holds a loss. name: dotted, from the module."""

    owner: nn.Module
    attribute: str
    name: str
    value: Any

    @property
    def classifies(self) -> bool:
        return isinstance(self.value, _CLASSIFY) or _function(self.value) in _CLASSIFYING

    @property
    def kind(self) -> str:
        return type(self.value).__name__ if isinstance(self.value, nn.Module) else _function(self.value).__name__

    def given(self, word: str, default: Any) -> Any:
        """What the loss was made with."""
        if isinstance(self.value, nn.Module):
            return getattr(self.value, word, default)
        return self.value.keywords.get(word, default) if isinstance(self.value, functools.partial) else default


def _losses(module: nn.Module) -> Iterator[_Held]:
    for path, owner in module.named_modules():
        for attribute, value in (*owner._modules.items(), *vars(owner).items()):
            function = _function(value)
            named = getattr(function, "__module__", "") == F.__name__ and function.__name__ in _LOSS_FUNCTIONS
            if isinstance(value, nn.modules.loss._Loss) or named:
                yield _Held(owner, attribute, f"{path}.{attribute}" if path else attribute, value)


def _function(value: Any) -> Any:
    return value.func if isinstance(value, functools.partial) else value


_LOSS_FUNCTIONS = frozenset(
    name for name in dir(F) if name.endswith("_loss") or name.startswith(("cross_entropy", "binary_cross_entropy"))
)


# Precision and components


def _plugins(config: RunConfig) -> list[Any]:
    if config.precision.name == OWN:
        return []
    if "precision" in config.trainer:
        raise InputError(
            f"precision={config.precision.name} and trainer.precision={config.trainer['precision']} both say how to "
            "compute", "give one of them", place="precision",
        )  # fmt: skip
    return [precision.plugin(config.precision.name, **config.precision.hyper)]


def _components(config: RunConfig) -> list[Component]:
    """Compression innermost, then the wrappers in their order."""
    if config.compression and config.select == "best":
        raise InputError(
            "compression with select=best could test weights from before they were compressed",
            "set select=last", place="select",
        )  # fmt: skip
    entries = [("compression", entry) for entry in config.compression]
    entries += [("wrappers", entry) for entry in config.wrappers]
    return [catalogue.load(kind, entry.name).build(**entry.hyper) for kind, entry in entries]
