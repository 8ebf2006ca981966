"""MARS-AdamW: AdamW fed with gradients whose noise is reduced by what changed since the last one.

Paper: Yuan et al. 2024, algorithm 1 with AdamW's preconditioner (MARS-AdamW), in its approximate form: the gradient
before, g', is the one of the step before on its own batch; the exact form would evaluate it anew on this batch.
Reference: the authors' MARS (AGI-Arena/MARS, is_approx=True, mars_type="mars-adamw"). As there, g' is zero at the first
step, and c is clipped tensor by tensor, which is why MARS is not elementwise. Deviation: there only weights of exactly
two dimensions are for MARS, and convolutions get AdamW. pytorch_optimizer 4.1 sorts as here, but adds eps before v is
corrected, and 1e-15 under the root.

    c <- g + gamma*b1/(1 - b1)*(g - g')         corrected gradient; g' <- g
    c <- c / max(1, |c|)                        |c| the Euclidean norm of the whole tensor
    m <- b1*m + (1 - b1)*c                      first moment
    v <- b2*v + (1 - b2)*c^2                    second moment, elementwise
    u <- (m / (1 - b1^t)) / (sqrt(v / (1 - b2^t)) + eps)
    w <- w - lr*wd*w - lr*u                     decoupled decay

g, g', c, m, v, w: one shape; t the parameter's own step, from 1.

Which parameters: those of rank 2 or more, embeddings and the head among them; vectors and numbers go to the fallback
rule, AdamW with the `fallback_*` hyperparameters (the authors' lr_1d, betas_1d, weight_decay_1d). Given a model,
vectors and embeddings do not decay unless `decay_all`.

State: exp_avg (m), exp_avg_sq (v), previous_grad (g'), step (t); for the fallback AdamW's.
Cost: O(n) and one gradient per step.
Memory: 3 numbers of state and 5 of work per weight.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor

from algos.formulas.ema import ema, ema_of_square, gathered_weight
from algos.formulas.over_root import corrected
from algos.hyper_tensors import HyperValues
from algos.optimizers.adamw import AdamW
from algos.parameters import GroupRule, decays
from algos.per_tensor import PerTensorOptimizer
from algos.spec import Flag, Pair, Real, Spec
from algos.units import State


class MARS(PerTensorOptimizer):
    """AdamW on variance-reduced gradients for tensors of rank 2 or more, AdamW for the rest.

    >>> w = torch.nn.Parameter(torch.ones(1, 1)); w.grad = torch.tensor([[0.3]])
    >>> MARS([w], lr=0.1).step(); round(w.item(), 4)
    0.9
    """

    lr: float = Real(3e-3, above=0, search="1e-4:3e-2:log", unit="weight units per update")
    betas: tuple[float, float] = Pair(0.95, 0.99, low=0, below=1)
    gamma: float = Real(0.025, low=0, search="0.005:0.1:log")  # how much of the change is added; 0: clipped AdamW
    eps: float = Real(1e-8, low=0, unit="gradient units")
    weight_decay: float = Real(0.0, low=0, search="1e-3:3e-1:log", unit="fraction of the weight, times lr")
    fallback_lr: float = Real(3e-3, above=0, search="1e-4:3e-2:log", unit="weight units per update")
    fallback_betas: tuple[float, float] = Pair(0.9, 0.95, low=0, below=1)
    fallback_eps: float = Real(1e-8, low=0, unit="gradient units")
    fallback_weight_decay: float = Real(0.1, low=0, unit="fraction of the weight, times lr")
    decay_all: bool = Flag(False)  # also vectors and embeddings

    rules: ClassVar[Mapping[str, type[PerTensorOptimizer]]] = {"fallback": AdamW}
    unsigned_state: ClassVar[tuple[str, ...]] = ("exp_avg_sq",)

    @staticmethod
    def init(param: Tensor, hyper: HyperValues) -> State:
        return {
            "step": torch.zeros((), dtype=torch.float32, device=param.device),
            "exp_avg": torch.zeros_like(param),
            "exp_avg_sq": torch.zeros_like(param),
            "previous_grad": torch.zeros_like(param),
        }

    @staticmethod
    def direction(param: Tensor, grad: Tensor, state: State, hyper: HyperValues) -> tuple[Tensor, State]:
        b1, b2 = hyper.betas
        t = state["step"] + 1
        c = torch.lerp(state["previous_grad"], grad, 1 + hyper.gamma * b1 / (1 - b1))
        c = c / torch.linalg.vector_norm(c).clamp(min=1.0)
        m = ema(state["exp_avg"], c, b1)
        v = ema_of_square(state["exp_avg_sq"], c, b2)
        u = corrected(m, v, gathered_weight(b1, t), gathered_weight(b2, t), hyper.eps)
        # A copy: the caller reuses its gradient's memory.
        return u, {"step": t, "exp_avg": m, "exp_avg_sq": v, "previous_grad": grad.clone()}

    @classmethod
    def group_rules(cls, hyper: Mapping[str, Any]) -> list[GroupRule]:
        undecayed: dict[str, Any] = {} if hyper["decay_all"] else {"weight_decay": 0.0}
        apart = decays(hyper["weight_decay"]) and not hyper["decay_all"]
        return [
            GroupRule("fallback", lambda place: place.param.dim() < 2, {"rule": "fallback", **undecayed}),
            GroupRule("not decayed", lambda place: apart and place.role not in ("matrix", "head"), undecayed),
            GroupRule("matrices", lambda place: True),
        ]

    @classmethod
    def rule_for(cls, param: Tensor, rank: int) -> str:
        return "" if rank >= 2 else "fallback"


SPEC = Spec(
    build=MARS,
    needs=("names",),
    state="three buffers per weight and a step; two for vectors",
    cost="one gradient; about 15 passes over the weights",
    cite="""@inproceedings{yuan2025mars,
  title = {{MARS}: Unleashing the Power of Variance Reduction for Training Large Models},
  author = {Yuan, Huizhuo and Liu, Yifeng and Wu, Shuang and Zhou, Xun and Gu, Quanquan},
  booktitle = {International Conference on Machine Learning},
  year = {2025}
}""",
)
