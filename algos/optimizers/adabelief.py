"""AdaBelief: divide not by the gradient's size but by its distance from what was expected.

Paper: Zhuang et al. 2020, algorithm 2, with decoupled weight decay. Reference: the authors' adabelief-pytorch with
rectify=False (its default since 0.1.0, rectify=True, is RAdam's rectification on top and another algorithm), which
pytorch_optimizer.AdaBelief follows. Deviations: none; the default eps is that of the authors' code since 0.1.0.

    m <- b1*m + (1 - b1)*g                          expected gradient
    s <- b2*s + (1 - b2)*(g - m)^2 + eps            how far the gradient is from it; eps inside, and so summed up
    u <- (m / (1 - b1^t)) / (sqrt(s / (1 - b2^t)) + eps)        eps once more, outside
    w <- w - lr*wd*w - lr*u                         decoupled decay

g gradient, m and s averages, w weight: one shape, any rank; t the parameter's own step, from 1. In (g - m) stands the
new m. Mostly the inner eps counts: where gradients do not vary, s nears eps/(1 - b2), and u is up to
sqrt((1 - b2)/eps) times the gradient.
State: exp_avg (m), exp_avg_var (s), step (t). Cost: O(n) and one gradient per step.
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


class AdaBelief(PerTensorOptimizer):
    """Adam with the gradient's deviation from its average in the denominator, and decoupled weight decay.

    At the first step g - m is b1*g, so a weight moves by lr/b1:

    >>> w = torch.nn.Parameter(torch.tensor([1.0])); w.grad = torch.tensor([0.3])
    >>> AdaBelief([w], lr=0.09).step(); round(w.item(), 4)
    0.9
    """

    lr: float = Real(1e-3, above=0, search="1e-4:3e-2:log", unit="weight units per update")
    betas: tuple[float, float] = Pair(0.9, 0.999, low=0, below=1)
    eps: float = Real(1e-16, low=0)  # 1e-8 in the paper; the authors advise it where SGD beats Adam
    weight_decay: float = Real(0.0, low=0, search="1e-3:3e-1:log", unit="fraction of the weight, times lr")
    decay_all: bool = Flag(False)  # also norms, biases and embeddings

    scale_free: ClassVar[dict[str, float]] = {"eps": 0.0}
    elementwise: ClassVar[bool] = True
    unsigned_state: ClassVar[tuple[str, ...]] = ("exp_avg_var",)

    @staticmethod
    def init(param: Tensor, hyper: HyperValues) -> State:
        return {
            "step": torch.zeros((), dtype=torch.float32, device=param.device),
            "exp_avg": torch.zeros_like(param),
            "exp_avg_var": torch.zeros_like(param),
        }

    @staticmethod
    def direction(param: Tensor, grad: Tensor, state: State, hyper: HyperValues) -> tuple[Tensor, State]:
        b1, b2 = hyper.betas
        t = state["step"] + 1
        m = ema(state["exp_avg"], grad, b1)
        s = ema_of_square(state["exp_avg_var"], grad - m, b2).add_(hyper.eps)
        u = corrected(m, s, gathered_weight(b1, t), gathered_weight(b2, t), hyper.eps)
        return u, {"step": t, "exp_avg": m, "exp_avg_var": s}


SPEC = Spec(
    build=AdaBelief,
    elementwise=True,
    state="two buffers per weight and a step",
    cost="one gradient; about 12 passes over the weights",
    cite="""@inproceedings{zhuang2020adabelief,
  title = {{AdaBelief} Optimizer: Adapting Stepsizes by the Belief in Observed Gradients},
  author = {Zhuang, Juntang and Tang, Tommy and Ding, Yifan and Tatikonda, Sekhar and Dvornek, Nicha
    and Papademetris, Xenophon and Duncan, James},
  booktitle = {Advances in Neural Information Processing Systems},
  volume = {33},
  year = {2020}
}""",
)
