"""Prodigy: Adam whose step is an estimate, made while training, of how far the solution is.

Paper: Mishchenko & Defazio 2024 (first put out in 2023), the Adam version; reference: the authors' package prodigyopt,
whose options and defaults these are. lr is a factor of the estimated rate: leave it at 1, under the schedule that Adam
would have; d_coef is what to tune.

    m <- b1*m + (1 - b1)*d*g                           first moment
    v <- b2*v + (1 - b2)*(d*g)^2                       second moment
    c = sqrt(1 - b2^t) / (1 - b1^t), or 1              `bias_correction`, or not
    r <- b3*r + (d/d0)*d*lr*c * sum <g, w0 - w>        over all parameters
    s <- b3*s + (d/d0)*d*lr*c * g                      `safeguard_warmup`: without lr*c
    e = d_coef * r / sum |s|_1                         the estimate, from all parameters
    D <- max(D, e);  d' = max(d, e) if d = d0, else d;  d' <- min(D, growth_rate*d')
    w <- w - lr*d*c*wd*w - lr*d*c * m/(sqrt(v) + d'*eps)
    d <- d'

g gradient, w weight, w0 the weight before its first step, m, v, s: one shape, any rank; t the parameter's own step,
from 1. d, D, r: one number each for the whole optimizer, over all groups; b3 = sqrt(b2) unless `beta3` says other.
Without growth_rate d' = D.

Deviations of the package from the paper, kept: eps is multiplied by d', not d; decay is decoupled, by lr*d*c*wd.
Deviations from the package: a group with lr 0 stands still (there it decays, and goes on with its old momentum);
groups may have different rates, each counting with its own; c follows the parameter's own step, not the optimizer's;
weights decay even while all gradients have been zero; slice_p is not here. d0, d_coef, beta3 and growth_rate of the
estimate are the first group's.
State: exp_avg (m), exp_avg_sq (v), s, p0 (w0), step (t); shared: d, d_max (D), d_numerator (r), d_step (the d of the
last step). Cost: O(n) and one gradient per step.
Memory: 4 numbers of state and 6 of work per weight.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor

from algos.formulas.ema import ema, gathered_weight
from algos.formulas.over_root import over_root
from algos.hyper_tensors import HyperValues
from algos.per_tensor import PerTensorOptimizer
from algos.spec import Flag, Pair, Real, Spec
from algos.units import State


class Prodigy(PerTensorOptimizer):
    """Adam without a learning rate to choose.

    `optimizer.state["shared"]["d"]` is the estimate; it begins at d0 and finds the distance of 3 in a few steps:

    >>> w = torch.nn.Parameter(torch.tensor([0.0])); optimizer = Prodigy([w])
    >>> for _ in range(100): w.grad = torch.sign(w.detach() - 3.0); optimizer.step()
    >>> 1.0 < optimizer.state["shared"]["d"].item() < 3.0
    True
    """

    lr: float = Real(1.0, above=0, search="3e-1:3e0:log", unit="factor of the estimated rate")
    betas: tuple[float, float] = Pair(0.9, 0.999, low=0, below=1)
    beta3: float | None = Real(None, low=0, below=1, optional=True)  # of r and s; none: the root of the second beta
    eps: float = Real(1e-8, above=0, unit="gradient units")
    weight_decay: float = Real(0.0, low=0, search="1e-3:3e-1:log", unit="fraction of the weight, times lr*d")
    decay_all: bool = Flag(False)  # also norms, biases and embeddings
    d0: float = Real(1e-6, above=0, unit="weight units")
    d_coef: float = Real(1.0, above=0)
    growth_rate: float | None = Real(None, low=1, optional=True)  # the most that d grows in a step; none: no limit
    bias_correction: bool = Flag(False)
    safeguard_warmup: bool = Flag(False)  # lr does not count in s: for a warm-up that would let d grow too far

    needs: ClassVar[tuple[str, ...]] = ("shared",)
    elementwise: ClassVar[bool] = True
    decoupled: ClassVar[bool] = False  # by 1 - lr*d*wd
    scale_free: ClassVar[Mapping[str, Any] | None] = {"eps": 1e-30}
    unsigned_state: ClassVar[tuple[str, ...]] = ("exp_avg_sq",)
    exact_state: ClassVar[tuple[str, ...]] = ("p0", "s")

    @staticmethod
    def init(param: Tensor, hyper: HyperValues) -> State:
        return {
            "step": torch.zeros((), dtype=torch.float32, device=param.device),
            "exp_avg": torch.zeros_like(param),
            "exp_avg_sq": torch.zeros_like(param),
            "s": torch.zeros_like(param),
            "p0": param.clone(),
        }

    @staticmethod
    def share_init(hyper: HyperValues) -> State:
        d0 = hyper.d0
        return {"d": d0, "d_max": d0, "d_numerator": torch.zeros_like(d0), "d_step": d0}

    @staticmethod
    def reduce(param: Tensor, grad: Tensor, state: State, hyper: HyperValues, shared: State) -> tuple[State, State]:
        d, moves = shared["d"], hyper.lr > 0
        t = state["step"] + moves  # a step at lr 0 changes nothing, the count included
        b1, b2, b3 = (torch.where(moves, beta, 1.0) for beta in (*hyper.betas, beta3(hyper)))
        weight = d / hyper.d0 * d
        gain = weight * hyper.lr * correction(t, hyper)
        kept = torch.where(moves, weight, 0.0) if hyper.safeguard_warmup else gain
        sums = {"d_numerator": gain * (state["p0"] - param).mul_(grad).sum()}
        s = torch.addcmul(state["s"] * b3, grad, kept)
        sums["l1"] = torch.where(moves, torch.linalg.vector_norm(s, 1), 0.0)
        scaled = d * grad
        m = ema(state["exp_avg"], scaled, b1)
        v = ema(state["exp_avg_sq"], scaled.mul_(scaled), b2)
        return sums, {**state, "step": t, "exp_avg": m, "exp_avg_sq": v, "s": s}

    @staticmethod
    def share(shared: State, sums: State, hyper: HyperValues) -> State:
        d, l1 = shared["d"], sums["l1"]
        told = l1 > 0  # else no gradient has told anything
        r = torch.where(told, beta3(hyper) * shared["d_numerator"] + sums["d_numerator"], shared["d_numerator"])
        estimate = torch.where(told, hyper.d_coef * r / l1, d)
        d_max = torch.maximum(shared["d_max"], estimate)
        grown = d_max
        if hyper.growth_rate is not None:
            begun = torch.where(d == hyper.d0, torch.maximum(d, estimate), d)
            grown = torch.where(told, torch.minimum(d_max, begun * hyper.growth_rate), d)
        return {"d": grown, "d_max": d_max, "d_numerator": r, "d_step": d}

    @staticmethod
    def direction(param: Tensor, grad: Tensor, state: State, hyper: HyperValues, shared: State) -> tuple[Tensor, State]:
        rate = shared["d_step"] * correction(state["step"], hyper)
        return over_root(state["exp_avg"], state["exp_avg_sq"], 1 / rate, shared["d"] * hyper.eps / rate), state

    @staticmethod
    def update(
        param: Tensor, direction: Tensor, state: State, hyper: HyperValues, shared: State
    ) -> tuple[Tensor, State]:
        decay = hyper.lr * hyper.weight_decay * shared["d_step"] * correction(state["step"], hyper)
        return torch.addcmul(param * (1 - decay), direction, hyper.lr, value=-1), state


def beta3(hyper: HyperValues) -> Tensor:
    """The decay of r and s."""
    given: Tensor | None = hyper.beta3
    return hyper.betas[1].sqrt() if given is None else given


def correction(step: Tensor, hyper: HyperValues) -> Tensor:
    """c, of a step. hyper: `betas`, `bias_correction`. step: 0-d, >= 1, or 0 where the rate has always been 0."""
    b1, b2 = hyper.betas
    if not hyper.bias_correction:
        return torch.ones_like(b1)
    t = step.clamp(min=1)
    return gathered_weight(b2, t).sqrt() / gathered_weight(b1, t)


SPEC = Spec(
    build=Prodigy,
    elementwise=True,
    needs=("shared",),
    state="four buffers per weight and a step; four numbers for all",
    cost="one gradient; about 24 passes over the weights",
    cite="""@inproceedings{mishchenko2024prodigy,
  title = {Prodigy: An Expeditiously Adaptive Parameter-Free Learner},
  author = {Mishchenko, Konstantin and Defazio, Aaron},
  booktitle = {International Conference on Machine Learning},
  year = {2024},
  url = {https://arxiv.org/abs/2306.06101}
}""",
)
