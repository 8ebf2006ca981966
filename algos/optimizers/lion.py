"""Lion: step by the sign of a smoothed gradient.

Paper: Chen et al. 2023, algorithm 2. Deviations: none.

    u <- sign(b1*m + (1 - b1)*g)      direction, entries in {-1, 0, 1}
    w <- w - lr*wd*w - lr*u           decoupled decay
    m <- b2*m + (1 - b2)*g            momentum, updated after use

g gradient, m momentum, w weight: one shape, any rank.
State: exp_avg (m). Cost: O(n) and one gradient per step.
Memory: 1 number of state and 2 of work per weight.
"""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from algos.formulas.ema import ema
from algos.hyper_tensors import HyperValues
from algos.per_tensor import PerTensorOptimizer
from algos.spec import Flag, Pair, Real, Spec
from algos.units import State


class Lion(PerTensorOptimizer):
    """Sign of an interpolated momentum, with decoupled weight decay.

    >>> w = torch.nn.Parameter(torch.tensor([1.0])); w.grad = torch.tensor([0.3])
    >>> Lion([w], lr=0.1).step(); round(w.item(), 4)
    0.9
    """

    lr: float = Real(
        1e-4, above=0, search="1e-5:1e-2:log", unit="weight units per update"
    )  # 3 to 10 times below AdamW's
    betas: tuple[float, float] = Pair(0.9, 0.99, low=0, below=1)
    weight_decay: float = Real(0.0, low=0, search="1e-2:1:log", unit="fraction of the weight, times lr")
    decay_all: bool = Flag(False)  # also norms, biases and embeddings

    scale_free: ClassVar[dict[str, float]] = {}
    elementwise: ClassVar[bool] = True

    @staticmethod
    def init(param: Tensor, hyper: HyperValues) -> State:
        return {"exp_avg": torch.zeros_like(param)}

    @staticmethod
    def direction(param: Tensor, grad: Tensor, state: State, hyper: HyperValues) -> tuple[Tensor, State]:
        b1, b2 = hyper.betas
        u = torch.sign(ema(state["exp_avg"], grad, b1))
        return u, {"exp_avg": ema(state["exp_avg"], grad, b2)}


SPEC = Spec(
    build=Lion,
    elementwise=True,
    state="one buffer per weight",
    cost="one gradient; about 5 passes over the weights",
    cite="""@inproceedings{chen2023symbolic,
  title = {Symbolic Discovery of Optimization Algorithms},
  author = {Chen, Xiangning and Liang, Chen and Huang, Da and Real, Esteban and Wang, Kaiyuan and Pham, Hieu
    and Dong, Xuanyi and Luong, Thang and Hsieh, Cho-Jui and Lu, Yifeng and Le, Quoc V.},
  booktitle = {Advances in Neural Information Processing Systems},
  volume = {36},
  year = {2023}
}""",
)
