"""Clipping: a gradient longer than a bound is shortened to it.

Paper: Pascanu et al. 2013, algorithm 1. Deviations: 1e-6 is added to the norm, as torch.nn.utils.clip_grad_norm_
does; and a gradient whose norm, as computed, is not finite is left as it is.

    g <- min(max(g, -value), value)           elementwise, only with `value`, first
    g <- g * min(1, norm/(||g|| + 1e-6))      ||.|| over all weights together; not with norm none

Where ||g|| is infinite or NaN the factor would be 0 or NaN and would hide, or spread to every weight, what went wrong
in one of them. Such a gradient is passed on unchanged, so that the run is seen to diverge. Norms are computed in
float32, or in float64 if any gradient is: squares overflow float32 from entries of 1.8e19 on, and such a gradient,
finite as it is, passes unchanged too (to scale it first would take a copy of it). `value` turns an infinite entry into
the bound, as torch's clip_grad_value_ does, and leaves NaN.

State: none. Cost: O(n); nothing is read back from the device.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

import torch
from torch import Tensor

from algos.contracts import Component, Gradient, InnerGradient, Oracle
from algos.finding import InputError
from algos.spec import Declared, Real, Spec


class Clipping(Declared, Component):
    """Clip by global norm, by value, or by value and then norm.

    >>> Clipping(value=0.5).norm
    1.0
    """

    norm: float | None = Real(
        1.0, above=0, optional=True, search="0.1:10:log", unit="longest gradient, over all weights"
    )
    value: float | None = Real(None, above=0, optional=True, unit="largest entry of the gradient")

    clips: ClassVar[bool] = True

    def __init__(self, **hyper: Any):
        super().__init__(**hyper)
        if self.norm is None and self.value is None:
            raise InputError("clipping with norm=none and value=none would do nothing", "give one", place="Clipping")

    def gradient(self, oracle: Oracle, batch: Any, inner: InnerGradient) -> Gradient:
        result = inner(batch)
        if not result.grads:
            return result
        clipped = self._clipped(list(result.grads.values()))
        return replace(result, grads=dict(zip(result.grads, clipped, strict=True)))

    @torch.no_grad()
    def _clipped(self, grads: list[Tensor]) -> list[Tensor]:
        if self.value is not None:
            grads = list(torch._foreach_clamp_min(torch._foreach_clamp_max(grads, self.value), -self.value))
        if self.norm is not None:
            grads = list(torch._foreach_mul(grads, _factor(grads, self.norm)))
        return grads


def _factor(grads: list[Tensor], longest: float) -> Tensor:
    """0-d: what shortens the gradient to `longest`; 1 where it is shorter or not finite."""
    precise = any(grad.dtype == torch.float64 for grad in grads)
    norms = torch._foreach_norm(grads, 2, dtype=torch.float64 if precise else torch.float32)
    norm = torch.linalg.vector_norm(torch.stack(norms))
    return torch.where(norm.isfinite(), (longest / (norm + 1e-6)).clamp(max=1.0), 1.0)


SPEC = Spec(
    build=Clipping,
    state="none",
    cost="O(n) an update",
    cite="""@inproceedings{pascanu2013difficulty,
  title = {On the Difficulty of Training Recurrent Neural Networks},
  author = {Pascanu, Razvan and Mikolov, Tomas and Bengio, Yoshua},
  booktitle = {International Conference on Machine Learning (ICML)},
  pages = {1310--1318},
  year = {2013}
}""",
)
