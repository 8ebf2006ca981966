"""RAdam: Adam that waits, without its division, until the variance of that division is finite.

Paper: Liu et al. 2020, algorithm 2. Reference: torch.optim.RAdam with decoupled_weight_decay=True. Deviations, torch's
too: the rectified step begins at rho > 5, as in the authors' code, where the paper says rho > 4; eps, which the paper
lacks, stands beside sqrt(v) before v is corrected.

    m <- b1*m + (1 - b1)*g                      first moment
    v <- b2*v + (1 - b2)*g^2                    second moment, elementwise
    rho_inf = 2/(1 - b2) - 1                    longest length of the moving average
    rho = rho_inf - 2*t*b2^t / (1 - b2^t)       its length now: 1 at the first step
    r = sqrt((rho - 4)*(rho - 2)*rho_inf / ((rho_inf - 4)*(rho_inf - 2)*rho))
    u <- m/(1 - b1^t) * r*sqrt(1 - b2^t) / (sqrt(v) + eps)      if rho > 5
         m/(1 - b1^t)                                           before (5 steps for b2 near 1, always for b2 <= 2/3)
    w <- w - lr*wd*w - lr*u                     decoupled decay

g gradient, m and v moments, w weight: one shape, any rank; t the parameter's own step, from 1.
State: exp_avg (m), exp_avg_sq (v), step (t): torch's names. Cost: O(n) and one gradient per step.
Memory: 2 numbers of state and 3 of work per weight.
"""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from algos.formulas.ema import ema, ema_of_square, gathered_weight
from algos.formulas.over_root import over_root
from algos.hyper_tensors import HyperValues
from algos.per_tensor import PerTensorOptimizer
from algos.spec import Flag, Pair, Real, Spec
from algos.units import State

#: The length of the average from which the rectified step is taken.
TRACTABLE = 5.0


class RAdam(PerTensorOptimizer):
    """Rectified Adam with decoupled weight decay: momentum at first, then Adam at a rate that grows to its own.

    >>> w = torch.nn.Parameter(torch.tensor([1.0])); w.grad = torch.tensor([0.3])
    >>> RAdam([w], lr=0.1).step(); round(w.item(), 4)
    0.97
    """

    lr: float = Real(1e-3, above=0, search="1e-4:3e-2:log", unit="weight units per update")
    betas: tuple[float, float] = Pair(0.9, 0.999, low=0, below=1)
    eps: float = Real(1e-8, low=0, unit="gradient units")
    weight_decay: float = Real(0.0, low=0, search="1e-3:3e-1:log", unit="fraction of the weight, times lr")
    decay_all: bool = Flag(False)  # also norms, biases and embeddings

    elementwise: ClassVar[bool] = True
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
        c1 = gathered_weight(b1, t)
        tractable, r = rectification(b2, t)
        scale = c1 / (r * gathered_weight(b2, t).sqrt())
        u = over_root(m, v, torch.where(tractable, scale, 0.0), torch.where(tractable, scale * hyper.eps, c1))
        return u, {"step": t, "exp_avg": m, "exp_avg_sq": v}


def rectification(b2: Tensor, t: Tensor) -> tuple[Tensor, Tensor]:
    """Whether the variance is finite, and r, which means something only where it is. b2, t: one shape, often 0-d.

    rho is a small difference of numbers near 2/(1 - b2): float32 would keep three of its digits, so it is computed in
    float64.

    >>> [rectification(torch.tensor(0.999), torch.tensor(t))[0].item() for t in (5.0, 6.0)]
    [False, True]
    """
    b, step = b2.double(), t.double()
    longest = 2 / (1 - b) - 1
    rho = longest - 2 * step * b**step / gathered_weight(b, step)
    r = ((rho - 4) * (rho - 2) * longest / ((longest - 4) * (longest - 2) * rho)).sqrt()
    return rho > TRACTABLE, r.to(b2.dtype)


SPEC = Spec(
    build=RAdam,
    elementwise=True,
    state="two buffers per weight and a step",
    cost="one gradient; about 10 passes over the weights",
    cite="""@inproceedings{liu2020variance,
  title = {On the Variance of the Adaptive Learning Rate and Beyond},
  author = {Liu, Liyuan and Jiang, Haoming and He, Pengcheng and Chen, Weizhu and Liu, Xiaodong and Gao, Jianfeng
    and Han, Jiawei},
  booktitle = {International Conference on Learning Representations},
  year = {2020},
  url = {https://openreview.net/forum?id=rkgz2aEKDr}
}""",
)
