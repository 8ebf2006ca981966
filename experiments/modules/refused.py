"""Refused: what components and optimizers cannot do rightly in Lightning's own loop, each in one line that says why and
what to do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import lightning.pytorch as pl
import torch
from lightning.pytorch.callbacks import GradientAccumulationScheduler, ModelCheckpoint
from lightning.pytorch.strategies import DDPStrategy, SingleDeviceStrategy
from lightning.pytorch.utilities.model_helpers import is_overridden
from lightning.pytorch.utilities.signature_utils import is_param_in_hook_signature
from torch import nn

from algos import catalogue
from algos.contracts import Component, overrides
from algos.finding import InputError, closest
from algos.gradient_descent import check_replacing
from algos.per_tensor import PerTensorOptimizer

_BY_ITSELF = "the module optimizes by itself (automatic_optimization=False)"
_LET = "let Lightning optimize"


def check_arm(module: pl.LightningModule, components: Sequence[Component], words: Mapping[str, Any]) -> None:
    """What shows in the module and in the Trainer's words, before there is a Trainer. Raises InputError."""
    for component in components:
        name = type(component).__name__
        if overrides(component, "gradient"):
            _check_whole_gradients(module, words.get("accumulate_grad_batches", 1), name)
        if overrides(component, "direction") and not module.automatic_optimization:
            raise _refuse(f"{name} changes an optimizer's steps, and {_BY_ITSELF}", f"{_LET}, or {_without(name)}")
        if component.clips and words.get("gradient_clip_val"):
            raise _clips_twice(name, words["gradient_clip_val"])


def check_trainer(trainer: pl.Trainer, module: pl.LightningModule, components: Sequence[Component]) -> None:
    """What shows before there is an optimizer. Raises InputError."""
    for component in components:
        if overrides(component, "gradient"):
            _check_gradient(trainer, module, type(component).__name__)
        if component.clips and trainer.gradient_clip_val:
            raise _clips_twice(type(component).__name__, trainer.gradient_clip_val)


def check_optimizers(
    trainer: pl.Trainer,
    module: pl.LightningModule,
    optimizers: Sequence[torch.optim.Optimizer],
    components: Sequence[Component],
) -> None:
    """What shows once there are optimizers. Raises InputError."""
    check_replacing(components)
    for optimizer in optimizers:
        if "curvature" in getattr(optimizer, "needs", ()) and module.automatic_optimization:
            _check_curvature(trainer, module, optimizer)
    check_closures(trainer, optimizers)
    apart = next((each for each in optimizers if evaluates_apart(each)), None)
    average = next((each for each in components if each.replaces_weights), None)
    if apart is not None and average is not None:
        raise _refuse(
            f"{type(apart).__name__} evaluates at weights of its own, and {type(average).__name__}'s average of those "
            "it trains would take their place", "leave the averaging wrapper out",
        )  # fmt: skip
    if apart is not None and (norm := _statistics(module)):
        raise _refuse(
            f"{type(apart).__name__} evaluates at other weights than it trains, and Lightning's loop collects no "
            f"BatchNorm statistics there ('{norm}' needs them)", "use another normalisation or another optimizer",
            place="optimizer",
        )  # fmt: skip
    recollects = next((each for each in components if each.recollects), None)
    if recollects is not None and (norm := _statistics(module)):
        raise _refuse(
            f"{type(recollects).__name__} needs BatchNorm statistics of the weights it evaluates at, and Lightning's "
            f"loop collects none there ('{norm}' needs them)", "give statistics=averaged, or use another normalisation",
        )  # fmt: skip
    if apart is not None or average is not None:
        _check_checkpoints(trainer, type(apart or average).__name__)
    for component in components:
        name = type(component).__name__
        if any(overrides(component, point) for point in ("rule", "gradient", "direction")):
            if len(optimizers) != 1:
                raise _refuse(f"{name} changes an optimizer's steps, and there are {len(optimizers)}", _without(name))
            if isinstance(optimizers[0], torch.optim.LBFGS) and overrides(component, "gradient"):
                raise _refuse(
                    f"{name} changes the gradient, and {type(optimizers[0]).__name__} asks its closure for several in "
                    "one update", f"give another optimizer, or {_without(name)}",
                )  # fmt: skip
        if optimizers and not isinstance(optimizers[0], PerTensorOptimizer):
            if overrides(component, "rule"):
                raise _refuse(*_foreign(name, optimizers[0], "an optimizer's rule", "has none to change"))
            if overrides(component, "direction"):
                raise _refuse(*_foreign(name, optimizers[0], "the directions of steps", "does not show them"))


def check_closures(trainer: pl.Trainer, optimizers: Sequence[torch.optim.Optimizer]) -> None:
    """Of optimizers that ask for several gradients in one update. Raises InputError."""
    for optimizer in optimizers:
        if "closure" in getattr(optimizer, "needs", ()):
            _check_closure(trainer, type(optimizer).__name__)


def evaluates_apart(optimizer: object) -> bool:
    """Whether an optimizer evaluates at other weights than it trains (schedule-free)."""
    return bool(getattr(optimizer, "has_evaluation_weights", False))


def _check_gradient(
    trainer: pl.Trainer, module: pl.LightningModule, name: str, does: str = "changes the gradient"
) -> None:
    """What must be so that a component sees the whole batch's gradient once an update."""
    _check_whole_gradients(module, trainer.accumulate_grad_batches, name, does)
    if any(isinstance(each, GradientAccumulationScheduler) for each in trainer.callbacks):  # type: ignore[attr-defined]
        said = "GradientAccumulationScheduler hands it one micro-batch of an update"
        cure = "take that callback out and set a larger batch"
    elif scales(trainer):
        said, cure = "the fp16 scaler's losses would scale its second gradient wrongly", "use precision='bf16-mixed'"
    elif not isinstance(trainer.strategy, (SingleDeviceStrategy, DDPStrategy)):
        said = f"{type(trainer.strategy).__name__} does not hold whole gradients"
        cure = "train on one device or with DDP"
    else:
        return
    raise _unfit_gradient(name, said, cure, does)


def scales(trainer: pl.Trainer) -> bool:
    """Whether the Trainer scales losses (fp16)."""
    plugin = trainer.precision_plugin
    return bool(getattr(plugin, "scales", False)) or getattr(plugin, "scaler", None) is not None


def _check_curvature(trainer: pl.Trainer, module: pl.LightningModule, optimizer: Any) -> None:
    """What must be so that the curvature asked for is the whole batch's, and the same on every device."""
    name = type(optimizer).__name__
    if getattr(optimizer, "curvature_matrix", "hessian") != "hessian":
        raise _refuse(
            f"{name} asks for the Gauss-Newton matrix, and a LightningModule does not say which are its predictions",
            "give estimator=hutchinson", place="optimizer",
        )  # fmt: skip
    if trainer.world_size > 1:
        raise _refuse(
            f"{name} needs curvature, and {trainer.world_size} devices would each draw signs of their own",
            "train on one device, or give another optimizer", place="optimizer",
        )  # fmt: skip
    _check_gradient(trainer, module, name, "needs the gradient's curvature")


def _check_closure(trainer: pl.Trainer, name: str) -> None:
    """What must be so that each gradient a line search asks for is the whole batch's, as it is."""
    if trainer.accumulate_grad_batches != 1:
        said = f"accumulate_grad_batches={trainer.accumulate_grad_batches} would add them up"
        cure = "set accumulate_grad_batches=1 and a larger batch"
    elif trainer.gradient_clip_val:
        said, cure = f"gradient_clip_val={trainer.gradient_clip_val} would change each of them", "take it out"
    elif scales(trainer):
        said, cure = "fp16's scaling may make any of them infinite", "use precision='bf16-mixed'"
    else:
        return
    raise _refuse(
        f"{name} asks for several gradients in one update, and {said}", f"{cure}, or give another optimizer",
        place="optimizer",
    )  # fmt: skip


def _check_whole_gradients(
    module: pl.LightningModule, accumulated: Any, name: str, does: str = "changes the gradient"
) -> None:
    """What of it shows without a Trainer. accumulated: the batches of an update."""
    if not module.automatic_optimization:
        raise _unfit_gradient(name, _BY_ITSELF, _LET, does)
    if is_param_in_hook_signature(module.training_step, "dataloader_iter", explicit=True):
        cure = "let training_step take the batch"
        raise _unfit_gradient(name, "training_step takes its batches from dataloader_iter", cure, does)
    for hook in ("optimizer_step", "optimizer_zero_grad"):
        if is_overridden(hook, module):
            said = f"the module's own {hook} says what an update's gradient is made of"
            raise _unfit_gradient(name, said, f"take {hook} out", does)
    if isinstance(accumulated, int) and accumulated > 1:
        said = f"accumulate_grad_batches={accumulated} hands it one micro-batch of an update"
        raise _unfit_gradient(name, said, "set accumulate_grad_batches=1 and a larger batch", does)


def _unfit_gradient(name: str, said: str, cure: str, does: str) -> InputError:
    return _refuse(f"{name} {does}, and {said}", f"{cure}, or {_without(name)}")


def _clips_twice(name: str, norm: object) -> InputError:
    return _refuse(f"{name} and the Trainer's gradient_clip_val={norm} would clip twice", "give one of them")


def _check_checkpoints(trainer: pl.Trainer, name: str) -> None:
    """A file of the trained weights alone would be tested as if they were those that were evaluated."""
    if any(isinstance(each, ModelCheckpoint) and each.save_weights_only for each in trainer.checkpoint_callbacks):
        raise _refuse(
            f"ModelCheckpoint(save_weights_only=True) would keep the weights that are trained, and {name} evaluates "
            "at others", "set save_weights_only=False",
        )  # fmt: skip


def _foreign(name: str, optimizer: torch.optim.Optimizer, what: str, lacks: str) -> tuple[str, str]:
    theirs = f"{type(optimizer).__module__.partition('.')[0]}'s {type(optimizer).__name__}"
    ours = closest(type(optimizer).__name__, catalogue.paths("optimizers")) or "adamw"
    said = f"{name} changes {what}, and {theirs} {lacks}: nothing would happen"
    return said, f"give an optimizer of the catalogue, e.g. tl.optimizer(self, '{ours}', lr=...)"


def _statistics(module: nn.Module) -> str:
    """The name of a BatchNorm that keeps statistics; "" where there is none."""
    kinds = nn.modules.batchnorm._BatchNorm
    norms = (name for name, each in module.named_modules() if isinstance(each, kinds) and each.track_running_stats)
    return next(norms, "")


def _without(name: str) -> str:
    return f"leave {name} out"


def _refuse(said: str, cure: str, *, place: str = "wrappers") -> InputError:
    return InputError(said, cure, rule="unfit-component", place=place)
