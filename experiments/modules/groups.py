"""Groups: optimizers of the catalogue over a model, over part of it, or over what torch's optimizers take."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from torch import Tensor, nn
from torch.optim import Optimizer

from algos import catalogue, parameters
from algos.finding import InputError
from algos.hyper_tensors import resolved
from algos.per_tensor import PerTensorOptimizer


def optimizer(params: nn.Module | Iterable[Any], name: str, **hyper: Any) -> Optimizer:
    """The optimizer of that name, over a model (each parameter by its role) or what torch's optimizers take.

    Raises InputError for wrong names and hyperparameters, and, in a LightningModule's configure_optimizers, for what
    cannot be right under its Trainer.
    """
    built: Optimizer = catalogue.load("optimizers", name).build(params, **hyper)
    if (trainer := getattr(params, "_trainer", None)) is not None:
        _check_under(trainer, built)
    return built


def _check_under(trainer: Any, built: Optimizer) -> None:
    """What an optimizer that a LightningModule makes for itself cannot do rightly, where nothing of ours may stand
    beside its Trainer."""
    import lightning.pytorch as pl

    from experiments.modules.components import check_evaluation_weights
    from experiments.modules.refused import check_closures

    if isinstance(trainer, pl.Trainer):
        check_closures(trainer, [built])
        check_evaluation_weights(trainer, [built])


def groups(model: nn.Module, name: str, **hyper: Any) -> list[dict[str, Any]]:
    """The groups that an optimizer of that name makes of a model: complete and disjoint, (name, parameter) pairs each.

    A group holds what makes it another than the rest, what was given, a `label` for people, and `rule` where the
    optimizer has several. Without `rule` a torch optimizer takes it too. Raises InputError for wrong names and
    hyperparameters, and for optimizers that make no groups.
    """
    built = _grouping(name)
    if built is None:
        raise InputError(f"optimizer '{name}' makes no groups of a model", "give it the model", place="param_groups")
    wanted = {word: value for word, value in hyper.items() if word not in ("form", "population")}
    found = parameters.group(model, built.group_rules(resolved(built, wanted, None)))
    return [{**_given(built, each.get("rule", ""), wanted), **each} for each in found]


def optimizer_over(model: nn.Module, params: Iterable[Tensor] | None, name: str, **hyper: Any) -> Optimizer:
    """The optimizer over some of a model's parameters, each in the group it has in the whole model; None: all."""
    if params is None:
        return optimizer(model, name, **hyper)
    if _grouping(name) is None:
        return optimizer(params, name, **hyper)
    chosen = {id(param) for param in params}
    kept = []
    for each in groups(model, name, **hyper):
        pairs = [(path, param) for path, param in each["params"] if id(param) in chosen]
        kept += [{**each, "params": pairs}] if pairs else []
    if kept and all(each.get("rule") for each in kept):
        raise InputError(
            f"no parameter that the module trains is for {name}'s own rule, only for its fallback",
            "give the fallback's optimizer by its own name", rule="only-fallback", place="optimizer",
        )  # fmt: skip
    return optimizer(kept, name, **hyper)


def _grouping(name: str) -> type[PerTensorOptimizer] | None:
    """The optimizer's class, where it makes groups of a model."""
    built = catalogue.load("optimizers", name).build
    return built if isinstance(built, type) and issubclass(built, PerTensorOptimizer) else None


def _given(owner: type[PerTensorOptimizer], rule: str, hyper: Mapping[str, Any]) -> dict[str, Any]:
    """What was given of a rule's hyperparameters, under the rule's own names."""
    prefix = f"{rule}_" if rule else ""
    return {word: hyper[prefix + word] for word in owner.declared_for(rule) if prefix + word in hyper}
