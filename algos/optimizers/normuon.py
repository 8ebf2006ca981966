"""NorMuon: Muon whose neurons get equal steps: each row is divided by the root mean square it has had of late.

Paper: Li et al. 2025, algorithm 1, https://arxiv.org/abs/2510.05491; reference: zichongli5/NorMuon. Used in
modded-nanogpt's records since October 2025 and in nanochat. Momentum, iteration, scalings and grouping are Muon's.
Scaling "original" is the reference's (Muon's norm is kept), "match_rms_adamw" the paper's (entries have a root mean
square of 0.2). `neurons` "rows" is the paper's; "short_axis" averages along the longer side, so wide matrices are
divided by column: modded-nanogpt, nanochat and NVIDIA's Emerging-Optimizers. Deviations: Nesterov momentum, which the
reference has and the paper has not, is a flag; a convolution is one matrix (the reference divides kernel by kernel).

    O <- NewtonSchulz(n)                              n: Muon's momentum, (rows, columns)
    v <- b2*v + (1 - b2)*mean(O^2 over a row)         one number a neuron; from 0, without bias correction
    P <- O / (sqrt(v) + eps)
    U <- max(1, rows/columns)^0.5 * |O|/|P| * P       scaling "original"
         0.2*sqrt(rows*columns) / |P| * P             "match_rms_adamw"
         (rows/columns)^0.5 * |O|/|P| * P             "unit_rms_norm"
    w <- w - lr*wd*w - lr*U

|.| is Frobenius's norm. The norms and v of fused weights are those of each part.
State: momentum_buffer, exp_avg_sq (v: (parts, rows, 1)); for the fallback AdamW's. Cost: Muon's, and 4 passes.
Memory: 1 number of state and 6 of work per weight.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import ClassVar

import torch
from torch import Tensor

from algos.formulas.ema import ema
from algos.hyper_tensors import HyperValues
from algos.matrices import MatrixOptimizer, as_matrices
from algos.optimizers.adamw import AdamW
from algos.optimizers.muon import momentum, orthogonal, scale
from algos.per_tensor import PerTensorOptimizer
from algos.spec import Choice, Flag, Int, Pair, Real, Spec
from algos.units import State


class NorMuon(MatrixOptimizer):
    """Muon with a second moment for each neuron.

    Rows get equal steps, also where orthogonalization leaves them unequal:

    >>> w = torch.nn.Parameter(torch.zeros(3, 2)); w.grad = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]])
    >>> NorMuon([w], lr=1.0).step(); w.norm(dim=1).round(decimals=4).unique().numel()
    1
    """

    lr: float = Real(0.02, above=0, search="1e-3:1e-1:log", unit="spectral norm per update")
    momentum: float = Real(0.95, low=0, below=1)
    beta2: float = Real(0.95, low=0, below=1)
    eps: float = Real(1e-10, low=0)
    nesterov: bool = Flag(True)
    neurons: str = Choice("rows", ("rows", "short_axis"))
    steps: int = Int(5, low=1, high=20)  # of Newton-Schulz
    coefficients: str = Choice("newton_schulz", ("newton_schulz", "polar_express"))
    scaling: str = Choice("original", ("original", "match_rms_adamw", "unit_rms_norm"))
    orthogonalize_in: str = Choice("weight", ("weight", "bfloat16"))
    parts: int = Int(1, low=1)  # matrices on top of one another in each weight; the grouping gives 3 to fused QKV
    weight_decay: float = Real(0.0, low=0, search="1e-3:1e-1:log", unit="fraction of the weight, times lr")
    fallback_lr: float = Real(1e-3, above=0, search="1e-4:3e-2:log", unit="weight units per update")
    fallback_betas: tuple[float, float] = Pair(0.9, 0.95, low=0, below=1)
    fallback_eps: float = Real(1e-8, low=0, unit="gradient units")
    fallback_weight_decay: float = Real(0.0, low=0, unit="fraction of the weight, times lr")
    decay_all: bool = Flag(False)  # the fallback also decays norms, biases and embeddings

    scale_free: ClassVar[dict[str, float]] = {"eps": 0.0, "fallback_eps": 0.0}
    rules: ClassVar[Mapping[str, type[PerTensorOptimizer]]] = {"fallback": AdamW}
    unsigned_state: ClassVar[tuple[str, ...]] = ("exp_avg_sq",)

    @staticmethod
    def init(param: Tensor, hyper: HyperValues) -> State:
        squares = begun(as_matrices(param, hyper.parts), hyper.neurons)
        return {"momentum_buffer": torch.zeros_like(param), "exp_avg_sq": squares}

    @staticmethod
    def direction(param: Tensor, grad: Tensor, state: State, hyper: HyperValues) -> tuple[Tensor, State]:
        n, m = momentum(grad, state["momentum_buffer"], hyper)
        o = orthogonal(as_matrices(n, hyper.parts), hyper)
        p, v = by_neuron(o, state["exp_avg_sq"], hyper)
        return rescaled(p, o, hyper.scaling).reshape(n.shape), {"momentum_buffer": m, "exp_avg_sq": v}


def begun(matrices: Tensor, neurons: str) -> Tensor:
    """v before the first step. matrices: (parts, rows, columns)."""
    shape = list(matrices.shape)
    shape[averaged_axis(neurons, matrices)] = 1
    return matrices.new_zeros(shape)


def averaged_axis(neurons: str, matrices: Tensor) -> int:
    """Along which the squares of (..., rows, columns) are averaged."""
    return -2 if neurons == "short_axis" and matrices.shape[-2] < matrices.shape[-1] else -1


def by_neuron(o: Tensor, exp_avg_sq: Tensor, hyper: HyperValues) -> tuple[Tensor, Tensor]:
    """(P, v) of orthogonalized matrices, (parts, rows, columns). hyper: neurons, beta2, eps."""
    if not o.numel():
        return o, exp_avg_sq
    v = ema(exp_avg_sq, o.square().mean(averaged_axis(hyper.neurons, o), keepdim=True), hyper.beta2)
    return o * (v.sqrt() + hyper.eps).reciprocal(), v


def rescaled(p: Tensor, o: Tensor, scaling: str) -> Tensor:
    """U: P at the norm that the scaling asks for. p, o: (parts, rows, columns)."""
    rows, columns = o.shape[-2:]
    norm = frobenius(p).clamp(min=1e-10)
    if scaling == "match_rms_adamw":
        return p * (0.2 * math.sqrt(rows * columns) / norm)
    return p * (scale(scaling, rows, columns) * frobenius(o) / norm)


def frobenius(matrices: Tensor) -> Tensor:
    """The norm of each of (..., rows, columns), as (..., 1, 1)."""
    return torch.linalg.vector_norm(matrices, dim=(-2, -1), keepdim=True)


SPEC = Spec(
    build=NorMuon,
    needs=("names",),
    state="one buffer per weight of a matrix and a number per row; AdamW's for the rest",
    cost="one gradient; 15 matrix products per matrix",
    cite="""@misc{li2025normuon,
  title = {{NorMuon}: Making {Muon} more efficient and scalable},
  author = {Li, Zichong and Liu, Liming and Liang, Chen and Chen, Weizhu and Zhao, Tuo},
  year = {2025},
  eprint = {2510.05491},
  archivePrefix = {arXiv}
}""",
)
