"""PSGD Kron: learn triangular Kronecker factors that whiten the gradient, by small steps on the factors themselves.

Papers: Li 2018, "Preconditioned Stochastic Gradient Descent", and Li 2022, "Black Box Lie Group Preconditioners for
SGD". Variant: gradient whitening with the update dQ = E*Q on upper triangular factors; reference:
evanatyourservice/kron_torch (Kron), which is psgd_torch's `EQ` with a momentum and a clipped update.

    m <- mu*m + (1 - mu)*g;  n = m / (1 - mu^t)                     momentum
    at a parameter's first step, and where t is divisible by precondition_frequency:
        V standard normal;  h = n + sqrt(eps32)*mean(|n|)*V         damped; or from g where whiten="gradient"
        A = Q_1 h Q_2^T;  B = Q_1^-T V Q_2^-1                       for a matrix; Q_i along each dimension i in general
        for each i: T = A_(i) A_(i)^T, S = B_(i) B_(i)^T            unfolded along dimension i (formulas/kronecker.py)
            Q_i <- Q_i - precond_lr * triu(T - S) Q_i / |T + S|     a lower bound of the spectral norm
            q_i <- q_i - precond_lr * (T - S) q_i / max(T + S)      where Q_i is diagonal: the diagonals of T and S
    u <- Q_1^T Q_1 n Q_2^T Q_2;  u <- u * min(1, max_rms / rms(u))
    w <- w - lr*wd*w - lr*u

g gradient, w weight, m, V: one shape, any rank; Q_i: (di, di), or (di,) where it is diagonal; Q_i = I before the first
step; mu is momentum, eps32 = 2^-23. At the fixed point E[(P h)(P h)^T] = E[V V^T]: P = Q^T Q whitens.

A factor is diagonal for a vector or scalar, and for a dimension of size 1 or above max_size_triangular; memory_save
"one_diag" makes it so for the largest dimension, "smart_one_diag" if no other is as large, "all_diag" for every one. A
convolution is the matrix (out, in*k*k), or with merge_dims off has a factor for every dimension.

Deviations from kron_torch: V is counter_noise's, a function of the step, the same for all tensors of one shape; the
factors change every precondition_frequency steps (there 1 in 1 / p, p falling from 1 to 0.03 by step 4000: set the
group's value while training for that); they are balanced (scaled to one largest entry, which changes no P) at every
change, not at one in 100; the damping does not reach u; a tensor whose h is 0 keeps its factors, which would grow
without bound; merge_dims keeps the first dimension apart, theirs cuts where the matrix is most nearly square.
State: momentum_buffer (m), step, Q_i. Cost: 4 products of the weight with a di*di matrix for each factor; when they
change also 4 more, a triangular solve and two (di, di) products.
Memory: 3 numbers of state and 13 of work per weight of a square matrix.
"""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from algos.formulas.counter_noise import normal_noise
from algos.formulas.ema import ema, gathered_weight
from algos.formulas.kronecker import along, folded, gram
from algos.hyper_tensors import HyperValues
from algos.per_tensor import PerTensorOptimizer
from algos.spec import Choice, Flag, Int, Real, Spec
from algos.units import State

DAMPING = 2.0**-11.5  # sqrt(eps) of float32


class PSGDKron(PerTensorOptimizer):
    """A whitening preconditioner of triangular Kronecker factors, followed by gradient descent.

    Of a gradient that does not change, the update goes to a constant root mean square, whatever the gradient's size:

    >>> w = torch.nn.Parameter(torch.zeros(2, 2)); w.grad = torch.tensor([[300.0, 0.0], [0.0, 100.0]])
    >>> optimizer = PSGDKron([w], lr=0.1, max_rms=100.0)
    >>> for _ in range(200):
    ...     before = w.detach().clone(); optimizer.step()
    >>> 0.05 < (w - before).square().mean().sqrt().item() < 0.2
    True
    """

    lr: float = Real(1e-3, above=0, search="1e-4:1e-2:log", unit="weight units per update")
    momentum: float = Real(0.9, low=0, below=1)
    precond_lr: float = Real(0.1, above=0, high=1)
    precondition_frequency: int = Int(1, low=1)
    whiten: str = Choice("momentum", ("momentum", "gradient"))
    max_size_triangular: int = Int(8192, low=0)
    memory_save: str = Choice("none", ("none", "one_diag", "smart_one_diag", "all_diag"))
    merge_dims: bool = Flag(True)
    max_rms: float = Real(1.1, above=0, unit="root mean square of the direction")
    weight_decay: float = Real(0.0, low=0, search="1e-3:3e-1:log", unit="fraction of the weight, times lr")
    decay_all: bool = Flag(False)  # also norms, biases and embeddings

    needs: ClassVar[tuple[str, ...]] = ("phase",)
    period: ClassVar[str] = "precondition_frequency"
    exact_state: ClassVar[tuple[str, ...]] = ("Q_0", "Q_1", "Q_2", "Q_3", "Q_4")

    @staticmethod
    def init(param: Tensor, hyper: HyperValues) -> State:
        return {
            "step": torch.zeros((), dtype=torch.float32, device=param.device),
            "momentum_buffer": torch.zeros_like(param),
            **{
                f"Q_{i}": torch.ones(size, dtype=param.dtype, device=param.device)
                if diagonal
                else torch.eye(size, dtype=param.dtype, device=param.device)
                for i, (size, diagonal) in enumerate(_factors(param, hyper))
            },
        }

    @staticmethod
    def direction(param: Tensor, grad: Tensor, state: State, hyper: HyperValues, *, phase: str) -> tuple[Tensor, State]:
        t = state["step"] + 1
        m = ema(state["momentum_buffer"], grad, hyper.momentum)
        shape = tuple(size for size, _ in _factors(param, hyper))
        n = m / gathered_weight(hyper.momentum, t)
        if not shape:
            return n, {**state, "step": t, "momentum_buffer": m}
        n = n.reshape(shape)
        factors = [state[f"Q_{i}"] for i in range(len(shape))]
        if phase != "between":
            whitened = n if hyper.whiten == "momentum" else grad.reshape(shape)
            factors = _learned(_balanced(factors), whitened, normal_noise(n, t), hyper.precond_lr)
        u = n
        for i, q in enumerate(factors):
            u = _apply(_apply(u, q.mT if q.dim() == 2 else q, i), q, i)
        u = u * (hyper.max_rms / (u.square().mean().sqrt() + 1e-12)).clamp(max=1)
        new = {"step": t, "momentum_buffer": m, **{f"Q_{i}": q for i, q in enumerate(factors)}}
        return u.reshape(param.shape), new


def _factors(param: Tensor, hyper: HyperValues) -> list[tuple[int, bool]]:
    """The size of each factor, and whether it is diagonal; none for an empty tensor."""
    shape = folded(param.shape, hyper.merge_dims) or (1,)
    if not param.numel():
        return []
    largest = max(range(len(shape)), key=lambda i: shape[i])
    apart = hyper.memory_save == "one_diag" or (hyper.memory_save == "smart_one_diag" and shape.count(max(shape)) == 1)
    saved = range(len(shape)) if hyper.memory_save == "all_diag" else [largest] if apart else []
    return [
        (size, len(shape) == 1 or size == 1 or size > hyper.max_size_triangular or i in saved)
        for i, size in enumerate(shape)
    ]


def _learned(factors: list[Tensor], h: Tensor, noise: Tensor, rate: Tensor) -> list[Tensor]:
    """The factors after one step towards whitening h."""
    rate = rate * (h.abs().amax() > 0)
    a, b = h + DAMPING * h.abs().mean() * noise, noise
    for i, q in enumerate(factors):
        a = _apply(a, q.mT if q.dim() == 2 else q, i)
        b = _apply_inverse(b, q, i)
    return [_stepped(q, a, b, i, rate) for i, q in enumerate(factors)]


def _stepped(q: Tensor, a: Tensor, b: Tensor, dim: int, rate: Tensor) -> Tensor:
    tiny = torch.finfo(q.dtype).tiny
    if q.dim() < 2:
        others = [i for i in range(a.dim()) if i != dim]
        t, s = (x.square().sum(others) if others else x.square() for x in (a, b))
        return q - rate * (t - s) * q / (t + s).amax().clamp(min=tiny)
    t, s = gram(a, dim), gram(b, dim)
    return q - (rate / norm_bound(t + s).clamp(min=tiny)) * ((t - s).triu() @ q)


def _balanced(factors: list[Tensor]) -> list[Tensor]:
    """The same product of factors, with one largest entry for all."""
    logs = [q.abs().amax().log() for q in factors]
    mean = torch.stack(logs).mean()
    return [q * (mean - log).exp() for q, log in zip(factors, logs, strict=True)] if len(factors) > 1 else factors


def _apply(x: Tensor, q: Tensor, dim: int) -> Tensor:
    """q^T, or a diagonal, along a dimension."""
    return along(x, q, dim) if q.dim() == 2 else x * q.reshape(-1, *[1] * (x.dim() - dim - 1))


def _apply_inverse(x: Tensor, q: Tensor, dim: int) -> Tensor:
    """q^-T along a dimension."""
    if q.dim() < 2:
        return x / q.reshape(-1, *[1] * (x.dim() - dim - 1))
    rows = x.movedim(dim, -1)
    solved = torch.linalg.solve_triangular(q, rows.reshape(-1, q.shape[0]), upper=True, left=False)
    return solved.reshape(rows.shape).movedim(-1, dim)


def norm_bound(matrix: Tensor) -> Tensor:
    """A lower bound of a symmetric matrix's spectral norm: one power iteration from its longest column.

    >>> norm_bound(torch.diag(torch.tensor([3.0, 5.0])))
    tensor(5.)
    """
    largest = matrix.abs().amax()
    scaled = matrix / torch.where(largest > 0, largest, 1.0)
    longest = scaled.square().sum(0).argmax()
    x = scaled @ scaled.index_select(1, longest.reshape(1)).squeeze(1)
    return largest * torch.linalg.vector_norm(scaled @ x) / torch.linalg.vector_norm(x).clamp(min=1e-30)


SPEC = Spec(
    build=PSGDKron,
    needs=("phase",),
    state="one buffer per weight, a triangular matrix per dimension, a step",
    cost="one gradient; 4 products per weight and dimension; when the factors change 4 more and a triangular solve",
    cite="""@article{li2018preconditioned,
  title = {Preconditioned Stochastic Gradient Descent},
  author = {Li, Xi-Lin},
  journal = {IEEE Transactions on Neural Networks and Learning Systems},
  volume = {29},
  number = {5},
  pages = {1454--1466},
  year = {2018},
  eprint = {1512.04202},
  archivePrefix = {arXiv}
}
@misc{li2022black,
  title = {Black Box {Lie} Group Preconditioners for {SGD}},
  author = {Li, Xi-Lin},
  year = {2022},
  eprint = {2211.04422},
  archivePrefix = {arXiv}
}""",
)
