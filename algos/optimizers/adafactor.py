"""Adafactor: Adam without momentum, its second moment of a matrix kept as row and column means.

Paper: Shazeer & Stern 2018, algorithms 4 (matrices) and 5 (vectors) with the schedules of algorithm 6; reference:
torch.optim.Adafactor. What is on: parameter scaling (`scale_parameter`) and update clipping (`d`). What is off:
momentum, which that algorithm has not; and the relative step, which torch always takes and the paper proposes: the
rate is lr as the schedule gives it, unless `relative_step`, and then never more than 1/sqrt(t). Deviations: that
default; decoupled decay by lr*wd, which torch has too and the paper has not. eps is added to the squared gradients, as
in the paper; torch instead bounds mean(R) from below by the dtype's epsilon: in float32 its u of a matrix is larger
where the RMS gradient is below 3.5e-4, 3.5 times at 1e-4; clipping leaves 2% of a step, if gradients are steady.

    b2 = 1 - t^beta2_decay                              0 at the first step, then rising to 1
    S <- g^2 + eps
    R <- b2*R + (1 - b2)*(row means of S)               rank 2 and more, over the last two dimensions
    C <- b2*C + (1 - b2)*(column means of S)
    V = R C / mean(R)                                   formulas/factored.py
    V <- b2*V + (1 - b2)*S                              rank 0 and 1: not factored
    u = g / sqrt(V)
    u <- u / max(1, RMS(u)/d)                           clipping
    u <- u * max(scale_eps, RMS(w))                     parameter scaling
    u <- u * min(1, 1/(lr*sqrt(t)))                     relative step: lr*u is then min(lr, 1/sqrt(t))*u
    w <- w - lr*wd*w - lr*u

g gradient, w weight: one shape, any rank; t the parameter's own step, from 1. A convolution (out, in, height, width) is
factored over height and width, as in torch, and saves little.
State: row_var (R, (..., rows, 1)) and col_var (C, (..., 1, columns)), or variance (V); step (t): torch's names.
Cost: O(n) and one gradient per step.
Memory: 0.01 numbers of state and 1.02 of work per weight of a square matrix.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor

from algos.formulas.ema import ema
from algos.formulas.factored import over_factored_root, rms, row_and_column_means
from algos.hyper_tensors import HyperValues
from algos.per_tensor import PerTensorOptimizer
from algos.spec import Flag, Real, Spec
from algos.units import State


class Adafactor(PerTensorOptimizer):
    """Second moments in sublinear memory; steps in proportion to the size of the weights.

    >>> w = torch.nn.Parameter(torch.tensor([2.0])); w.grad = torch.tensor([0.3])
    >>> Adafactor([w], lr=0.1).step(); round(w.item(), 4)
    1.8
    """

    lr: float = Real(1e-2, above=0, search="1e-4:1e-1:log", unit="fraction of the RMS weight per update")
    beta2_decay: float = Real(-0.8, high=0)  # an exponent
    eps: float = Real(1e-30, above=0, unit="squared gradient units")  # the paper's first
    scale_eps: float = Real(1e-3, low=0, unit="weight units")  # the paper's second: the least RMS(w) that counts
    d: float = Real(1.0, above=0)  # the largest RMS of an update, in units of lr
    weight_decay: float = Real(0.0, low=0, search="1e-3:3e-1:log", unit="fraction of the weight, times lr")
    scale_parameter: bool = Flag(True)
    relative_step: bool = Flag(False)
    decay_all: bool = Flag(False)  # also norms, biases and embeddings

    idle_unless: ClassVar[Mapping[str, Mapping[str, Any]]] = {"relative_step": {"lr": 1.0}}
    scale_free: ClassVar[Mapping[str, Any] | None] = {}
    unsigned_state: ClassVar[tuple[str, ...]] = ("row_var", "col_var", "variance")
    exact_state: ClassVar[tuple[str, ...]] = ("row_var", "col_var")

    @staticmethod
    def init(param: Tensor, hyper: HyperValues) -> State:
        step = {"step": torch.zeros((), dtype=torch.float32, device=param.device)}
        if param.dim() < 2:
            return {**step, "variance": torch.zeros_like(param)}
        rows, columns = param.shape[-2:]
        lead = param.shape[:-2]
        return {**step, "row_var": param.new_zeros(*lead, rows, 1), "col_var": param.new_zeros(*lead, 1, columns)}

    @staticmethod
    def direction(param: Tensor, grad: Tensor, state: State, hyper: HyperValues) -> tuple[Tensor, State]:
        t = state["step"] + 1
        b2 = 1 - t**hyper.beta2_decay
        squares = grad.square().add_(hyper.eps)
        new: State = {"step": t}
        if param.dim() < 2:
            new["variance"] = ema(state["variance"], squares, b2)
            u = grad * new["variance"].rsqrt()
        else:
            row, column = row_and_column_means(squares)
            del squares
            new["row_var"], new["col_var"] = ema(state["row_var"], row, b2), ema(state["col_var"], column, b2)
            u = over_factored_root(grad, new["row_var"], new["col_var"])
        scale = 1 / (rms(u) / hyper.d).clamp(min=1)
        if hyper.scale_parameter:
            scale = scale * torch.maximum(rms(param), hyper.scale_eps)
        if hyper.relative_step:
            scale = scale * (hyper.lr.square() * t).rsqrt().clamp(max=1)
        return u.mul_(scale), new


SPEC = Spec(
    build=Adafactor,
    state="rows and columns of each matrix, a buffer per weight of a vector, and a step",
    cost="one gradient; about 8 passes over the weights",
    cite="""@inproceedings{shazeer2018adafactor,
  title = {Adafactor: Adaptive Learning Rates with Sublinear Memory Cost},
  author = {Shazeer, Noam and Stern, Mitchell},
  booktitle = {International Conference on Machine Learning},
  year = {2018},
  url = {https://arxiv.org/abs/1804.04235}
}""",
)
