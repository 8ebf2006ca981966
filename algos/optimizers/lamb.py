"""LAMB: Adam's direction with decay in it, scaled so that a step is in proportion to the tensor's own norm.

Paper: You et al. 2020, algorithm 2, with its bias correction (later code of others leaves it out). phi, the paper's
scaling function, is the identity: phi(|w|) = |w|, as in the authors' code, and the ratio is 1 where |w| or |r| is 0.
Every tensor is scaled, as the algorithm says; a group with adapt=False is not (the authors' BERT scripts leave out
biases and norms), and takes Adam's step. Deviations: none.

    m <- b1*m + (1 - b1)*g
    v <- b2*v + (1 - b2)*g^2
    r = (m / (1 - b1^t)) / (sqrt(v / (1 - b2^t)) + eps) + wd*w         Adam's direction, and decay
    w <- w - lr * (phi(|w|)/|r|) * r                                   |.| Euclidean, over the whole tensor

g gradient, m and v moments, w weight: one shape, any rank; t the parameter's own step, from 1.
State: exp_avg (m), exp_avg_sq (v), step (t): torch's names for Adam's. Cost: O(n) and one gradient per step.
Memory: 2 numbers of state and 4 of work per weight.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor

from algos.formulas.ema import ema, ema_of_square, gathered_weight
from algos.formulas.over_root import corrected
from algos.hyper_tensors import HyperValues
from algos.per_tensor import PerTensorOptimizer
from algos.spec import Flag, Pair, Real, Spec
from algos.units import State


class Lamb(PerTensorOptimizer):
    """Layer-wise adaptive moments for large batches: every step moves a tensor by lr times its norm.

    >>> w = torch.nn.Parameter(torch.tensor([3.0, 4.0])); w.grad = torch.tensor([0.3, 0.0])
    >>> Lamb([w], lr=0.1, weight_decay=0.0).step(); [round(each, 4) for each in w.tolist()]
    [2.5, 4.0]
    """

    lr: float = Real(1e-3, above=0, search="1e-4:3e-1:log", unit="fraction of the tensor's norm per update")
    betas: tuple[float, float] = Pair(0.9, 0.999, low=0, below=1)
    eps: float = Real(1e-6, low=0, unit="gradient units")
    weight_decay: float = Real(0.01, low=0, search="1e-3:3e-1:log", unit="Adam's direction per weight unit")
    adapt: bool = Flag(True)  # a group may say False: no scaling by norms
    decay_all: bool = Flag(False)  # also norms, biases and embeddings

    decoupled: ClassVar[bool] = False
    scale_free: ClassVar[Mapping[str, Any] | None] = {"eps": 0.0}
    unsigned_state: ClassVar[tuple[str, ...]] = ("exp_avg_sq",)

    @staticmethod
    def init(param: Tensor, hyper: HyperValues) -> State:
        return {
            "step": torch.zeros((), dtype=torch.float32, device=param.device),
            "exp_avg": torch.zeros_like(param),
            "exp_avg_sq": torch.zeros_like(param),
        }

    @staticmethod
    def direction(param: Tensor, grad: Tensor, state: State, hyper: HyperValues) -> tuple[Tensor, State]:
        b1, b2 = hyper.betas
        t = state["step"] + 1
        m = ema(state["exp_avg"], grad, b1)
        v = ema_of_square(state["exp_avg_sq"], grad, b2)
        r = corrected(m, v, gathered_weight(b1, t), gathered_weight(b2, t), hyper.eps)
        r = torch.addcmul(r, param, hyper.weight_decay)
        new = {"step": t, "exp_avg": m, "exp_avg_sq": v}
        if not hyper.adapt:
            return r, new
        weight, length = torch.linalg.vector_norm(param), torch.linalg.vector_norm(r)
        return r.mul_(torch.where((weight > 0) & (length > 0), weight / length, 1.0)), new

    @staticmethod
    def update(param: Tensor, direction: Tensor, state: State, hyper: HyperValues) -> tuple[Tensor, State]:
        return torch.addcmul(param, direction, hyper.lr, value=-1), state


SPEC = Spec(
    build=Lamb,
    state="two buffers per weight and a step",
    cost="one gradient; about 16 passes over the weights",
    cite="""@inproceedings{you2020large,
  title = {Large Batch Optimization for Deep Learning: Training {BERT} in 76 minutes},
  author = {You, Yang and Li, Jing and Reddi, Sashank and Hseu, Jonathan and Kumar, Sanjiv and Bhojanapalli, Srinadh
    and Song, Xiaodan and Demmel, James and Keutzer, Kurt and Hsieh, Cho-Jui},
  booktitle = {International Conference on Learning Representations},
  year = {2020},
  url = {https://arxiv.org/abs/1904.00962}
}""",
)
