"""A precision of the catalogue as a Lightning plugin: its autocast is around the forward pass and the loss, and nothing
else.

    Trainer(plugins=[tl.precision("bf16")])

Weights, gradients and the optimizer stay as the module has them. Where Lightning's own "bf16-mixed" would cover a step
of the optimizer (manual optimization), optimizers of the catalogue leave autocast for their step. fp16 scales the loss
with torch's own GradScaler and computes in float16 on whatever device the module is (Lightning's "16-mixed" becomes
bf16 on a CPU).
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import torch
from lightning.pytorch.plugins.precision import MixedPrecision
from lightning.pytorch.plugins.precision import Precision as LightningPrecision
from torch import nn

from algos import catalogue
from algos.contracts import Precision, Scaling, Storing
from algos.finding import InputError
from algos.gradient_descent import needs_closure, scaled_closure
from algos.precision.fp16 import Fp16

#: What Lightning calls what autocast computes in.
_LIGHTNINGS = {torch.bfloat16: "bf16-mixed", torch.float16: "16-mixed"}


class CataloguePrecision(LightningPrecision):
    """A Lightning precision plugin. name: for messages. precision: what computes (`algos.contracts.Precision`)."""

    #: Whether losses are scaled, so that only Lightning's own backward pass and step are right.
    scales = False

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


class ScaledPrecision(CataloguePrecision, MixedPrecision):
    """fp16: Lightning's handling of a scaler, with torch's GradScaler for the module's device. An update with gradients
    that are not finite is skipped by the scaler, and Lightning counts it."""

    scales = True

    def __init__(self, name: str, how: Fp16):
        super().__init__(name, how)
        self._hyper = how
        self.scaler: torch.amp.GradScaler | None = None  # known once the device is

    def connect(self, model: nn.Module, optimizers: list[Any], lr_schedulers: list[Any]) -> Any:
        for optimizer in optimizers:
            if needs_closure(getattr(optimizer, "_optimizer", optimizer)):
                raise scaled_closure(optimizer)
        connected = super().connect(model, optimizers, lr_schedulers)
        words = ("init_scale", "growth_factor", "backoff_factor", "growth_interval")
        given = {word: getattr(self._hyper, word) for word in words}
        self.device, self.scaler = self._device_type, torch.amp.GradScaler(self._device_type, **given)
        return connected


def plugin(name: str, **hyper: Any) -> CataloguePrecision:
    """The precision of that name, for `Trainer(plugins=[...])`. Raises InputError for wrong names and hyperparameters.

    >>> plugin("bf16")
    CataloguePrecision('bf16')
    """
    how = catalogue.load("precision", name).build(**hyper)
    if isinstance(how, Fp16):
        return ScaledPrecision(name, how)
    if isinstance(how, Storing):
        raise InputError(
            f"precision '{name}' stores weights in another way, which a module of yours does for itself",
            "give precision=bf16, or cast the module's weights in its constructor", rule="foreign-weights",
            place="precision",
        )  # fmt: skip
    if isinstance(how, Scaling):
        raise InputError(
            f"precision '{name}' scales losses, and Lightning's loop scales them by torch's GradScaler only",
            "give precision=fp16", rule="foreign-scaling", place="precision",
        )  # fmt: skip
    return CataloguePrecision(name, how)
