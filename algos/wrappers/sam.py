"""SAM: the gradient is taken where the loss is worst nearby, and applied where the weights are.

Paper: Foret et al. 2021, algorithm 1, equation 2 with p = 2. Deviation: where the model draws (dropout), each
pass draws its own mask; the paper speaks of one loss.

    g <- gradient of the batch's loss at w
    e <- rho * g/||g||                        ||.|| over all weights together
    g <- gradient of the same loss at w + e   what the optimizer sees

Both passes see the whole batch, accumulated or not. BatchNorm's statistics move in the first pass only. The weights
are never changed on the way: the second pass is evaluated at w + e. The loss reported is the first pass's, at w.

State: none. Cost: two gradients an update, and two copies of the weights while the second is taken.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from algos.contracts import Component, Gradient, InnerGradient, Oracle
from algos.spec import Declared, Real, Spec

#: Keeps 0/0 from being NaN where the gradient is exactly zero; then e is zero too.
TINY = 1e-12


class Sam(Declared, Component):
    """Sharpness-aware minimization around any optimizer.

    >>> Sam(rho=0.1).rho
    0.1
    """

    rho: float = Real(0.05, above=0, search="0.01:0.5:log", unit="length of the step up, in weight units")

    def gradient(self, oracle: Oracle, batch: Any, inner: InnerGradient) -> Gradient:
        first = inner(batch)
        second = inner(batch, at=self._above(oracle, first.grads), buffers="keep")
        grads = {name: second.grads[name] for name in first.grads if name in second.grads}
        return Gradient(first.loss, grads, _both(first.finite, second.finite))

    @torch.no_grad()
    def _above(self, oracle: Oracle, grads: dict[str, Tensor]) -> dict[str, Tensor]:
        """w + e, by name, for every weight that has a gradient."""
        if not grads:
            return {}
        directions = list(grads.values())
        norms = torch._foreach_norm(directions)
        norm = torch.linalg.vector_norm(torch.stack([part.to(norms[0].dtype) for part in norms]))
        steps = torch._foreach_mul(directions, self.rho / (norm + TINY))
        weights = dict(oracle.named_parameters())
        return dict(zip(grads, torch._foreach_add([weights[name].detach() for name in grads], steps), strict=True))


def _both(first: Tensor | None, second: Tensor | None) -> Tensor | None:
    if first is None or second is None:
        return first if second is None else second
    return first & second


SPEC = Spec(
    build=Sam,
    needs=("second_gradient",),
    state="none",
    cost="two gradients an update",
    cite="""@inproceedings{foret2021sharpness,
  title = {Sharpness-Aware Minimization for Efficiently Improving Generalization},
  author = {Foret, Pierre and Kleiner, Ariel and Mobahi, Hossein and Neyshabur, Behnam},
  booktitle = {International Conference on Learning Representations (ICLR)},
  year = {2021}
}""",
)
