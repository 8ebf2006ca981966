"""Cautious: leave out the entries of a step that point against the current gradient, and lengthen the rest.

Paper: Liang et al. 2024, section 2 (the scaling alpha with xi) and algorithm 1. Deviations: the alignment is found
from the signs, sign(u)*sign(g) > 0, so that a product too small for the number format does not mask its entry.

    phi <- [u*g > 0]                          entries in {0, 1}
    u   <- u * phi * dim(u)/(nnz(phi) + xi)   per tensor

u direction of the step (w <- w - lr*u), g gradient, nnz the number of ones. With the paper's xi = 1 a tensor of one
aligned entry moves half as far; the authors' later code divides by max(nnz/dim, 0.001) in place of (nnz + xi)/dim,
which xi near 0 comes to. Decay is decoupled and not masked.

State: none. Cost: O(n) an update.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from algos.contracts import Component, Progress
from algos.spec import Declared, Real, Spec


class Cautious(Declared, Component):
    """Mask each direction by its agreement with the gradient.

    Two of four entries agree; with xi = 1 they grow by 4/(2 + 1).

    >>> direction, gradient = torch.tensor([3.0, 3.0, 3.0, 3.0]), torch.tensor([1.0, -1.0, 1.0, -1.0])
    >>> Cautious().direction([], [gradient], [direction], Progress(0, 0.0))[0].tolist()
    [4.0, 0.0, 4.0, 0.0]
    """

    xi: float = Real(1.0, above=0, unit="entries added to the count of those that agree")

    @torch.no_grad()
    def direction(
        self, params: Sequence[Tensor], grads: Sequence[Tensor], directions: Sequence[Tensor], progress: Progress
    ) -> Sequence[Tensor]:
        if not directions:
            return directions
        masks = torch._foreach_mul(torch._foreach_sign(list(directions)), torch._foreach_sign(list(grads)))
        torch._foreach_clamp_min_(masks, 0)
        precise = any(direction.dtype == torch.float64 for direction in directions)
        scales = torch._foreach_norm(masks, 1, dtype=torch.float64 if precise else torch.float32)  # nnz
        torch._foreach_add_(scales, self.xi)
        torch._foreach_reciprocal_(scales)
        torch._foreach_mul_(scales, [float(direction.numel()) for direction in directions])
        torch._foreach_mul_(masks, list(directions))
        return [mask.mul_(scale) for mask, scale in zip(masks, scales, strict=True)]


SPEC = Spec(
    build=Cautious,
    needs=("directions",),
    state="none",
    cost="O(n) an update",
    cite="""@article{liang2024cautious,
  title = {Cautious Optimizers: Improving Training with One Line of Code},
  author = {Liang, Kaizhao and Chen, Lizhang and Liu, Bo and Liu, Qiang},
  journal = {arXiv preprint arXiv:2411.16085},
  year = {2024}
}""",
)
