"""Muon: momentum, orthogonalized, for matrices; AdamW for the rest.

Source: Jordan et al. 2024, https://kellerjordan.github.io/posts/muon; scaling "match_rms_adamw": Liu et al. 2025,
"Muon is Scalable for LLM Training", equation 4. Deviations: the Newton-Schulz iteration runs in the mathematics' own
dtype (float32) unless `orthogonalize_in` says bfloat16, which is what the authors and torch.optim.Muon do; a
convolution's scale is that of its matrix (the authors' code takes kernel height by width).

    m <- mu*m + (1 - mu)*g                         momentum
    n <- (1 - mu)*g + mu*m, or m                   Nesterov, or not
    O <- NewtonSchulz(n)                           singular values to about 1 (formulas/newton_schulz.py)
    s <- sqrt(max(1, rows/columns))                scaling "original"
         0.2*sqrt(max(rows, columns))              scaling "match_rms_adamw": AdamW's lr and wd carry over
    w <- w - lr*wd*w - lr*s*O                      decoupled decay

g, m, n, w: one shape. As a matrix a weight is (first dimension, all others): a convolution is (out, in*k*k).

Which parameters: given a model, the embeddings, the output head (the last matrix), norms, biases and scales go to the
fallback rule, AdamW with the `fallback_*` hyperparameters (of these only the head decays, unless `decay_all`); the rest
to the matrix rule. Fused query-key-value weights (names with qkv, in_proj or c_attn, a first dimension divisible by 3)
are three matrices, orthogonalized apart: their group has parts=3. Given parameters without a model, those of rank 2 or
more go to the matrix rule; groups may say rule="fallback".

State: momentum_buffer (m); for the fallback AdamW's. Cost: 15 matrix products per matrix, and one gradient per step.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor

from algos.finding import InputError
from algos.formulas.ema import ema
from algos.formulas.newton_schulz import orthogonalize
from algos.hyper_tensors import HyperValues
from algos.optimizers.adamw import AdamW
from algos.parameters import GroupRule, Place, decays
from algos.per_tensor import PerTensorOptimizer
from algos.spec import Choice, Flag, Int, Pair, Real, Spec
from algos.units import State

FUSED = ("qkv", "in_proj", "c_attn")


class Muon(PerTensorOptimizer):
    """Orthogonalized momentum for matrices, with a visible AdamW fallback: one optimizer, one state_dict.

    The direction of a matrix has singular values near 1, whatever the gradient's size:

    >>> w = torch.nn.Parameter(torch.zeros(2, 2)); w.grad = torch.tensor([[1000.0, 0.0], [0.0, 0.0]])
    >>> Muon([w], lr=1.0).step(); 0.6 < -w[0, 0].item() < 1.3
    True
    """

    lr: float = Real(0.02, above=0, search="1e-3:1e-1:log", unit="spectral norm per update")
    momentum: float = Real(0.95, low=0, below=1)
    nesterov: bool = Flag(True)
    steps: int = Int(5, low=1, high=20)  # of Newton-Schulz
    scaling: str = Choice("original", ("original", "match_rms_adamw"))
    orthogonalize_in: str = Choice("weight", ("weight", "bfloat16"))
    parts: int = Int(1, low=1)  # matrices on top of one another in each weight; the grouping gives 3 to fused QKV
    weight_decay: float = Real(0.0, low=0, search="1e-3:1e-1:log", unit="fraction of the weight, times lr")
    fallback_lr: float = Real(1e-3, above=0, search="1e-4:3e-2:log", unit="weight units per update")
    fallback_betas: tuple[float, float] = Pair(0.9, 0.95, low=0, below=1)
    fallback_eps: float = Real(1e-8, low=0, unit="gradient units")
    fallback_weight_decay: float = Real(0.0, low=0, unit="fraction of the weight, times lr")
    decay_all: bool = Flag(False)  # the fallback also decays norms, biases and embeddings

    rules: ClassVar[Mapping[str, type[PerTensorOptimizer]]] = {"fallback": AdamW}

    @staticmethod
    def init(param: Tensor, hyper: HyperValues) -> State:
        return {"momentum_buffer": torch.zeros_like(param)}

    @staticmethod
    def direction(param: Tensor, grad: Tensor, state: State, hyper: HyperValues) -> tuple[Tensor, State]:
        m = ema(state["momentum_buffer"], grad, hyper.momentum)
        n = ema(m, grad, hyper.momentum) if hyper.nesterov else m
        flat = n.flatten(1)
        matrices = flat.reshape(hyper.parts, flat.shape[0] // hyper.parts, flat.shape[1])
        dtype = torch.bfloat16 if hyper.orthogonalize_in == "bfloat16" else None
        o = orthogonalize(matrices, hyper.steps, dtype)
        return (scale(hyper.scaling, *matrices.shape[1:]) * o).reshape(n.shape), {"momentum_buffer": m}

    @classmethod
    def group_rules(cls, hyper: Mapping[str, Any]) -> list[GroupRule]:
        apart = decays(hyper["fallback_weight_decay"]) and not hyper["decay_all"]
        undecayed = {"rule": "fallback", "weight_decay": 0.0}
        return [
            GroupRule("fallback, not decayed", lambda place: apart and place.role not in ("matrix", "head"), undecayed),
            GroupRule("fallback", lambda place: place.role != "matrix", {"rule": "fallback"}),
            GroupRule("fused matrices", _is_fused, {"parts": 3}),
            GroupRule("matrices", lambda place: True),
        ]

    @classmethod
    def rule_for(cls, param: Tensor, rank: int) -> str:
        return "" if rank >= 2 else "fallback"

    def _check_parameter(self, param: Tensor, group: Mapping[str, Any]) -> None:
        super()._check_parameter(param, group)
        members = self.population is not None
        shape = param.shape[members:]
        if not group.get("rule") and (len(shape) < 2 or shape[0] % group["parts"]):
            raise InputError(
                f"a parameter of shape {tuple(shape)} is not {group['parts']} matrices",
                "give its group rule='fallback', or a number of parts that divides its first dimension",
                place="Muon",
            )


def scale(scaling: str, rows: int, columns: int) -> float:
    """What the orthogonalized matrix is multiplied by.

    >>> scale("original", 8, 2), scale("original", 2, 8), scale("match_rms_adamw", 2, 25)
    (2.0, 1.0, 1.0)
    """
    if scaling == "original":
        return math.sqrt(max(1.0, rows / max(1, columns)))
    return 0.2 * math.sqrt(max(rows, columns))


def _is_fused(place: Place) -> bool:
    return place.param.shape[0] % 3 == 0 and any(mark in place.name.lower() for mark in FUSED)


SPEC = Spec(
    build=Muon,
    needs=("names",),
    state="one buffer per weight of a matrix; AdamW's for the rest",
    cost="one gradient; 15 matrix products per matrix",
    cite="""@misc{jordan2024muon,
  title = {Muon: An optimizer for hidden layers in neural networks},
  author = {Jordan, Keller and Jin, Yuchen and Boza, Vlado and You, Jiacheng and Cesista, Franz and Newhouse, Laker
    and Bernstein, Jeremy},
  year = {2024},
  url = {https://kellerjordan.github.io/posts/muon/}
}
@misc{liu2025muon,
  title = {Muon is Scalable for {LLM} Training},
  author = {Liu, Jingyuan and Su, Jianlin and Yao, Xingcheng and others},
  year = {2025},
  eprint = {2502.16982},
  archivePrefix = {arXiv}
}""",
)
