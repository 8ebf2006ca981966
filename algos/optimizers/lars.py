"""LARS: momentum SGD whose rate, tensor by tensor, is in proportion to the weights' norm over the gradient's.

Paper: You et al. 2017, algorithm 1 (SGD with LARS). As there, decay is in the gradient, and lr is inside the momentum:
a later change of lr does not rescale the velocity (libraries often multiply by lr outside). Deviations: parameters of
rank 0 and 1 (biases, norms) are excluded, so that lambda = 1, as is usual since, unless `adapt_all`; lambda = 1 too
where |w| is 0, where the paper's would be 0 for ever, and where the divisor is 0. Where only |g| is 0, lambda is the
paper's eta/wd: decay takes lr*eta of the weight. The paper's rate falls as (1 - t/T)^2: that is the schedule
`polynomial`.

    lambda = eta*|w| / (|g| + wd*|w|)                local rate; eta the trust coefficient
    v <- mu*v + lr*lambda*(g + wd*w)                 velocity
    w <- w - v

g gradient, v velocity, w weight: one shape, any rank; |.| Euclidean, over the whole tensor. Excluded parameters decay
where their group says so; given a model, norms, biases and embeddings do not, unless `decay_all`.
State: momentum_buffer (v). Cost: O(n) and one gradient per step.
Memory: 1 number of state and 2 of work per weight.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor

from algos.hyper_tensors import HyperValues
from algos.per_tensor import PerTensorOptimizer
from algos.spec import Flag, Real, Spec
from algos.units import State


class Lars(PerTensorOptimizer):
    """Layer-wise adaptive rates for large batches.

    A matrix moves by lr*eta times its norm, at first:

    >>> w = torch.nn.Parameter(torch.tensor([[3.0, 4.0]])); w.grad = torch.tensor([[0.2, 0.0]])
    >>> Lars([w], lr=1.0, trust_coefficient=0.1).step(); [round(each, 4) for each in w[0].tolist()]
    [2.5, 4.0]
    """

    lr: float = Real(1.0, above=0, search="1e-1:3e1:log", unit="weight units per unit of local rate times gradient")
    momentum: float = Real(0.9, low=0, below=1)
    trust_coefficient: float = Real(0.001, above=0)
    weight_decay: float = Real(0.0, low=0, search="1e-5:1e-3:log", unit="gradient units per weight unit")
    adapt_all: bool = Flag(False)  # also parameters of rank 0 and 1
    decay_all: bool = Flag(False)  # also norms, biases and embeddings

    decoupled: ClassVar[bool] = False
    scale_free: ClassVar[Mapping[str, Any] | None] = {"adapt_all": True}

    @staticmethod
    def init(param: Tensor, hyper: HyperValues) -> State:
        return {"momentum_buffer": torch.zeros_like(param)}

    @staticmethod
    def direction(param: Tensor, grad: Tensor, state: State, hyper: HyperValues) -> tuple[Tensor, State]:
        rate = hyper.lr
        if hyper.adapt_all or param.dim() >= 2:
            weight, slope = torch.linalg.vector_norm(param), torch.linalg.vector_norm(grad)
            divisor = slope + hyper.weight_decay * weight
            local = hyper.trust_coefficient * weight / divisor
            rate = rate * torch.where((weight > 0) & (divisor > 0), local, 1.0)
        v = torch.addcmul(hyper.momentum * state["momentum_buffer"], grad, rate)
        v = torch.addcmul(v, param, rate * hyper.weight_decay)
        return v, {"momentum_buffer": v}

    @staticmethod
    def update(param: Tensor, direction: Tensor, state: State, hyper: HyperValues) -> tuple[Tensor, State]:
        return param - direction, state


SPEC = Spec(
    build=Lars,
    state="one buffer per weight",
    cost="one gradient; about 8 passes over the weights",
    cite="""@misc{you2017large,
  title = {Large Batch Training of Convolutional Networks},
  author = {You, Yang and Gitman, Igor and Ginsburg, Boris},
  year = {2017},
  eprint = {1708.03888},
  archivePrefix = {arXiv}
}""",
)
