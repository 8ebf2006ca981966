"""A loss of the catalogue as a torch module, called as torch's are: `loss(input, target)` -> the mean, 0-d.

Torch's layout: the classes are dimension 1 of the predictions where they have more than two dimensions, (N, C, d1, ...)
for targets (N, d1, ...), and the last one otherwise: (N, C) for (N,), (C,) for ().
"""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from algos import catalogue
from algos.contracts import Loss
from algos.finding import InputError


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

    >>> module("focal", gamma=2.0)
    CatalogueLoss('focal')
    """
    return CatalogueLoss(name, catalogue.load("losses", name).build(**hyper))
