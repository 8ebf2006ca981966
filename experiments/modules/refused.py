"""Refused: what components and optimizers cannot do rightly in Lightning's own loop, each in one line that says why and
what to do."""

from __future__ import annotations

from collections.abc import Sequence

import lightning.pytorch as pl
import torch
from lightning.pytorch.callbacks import GradientAccumulationScheduler, ModelCheckpoint
from lightning.pytorch.strategies import DDPStrategy, SingleDeviceStrategy
from lightning.pytorch.utilities.signature_utils import is_param_in_hook_signature
from torch import nn

from algos import catalogue
from algos.contracts import Component, overrides
from algos.finding import InputError, closest
from algos.per_tensor import PerTensorOptimizer


def check_trainer(trainer: pl.Trainer, module: pl.LightningModule, components: Sequence[Component]) -> None:
    """What shows before there is an optimizer. Raises InputError."""
    for component in components:
        if overrides(component, "gradient"):
            _check_gradient(trainer, module, type(component).__name__)
        if component.clips and trainer.gradient_clip_val:
            raise _refuse(
                f"{type(component).__name__} and the Trainer's gradient_clip_val={trainer.gradient_clip_val} would "
                "clip twice", "give one of them",
            )  # fmt: skip


def check_optimizers(
    trainer: pl.Trainer, module: nn.Module, optimizers: Sequence[torch.optim.Optimizer], components: Sequence[Component]
) -> None:
    """What shows once there are optimizers. Raises InputError."""
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
    if apart is not None or average is not None:
        _check_checkpoints(trainer, type(apart or average).__name__)
    for component in components:
        name = type(component).__name__
        if overrides(component, "gradient") or overrides(component, "direction"):
            if len(optimizers) != 1:
                raise _refuse(f"{name} changes an optimizer's steps, and there are {len(optimizers)}", _without(name))
            if isinstance(optimizers[0], torch.optim.LBFGS) and overrides(component, "gradient"):
                raise _refuse(
                    f"{name} changes the gradient, and {type(optimizers[0]).__name__} asks its closure for several in "
                    "one update", f"give another optimizer, or {_without(name)}",
                )  # fmt: skip
        if overrides(component, "direction") and not isinstance(optimizers[0], PerTensorOptimizer):
            raise _refuse(*_hidden_directions(name, optimizers[0]))


def evaluates_apart(optimizer: object) -> bool:
    """Whether an optimizer evaluates at other weights than it trains (schedule-free)."""
    return bool(getattr(optimizer, "has_evaluation_weights", False))


def _check_gradient(trainer: pl.Trainer, module: pl.LightningModule, name: str) -> None:
    """What must be so that a component sees the whole batch's gradient once an update."""
    if not module.automatic_optimization:
        said, cure = "the module optimizes by itself (automatic_optimization=False)", "let Lightning optimize"
    elif is_param_in_hook_signature(module.training_step, "dataloader_iter", explicit=True):
        said, cure = "training_step takes its batches from dataloader_iter", "let training_step take the batch"
    elif trainer.accumulate_grad_batches > 1:
        said = f"accumulate_grad_batches={trainer.accumulate_grad_batches} hands it one micro-batch of an update"
        cure = "set accumulate_grad_batches=1 and a larger batch"
    elif any(isinstance(each, GradientAccumulationScheduler) for each in trainer.callbacks):  # type: ignore[attr-defined]
        said = "GradientAccumulationScheduler hands it one micro-batch of an update"
        cure = "take that callback out and set a larger batch"
    elif getattr(trainer.precision_plugin, "scaler", None) is not None:
        said, cure = "the fp16 scaler's losses would scale its second gradient wrongly", "use precision='bf16-mixed'"
    elif not isinstance(trainer.strategy, (SingleDeviceStrategy, DDPStrategy)):
        said = f"{type(trainer.strategy).__name__} does not hold whole gradients"
        cure = "train on one device or with DDP"
    else:
        return
    raise _refuse(f"{name} changes the gradient, and {said}", f"{cure}, or {_without(name)}")


def _check_checkpoints(trainer: pl.Trainer, name: str) -> None:
    """A file of the trained weights alone would be tested as if they were those that were evaluated."""
    if any(isinstance(each, ModelCheckpoint) and each.save_weights_only for each in trainer.checkpoint_callbacks):
        raise _refuse(
            f"ModelCheckpoint(save_weights_only=True) would keep the weights that are trained, and {name} evaluates "
            "at others", "set save_weights_only=False",
        )  # fmt: skip


def _hidden_directions(name: str, optimizer: torch.optim.Optimizer) -> tuple[str, str]:
    theirs = f"{type(optimizer).__module__.partition('.')[0]}'s {type(optimizer).__name__}"
    ours = closest(type(optimizer).__name__, catalogue.paths("optimizers")) or "adamw"
    said = f"{name} changes the directions of steps, and {theirs} does not show them: nothing would happen"
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
