"""ADOPT: Adam that divides by what it knew before this gradient, and averages after the division.

Paper: Taniguchi et al. 2024, algorithm 2 with the clipping of its later version (November 2024). Reference: the
authors' code (iShohei220/adopt) of that version with decouple=True. Deviation: decay, which the paper leaves out, is
applied at every step; the authors' code skips it at the first. Like theirs, and unlike pytorch_optimizer 4.1, the clip
counts from the second gradient, so that it begins at 1.

    first step:  v <- g^2, and nothing moves
    n <- clip(g / max(sqrt(v), eps), -c, c)     v without this gradient; c = (t - 1)^0.25, or no clip
    m <- b1*m + (1 - b1)*n                      average of the normalized gradient, from 0 and not corrected
    w <- w - lr*wd*w - lr*m                     decoupled decay
    v <- b2*v + (1 - b2)*g^2                    second moment, after its use

g gradient, n, m and v, w weight: one shape, any rank; t the parameter's own step, from 1.
State: exp_avg (m), exp_avg_sq (v), step (t). Cost: O(n) and one gradient per step.
Memory: 2 numbers of state and 4 of work per weight.
"""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from algos.formulas.ema import ema, ema_of_square
from algos.hyper_tensors import HyperValues
from algos.per_tensor import PerTensorOptimizer
from algos.spec import Choice, Flag, Pair, Real, Spec
from algos.units import State


class ADOPT(PerTensorOptimizer):
    """Adam, changed to converge for any beta2; the first step only begins the second moment.

    >>> w = torch.nn.Parameter(torch.tensor([1.0])); w.grad = torch.tensor([0.3])
    >>> optimizer = ADOPT([w], lr=0.1); optimizer.step(); round(w.item(), 4)
    1.0
    >>> optimizer.step(); round(w.item(), 4)  # 1 - 0.1*(1 - 0.9)*1
    0.99
    """

    lr: float = Real(1e-3, above=0, search="1e-4:3e-2:log", unit="weight units per update")
    betas: tuple[float, float] = Pair(0.9, 0.9999, low=0, below=1)
    eps: float = Real(1e-6, above=0, unit="gradient units")
    clip: str = Choice("t^0.25", ("t^0.25", "none"))  # none: the first version of the paper
    weight_decay: float = Real(0.0, low=0, search="1e-3:3e-1:log", unit="fraction of the weight, times lr")
    decay_all: bool = Flag(False)  # also norms, biases and embeddings

    scale_free: ClassVar[dict[str, float]] = {}
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
        before = state["step"]
        first = before == 0
        n = torch.maximum(state["exp_avg_sq"].sqrt(), hyper.eps).reciprocal_().mul_(grad)
        if hyper.clip == "t^0.25":
            c = before.to(grad.dtype) ** 0.25
            n = torch.clamp(n, -c, c)
        m = ema(state["exp_avg"], n, torch.where(first, 1.0, b1))
        v = ema_of_square(state["exp_avg_sq"], grad, torch.where(first, 0.0, b2))
        return m, {"step": before + 1, "exp_avg": m, "exp_avg_sq": v}


SPEC = Spec(
    build=ADOPT,
    elementwise=True,
    state="two buffers per weight and a step",
    cost="one gradient; about 11 passes over the weights",
    cite="""@inproceedings{taniguchi2024adopt,
  title = {{ADOPT}: Modified {Adam} Can Converge with Any $\\beta_2$ with the Optimal Rate},
  author = {Taniguchi, Shohei and Harada, Keno and Minegishi, Gouki and Oshima, Yuta and Jeong, Seong Cheol
    and Nagahara, Go and Iiyama, Tomoshi and Suzuki, Masahiro and Iwasawa, Yusuke and Matsuo, Yutaka},
  booktitle = {Advances in Neural Information Processing Systems},
  volume = {37},
  year = {2024}
}""",
)
