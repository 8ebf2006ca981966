"""SGD with momentum, Nesterov's or heavy-ball, and decoupled weight decay.

Papers: Sutskever et al. 2013 (momentum, as torch writes it); Loshchilov & Hutter 2019, algorithm 1 (decoupled decay,
SGDW). Deviation from SGDW: the rate stands outside the momentum, and decay is lr*wd. Deviation from torch.optim.SGD:
decay is decoupled, where torch adds wd*w to the gradient and so to the momentum. The two agree without momentum, and at
weight_decay 0. There is no dampening.

    m <- mu*m + g                     momentum
    u <- m, or g + mu*m               heavy ball, or Nesterov
    w <- w - lr*wd*w - lr*u           decoupled decay

g gradient, m momentum, w weight: one shape, any rank. With mu = 0 it is plain gradient descent.
State: momentum_buffer (m), torch's name. Cost: O(n) and one gradient per step.
Memory: 1 number of state and 1 of work per weight.
"""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor

from algos.hyper_tensors import HyperValues
from algos.per_tensor import PerTensorOptimizer
from algos.spec import Flag, Real, Spec
from algos.units import State


class SGD(PerTensorOptimizer):
    """Gradient descent with momentum and decoupled weight decay.

    >>> w = torch.nn.Parameter(torch.tensor([1.0])); w.grad = torch.tensor([0.3])
    >>> SGD([w], lr=0.1).step(); round(w.item(), 4)
    0.97
    """

    lr: float = Real(0.1, above=0, search="1e-3:1:log", unit="squared weight units per loss unit")
    momentum: float = Real(0.9, low=0, below=1)
    nesterov: bool = Flag(False)
    weight_decay: float = Real(0.0, low=0, search="1e-5:1e-2:log", unit="fraction of the weight, times lr")
    decay_all: bool = Flag(False)  # also norms, biases and embeddings

    elementwise: ClassVar[bool] = True
    native_decays: ClassVar[bool] = False

    @staticmethod
    def init(param: Tensor, hyper: HyperValues) -> State:
        return {"momentum_buffer": torch.zeros_like(param)}

    @staticmethod
    def direction(param: Tensor, grad: Tensor, state: State, hyper: HyperValues) -> tuple[Tensor, State]:
        m = torch.addcmul(grad, state["momentum_buffer"], hyper.momentum)
        u = torch.addcmul(grad, m, hyper.momentum) if hyper.nesterov else m
        return u, {"momentum_buffer": m}

    @staticmethod
    def native(groups: list[dict[str, Any]]) -> torch.optim.Optimizer:
        return torch.optim.SGD([{"params": group["params"]} for group in groups], lr=0.1, momentum=0.9, fused=True)


SPEC = Spec(
    build=SGD,
    elementwise=True,
    state="one buffer per weight",
    cost="one gradient; about 3 passes over the weights",
    cite="""@inproceedings{sutskever2013importance,
  title = {On the importance of initialization and momentum in deep learning},
  author = {Sutskever, Ilya and Martens, James and Dahl, George and Hinton, Geoffrey},
  booktitle = {International Conference on Machine Learning},
  pages = {1139--1147},
  year = {2013}
}
@inproceedings{loshchilov2019decoupled,
  title = {Decoupled Weight Decay Regularization},
  author = {Loshchilov, Ilya and Hutter, Frank},
  booktitle = {International Conference on Learning Representations},
  year = {2019},
  url = {https://openreview.net/forum?id=Bkg6RiCqY7}
}""",
)
