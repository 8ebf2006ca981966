"""SAM: the gradient is taken where the loss is worst nearby, and applied where the weights are.

Paper: Foret et al. 2021, algorithm 1, equation 2 with p = 2. Deviations: where the model draws (dropout), each pass
draws its own mask; the paper speaks of one loss. 1e-12 is added to ||g||, as the authors' JAX code does not and
davda54/sam does.

    g <- gradient of the batch's loss at w
    e <- rho * g/||g||                        ||.|| over all weights together
    g <- gradient of the same loss at w + e   what the optimizer sees

Both passes see the whole batch, accumulated or not. BatchNorm's statistics move in the first pass only. The weights
are never changed on the way: the second pass is evaluated at w + e. The loss reported is the first pass's, at w.

State: none. Cost: two gradients an update, and two copies of the weights while the second is taken.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from algos.contracts import Component, Gradient, InnerGradient, Oracle
from algos.spec import Declared, Real, Spec

#: Keeps 0/0 from being NaN where the gradient is exactly zero; then e is zero too.
TINY = 1e-12

StepUp = Callable[[list[Tensor], list[Tensor], Sequence[str]], list[Tensor]]


class Sam(Declared, Component):
    """Sharpness-aware minimization around any optimizer.

    >>> Sam(rho=0.1).rho
    0.1
    """

    rho: float = Real(0.05, above=0, search="0.01:0.5:log", unit="length of the step up, in weight units")

    def gradient(self, oracle: Oracle, batch: Any, inner: InnerGradient) -> Gradient:
        return two_passes(oracle, batch, inner, self._step_up)

    def _step_up(self, weights: list[Tensor], grads: list[Tensor], names: Sequence[str]) -> list[Tensor]:
        return list(torch._foreach_mul(grads, self.rho / (norm(grads) + TINY)))


def two_passes(oracle: Oracle, batch: Any, inner: InnerGradient, step_up: StepUp) -> Gradient:
    """The gradient at w + e, for every weight that has one at w; the loss at w. step_up: (weights, their gradients,
    their names) -> e."""
    first = inner(batch)
    names = list(first.grads)
    above: dict[str, Tensor] = {}
    if names:
        with torch.no_grad():
            trained = dict(oracle.named_parameters())
            weights = [trained[name].detach() for name in names]
            steps = step_up(weights, list(first.grads.values()), names)
            above = dict(zip(names, torch._foreach_add(weights, steps), strict=True))
    second = inner(batch, at=above, buffers="keep")
    grads = {name: second.grads[name] for name in names if name in second.grads}
    return Gradient(first.loss, grads, _both(first.finite, second.finite))


def norm(tensors: list[Tensor]) -> Tensor:
    """0-d: the length of all of them together."""
    norms = torch._foreach_norm(tensors)
    return torch.linalg.vector_norm(torch.stack([part.to(norms[0].dtype) for part in norms]))


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
