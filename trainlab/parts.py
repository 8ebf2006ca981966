"""The catalogue's parts in your own code, by name, as ordinary torch and Lightning objects.

    def configure_optimizers(self):
        optimizer = tl.optimizer(self, "muon", lr=0.02)
        schedule = tl.schedule(optimizer, "warmup_cosine", updates=2000)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}

    Trainer(callbacks=[tl.callback("magnitude_pruning", sparsity=0.8)], plugins=[tl.precision("bf16")])

Wrong names and hyperparameters raise InputError (a ValueError) with "did you mean". Each function imports what it needs
when it is called.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from algos import catalogue
from algos.finding import InputError, closest, unknown

if TYPE_CHECKING:
    from torch import nn
    from torch.optim import Optimizer
    from torch.optim.lr_scheduler import LRScheduler

    from algos.contracts import Component
    from experiments.modules.components import ComponentCallback
    from experiments.modules.precision import CataloguePrecision

#: Kinds of the catalogue that `callback` takes.
_AROUND = ("wrappers", "compression")
#: What is no hyperparameter of an optimizer, and where it goes.
_ELSEWHERE = {
    "wrappers": 'give the Trainer callbacks=[tl.callback("NAME")]',
    "compression": 'give the Trainer callbacks=[tl.callback("NAME")]',
    "precision": 'give the Trainer plugins=[tl.precision("NAME")]',
    "schedule": 'call tl.schedule(optimizer, "NAME", updates=...)',
}


def optimizer(model: nn.Module | Iterable[Any], name: str, **hyper: Any) -> Optimizer:
    """An optimizer of the catalogue, a torch.optim.Optimizer.

    model: a model, whose parameters are then grouped by their role (`param_groups` shows how), or what torch's
    optimizers take: parameters, (name, parameter) pairs, or dicts of groups. hyper: its hyperparameters, and `form`.
    Without the model parameters have no role: an optimizer that needs names (muon) then gives every matrix to its
    matrix rule, the output layer and embeddings too, where a model's go to the fallback; give it the model.
    Schedule-free optimizers evaluate at other weights than they train: in a Trainer add `tl.callback()`, elsewhere
    `with optimizer.evaluating():`.
    """
    from experiments.modules import groups

    _check_named(model, name, "optimizer")
    for word in _ELSEWHERE.keys() & hyper.keys() - catalogue.describe("optimizers", name).hyper.keys():
        said = f"'{word}' is no hyperparameter of an optimizer"
        raise InputError(said, _ELSEWHERE[word], rule="elsewhere", place=f"{name}.{word}")
    return groups.optimizer(model, name, **hyper)


def param_groups(model: nn.Module, name: str, **hyper: Any) -> list[dict[str, Any]]:
    """The groups that an optimizer makes of a model: complete and disjoint, each a dict with "params" as (name,
    parameter) pairs, a "label" for people and what makes it another than the rest.

    `tl.optimizer(groups, name)` takes them, and a torch optimizer where none has a "rule":

    >>> from torch import nn, optim
    >>> groups = param_groups(nn.Linear(3, 2), "adamw", weight_decay=0.1)
    >>> [(group["label"], group["weight_decay"]) for group in groups]
    [('not decayed', 0.0), ('decayed', 0.1)]
    >>> optim.AdamW(groups, lr=1e-3).param_groups[0]["param_names"]
    ['bias']
    """
    from torch import nn

    from experiments.modules import groups

    _check_named(model, name, "param_groups")
    if not isinstance(model, nn.Module):
        said = f"groups are made by the roles in a model, and an object of class {type(model).__name__} is none"
        raise InputError(said, "give the model itself", place="param_groups")
    return groups.groups(model, name, **hyper)


def schedule(
    optimizer: Optimizer, name: str, *, updates: int | None = None, fraction: Callable[[], float] | None = None,
    **hyper: Any,
) -> LRScheduler:  # fmt: skip
    """A schedule of the catalogue on an optimizer's rates, a torch LRScheduler to be stepped after every update.

    updates: how many there will be; or fraction: what says how much of the budget is used, in [0, 1]. In Lightning:
    `{"scheduler": schedule, "interval": "step"}`; elsewhere, and where a LightningModule optimizes by itself (there as
    `self.lr_schedulers().step()`), `schedule.step()` after `optimizer.step()`. Two updates without a step of the
    schedule raise InputError.
    """
    from experiments.modules.schedule import scheduled

    if not hasattr(optimizer, "param_groups"):
        said = f"an object of class {type(optimizer).__name__} stands where the optimizer belongs"
        raise InputError(said, 'call tl.schedule(optimizer, "NAME", updates=...)', place="schedule")
    return scheduled(optimizer, name, updates=updates, fraction=fraction, **hyper)


def loss(name: str, **hyper: Any) -> nn.Module:
    """A loss of the catalogue, called as torch's are: predictions (N, C) or (N, C, d1, ...), class numbers (N) or (N,
    d1, ...) -> the mean, 0-d. As in torch, targets of -100 do not count; another is given by ignore_index=N, and with
    ignore_index=None every target counts.

    >>> import torch
    >>> round(loss("focal", gamma=2.0)(torch.zeros(1, 2), torch.tensor([1])).item(), 4)
    0.1733
    """
    from experiments.modules import loss as losses

    return losses.module(name, **hyper)


def precision(name: str, **hyper: Any) -> CataloguePrecision:
    """A precision of the catalogue for `Trainer(plugins=[...])`: its autocast is around the forward pass only, never
    the optimizer."""
    from experiments.modules import precision as precisions

    return precisions.plugin(name, **hyper)


def callback(names: str | Iterable[str] = "", **hyper: Any) -> ComponentCallback:
    """Wrappers and compression of the catalogue as one Lightning callback.

    names: one, or several, joined by + or in a list, innermost first. hyper: by name; where there are several, as
    "sam.rho". Without names it only switches to the evaluation weights of optimizers that have them. Several such
    callbacks nest in their order.

    >>> callback("cautious+sam", **{"sam.rho": 0.1}).components[1].rho
    0.1
    """
    from experiments.modules.components import ComponentCallback

    given = list(names) if isinstance(names, Iterable) and not isinstance(names, str) else [names]
    for name in given:
        if not isinstance(name, str):
            shown = name.__name__ if isinstance(name, type) else type(name).__name__
            said = f"a name of a wrapper or compression is a string, and {shown} was given"
            raise InputError(said, 'give names, e.g. callback("cautious+sam")', rule="not-a-name", place="callback")
    wanted = [part.strip() for name in given if name.strip() for part in name.split("+")]
    return ComponentCallback([_component(name, own) for name, own in _shared_out(wanted, hyper)])


def _check_named(model: Any, name: Any, place: str) -> None:
    """That the model stands first and a name second."""
    if isinstance(model, str):
        after = name if isinstance(name, str) else model
        said = f"'{model}' stands where the model belongs"
        raise InputError(said, f'call tl.{place}(model, "{after}")', rule="swapped", place=place)
    if isinstance(name, type):
        same = {entry.replace("_", ""): entry for entry in catalogue.paths("optimizers")}.get(name.__name__.lower())
        cure = f'give "{same}"' if same else f"build it yourself: {name.__name__}(model.parameters(), ...)"
        said = f"the class {name.__name__} is given where a name of the catalogue belongs"
        raise InputError(said, cure, rule="not-a-name", place=place)


def _component(name: str, hyper: dict[str, Any]) -> Component:
    kinds = {entry: kind for kind in _AROUND for entry in catalogue.paths(kind)}
    if name not in kinds:
        raise unknown("wrapper or compression", name, kinds, place="callback")
    component: Component = catalogue.load(kinds[name], name).build(**hyper)
    return component


def _shared_out(names: list[str], hyper: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """Each name with its own hyperparameters."""
    own: dict[str, dict[str, Any]] = {name: {} for name in names}
    if len(own) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise InputError(f"'{twice}' is named twice", "name it once", place="callback")
    for key, value in hyper.items():
        name, dot, word = key.rpartition(".")
        if not dot and len(names) == 1:
            name = names[0]
        elif not dot:
            example = f'**{{"{names[0]}.{key}": ...}}' if names else f'callback("NAME", {key}=...)'
            raise InputError(f"'{key}' does not say whose it is", f"give {example}", place="callback")
        if name not in own:
            guess = closest(name, own)
            raise unknown("component", name, own, place=f"callback.{guess or name}")
        own[name][word if dot else key] = value
    return list(own.items())
