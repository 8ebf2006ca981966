"""A loss of the catalogue as a torch module, called as torch's are: `loss(input, target)` -> the mean, 0-d.

Torch's layout: the classes are dimension 1 of the predictions where they have more than two dimensions, (N, C, d1, ...)
for targets (N, d1, ...), and the last one otherwise: (N, C) for (N,), (C,) for (). Torch's default too: targets of -100
do not count, unless `ignore_index` says otherwise (None: every target counts).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from algos import catalogue
from algos.contracts import Loss
from algos.finding import InputError

#: The target that torch's losses ignore where nothing is said.
IGNORED = -100


class CatalogueLoss(nn.Module):
    """Predictions in torch's layout, class numbers -> the mean over the targets that count. Averages uneven batches as
    torch does: each batch by itself."""

    def __init__(self, name: str, mathematics: Loss):
        super().__init__()
        self.name = name
        self.mathematics = mathematics

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Raises InputError where the target holds no class numbers, or has not the predictions' shape without the
        classes."""
        if target.is_floating_point():
            raise InputError(
                f"loss '{self.name}' takes class numbers, and the targets are {target.dtype}",
                "give class numbers (int64), or keep your own loss", place="loss",
            )  # fmt: skip
        classes = 1 if input.ndim > 1 else 0
        wanted = (*input.shape[:classes], *input.shape[classes + 1 :])
        if target.shape != wanted:
            raise InputError(
                f"predictions of shape {tuple(input.shape)} do not fit targets of shape {tuple(target.shape)}",
                f"the classes are dimension {classes} of the predictions, as in torch: give targets of shape {wanted}",
                place="loss",
            )
        predictions = input.movedim(1, -1) if input.ndim > 2 else input
        mean, _ = self.mathematics(predictions if input.ndim > 1 else input[None], target)
        return mean

    def extra_repr(self) -> str:
        return repr(self.name)


def module(name: str, **hyper: Any) -> CatalogueLoss:
    """The loss of that name. Raises InputError for wrong names and hyperparameters.

    ignore_index, where the loss has it, is -100 as in torch; with None every target counts. The mean over none is 0.

    >>> module("focal", gamma=2.0)
    CatalogueLoss('focal')
    """
    if "ignore_index" in catalogue.describe("losses", name).hyper:
        hyper = {"ignore_index": IGNORED, **hyper}
    return CatalogueLoss(name, catalogue.load("losses", name).build(**hyper))


class InTraining:
    """A module's training_step with another loss in an attribute while it runs: everywhere else, and where validation
    runs it, theirs is there.

    module: the LightningModule. owner, attribute: what in it holds the loss. name: what people call that. used: whether
    the training step has called the loss.
    """

    def __init__(self, module: Any, owner: nn.Module, attribute: str, name: str, loss: CatalogueLoss):
        self.__wrapped__ = module.training_step  # Lightning looks at its arguments
        self.owner, self.attribute, self.name, self.loss = owner, attribute, name, loss
        self.used = False
        self._module = module
        self._theirs: list[Any] = []
        loss.register_forward_pre_hook(self._use)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        trainer = self._module._trainer
        if trainer is not None and not trainer.training:
            return self.__wrapped__(*args, **kwargs)
        with self.held():
            return self.__wrapped__(*args, **kwargs)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Within it the attribute is this loss."""
        self.put()
        try:
            yield
        finally:
            self.take_back()

    def put(self) -> None:
        store = self._store()
        self._theirs.append(store[self.attribute])
        store[self.attribute] = self.loss

    def take_back(self) -> None:
        if self._theirs:
            self._store()[self.attribute] = self._theirs.pop()

    def take_back_all(self) -> None:
        """Where something broke off."""
        while self._theirs:
            self.take_back()

    def check_used(self) -> None:
        """Raises InputError where the training step has not called the loss."""
        if not self.used:
            raise InputError(
                f"self.{self.name} is not the training loss: training_step has not called it, so loss="
                f"{self.loss.name} would change nothing", "use it in training_step, or give loss=own",
                rule="unused-loss", place="loss",
            )  # fmt: skip

    def _store(self) -> dict[str, Any]:
        modules: dict[str, Any] = self.owner._modules
        return modules if self.attribute in modules else vars(self.owner)

    def _use(self, *_: Any) -> None:
        self.used = self.used or torch.is_grad_enabled()  # what is only logged trains nothing
