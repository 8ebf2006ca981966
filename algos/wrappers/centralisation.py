"""Gradient centralisation: a unit's gradient loses its mean.

Paper: Yong et al. 2020, equation 1; reference implementation Yonghongwei/Gradient-Centralization. Deviations: weight
decay is not centralised, as it is in the reference, which adds it to the gradient before (the paper does not); and
convolutions are gradients of rank 3 and more, so Conv1d too: the reference takes rank 4 and more.

    g_i <- g_i - mean(g_i)

g_i gradient of unit i: a row of a matrix, a filter of a convolution (everything with one index of the first dimension).
Vectors and scalars are left as they are; with `convolutions_only` (the reference's GCC) matrices too.

State: none. Cost: O(n) an update.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from algos.contracts import Component, Gradient, InnerGradient, Oracle
from algos.spec import Declared, Flag, Spec


class Centralisation(Declared, Component):
    """Take the mean out of each unit's gradient.

    >>> Centralisation().centralised(torch.tensor([[1.0, 2.0, 6.0], [0.0, 0.0, 0.0]]))
    tensor([[-2., -1.,  3.],
            [ 0.,  0.,  0.]])
    """

    convolutions_only: bool = Flag(False)

    def gradient(self, oracle: Oracle, batch: Any, inner: InnerGradient) -> Gradient:
        result = inner(batch)
        return replace(result, grads={name: self.centralised(grad) for name, grad in result.grads.items()})

    @torch.no_grad()
    def centralised(self, grad: Tensor) -> Tensor:
        """One parameter's gradient, any rank."""
        if grad.dim() < (3 if self.convolutions_only else 2):
            return grad
        return grad - grad.mean(dim=tuple(range(1, grad.dim())), keepdim=True)


SPEC = Spec(
    build=Centralisation,
    state="none",
    cost="O(n) an update",
    cite="""@inproceedings{yong2020gradient,
  title = {Gradient Centralization: A New Optimization Technique for Deep Neural Networks},
  author = {Yong, Hongwei and Huang, Jianqiang and Hua, Xiansheng and Zhang, Lei},
  booktitle = {European Conference on Computer Vision (ECCV)},
  year = {2020}
}""",
)
