"""ASAM: SAM whose neighbourhood is measured in each weight's own scale, so that rescaling the weights changes nothing.

Paper: Kwon et al. 2021, algorithm 1 with p = 2 and the element-wise operator; reference implementation
SamsungLabs/ASAM (asam.py), whose defaults these are. Deviations: where the model draws (dropout), each pass draws its
own mask; 1e-12 is added to ||T g||, there 1e-16: e differs by more than 1e-4 of itself where ||T g|| < 1e-8. The
reference takes T for parameters whose name contains "weight", here it is for all whose name does not
contain "bias": the same for torch's own layers.

    g <- gradient of the batch's loss at w
    T <- |w| + eta                               entrywise; 1 for biases
    e <- rho * T^2 g / ||T g||                   ||.|| over all weights together
    g <- gradient of the same loss at w + e      what the optimizer sees

Both passes see the whole batch, accumulated or not. BatchNorm's statistics move in the first pass only. The weights
are never changed on the way: the second pass is evaluated at w + e. The loss reported is the first pass's, at w.

State: none. Cost: two gradients an update, and three copies of the weights while the second is taken.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from algos.contracts import Component, Gradient, InnerGradient, Oracle
from algos.spec import Declared, Real, Spec
from algos.wrappers.sam import TINY, norm, two_passes


class Asam(Declared, Component):
    """Adaptive sharpness-aware minimization around any optimizer.

    >>> Asam(rho=1.0).eta
    0.01
    """

    rho: float = Real(0.5, above=0, search="0.1:5:log", unit="length of the step up, in units of the weights' sizes")
    eta: float = Real(0.01, low=0, unit="weight units added to each size")

    def gradient(self, oracle: Oracle, batch: Any, inner: InnerGradient) -> Gradient:
        return two_passes(oracle, batch, inner, self._step_up)

    def _step_up(self, weights: list[Tensor], grads: list[Tensor], names: Sequence[str]) -> list[Tensor]:
        sizes = [
            torch.ones_like(weight) if "bias" in name.rpartition(".")[2] else weight.abs() + self.eta
            for name, weight in zip(names, weights, strict=True)
        ]
        scaled = torch._foreach_mul(grads, sizes)
        factor = self.rho / (norm(list(scaled)) + TINY)
        torch._foreach_mul_(scaled, sizes)
        return list(torch._foreach_mul(scaled, factor))


SPEC = Spec(
    build=Asam,
    needs=("second_gradient",),
    state="none",
    cost="two gradients an update",
    cite="""@inproceedings{kwon2021asam,
  title = {{ASAM}: Adaptive Sharpness-Aware Minimization for Scale-Invariant Learning of Deep Neural Networks},
  author = {Kwon, Jungmin and Kim, Jeongseop and Park, Hyunseo and Choi, In Kwon},
  booktitle = {International Conference on Machine Learning (ICML)},
  pages = {5905--5914},
  year = {2021}
}""",
)
