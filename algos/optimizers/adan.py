"""Adan: Nesterov's momentum, rewritten so that the gradient is only needed where the weights are, and adaptive.

Paper: Xie et al. 2022 (TPAMI 2024), algorithm 1 without restarts. Reference: the authors' Adan (sail-sg/Adan) with its
default decay (no_prox=False) and no clipping of the gradient. Deviations from the paper, the reference's too: averages
begin at zero and are corrected for it, where the paper begins them at the first gradient; eps stands beside the root,
not under it. b1, b2 and b3 here, and in the reference, are 1 - beta of the paper.

    y <- g - g'                                 change of the gradient; 0 at the first step
    m <- b1*m + (1 - b1)*g                      average gradient
    d <- b2*d + (1 - b2)*y                      average change
    n <- b3*n + (1 - b3)*(g + b2*y)^2           second moment
    u <- (m/(1 - b1^t) + b2*d/(1 - b2^t)) / (sqrt(n / (1 - b3^t)) + eps)
    w <- (w - lr*u) / (1 + lr*wd)               proximal decay: after the step, and by less than 1 - lr*wd
    g' <- g

g gradient, g' the one before, m, d and n averages, w weight: one shape, any rank; t the parameter's own step, from 1.
betas holds b1 and b2. State: exp_avg (m), exp_avg_diff (d), exp_avg_sq (n), previous_grad (g'), step (t).
Cost: O(n) and one gradient per step.
Memory: 4 numbers of state and 6 of work per weight.
"""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from algos.formulas.ema import ema, ema_of_square, gathered_weight
from algos.formulas.over_root import corrected
from algos.hyper_tensors import HyperValues
from algos.per_tensor import PerTensorOptimizer
from algos.spec import Flag, Pair, Real, Spec
from algos.units import State


class Adan(PerTensorOptimizer):
    """Adaptive Nesterov momentum with proximal weight decay.

    >>> w = torch.nn.Parameter(torch.tensor([1.0])); w.grad = torch.tensor([0.3])
    >>> Adan([w], lr=0.1, weight_decay=0.5).step(); round(w.item(), 4)  # 0.9 / 1.05
    0.8571
    """

    lr: float = Real(1e-3, above=0, search="1e-4:3e-2:log", unit="weight units per update")
    betas: tuple[float, float] = Pair(0.98, 0.92, low=0, below=1)
    beta3: float = Real(0.99, low=0, below=1)
    eps: float = Real(1e-8, low=0, unit="gradient units")
    weight_decay: float = Real(0.0, low=0, search="1e-3:3e-1:log", unit="fraction of the weight, times lr")
    decay_all: bool = Flag(False)  # also norms, biases and embeddings

    scale_free: ClassVar[dict[str, float]] = {"eps": 0.0}
    elementwise: ClassVar[bool] = True
    decoupled: ClassVar[bool] = False
    unsigned_state: ClassVar[tuple[str, ...]] = ("exp_avg_sq",)

    @staticmethod
    def init(param: Tensor, hyper: HyperValues) -> State:
        return {
            "step": torch.zeros((), dtype=torch.float32, device=param.device),
            "exp_avg": torch.zeros_like(param),
            "exp_avg_diff": torch.zeros_like(param),
            "exp_avg_sq": torch.zeros_like(param),
            "previous_grad": torch.zeros_like(param),
        }

    @staticmethod
    def direction(param: Tensor, grad: Tensor, state: State, hyper: HyperValues) -> tuple[Tensor, State]:
        b1, b2 = hyper.betas
        t = state["step"] + 1
        first = t == 1  # there is no change of the gradient yet: neither d nor n may see one
        y = grad - state["previous_grad"]
        m = ema(state["exp_avg"], grad, b1)
        d = ema(state["exp_avg_diff"], y, torch.where(first, 1.0, b2))
        n = ema_of_square(state["exp_avg_sq"], torch.addcmul(grad, y, torch.where(first, 0.0, b2)), hyper.beta3)
        c1, c2, c3 = (gathered_weight(b, t) for b in (b1, b2, hyper.beta3))
        u = corrected(torch.addcmul(m, d, b2 * c1 / c2), n, c1, c3, hyper.eps)
        averages = {"exp_avg": m, "exp_avg_diff": d, "exp_avg_sq": n}
        return u, {"step": t, **averages, "previous_grad": grad.clone()}  # the caller reuses its gradient's memory

    @staticmethod
    def update(param: Tensor, direction: Tensor, state: State, hyper: HyperValues) -> tuple[Tensor, State]:
        return torch.addcmul(param, direction, hyper.lr, value=-1).div_(1 + hyper.lr * hyper.weight_decay), state


SPEC = Spec(
    build=Adan,
    elementwise=True,
    state="four buffers per weight and a step",
    cost="one gradient; about 17 passes over the weights",
    cite="""@article{xie2024adan,
  title = {Adan: Adaptive {Nesterov} Momentum Algorithm for Faster Optimizing Deep Models},
  author = {Xie, Xingyu and Zhou, Pan and Li, Huan and Lin, Zhouchen and Yan, Shuicheng},
  journal = {IEEE Transactions on Pattern Analysis and Machine Intelligence},
  volume = {46},
  number = {12},
  year = {2024}
}""",
)
