"""Dion: an orthonormal update of low rank, found by one power iteration a step, with feedback of what it leaves out.

Paper: Ahn et al. 2025, algorithm 1, https://arxiv.org/abs/2504.05295; reference: microsoft/dion, whose centralized
code has this transposition and its treatment of zeros. The paper's one power iteration starts from the last step's
right factor. Variant: P is orthonormalized by Householder QR (`torch.linalg.qr`), as in the reference's plain version,
not by the randomized Cholesky QR of its distributed one, which approximates it. Deviations: the first Q is drawn from
one fixed stream of normal numbers, so a step does not depend on torch's global seed (the reference draws from that);
columns that B has not got stay zero (below);
convolutions and fused weights are matrices as in Muon (the reference takes rank 2 only).

    B <- M + g                                    M the momentum; (rows, columns), the wide transposed
    P <- orthonormalize(B Q);  R <- B^T P         B is about P R^T, of rank r = ceil(rank_fraction*min(rows, columns))
    M <- B - (1 - mu)*P R^T                       error feedback: what is not in P R^T does not decay
    Q <- R, each column divided by its norm + eps
    w <- w - lr*wd*w - lr*sqrt(rows/columns)*P Q^T

Where B's rank is below r, QR invents columns P_j, with rounding alone in R_j, which its norm would blow up to length 1
(the reference's step for a gradient of rank 1 in float32 has singular values of 6 and more; it cares for B = 0 only). A
column with |R_j| <= 256 units of rounding of |B|_F (3e-5 in float32) has P_j = 0 here, and Q_j stays: rounding gives up
to some 200 in a first step, and a few later. What B has there waits in M. In float32 entries of B beyond 1e18 overflow.
P Q^T is orthonormal only as far as R's columns are orthogonal, to which the power iteration takes several steps.
sqrt(rows/columns) is of the weight as it is, not transposed.
State: momentum_buffer (M), Q: (parts, min(rows, columns), r); for the fallback AdamW's.
Cost: one gradient; four products of 2*rows*columns*r operations and a QR of (max(rows, columns), r) per matrix.
Memory: 2 numbers of state and 8 of work per weight of a square matrix.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import ClassVar

import torch
from torch import Tensor

from algos.hyper_tensors import HyperValues
from algos.matrices import MatrixOptimizer, as_matrices
from algos.optimizers.adamw import AdamW
from algos.optimizers.muon import scale
from algos.per_tensor import PerTensorOptimizer
from algos.spec import Choice, Flag, Int, Pair, Real, Spec
from algos.units import State

#: Units of rounding of |B|_F that a column of R may have where B has nothing.
NOISE = 256.0


class Dion(MatrixOptimizer):
    """Low-rank orthonormal updates with error feedback; AdamW for what is no hidden matrix.

    A gradient with one singular value moves the weights by an update with one, which is 1:

    >>> w = torch.nn.Parameter(torch.zeros(2, 2)); w.grad = torch.tensor([[1000.0, 0.0], [0.0, 0.0]])
    >>> Dion([w], lr=1.0).step(); round(-w[0, 0].item(), 4)
    1.0
    """

    lr: float = Real(0.01, above=0, search="1e-3:1e-1:log", unit="RMS operator norm per update")
    momentum: float = Real(0.95, low=0, below=1)  # the paper's mu
    rank_fraction: float = Choice(1.0, (1.0, 0.5, 0.25, 0.125, 0.0625))  # of the smaller side; rounded up
    eps: float = Real(1e-8, low=0, unit="gradient units")
    parts: int = Int(1, low=1)  # matrices on top of one another in each weight; the grouping gives 3 to fused QKV
    weight_decay: float = Real(0.01, low=0, search="1e-3:1e-1:log", unit="fraction of the weight, times lr")
    fallback_lr: float = Real(1e-3, above=0, search="1e-4:3e-2:log", unit="weight units per update")
    fallback_betas: tuple[float, float] = Pair(0.9, 0.95, low=0, below=1)
    fallback_eps: float = Real(1e-8, low=0, unit="gradient units")
    fallback_weight_decay: float = Real(0.0, low=0, unit="fraction of the weight, times lr")
    decay_all: bool = Flag(False)  # the fallback also decays norms, biases and embeddings

    scale_free: ClassVar[dict[str, float]] = {"eps": 0.0, "fallback_eps": 0.0}
    rules: ClassVar[Mapping[str, type[PerTensorOptimizer]]] = {"fallback": AdamW}
    exact_state: ClassVar[tuple[str, ...]] = ("Q",)

    @staticmethod
    def init(param: Tensor, hyper: HyperValues) -> State:
        parts, rows, columns = as_matrices(param, hyper.parts).shape
        side = min(rows, columns)
        rank = math.ceil(hyper.rank_fraction * side)
        return {"momentum_buffer": torch.zeros_like(param), "Q": normal((parts, side, rank), like=param)}

    @staticmethod
    def direction(param: Tensor, grad: Tensor, state: State, hyper: HyperValues) -> tuple[Tensor, State]:
        momentum = state["momentum_buffer"] + grad
        given = as_matrices(momentum, hyper.parts)
        wide = given.shape[-2] < given.shape[-1]
        b = given.mT if wide else given
        p, r, q = power_iteration(b, state["Q"], hyper.eps)
        kept, step = p @ r.mT, p @ q.mT
        kept, step = (kept.mT, step.mT) if wide else (kept, step)
        m = momentum - (1 - hyper.momentum) * kept.reshape(grad.shape)
        u = step.reshape(grad.shape) * scale("unit_rms_norm", *given.shape[1:])
        return u, {"momentum_buffer": m, "Q": q}


def power_iteration(b: Tensor, q: Tensor, eps: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """(P, R, next Q) of one iteration from Q. b: (..., long, short); q: (..., short, r); P: (..., long, r)."""
    p, _ = torch.linalg.qr(b @ q)
    r = b.mT @ p
    r_norm = torch.linalg.vector_norm(r, dim=-2, keepdim=True)
    rounding = NOISE * torch.finfo(b.dtype).eps * torch.linalg.vector_norm(b, dim=(-2, -1), keepdim=True)
    invented = r_norm <= rounding
    return torch.where(invented, 0.0, p), r, torch.where(invented, q, r / (r_norm + eps))


def normal(shape: tuple[int, ...], like: Tensor) -> Tensor:
    """Standard normal numbers, the same at every call, on the device and in the dtype of `like`."""
    if like.device.type == "meta":
        return like.new_empty(shape)
    stream = torch.Generator().manual_seed(0)
    return torch.randn(shape, generator=stream, dtype=torch.float64).to(like.device, like.dtype)


SPEC = Spec(
    build=Dion,
    needs=("names",),
    state="one buffer per weight of a matrix and r per row of its smaller side; AdamW's for the rest",
    cost="one gradient; 4 products of low rank and a QR per matrix",
    cite="""@misc{ahn2025dion,
  title = {Dion: Distributed Orthonormalized Updates},
  author = {Ahn, Kwangjun and Xu, Byron and Abreu, Natalie and Fan, Ying and Magakyan, Gagik and Sharma, Pratyusha
    and Zhan, Zheng and Langford, John},
  year = {2025},
  eprint = {2504.05295},
  archivePrefix = {arXiv}
}""",
)
