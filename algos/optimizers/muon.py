"""Muon: momentum, orthogonalized, for matrices; AdamW for the rest.

Source: Jordan et al. 2024, https://kellerjordan.github.io/posts/muon; references: torch.optim.Muon and the authors'
KellerJordan/Muon. Scalings: "match_rms_adamw" is Liu et al. 2025, "Muon is Scalable for LLM Training", equation 4;
"unit_rms_norm" is Pethick et al. 2025 and Bernstein 2025. Coefficients "polar_express": Amsel et al. 2025.
Deviations: the iteration runs in the mathematics' own dtype (float32) unless `orthogonalize_in` says bfloat16, which is
what the authors and torch do, and faster (twice on a CPU with bfloat16 products, more on a GPU); a convolution's scale
is that of its matrix (the authors' code takes kernel height by width); n of a norm below 1e-7, their floor and
torch's, also makes a full step.

    m <- mu*m + (1 - mu)*g                         momentum
    n <- (1 - mu)*g + mu*m, or m                   Nesterov, or not
    O <- NewtonSchulz(n)                           singular values to about 1 (formulas/newton_schulz.py)
    s <- sqrt(max(1, rows/columns))                scaling "original" (NVIDIA: shape_scaling)
         0.2*sqrt(max(rows, columns))              "match_rms_adamw" (NVIDIA: 0.2*spectral): for AdamW's lr and wd
         sqrt(rows/columns)                        "unit_rms_norm"
    w <- w - lr*wd*w - lr*s*O                      decoupled decay

g, m, n, w: one shape. As a matrix a weight is (first dimension, all others): a convolution is (out, in*k*k).

Which parameters: hidden matrices; the rest goes to AdamW with the `fallback_*` hyperparameters. Fused query-key-value
weights are three matrices, orthogonalized apart: their group has parts=3. A weight counts as fused if its module is
called qkv, to_qkv, Wqkv, qkv_proj, in_proj or c_attn, by its whole name, and it has three times as many rows as columns
(query, key and value of one width); every other is one matrix, also (in, 3*out) of Conv1D and `query_key_value`, where
heads alternate. Experts stacked as (E, out, in) are one matrix (E, out*in), mixed with one another, unless their group
has parts=E. See algos/matrices.py for all this.

State: momentum_buffer (m); for the fallback AdamW's. Cost: 15 matrix products per matrix, and one gradient per step.
Memory: 1 number of state and 6 of work per weight.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import ClassVar

import torch
from torch import Tensor

from algos.formulas.ema import ema
from algos.formulas.newton_schulz import orthogonalize
from algos.hyper_tensors import HyperValues
from algos.matrices import MatrixOptimizer, as_matrices
from algos.optimizers.adamw import AdamW
from algos.per_tensor import PerTensorOptimizer
from algos.spec import Choice, Flag, Int, Pair, Real, Spec
from algos.units import State


class Muon(MatrixOptimizer):
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
    coefficients: str = Choice("newton_schulz", ("newton_schulz", "polar_express"), added=True)
    scaling: str = Choice("original", ("original", "match_rms_adamw", "unit_rms_norm"))
    orthogonalize_in: str = Choice("weight", ("weight", "bfloat16"))
    parts: int = Int(1, low=1)  # matrices on top of one another in each weight; the grouping gives 3 to fused QKV
    weight_decay: float = Real(0.0, low=0, search="1e-3:1e-1:log", unit="fraction of the weight, times lr")
    fallback_lr: float = Real(1e-3, above=0, search="1e-4:3e-2:log", unit="weight units per update")
    fallback_betas: tuple[float, float] = Pair(0.9, 0.95, low=0, below=1)
    fallback_eps: float = Real(1e-8, low=0, unit="gradient units")
    fallback_weight_decay: float = Real(0.0, low=0, unit="fraction of the weight, times lr")
    decay_all: bool = Flag(False)  # the fallback also decays norms, biases and embeddings

    scale_free: ClassVar[dict[str, float]] = {"fallback_eps": 0.0}
    rules: ClassVar[Mapping[str, type[PerTensorOptimizer]]] = {"fallback": AdamW}

    @staticmethod
    def init(param: Tensor, hyper: HyperValues) -> State:
        return {"momentum_buffer": torch.zeros_like(param)}

    @staticmethod
    def direction(param: Tensor, grad: Tensor, state: State, hyper: HyperValues) -> tuple[Tensor, State]:
        n, m = momentum(grad, state["momentum_buffer"], hyper)
        o = orthogonal(as_matrices(n, hyper.parts), hyper)
        return (o * scale(hyper.scaling, *o.shape[1:])).reshape(n.shape), {"momentum_buffer": m}


def momentum(grad: Tensor, buffer: Tensor, hyper: HyperValues) -> tuple[Tensor, Tensor]:
    """(n, m): what is orthogonalized, and the new momentum. hyper: momentum, nesterov."""
    m = ema(buffer, grad, hyper.momentum)
    return (ema(m, grad, hyper.momentum) if hyper.nesterov else m), m


def orthogonal(matrices: Tensor, hyper: HyperValues) -> Tensor:
    """matrices: (parts, rows, columns). hyper: steps, coefficients, orthogonalize_in."""
    dtype = torch.bfloat16 if hyper.orthogonalize_in == "bfloat16" else None
    return orthogonalize(matrices, hyper.steps, dtype, coefficients=hyper.coefficients)


def scale(scaling: str, rows: int, columns: int) -> float:
    """What the orthogonalized matrix is multiplied by.

    >>> scale("original", 8, 2), scale("original", 2, 8), scale("match_rms_adamw", 2, 25), scale("unit_rms_norm", 2, 8)
    (2.0, 1.0, 1.0, 0.5)
    """
    if scaling == "match_rms_adamw":
        return 0.2 * math.sqrt(max(rows, columns))
    ratio = rows / max(1, columns)
    return math.sqrt(max(1.0, ratio) if scaling == "original" else ratio)


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
}
@misc{amsel2025polar,
  title = {The {Polar Express}: Optimal Matrix Sign Methods and Their Application to the {Muon} Algorithm},
  author = {Amsel, Noah and Persson, David and Musco, Christopher and Gower, Robert M.},
  year = {2025},
  eprint = {2505.16932},
  archivePrefix = {arXiv}
}""",
)
