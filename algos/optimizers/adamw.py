"""AdamW: Adam's direction, with weight decay taken out of the gradient.

Paper: Loshchilov & Hutter 2019, algorithm 2 (the direction: Kingma & Ba 2015, algorithm 1). Deviation, torch's too:
decay is lr*wd with lr the scheduled rate, where the paper decays by the schedule's factor times wd, whatever the rate.

    m <- b1*m + (1 - b1)*g                      first moment
    v <- b2*v + (1 - b2)*g^2                    second moment, elementwise
    u <- (m / (1 - b1^t)) / (sqrt(v / (1 - b2^t)) + eps)
    w <- w - lr*wd*w - lr*u                     decoupled decay

g gradient, m and v moments, w weight: one shape, any rank; t the parameter's own step, from 1.
State: exp_avg (m), exp_avg_sq (v), step (t): torch's names. Cost: O(n) and one gradient per step.
Memory: 2 numbers of state and 3 of work per weight.
"""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor

from algos.formulas.ema import ema, ema_of_square, gathered_weight
from algos.formulas.over_root import corrected
from algos.hyper_tensors import HyperValues
from algos.per_tensor import PerTensorOptimizer
from algos.spec import Flag, Pair, Real, Spec
from algos.units import State


class AdamW(PerTensorOptimizer):
    """Adam with decoupled weight decay.

    >>> w = torch.nn.Parameter(torch.tensor([1.0])); w.grad = torch.tensor([0.3])
    >>> AdamW([w], lr=0.1, weight_decay=0.0).step(); round(w.item(), 4)
    0.9
    """

    lr: float = Real(1e-3, above=0, search="1e-4:3e-2:log", unit="weight units per update")
    betas: tuple[float, float] = Pair(0.9, 0.999, low=0, below=1)
    eps: float = Real(1e-8, low=0, unit="gradient units")
    weight_decay: float = Real(0.01, low=0, search="1e-3:3e-1:log", unit="fraction of the weight, times lr")
    decay_all: bool = Flag(False)  # also norms, biases and embeddings

    scale_free: ClassVar[dict[str, float]] = {"eps": 0.0}
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
        u = corrected(m, v, gathered_weight(b1, t), gathered_weight(b2, t), hyper.eps)
        return u, {"step": t, "exp_avg": m, "exp_avg_sq": v}

    @staticmethod
    def native(groups: list[dict[str, Any]]) -> torch.optim.Optimizer:
        return torch.optim.AdamW([{"params": group["params"]} for group in groups], fused=True)


SPEC = Spec(
    build=AdamW,
    elementwise=True,
    state="two buffers per weight and a step",
    cost="one gradient; about 10 passes over the weights",
    cite="""@inproceedings{loshchilov2019decoupled,
  title = {Decoupled Weight Decay Regularization},
  author = {Loshchilov, Ilya and Hutter, Frank},
  booktitle = {International Conference on Learning Representations},
  year = {2019},
  url = {https://openreview.net/forum?id=Bkg6RiCqY7}
}""",
)
