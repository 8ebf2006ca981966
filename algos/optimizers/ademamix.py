"""AdEMAMix: Adam with a second, much slower average of the gradients added to the first.

Paper: Pagliardini et al. 2024, algorithm 1 and its two schedulers (one `warmup` for both, as in all its experiments).
Reference: the authors' code (apple/ml-ademamix), whose PyTorch version adds 1e-8 to the betas inside the scheduler,
which lengthens the memory that beta3 = 0.9999 reaches by 1e-4 of itself; here, as in the paper and in the authors' JAX
version, nothing is added. Deviations: none; alpha's default is the JAX version's, the PyTorch version has 2.

    a <- alpha*min(t/T, 1)                          T = warmup; without it a = alpha
    b <- exp(1 / ((1 - t/T)/ln(b1) + (t/T)/ln(b3)))     for t < T, then b3: half-lives are interpolated
    m1 <- b1*m1 + (1 - b1)*g                        fast average
    m2 <- b*m2 + (1 - b)*g                          slow average
    v <- b2*v + (1 - b2)*g^2                        second moment, elementwise
    u <- (m1/(1 - b1^t) + a*m2) / (sqrt(v / (1 - b2^t)) + eps)      m2's start from zero is not corrected
    w <- w - lr*wd*w - lr*u                         decoupled decay

g gradient, m1, m2 and v averages, w weight: one shape, any rank; t the parameter's own step, from 1. The paper takes T
to be the whole run: without a warm-up large alpha and b3 near 1 make early training unstable.
State: exp_avg (m1), exp_avg_slow (m2), exp_avg_sq (v), step (t). Cost: O(n) and one gradient per step.
Memory: 3 numbers of state and 5 of work per weight.
"""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from algos.formulas.ema import ema, ema_of_square, gathered_weight
from algos.formulas.over_root import corrected
from algos.hyper_tensors import HyperValues
from algos.per_tensor import PerTensorOptimizer
from algos.spec import Flag, Int, Pair, Real, Spec
from algos.units import State


class AdEMAMix(PerTensorOptimizer):
    """Adam with a mixture of a fast and a slow average, and decoupled weight decay.

    >>> w = torch.nn.Parameter(torch.tensor([1.0])); w.grad = torch.tensor([0.3])
    >>> AdEMAMix([w], lr=0.1, alpha=5.0, beta3=0.98).step(); round(w.item(), 4)  # 1 - 0.1*(1 + 5*0.02)
    0.89
    """

    lr: float = Real(1e-3, above=0, search="1e-4:3e-2:log", unit="weight units per update")
    betas: tuple[float, float] = Pair(0.9, 0.999, low=0, below=1)
    beta3: float = Real(0.9999, above=0, below=1)
    alpha: float = Real(5.0, low=0, search="2:10")
    warmup: int | None = Int(None, low=1, optional=True, unit="steps")  # of alpha and beta3: the run's length
    eps: float = Real(1e-8, low=0, unit="gradient units")
    weight_decay: float = Real(0.0, low=0, search="1e-3:3e-1:log", unit="fraction of the weight, times lr")
    decay_all: bool = Flag(False)  # also norms, biases and embeddings

    scale_free: ClassVar[dict[str, float]] = {"eps": 0.0}
    elementwise: ClassVar[bool] = True
    unsigned_state: ClassVar[tuple[str, ...]] = ("exp_avg_sq",)

    @staticmethod
    def init(param: Tensor, hyper: HyperValues) -> State:
        return {
            "step": torch.zeros((), dtype=torch.float32, device=param.device),
            "exp_avg": torch.zeros_like(param),
            "exp_avg_slow": torch.zeros_like(param),
            "exp_avg_sq": torch.zeros_like(param),
        }

    @staticmethod
    def direction(param: Tensor, grad: Tensor, state: State, hyper: HyperValues) -> tuple[Tensor, State]:
        b1, b2 = hyper.betas
        t = state["step"] + 1
        alpha, b3 = hyper.alpha, hyper.beta3
        if hyper.warmup is not None:
            alpha, b3 = warmed_up(t, hyper.warmup, alpha, b1, b3)
        m1 = ema(state["exp_avg"], grad, b1)
        m2 = ema(state["exp_avg_slow"], grad, b3)
        v = ema_of_square(state["exp_avg_sq"], grad, b2)
        c1, c2 = gathered_weight(b1, t), gathered_weight(b2, t)
        u = corrected(torch.addcmul(m1, m2, alpha * c1), v, c1, c2, hyper.eps)
        return u, {"step": t, "exp_avg": m1, "exp_avg_slow": m2, "exp_avg_sq": v}


def warmed_up(t: Tensor, warmup: int, alpha: Tensor, b1: Tensor, b3: Tensor) -> tuple[Tensor, Tensor]:
    """alpha and beta3 at step t. alpha rises linearly; so does 1/ln(beta3), the half-life, from b1's.

    >>> half = torch.tensor(0.5)
    >>> warmed_up(torch.tensor(1.0), 2, torch.tensor(8.0), half, half.sqrt())  # half-lives 1 and 2: now 1.5
    (tensor(4.), tensor(0.6300))
    """
    part = (t.to(alpha.dtype) / warmup).clamp(max=1.0)
    reached = torch.exp(1 / torch.lerp(1 / torch.log(b1), 1 / torch.log(b3), part))
    return alpha * part, torch.where(part < 1, reached, b3)


SPEC = Spec(
    build=AdEMAMix,
    elementwise=True,
    state="three buffers per weight and a step",
    cost="one gradient; about 13 passes over the weights",
    cite="""@inproceedings{pagliardini2025ademamix,
  title = {The {AdEMAMix} Optimizer: Better, Faster, Older},
  author = {Pagliardini, Matteo and Ablin, Pierre and Grangier, David},
  booktitle = {International Conference on Learning Representations},
  year = {2025},
  url = {https://openreview.net/forum?id=jj7b3p5kLY}
}""",
)
