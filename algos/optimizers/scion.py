"""Scion: every layer moves to a corner of a ball in the norm that suits it.

Paper: Pethick et al. 2025, "Training Deep Learning Models with Norm-Constrained LMOs", https://arxiv.org/abs/2502.07529,
algorithm 3, in both variants; reference: LIONS-EPFL/scion, whose `momentum` (the paper's alpha) is 1 - mu.

    m <- mu*m + (1 - mu)*g
    w <- w - lr*wd*w - lr*scale*L(m)           scale: the ball's radius

`weight_decay` 1 is the constrained variant: w <- (1 - lr)*w + lr*(a corner of the ball), so weights that are in the
ball stay in it. 0 is the unconstrained one. L(m), for m as a matrix (out, in), |.| being root means of squares:
    spectral    sqrt(out/in) * NewtonSchulz(m); of a convolution, (out, in*k*k): sqrt(out/in)/(k*k) * NewtonSchulz(m)
    sign        sign(m)/in
    col_norm    each column by |column| + eps
    embedding   each row, along the last dimension, by |row| + eps: col_norm for a table that is stored as (tokens,
                dimensions), or as (1, tokens, dimensions)
    row_norm    each row by in*|row| + eps
    bias_rms    all by |m| + eps
    auto        spectral for rank 2 or more, else bias_rms

Which layer has which: given a model, hidden matrices spectral (fused query-key-value weights, which muon.py defines,
are three, in a group of parts=3), the output head sign with the radius head_scale, also where it is tied to an
embedding, other embeddings "embedding", norms and vectors bias_rms; every layer is constrained, also vectors. Defaults
are the paper's for nanoGPT. Deviations: Newton-Schulz runs in the mathematics' dtype unless `orthogonalize_in` says
bfloat16, as the authors have it; weights are not initialized on the balls' corners (the authors' `init()`): they stay
as the model has them.

State: momentum_buffer (m). Cost: 15 matrix products per hidden matrix, and one gradient per step.
Memory: 1 number of state and 5 of work per weight.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor

from algos.finding import InputError
from algos.formulas.ema import ema
from algos.hyper_tensors import HyperValues
from algos.matrices import as_matrices, is_fused, is_stack
from algos.optimizers.muon import orthogonal
from algos.parameters import GroupRule, Place
from algos.per_tensor import PerTensorOptimizer
from algos.spec import Choice, Int, Real, Spec
from algos.units import State


class Scion(PerTensorOptimizer):
    """Linear minimization over norm balls: no fallback, every parameter has a norm.

    Constrained, a bias in the ball of radius 50 goes a tenth of the way to a corner:

    >>> w = torch.nn.Parameter(torch.tensor([10.0, 20.0])); w.grad = torch.tensor([3.0, -3.0])
    >>> Scion([w], lr=0.1).step(); w.detach().round(decimals=4)
    tensor([ 4., 23.])
    """

    lr: float = Real(0.000244140625, above=0, search="1e-5:1e-2:log", unit="radii per update")  # 2^-12
    momentum: float = Real(0.9, low=0, below=1)
    scale: float = Real(50.0, above=0)
    head_scale: float = Real(3000.0, above=0)  # of the output head, given a model
    norm: str = Choice("auto", ("auto", "spectral", "sign", "col_norm", "embedding", "row_norm", "bias_rms"))
    eps: float = Real(1e-8, low=0, unit="gradient units")
    steps: int = Int(5, low=1, high=20)  # of Newton-Schulz
    coefficients: str = Choice("newton_schulz", ("newton_schulz", "polar_express"))
    orthogonalize_in: str = Choice("weight", ("weight", "bfloat16"))
    parts: int = Int(1, low=1)  # matrices on top of one another in each weight; the grouping gives 3 to fused QKV
    weight_decay: float = Real(1.0, low=0, unit="fraction of the weight, times lr")

    scale_free: ClassVar[dict[str, float]] = {"eps": 0.0}

    @staticmethod
    def init(param: Tensor, hyper: HyperValues) -> State:
        return {"momentum_buffer": torch.zeros_like(param)}

    @staticmethod
    def direction(param: Tensor, grad: Tensor, state: State, hyper: HyperValues) -> tuple[Tensor, State]:
        m = ema(state["momentum_buffer"], grad, hyper.momentum)
        return hyper.scale * corner(m, hyper), {"momentum_buffer": m}

    @classmethod
    def group_rules(cls, hyper: Mapping[str, Any]) -> list[GroupRule]:
        return [
            GroupRule("head", _is_head, {"norm": "sign", "scale": hyper["head_scale"]}),
            GroupRule("embeddings", lambda place: place.role == "embedding", {"norm": "embedding"}),
            GroupRule("vectors", lambda place: place.role != "matrix", {"norm": "bias_rms"}),
            GroupRule("fused matrices", is_fused, {"parts": 3}),
            GroupRule("matrices", lambda place: True),
        ]

    def _check_parameter(self, param: Tensor, group: Mapping[str, Any]) -> None:
        super()._check_parameter(param, group)
        shape = param.shape[self.population is not None :]
        if len(shape) < 2 and group["norm"] not in ("auto", "bias_rms"):
            raise InputError(
                f"a parameter of shape {tuple(shape)} has no {group['norm']} norm",
                "give its group norm='auto' or 'bias_rms'",
                place="Scion.norm",
            )
        if len(shape) >= 2 and group["norm"] in ("auto", "spectral") and shape[0] % group["parts"]:
            raise InputError(
                f"a parameter of shape {tuple(shape)} is not {group['parts']} matrices",
                "give its group a number of parts that divides its first dimension",
                place="Scion.parts",
            )


def corner(m: Tensor, hyper: HyperValues) -> Tensor:
    """L(m), of m's shape: where the ball of radius 1 reaches furthest along m (the negative of the paper's lmo)."""
    norm = hyper.norm if hyper.norm != "auto" else "spectral" if m.dim() >= 2 else "bias_rms"
    if norm == "bias_rms" or not m.numel():
        return m / (root_mean_square(m, tuple(range(m.dim()))) + hyper.eps) if m.numel() else m
    if norm == "embedding":
        return m / (root_mean_square(m, (-1,)) + hyper.eps)
    matrices = as_matrices(m, hyper.parts if norm == "spectral" else 1)
    rows, columns = matrices.shape[1:]
    if norm == "spectral":
        kernel = math.prod(m.shape[3 if is_stack(m, hyper.parts) else 2 :])
        result = orthogonal(matrices, hyper) * math.sqrt(rows / (columns * kernel))  # columns: in*kernel
    elif norm == "sign":
        result = matrices.sign() / columns
    elif norm == "col_norm":
        result = matrices / (root_mean_square(matrices, (-2,)) + hyper.eps)
    else:
        assert norm == "row_norm", norm
        result = matrices / (root_mean_square(matrices, (-1,)) * columns + hyper.eps)
    return result.reshape(m.shape)


def root_mean_square(x: Tensor, dims: tuple[int, ...]) -> Tensor:
    """Along some dimensions, which stay with size 1.

    >>> root_mean_square(torch.tensor([[3.0, 5.0], [4.0, 5.0]]), (0,)).round(decimals=4)
    tensor([[3.5355, 5.0000]])
    """
    size = math.prod(x.shape[dim] for dim in dims)
    return torch.linalg.vector_norm(x, dim=dims, keepdim=True) / math.sqrt(size)


def _is_head(place: Place) -> bool:
    return place.role == "head" or (place.role == "embedding" and len(place.names) > 1)


SPEC = Spec(
    build=Scion,
    needs=("names",),
    state="one buffer per weight",
    cost="one gradient; 15 matrix products per hidden matrix",
    cite="""@inproceedings{pethick2025training,
  title = {Training Deep Learning Models with Norm-Constrained {LMO}s},
  author = {Pethick, Thomas and Xie, Wanyun and Antonakopoulos, Kimon and Zhu, Zhenyu and Silveti-Falls, Antonio
    and Cevher, Volkan},
  booktitle = {International Conference on Machine Learning},
  year = {2025},
  eprint = {2502.07529},
  archivePrefix = {arXiv}
}""",
)
