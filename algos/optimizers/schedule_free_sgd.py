"""Schedule-Free SGD: averaging takes the place of a decaying learning rate, and interpolation that of momentum.

Paper: Defazio et al. 2024, "The Road Less Scheduled", equations 1 to 3, in the form of the authors' package
(schedulefree.SGDScheduleFree): weights w hold y, where gradients are taken; x, the weights to evaluate, is not stored
but follows from y and z. Deviations: warm-up is a schedule's business (lr is read at each step), not an argument. Where
an arm names no schedule it gets a warm-up to a constant rate, whatever the task's own schedule is.

    d <- g + wd*y                                  g the gradient at y; decay at y
    L <- max(L, lr);  a <- t^r * L^p;  S <- S + a  weight of this step in the average: p = 2 discounts the warm-up
    c <- a / S
    y <- (1 - c)*y + c*z + lr*(b*(1 - c) - 1)*d    the same as x <- (1 - c)*x + c*z, then y <- (1 - b)*z + b*x
    z <- z - lr*d                                  the steps of plain SGD
    x  = z + (y - z)/b                             evaluation weights

y, z, g: one shape, any rank; b `momentum`; t the parameter's own step, from 1. S is 0 only while lr has been 0; then c
is 0. S has the dtype that is computed in; the package's is a Python float. In float32 rounding adds up: S is 1% over
after 10^6 steps at lr 0.3, and from about 2^24 steps at one rate on it stands still.
State: z, step (t), lr_max (L), weight_sum (S). Cost: O(n) and one gradient per step.
Memory: 1 number of state and 3 of work per weight.
"""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from algos.hyper_tensors import HyperValues
from algos.per_tensor import PerTensorOptimizer
from algos.spec import Flag, Real, Spec
from algos.units import State


class ScheduleFreeSGD(PerTensorOptimizer):
    """SGD whose weights to evaluate are an average; use it with a constant rate, after a warm-up.

    >>> w = torch.nn.Parameter(torch.tensor([1.0])); w.grad = torch.tensor([0.3])
    >>> optimizer = ScheduleFreeSGD([w], lr=0.1); optimizer.step(); round(w.item(), 4)
    0.97
    >>> with optimizer.evaluating(): round(w.item(), 4)
    0.97
    """

    lr: float = Real(1.0, above=0, search="1e-3:1e1:log", unit="weight units per gradient unit")  # far above SGD's
    momentum: float = Real(0.9, above=0, below=1)  # interpolates between z and x
    weight_decay: float = Real(0.0, low=0, search="1e-5:1e-2:log", unit="fraction of the weight, times lr")
    decay_all: bool = Flag(False)  # also norms, biases and embeddings
    r: float = Real(0.0, low=0)  # later steps weigh t^r in the average
    weight_lr_power: float = Real(2.0, low=0)

    elementwise: ClassVar[bool] = True
    decoupled: ClassVar[bool] = False  # z shrinks by lr*wd*y
    exact_state: ClassVar[tuple[str, ...]] = ("z",)

    @staticmethod
    def init(param: Tensor, hyper: HyperValues) -> State:
        return {
            "step": torch.zeros((), dtype=torch.float32, device=param.device),
            "lr_max": torch.zeros((), dtype=param.dtype, device=param.device),
            "weight_sum": torch.zeros((), dtype=param.dtype, device=param.device),
            "z": param.clone(),
        }

    @staticmethod
    def direction(param: Tensor, grad: Tensor, state: State, hyper: HyperValues) -> tuple[Tensor, State]:
        return grad, {**state, "step": state["step"] + 1}

    @staticmethod
    def update(param: Tensor, direction: Tensor, state: State, hyper: HyperValues) -> tuple[Tensor, State]:
        b, lr, y, z = hyper.momentum, hyper.lr, param, state["z"]
        d = torch.addcmul(direction, y, hyper.weight_decay)
        lr_max = torch.maximum(state["lr_max"], lr)
        a = state["step"] ** hyper.r * lr_max**hyper.weight_lr_power
        weight_sum = state["weight_sum"] + a
        c = torch.where(weight_sum > 0, a / weight_sum, 0.0)
        y = torch.addcmul(torch.lerp(y, z, c), d, lr * (b * (1 - c) - 1))
        z = d.mul_(-lr).add_(z)
        return y, {**state, "lr_max": lr_max, "weight_sum": weight_sum, "z": z}

    @staticmethod
    def evaluate(param: Tensor, state: State, hyper: HyperValues) -> Tensor:
        return state["z"] + (param - state["z"]) / hyper.momentum


SPEC = Spec(
    build=ScheduleFreeSGD,
    schedule={"name": "warmup_cosine", "final": 1.0},
    elementwise=True,
    state="one buffer per weight, a step and two numbers",
    cost="one gradient; about 8 passes over the weights",
    cite="""@inproceedings{defazio2024road,
  title = {The Road Less Scheduled},
  author = {Defazio, Aaron and Yang, Xingyu Alice and Mehta, Harsh and Mishchenko, Konstantin and Khaled, Ahmed
    and Cutkosky, Ashok},
  booktitle = {Advances in Neural Information Processing Systems},
  volume = {37},
  year = {2024}
}""",
)
