"""D-Adaptation: Adam whose step is a lower bound, raised while training, on how far the solution is.

Paper: Defazio & Mishchenko 2023, the Adam version (D-Adapt Adam); reference: DAdaptAdam of the authors' dadaptation
3.0, which differs from their 1.0 and 2.0. lr is a factor of the rate found: leave it at 1, under the schedule that Adam
would have.

    c = sqrt(1 - b2^t) / (1 - b1^t), or 1                  `bias_correction`, or not
    a = d*lr*c                                             the rate of this step
    r <- q*r + (1 - q)*a * sum <g, s/(sqrt(v) + eps)>      over all parameters, with the old s and v; q = sqrt(b2)
    m <- b1*m + (1 - b1)*a*g                               first moment: the rate is inside
    v <- b2*v + (1 - b2)*g^2                               second moment
    s <- q*s + (1 - q)*a*g
    e = r / ((1 - q) * sum |s|_1)                          the bound, or, with Adam's averages, the estimate
    w <- w - a*wd*w - m/(sqrt(v) + eps)
    d <- max(d, min(e, growth_rate*d))

g gradient, w weight, m, v, s: one shape, any rank; t the parameter's own step, from 1. d, r: one number each for the
whole optimizer, over all groups; q of the estimate is the first group's.

Deviations from the reference: decay is decoupled only (its decouple=True); a group with lr 0 stands still (there it
decays, and goes on with its old momentum); groups may have different rates, each counting with its own; c follows the
parameter's own step, not the optimizer's; weights decay even while all gradients have been zero.
State: exp_avg (m), exp_avg_sq (v), s, step (t); shared: d, numerator_weighted (r), d_step (the d of the last step).
Cost: O(n) and one gradient per step.
Memory: 3 numbers of state and 6 of work per weight.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor

from algos.formulas.ema import ema, ema_of_square
from algos.formulas.over_root import over_root
from algos.hyper_tensors import HyperValues
from algos.optimizers.prodigy import correction
from algos.per_tensor import PerTensorOptimizer
from algos.spec import Flag, Pair, Real, Spec
from algos.units import State


class DAdaptation(PerTensorOptimizer):
    """D-Adapt Adam: Adam without a learning rate to choose.

    `optimizer.state["shared"]["d"]` is the estimate; it begins at d0, a millionth, and is soon of the order of the
    distance, here 3 (that it is a bound is proved without Adam's averages only):

    >>> w = torch.nn.Parameter(torch.tensor([0.0])); optimizer = DAdaptation([w])
    >>> for _ in range(100): w.grad = torch.sign(w.detach() - 3.0); optimizer.step()
    >>> 1.0 < optimizer.state["shared"]["d"].item() < 30.0
    True
    """

    lr: float = Real(1.0, above=0, search="3e-1:3e0:log", unit="factor of the rate found")
    betas: tuple[float, float] = Pair(0.9, 0.999, low=0, below=1)
    eps: float = Real(1e-8, above=0, unit="gradient units")
    weight_decay: float = Real(0.0, low=0, search="1e-3:3e-1:log", unit="fraction of the weight, times lr*d")
    decay_all: bool = Flag(False)  # also norms, biases and embeddings
    d0: float = Real(1e-6, above=0, unit="weight units")
    growth_rate: float | None = Real(None, low=1, optional=True)  # the most that d grows in a step; none: no limit
    bias_correction: bool = Flag(False)

    needs: ClassVar[tuple[str, ...]] = ("shared",)
    elementwise: ClassVar[bool] = True
    decoupled: ClassVar[bool] = False  # by 1 - lr*d*wd
    scale_free: ClassVar[Mapping[str, Any] | None] = {"eps": 1e-30}
    unsigned_state: ClassVar[tuple[str, ...]] = ("exp_avg_sq",)
    exact_state: ClassVar[tuple[str, ...]] = ("s",)

    @staticmethod
    def init(param: Tensor, hyper: HyperValues) -> State:
        return {
            "step": torch.zeros((), dtype=torch.float32, device=param.device),
            "exp_avg": torch.zeros_like(param),
            "exp_avg_sq": torch.zeros_like(param),
            "s": torch.zeros_like(param),
        }

    @staticmethod
    def share_init(hyper: HyperValues) -> State:
        return {"d": hyper.d0, "numerator_weighted": torch.zeros_like(hyper.d0), "d_step": hyper.d0}

    @staticmethod
    def reduce(param: Tensor, grad: Tensor, state: State, hyper: HyperValues, shared: State) -> tuple[State, State]:
        moves = hyper.lr > 0
        t = state["step"] + moves  # a step at lr 0 changes nothing, the count included
        b1, b2, q = (torch.where(moves, beta, 1.0) for beta in (*hyper.betas, hyper.betas[1].sqrt()))
        a = shared["d"] * hyper.lr * correction(t, hyper)
        old = over_root(state["s"], state["exp_avg_sq"], torch.ones_like(a), hyper.eps)
        sums = {"numerator": a * old.mul_(grad).sum()}
        del old
        scaled = a * grad
        m = ema(state["exp_avg"], scaled, b1)
        s = ema(state["s"], scaled, q)
        del scaled
        sums["l1"] = torch.where(moves, torch.linalg.vector_norm(s, 1), 0.0)
        v = ema_of_square(state["exp_avg_sq"], grad, b2)
        return sums, {"step": t, "exp_avg": m, "exp_avg_sq": v, "s": s}

    @staticmethod
    def share(shared: State, sums: State, hyper: HyperValues) -> State:
        d, r, l1, q = shared["d"], shared["numerator_weighted"], sums["l1"], hyper.betas[1].sqrt()
        told = l1 > 0  # else no gradient has told anything
        r = torch.where(told, ema(r, sums["numerator"], q), r)
        bound = torch.where(told, r / ((1 - q) * l1), d)
        if hyper.growth_rate is not None:
            bound = torch.minimum(bound, hyper.growth_rate * d)
        return {"d": torch.maximum(d, bound), "numerator_weighted": r, "d_step": d}

    @staticmethod
    def direction(param: Tensor, grad: Tensor, state: State, hyper: HyperValues, shared: State) -> tuple[Tensor, State]:
        return over_root(state["exp_avg"], state["exp_avg_sq"], torch.ones_like(hyper.eps), hyper.eps), state

    @staticmethod
    def update(
        param: Tensor, direction: Tensor, state: State, hyper: HyperValues, shared: State
    ) -> tuple[Tensor, State]:
        decay = hyper.lr * hyper.weight_decay * shared["d_step"] * correction(state["step"], hyper)
        moves = (hyper.lr > 0).to(param.dtype)  # the momentum has rates in it, and would go on
        return torch.addcmul(param * (1 - decay), direction, moves, value=-1), state


SPEC = Spec(
    build=DAdaptation,
    elementwise=True,
    needs=("shared",),
    state="three buffers per weight and a step; three numbers for all",
    cost="one gradient; about 22 passes over the weights",
    cite="""@inproceedings{defazio2023learning,
  title = {Learning-Rate-Free Learning by {D}-Adaptation},
  author = {Defazio, Aaron and Mishchenko, Konstantin},
  booktitle = {International Conference on Machine Learning},
  year = {2023},
  url = {https://arxiv.org/abs/2301.07733}
}""",
)
