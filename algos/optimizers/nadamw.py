"""NAdamW: Adam with Nesterov's look ahead, under a momentum that grows, and decoupled weight decay.

Paper: Dozat 2016, section 2, with decay taken out of the gradient as in Loshchilov & Hutter 2019. Reference:
torch.optim.NAdam with decoupled_weight_decay=True, whose deviations from Dozat's algorithm 2 are kept: the average m
decays by b1, not by mu_t, and v's correction has no factor b2.

    mu_t <- b1*(1 - 0.96^(t*psi)/2)             momentum schedule: from b1/2 to b1; psi = momentum_decay
    P_t <- mu_1*mu_2*...*mu_t
    m <- b1*m + (1 - b1)*g                      first moment
    v <- b2*v + (1 - b2)*g^2                    second moment, elementwise
    u <- ((1 - mu_t)/(1 - P_t)*g + mu_{t+1}/(1 - P_{t+1})*m) / (sqrt(v / (1 - b2^t)) + eps)
    w <- w - lr*wd*w - lr*u                     decoupled decay

g gradient, m and v moments, w weight: one shape, any rank; t the parameter's own step, from 1. At psi = 0 the momentum
stays at b1/2: this is not the variant without a schedule, which some benchmarks call NAdamW.
State: exp_avg (m), exp_avg_sq (v), step (t), mu_product (P): torch's names. Cost: O(n) and one gradient per step.
Memory: 2 numbers of state and 4 of work per weight.
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


class NAdamW(PerTensorOptimizer):
    """Nesterov-accelerated Adam with decoupled weight decay.

    At the first step a weight moves by lr*(1 + (1 - b1)*mu_2/(1 - mu_1*mu_2)):

    >>> w = torch.nn.Parameter(torch.tensor([1.0])); w.grad = torch.tensor([0.3])
    >>> NAdamW([w], lr=0.1).step(); round(w.item(), 4)
    0.8944
    """

    lr: float = Real(2e-3, above=0, search="1e-4:3e-2:log", unit="weight units per update")
    betas: tuple[float, float] = Pair(0.9, 0.999, low=0, below=1)
    eps: float = Real(1e-8, low=0, unit="gradient units")
    momentum_decay: float = Real(4e-3, low=0)  # how fast the momentum grows: half the way in 17/psi steps
    weight_decay: float = Real(0.0, low=0, search="1e-3:3e-1:log", unit="fraction of the weight, times lr")
    decay_all: bool = Flag(False)  # also norms, biases and embeddings

    scale_free: ClassVar[dict[str, float]] = {"eps": 0.0}
    elementwise: ClassVar[bool] = True
    unsigned_state: ClassVar[tuple[str, ...]] = ("exp_avg_sq",)

    @staticmethod
    def init(param: Tensor, hyper: HyperValues) -> State:
        return {
            "step": torch.zeros((), dtype=torch.float32, device=param.device),
            "mu_product": torch.ones((), dtype=param.dtype, device=param.device),
            "exp_avg": torch.zeros_like(param),
            "exp_avg_sq": torch.zeros_like(param),
        }

    @staticmethod
    def direction(param: Tensor, grad: Tensor, state: State, hyper: HyperValues) -> tuple[Tensor, State]:
        b1, b2 = hyper.betas
        t = state["step"] + 1
        mu, mu_next = (b1 * (1 - 0.5 * 0.96 ** (step * hyper.momentum_decay)) for step in (t, t + 1))
        product = state["mu_product"] * mu
        m = ema(state["exp_avg"], grad, b1)
        v = ema_of_square(state["exp_avg_sq"], grad, b2)
        of_g, of_m = (1 - mu) / (1 - product), mu_next / (1 - product * mu_next)
        u = corrected(torch.addcmul(grad, m, of_m / of_g), v, 1 / of_g, gathered_weight(b2, t), hyper.eps)
        return u, {"step": t, "mu_product": product, "exp_avg": m, "exp_avg_sq": v}


SPEC = Spec(
    build=NAdamW,
    elementwise=True,
    state="two buffers per weight, a step and a number",
    cost="one gradient; about 11 passes over the weights",
    cite="""@inproceedings{dozat2016incorporating,
  title = {Incorporating {Nesterov} Momentum into {Adam}},
  author = {Dozat, Timothy},
  booktitle = {International Conference on Learning Representations, Workshop},
  year = {2016},
  url = {https://openreview.net/forum?id=OM0jvwB8jIp57ZJjtNEZ}
}
@inproceedings{loshchilov2019decoupled,
  title = {Decoupled Weight Decay Regularization},
  author = {Loshchilov, Ilya and Hutter, Frank},
  booktitle = {International Conference on Learning Representations},
  year = {2019},
  url = {https://openreview.net/forum?id=Bkg6RiCqY7}
}""",
)
