"""Schedule-Free AdamW: averaging takes the place of a decaying learning rate.

Paper: Defazio et al. 2024, "The Road Less Scheduled", algorithm 1, in the form of the authors' package (schedulefree):
weights w hold y, where gradients are taken; x, the weights to evaluate, is not stored but follows from y and z.
Deviations: warm-up is a schedule's business (lr is read at each step), not an argument. Where an arm names no schedule
it gets a warm-up to a constant rate, whatever the task's own schedule is.

    v <- b2*v + (1 - b2)*g^2                       g the gradient at y
    u <- g / (sqrt(v / (1 - b2^t)) + eps)          direction
    d <- u + wd*y                                  decay at y
    L <- max(L, lr);  a <- t^r * L^p;  S <- S + a  weight of this step in the average: p = 2 discounts the warm-up
    c <- a / S
    y <- (1 - c)*y + c*z + lr*(b1*(1 - c) - 1)*d   the same as x <- (1 - c)*x + c*z, then y <- (1 - b1)*z + b1*x
    z <- z - lr*d
    x  = z + (y - z)/b1                            evaluation weights

y, z, v, g: one shape, any rank; t the parameter's own step, from 1. S is 0 only while lr has been 0; then c is 0. S has
the dtype that is computed in; the package's is a Python float. In float32 rounding adds up: S is 0.7% short after 10^6
steps at the default lr, and from about 2^24 steps at one rate on it stands still.
State: z, exp_avg_sq (v), step (t), lr_max (L), weight_sum (S). Cost: O(n) and one gradient per step.
Memory: 2 numbers of state and 5 of work per weight.
"""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from algos.formulas.ema import ema_of_square, gathered_weight
from algos.formulas.over_root import over_root
from algos.hyper_tensors import HyperValues
from algos.per_tensor import PerTensorOptimizer
from algos.spec import Flag, Pair, Real, Spec
from algos.units import State


class ScheduleFreeAdamW(PerTensorOptimizer):
    """AdamW whose weights to evaluate are an average; use it with a constant rate, after a warm-up.

    >>> w = torch.nn.Parameter(torch.tensor([1.0])); w.grad = torch.tensor([0.3])
    >>> optimizer = ScheduleFreeAdamW([w], lr=0.1); optimizer.step(); round(w.item(), 4)
    0.9
    >>> with optimizer.evaluating(): round(w.item(), 4)
    0.9
    """

    lr: float = Real(2.5e-3, above=0, search="1e-4:3e-2:log", unit="weight units per update")  # above AdamW's
    betas: tuple[float, float] = Pair(0.9, 0.999, above=0, below=1)  # the first interpolates between z and x
    eps: float = Real(1e-8, low=0, unit="gradient units")
    weight_decay: float = Real(0.0, low=0, search="1e-3:3e-1:log", unit="fraction of the weight, times lr")
    decay_all: bool = Flag(False)  # also norms, biases and embeddings
    r: float = Real(0.0, low=0)  # later steps weigh t^r in the average
    weight_lr_power: float = Real(2.0, low=0)

    scale_free: ClassVar[dict[str, float]] = {"eps": 0.0}
    elementwise: ClassVar[bool] = True
    unsigned_state: ClassVar[tuple[str, ...]] = ("exp_avg_sq",)
    exact_state: ClassVar[tuple[str, ...]] = ("z",)
    decoupled: ClassVar[bool] = False  # decay acts on y and z alike, and enters the average

    @staticmethod
    def init(param: Tensor, hyper: HyperValues) -> State:
        return {
            "step": torch.zeros((), dtype=torch.float32, device=param.device),
            "lr_max": torch.zeros((), dtype=param.dtype, device=param.device),
            "weight_sum": torch.zeros((), dtype=param.dtype, device=param.device),
            "z": param.clone(),
            "exp_avg_sq": torch.zeros_like(param),
        }

    @staticmethod
    def direction(param: Tensor, grad: Tensor, state: State, hyper: HyperValues) -> tuple[Tensor, State]:
        _, b2 = hyper.betas
        t = state["step"] + 1
        v = ema_of_square(state["exp_avg_sq"], grad, b2)
        u = over_root(grad, v, gathered_weight(b2, t).rsqrt(), hyper.eps)
        return u, {**state, "step": t, "exp_avg_sq": v}

    @staticmethod
    def update(param: Tensor, direction: Tensor, state: State, hyper: HyperValues) -> tuple[Tensor, State]:
        b1, lr, y, z = hyper.betas[0], hyper.lr, param, state["z"]
        d = torch.addcmul(direction, y, hyper.weight_decay)
        lr_max = torch.maximum(state["lr_max"], lr)
        a = state["step"] ** hyper.r * lr_max**hyper.weight_lr_power
        weight_sum = state["weight_sum"] + a
        c = torch.where(weight_sum > 0, a / weight_sum, 0.0)
        y = torch.addcmul(torch.lerp(y, z, c), d, lr * (b1 * (1 - c) - 1))
        return y, {**state, "lr_max": lr_max, "weight_sum": weight_sum, "z": torch.addcmul(z, d, lr, value=-1)}

    @staticmethod
    def evaluate(param: Tensor, state: State, hyper: HyperValues) -> Tensor:
        return state["z"] + (param - state["z"]) / hyper.betas[0]


SPEC = Spec(
    build=ScheduleFreeAdamW,
    schedule={"name": "warmup_cosine", "final": 1.0},
    elementwise=True,
    state="two buffers per weight, a step and two numbers",
    cost="one gradient; about 12 passes over the weights",
    cite="""@inproceedings{defazio2024road,
  title = {The Road Less Scheduled},
  author = {Defazio, Aaron and Yang, Xingyu Alice and Khaled, Ahmed and Mishchenko, Konstantin and Mehta, Harsh
    and Cutkosky, Ashok},
  booktitle = {Advances in Neural Information Processing Systems},
  volume = {37},
  year = {2024}
}""",
)
