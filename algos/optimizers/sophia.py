"""Sophia: momentum over the Hessian's diagonal, clipped number by number.

Paper: Liu et al. 2024 (ICLR), algorithm 3. Reference: the authors' Liuhong99/Sophia.

    m <- b1*m + (1 - b1)*g
    h <- b2*h + (1 - b2)*d                    at the first step and every `update_period` steps after it; else h stays
    u <- clip(m / max(gamma*h, eps), 1)       each number to [-1, 1]; for h <= 0 the sign of m where |m| >= eps
    w <- w - lr*wd*w - lr*u                   decoupled decay

g gradient, m momentum, d estimate of the curvature's diagonal, h its average, w weight: one shape, any rank. There is
no correction of the averages' start; a parameter whose first gradient comes between two estimates has h = 0, and moves
by signs, until the next. The first version of the paper writes rho*clip(m / (rho*max(h, eps)), 1).

d, by `estimator`, with z independent signs and H, G the matrices of the batch's mean loss:

    hutchinson      z * (H z), H the Hessian (Sophia-H)
    gauss_newton    z * (G z), G the Gauss-Newton matrix (Sophia-G)

Deviations from the paper: it draws z from a normal distribution, which has the same mean and, by 2*H_ii^2, a larger
variance. For Sophia-G it draws labels from the model's own predictions and takes B times their gradient's square
(Gauss-Newton-Bartlett), which has the same mean, diag(G), for cross entropy only and from mean losses; ours needs no
draw of labels, and may be negative where G is not diagonal. Its gamma is 0.01 for the first and 0.05 for the second.

The reference is not the paper: it divides by rho*B*h + 1e-15 (rho is gamma; its h lacks the estimate's factor B, the
examples or tokens of a batch, which `step(bs=...)` gives back); it estimates h after a step, so that its first
`update_period` steps are those of signed momentum; the first release's SophiaH corrects the momentum's start.

In a plain torch loop `loss.backward(create_graph=True)` before every due step gives the Hessian's estimate.
State: exp_avg (m), hessian (h), step. Cost: one gradient a step, and a product (two gradients) every
`update_period` steps.
Memory: 2 numbers of state and 4 of work per weight.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor

from algos.finding import InputError
from algos.formulas.ema import ema
from algos.hyper_tensors import HyperValues
from algos.per_tensor import PerTensorOptimizer
from algos.spec import Choice, Flag, Int, Pair, Real, Spec
from algos.units import State, Unit


class Sophia(PerTensorOptimizer):
    """Clipped second-order steps, with a light diagonal of the curvature.

    Where the curvature is 1, a step is lr*m/gamma, and never more than lr:

    >>> w = torch.nn.Parameter(torch.tensor([1.0, 1.0])); w.grad = torch.tensor([0.1, 20.0])
    >>> optimizer = Sophia([w], lr=0.5, betas=(0.9, 0.0), gamma=0.1, weight_decay=0.0)
    >>> optimizer.observe_curvature({w: torch.ones(2)}); optimizer.step(); w.detach()
    tensor([0.9500, 0.5000])
    """

    lr: float = Real(1e-4, above=0, search="1e-5:1e-2:log", unit="weight units per update, at most")
    betas: tuple[float, float] = Pair(0.96, 0.99, low=0, below=1)
    gamma: float = Real(0.01, above=0, search="1e-3:1:log", unit="gradient units per lr, at curvature 1")
    eps: float = Real(1e-12, above=0, unit="gradient units")
    update_period: int = Int(10, low=1, unit="steps")
    estimator: str = Choice("hutchinson", ("hutchinson", "gauss_newton"))
    weight_decay: float = Real(0.2, low=0, search="1e-2:1:log", unit="fraction of the weight, times lr")
    decay_all: bool = Flag(False)  # also norms, biases and embeddings

    scale_free: ClassVar[dict[str, float]] = {}
    elementwise: ClassVar[bool] = True
    needs: ClassVar[tuple[str, ...]] = ("curvature",)
    period: ClassVar[str] = "update_period"
    #: Early steps are clipped everywhere unless h is large soon.
    idle_unless: ClassVar[dict[str, dict[str, Any]]] = {
        "gamma": {"betas": (0.96, 0.1)},
        "betas": {"gamma": 0.5},
    }

    @property
    def curvature_matrix(self) -> str:
        """Of which matrix the diagonal is wanted: "hessian" or "ggn"."""
        return "ggn" if self.param_groups[0]["estimator"] == "gauss_newton" else "hessian"

    @staticmethod
    def init(param: Tensor, hyper: HyperValues) -> State:
        return {
            "step": torch.zeros((), dtype=torch.float32, device=param.device),
            "exp_avg": torch.zeros_like(param),
            "hessian": torch.zeros_like(param),
        }

    @staticmethod
    def direction(
        param: Tensor, grad: Tensor, state: State, hyper: HyperValues, *, curvature: Tensor | None
    ) -> tuple[Tensor, State]:
        b1, b2 = hyper.betas
        m = ema(state["exp_avg"], grad, b1)
        h = state["hessian"] if curvature is None else ema(state["hessian"], curvature, b2)
        u = (m / torch.maximum(hyper.gamma * h, hyper.eps)).clamp(-1, 1)
        return u, {"step": state["step"] + 1, "exp_avg": m, "hessian": h}

    def _give(self, units: Sequence[Unit]) -> None:
        if self._curvature is None and self.wants_curvature and self.curvature_matrix == "ggn":
            raise InputError(
                "estimator 'gauss_newton' needs the Gauss-Newton matrix, and gradients with a graph give the Hessian's",
                "call optimizer.observe_curvature(...) before step(), or give estimator='hutchinson'",
                rule="no-curvature",
                place="Sophia.estimator",
            )
        super()._give(units)


SPEC = Spec(
    build=Sophia,
    elementwise=True,
    needs=("curvature",),
    state="two buffers per weight and a step",
    cost="one gradient; two more every update_period steps",
    cite="""@inproceedings{liu2024sophia,
  title = {Sophia: A Scalable Stochastic Second-order Optimizer for Language Model Pre-training},
  author = {Liu, Hong and Li, Zhiyuan and Hall, David and Liang, Percy and Ma, Tengyu},
  booktitle = {International Conference on Learning Representations},
  year = {2024},
  url = {https://openreview.net/forum?id=3xHDeA8Noi}
}""",
)
