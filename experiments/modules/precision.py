"""A precision of the catalogue as a Lightning plugin: its autocast is around the forward pass and the loss, and nothing
else.

    Trainer(plugins=[tl.precision("bf16")])

Weights, gradients and the optimizer stay as the module has them. Where Lightning's own "bf16-mixed" would cover a step
of the optimizer (manual optimization), optimizers of the catalogue leave autocast for their step.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import torch
from lightning.pytorch.plugins.precision import Precision as LightningPrecision
from torch import nn

from algos import catalogue
from algos.contracts import Precision

#: What Lightning calls what autocast computes in.
_LIGHTNINGS = {torch.bfloat16: "bf16-mixed", torch.float16: "16-mixed"}


class CataloguePrecision(LightningPrecision):
    """A Lightning precision plugin. name: for messages. precision: what computes (`algos.contracts.Precision`)."""

    def __init__(self, name: str, how: Precision):
        self.name = name
        self._how = how
        self._device_type = "cpu"

    def connect(self, model: nn.Module, optimizers: list[Any], lr_schedulers: list[Any]) -> Any:
        """Lightning calls it once the model is on its device. Raises InputError where the device cannot do it."""
        first = next(model.parameters(), None)
        self._device_type = first.device.type if first is not None else "cpu"
        with self._how.autocast(self._device_type):
            if torch.is_autocast_enabled(self._device_type):
                self.precision = _LIGHTNINGS.get(torch.get_autocast_dtype(self._device_type), "32-true")  # type: ignore[assignment]
        return super().connect(model, optimizers, lr_schedulers)

    @contextmanager
    def forward_context(self) -> Generator[None, None, None]:
        with self._how.autocast(self._device_type):
            yield

    def __repr__(self) -> str:
        return f"CataloguePrecision({self.name!r})"


def plugin(name: str, **hyper: Any) -> CataloguePrecision:
    """The precision of that name, for `Trainer(plugins=[...])`. Raises InputError for wrong names and hyperparameters.

    >>> plugin("bf16")
    CataloguePrecision('bf16')
    """
    return CataloguePrecision(name, catalogue.load("precision", name).build(**hyper))
