"""AdaHessian: Adam with the Hessian's diagonal in the place of the gradient's square.

Paper: Yao et al. 2021 (AAAI), algorithm 1. Reference: the authors' amirgholami/adahessian.

    D <- average(z * (H z))                   at the first step and every `update_period` steps after it
    m <- b1*m + (1 - b1)*g
    v <- b2*v + (1 - b2)*D^2                  at those steps; else v stays
    u <- (m / (1 - b1^t)) / (sqrt(v / (1 - b2^n))^k + eps)
    w <- w - lr*wd*w - lr*u                   decoupled decay

g gradient, m and v moments, w weight: one shape, any rank; H the Hessian of the batch's mean loss, z independent signs,
t the parameter's own step and n its own number of estimates, from 1; k `hessian_power`, 1 in the paper's experiments.

average is over space, and only for weights of three and more dimensions: over all but the first two (a convolution's
kernel), whose numbers then share one value. `spatial` says of what:

    absolute    of |z*(Hz)|: the reference's, and what the paper's results were made with
    signed      of z*(Hz): the paper's own formula, where noise of both signs cancels
    none        no average

Deviations. The paper's Hessian is computed every few iterations without saying what becomes of v and its correction
between: here v counts estimates, so that its correction is exact. A parameter that has no estimate yet (frozen at
first, thawed between two estimates) has u = 0. eps is the reference's, outside the power. For matrices the
reference's instructions average over rows, its image classifier does not, and neither do we.

Not the same: pytorch_optimizer's AdaHessian (4.1) averages nothing, and with an update period corrects v by b2^t though
v has seen fewer estimates; with update_period=1 it equals `spatial="none"`.

State: exp_avg (m), exp_hessian_diag_sq (v), step (t), estimates (n). Cost: one gradient a step, and a product (two
gradients) every `update_period` steps.
Memory: 2 numbers of state and 5 of work per weight.
"""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from algos.formulas.ema import ema, gathered_weight
from algos.hyper_tensors import HyperValues
from algos.per_tensor import PerTensorOptimizer
from algos.spec import Choice, Flag, Int, Pair, Real, Spec
from algos.units import State


class AdaHessian(PerTensorOptimizer):
    """Adam's moments, the second of them of the curvature.

    The first step is lr times the gradient over the curvature: Newton's, number by number.

    >>> w = torch.nn.Parameter(torch.tensor([1.0])); w.grad = torch.tensor([3.0])
    >>> optimizer = AdaHessian([w], lr=0.1, eps=0.0)
    >>> optimizer.observe_curvature({w: torch.tensor([2.0])}); optimizer.step(); round(w.item(), 4)
    0.85
    """

    lr: float = Real(0.15, above=0, search="1e-3:1:log", unit="Newton steps per update")
    betas: tuple[float, float] = Pair(0.9, 0.999, low=0, below=1)
    eps: float = Real(1e-4, low=0, unit="curvature units, to the power k")
    hessian_power: float = Real(1.0, low=0, high=1)
    update_period: int = Int(1, low=1, unit="steps")
    spatial: str = Choice("absolute", ("absolute", "signed", "none"))
    weight_decay: float = Real(0.0, low=0, search="1e-4:1e-1:log", unit="fraction of the weight, times lr")
    decay_all: bool = Flag(False)  # also norms, biases and embeddings

    scale_free: ClassVar[dict[str, float]] = {"eps": 0.0}
    needs: ClassVar[tuple[str, ...]] = ("curvature",)
    period: ClassVar[str] = "update_period"
    unsigned_state: ClassVar[tuple[str, ...]] = ("exp_hessian_diag_sq",)

    @staticmethod
    def init(param: Tensor, hyper: HyperValues) -> State:
        return {
            "step": torch.zeros((), dtype=torch.float32, device=param.device),
            "estimates": torch.zeros((), dtype=torch.float32, device=param.device),
            "exp_avg": torch.zeros_like(param),
            "exp_hessian_diag_sq": torch.zeros_like(param),
        }

    @staticmethod
    def direction(
        param: Tensor, grad: Tensor, state: State, hyper: HyperValues, *, curvature: Tensor | None
    ) -> tuple[Tensor, State]:
        b1, b2 = hyper.betas
        t, n = state["step"] + 1, state["estimates"]
        m, v = ema(state["exp_avg"], grad, b1), state["exp_hessian_diag_sq"]
        if curvature is not None:
            v, n = ema(v, averaged(curvature, hyper.spatial).square(), b2), n + 1
        weight = gathered_weight(b2, n.clamp(min=1))
        u = (m / gathered_weight(b1, t)) / ((v / weight).sqrt().pow(hyper.hessian_power) + hyper.eps)
        new = {"step": t, "estimates": n, "exp_avg": m, "exp_hessian_diag_sq": v}
        return (u if curvature is not None else torch.where(n > 0, u, 0.0)), new


def averaged(estimate: Tensor, spatial: str) -> Tensor:
    """An estimate of the curvature, averaged over space: all dimensions but the first two.

    >>> averaged(torch.tensor([[[1.0, -3.0]]]), "absolute"), averaged(torch.tensor([[[1.0, -3.0]]]), "signed")
    (tensor([[[2., 2.]]]), tensor([[[-1., -1.]]]))
    """
    if spatial == "none" or estimate.dim() <= 2:
        return estimate
    values = estimate.abs() if spatial == "absolute" else estimate
    space = tuple(range(2, estimate.dim()))
    return values.mean(space, keepdim=True).expand_as(estimate)


SPEC = Spec(
    build=AdaHessian,
    needs=("curvature",),
    state="two buffers per weight, a step and a count",
    cost="one gradient; two more every update_period steps",
    cite="""@inproceedings{yao2021adahessian,
  title = {{ADAHESSIAN}: An Adaptive Second Order Optimizer for Machine Learning},
  author = {Yao, Zhewei and Gholami, Amir and Shen, Sheng and Mustafa, Mustafa and Keutzer, Kurt
    and Mahoney, Michael W.},
  booktitle = {Proceedings of the AAAI Conference on Artificial Intelligence},
  volume = {35},
  pages = {10665--10673},
  year = {2021}
}""",
)
