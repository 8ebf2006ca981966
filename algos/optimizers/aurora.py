"""Aurora: Muon whose updates of tall matrices move every neuron as much, and are still orthonormal.

Paper: Dewulf et al. 2026, "Aurora: A Leverage-Aware Spectral Optimizer", https://arxiv.org/abs/2606.27715; reference:
tilde-research/aurora-release. Evidence: records of the optimizer track of modded-nanogpt (pull request 284: 3225 to
3175 steps, 20 seeds, by this change of the polar factor alone; 321 found it neutral beside SOAP-Muon).
`sides` "tall" is the authors' present text, whose wide and square matrices are Muon's; "both" is their first release
and that record, which treat a wide matrix as the transposed of a tall one. Momentum, scalings and grouping are Muon's.

    n                                         Muon's momentum, of a tall matrix (rows > columns)
    D <- 1 / max(|row of n|, eps)             one number a row
    U <- polar(D n)
    D <- D * (columns/rows / |row of U|^2)^balance, U <- polar(D n)     `rounds` - 1 times
    w <- w - lr*wd*w - lr*s*U                 s: Muon's scale, max(1, rows/columns)^0.5

The polar factor is that of eight Polar Express steps in float32, singular values within 0.1 percent of 1 unless they
began below a thousandth (deviation: the authors' code runs twelve Newton-Schulz steps, and has changed the polynomials
twice; the limit is the same). `orthogonalize_in` "bfloat16" is faster.

State: momentum_buffer; for the fallback AdamW's. Cost: 24 matrix products per round and matrix; one gradient per step.
Memory: 1 number of state and 6 of work per weight.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import torch
from torch import Tensor

from algos.hyper_tensors import HyperValues
from algos.matrices import MatrixOptimizer, as_matrices
from algos.optimizers.adamw import AdamW
from algos.optimizers.muon import momentum, orthogonal, scale
from algos.per_tensor import PerTensorOptimizer
from algos.spec import Choice, Flag, Int, Pair, Real, Spec
from algos.units import State


class Aurora(MatrixOptimizer):
    """Muon with a polar factor of nearly equal rows; AdamW for what is no hidden matrix.

    The rows of a tall update come closer to one another than Muon's:

    >>> grad = torch.tensor([[3.0, 0.0], [0.0, 1.0], [2.0, 1.0], [0.0, 0.2]])
    >>> w = torch.nn.Parameter(torch.zeros(4, 2)); w.grad = grad
    >>> Aurora([w], lr=1.0, rounds=6, weight_decay=0.0).step(); w.norm(dim=1).std().item() < 0.1
    True
    """

    lr: float = Real(0.05, above=0, search="1e-3:3e-1:log", unit="spectral norm per update")
    momentum: float = Real(0.95, low=0, below=1)
    nesterov: bool = Flag(True)
    rounds: int = Int(2, low=1, high=20)  # the authors' pp_iterations
    balance: float = Real(0.5, low=0, high=1)  # the authors' pp_beta
    sides: str = Choice("tall", ("tall", "both"))
    eps: float = Real(1e-7, low=0, unit="gradient units")
    steps: int = Int(8, low=1, high=20)  # of each polar factor
    coefficients: str = Choice("polar_express", ("newton_schulz", "polar_express"))
    scaling: str = Choice("original", ("original", "match_rms_adamw", "unit_rms_norm"))
    orthogonalize_in: str = Choice("weight", ("weight", "bfloat16"))
    parts: int = Int(1, low=1)  # matrices on top of one another in each weight; the grouping gives 3 to fused QKV
    weight_decay: float = Real(0.025, low=0, search="1e-3:1e-1:log", unit="fraction of the weight, times lr")
    fallback_lr: float = Real(1e-3, above=0, search="1e-4:3e-2:log", unit="weight units per update")
    fallback_betas: tuple[float, float] = Pair(0.9, 0.95, low=0, below=1)
    fallback_eps: float = Real(1e-8, low=0, unit="gradient units")
    fallback_weight_decay: float = Real(0.0, low=0, unit="fraction of the weight, times lr")
    decay_all: bool = Flag(False)  # the fallback also decays norms, biases and embeddings

    scale_free: ClassVar[dict[str, float]] = {"eps": 0.0, "fallback_eps": 0.0}
    rules: ClassVar[Mapping[str, type[PerTensorOptimizer]]] = {"fallback": AdamW}

    @staticmethod
    def init(param: Tensor, hyper: HyperValues) -> State:
        return {"momentum_buffer": torch.zeros_like(param)}

    @staticmethod
    def direction(param: Tensor, grad: Tensor, state: State, hyper: HyperValues) -> tuple[Tensor, State]:
        n, m = momentum(grad, state["momentum_buffer"], hyper)
        matrices = as_matrices(n, hyper.parts)
        rows, columns = matrices.shape[1:]
        if rows == columns or not n.numel() or (rows < columns and hyper.sides == "tall"):
            u = orthogonal(matrices, hyper)
        else:
            u = balanced(matrices, hyper) if rows > columns else balanced(matrices.mT, hyper).mT
        return (u * scale(hyper.scaling, rows, columns)).reshape(n.shape), {"momentum_buffer": m}


def balanced(tall: Tensor, hyper: HyperValues) -> Tensor:
    """A polar factor with rows of nearly equal norms. tall: (parts, rows, columns), more rows than columns."""
    rows, columns = tall.shape[-2:]
    d = _row_norms(tall).clamp(min=hyper.eps).reciprocal()
    u = orthogonal(d * tall, hyper)
    for _ in range(hyper.rounds - 1):
        squares = _row_norms(u).clamp(min=hyper.eps).square()
        d = d * (columns / rows / squares).pow(hyper.balance)
        u = orthogonal(d * tall, hyper)
    return u


def _row_norms(matrices: Tensor) -> Tensor:
    return torch.linalg.vector_norm(matrices, dim=-1, keepdim=True)


SPEC = Spec(
    build=Aurora,
    needs=("names",),
    state="one buffer per weight of a matrix; AdamW's for the rest",
    cost="one gradient; 48 matrix products per matrix",
    cite="""@misc{dewulf2026aurora,
  title = {Aurora: A Leverage-Aware Spectral Optimizer},
  author = {Dewulf, Alec and Pai, Dhruv and Yang, Li and Zhang, Ashley and Keigwin, Ben},
  year = {2026},
  eprint = {2606.27715},
  archivePrefix = {arXiv}
}""",
)
