"""Adaptive gradient clipping (AGC): a unit's gradient is shortened to a share of the unit's weights.

Paper: Brock et al. 2021, section 4, equation 3; reference implementation deepmind-research, nfnets/optim.py, and timm's
agc.py, whose units these are. Deviations: a unit whose gradient is not finite is left as it is, so that the run is seen
to diverge. deepmind's code takes a weight with at most one dimension longer than 1, such as (n, 1), (1, n) or
(n, 1, 1, 1), for a vector and so for one unit; here (n, 1) has n, as the paper's text has it, and as timm. Its weights
of rank 3 are (in, heads, out) and have a unit an output and head; here they are a Conv1d's filters.

    b <- clip * max(||W_i||, eps)
    G_i <- G_i * b/max(||G_i||, 1e-6)      where ||G_i|| > b

W_i the weights of unit i, G_i their gradient: a row of a matrix, a filter of a convolution (everything with one index
of the first dimension); a vector or a scalar is one unit. The output layer is left out, as in the paper; `head` takes
it in.

State: none. Cost: O(n) an update; nothing is read back from the device.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from algos.contracts import Component, Gradient, InnerGradient, Oracle
from algos.parameters import places
from algos.spec import Declared, Flag, Real, Spec

#: The shortest gradient that is divided by, as in the reference.
SHORTEST = 1e-6


class AdaptiveClipping(Declared, Component):
    """Clip each unit's gradient to a share of the unit's norm.

    A unit of norm 5 may have a gradient of norm 0.05.

    >>> clip = AdaptiveClipping()
    >>> clip.clipped(torch.tensor([[3.0, 4.0]]), torch.tensor([[0.0, 2.0]]))
    tensor([[0.0000, 0.0500]])
    """

    clip: float = Real(0.01, above=0, search="1e-3:0.2:log", unit="longest gradient, in norms of the unit's weights")
    eps: float = Real(1e-3, above=0, unit="least norm of a unit, in weight units")
    head: bool = Flag(False)  # also the output layer

    clips: ClassVar[bool] = True

    def __init__(self, **hyper: Any):
        super().__init__(**hyper)
        self._left_out: frozenset[str] = frozenset()

    def prepare(self, model: nn.Module) -> None:
        heads = (place.names for place in places(model) if place.role == "head" and not self.head)
        self._left_out = frozenset(name for names in heads for name in names)

    def gradient(self, oracle: Oracle, batch: Any, inner: InnerGradient) -> Gradient:
        result = inner(batch)
        weights = dict(oracle.named_parameters())
        clipped = {
            name: grad if name in self._left_out else self.clipped(weights[name].detach(), grad)
            for name, grad in result.grads.items()
        }
        return replace(result, grads=clipped)

    @torch.no_grad()
    def clipped(self, weight: Tensor, grad: Tensor) -> Tensor:
        """One parameter's gradient; both of one shape, any rank."""
        longest = self.clip * unit_norm(weight).clamp(min=self.eps)
        length = unit_norm(grad)
        factor = torch.where((length > longest) & length.isfinite(), longest / length.clamp(min=SHORTEST), 1.0)
        return grad * factor.to(grad.dtype)


def unit_norm(tensor: Tensor) -> Tensor:
    """The norm of each unit, in a shape that broadcasts to the tensor's; in at least float32."""
    wide = torch.float64 if tensor.dtype == torch.float64 else torch.float32
    if tensor.dim() < 2:
        return torch.linalg.vector_norm(tensor, dtype=wide)
    return torch.linalg.vector_norm(tensor, dim=tuple(range(1, tensor.dim())), keepdim=True, dtype=wide)


SPEC = Spec(
    build=AdaptiveClipping,
    state="none",
    cost="O(n) an update",
    cite="""@inproceedings{brock2021high,
  title = {High-Performance Large-Scale Image Recognition Without Normalization},
  author = {Brock, Andrew and De, Soham and Smith, Samuel L. and Simonyan, Karen},
  booktitle = {International Conference on Machine Learning (ICML)},
  pages = {1059--1071},
  year = {2021}
}""",
)
