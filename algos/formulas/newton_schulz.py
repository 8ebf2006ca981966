"""Newton-Schulz orthogonalization: push every singular value of a matrix towards 1.

Source: Jordan et al. 2024, Muon, https://kellerjordan.github.io/posts/muon (the coefficients are theirs).

    X <- G / |G|_F                                         so that every singular value is at most 1
    A <- X X^T;  X <- a*X + (b*A + c*A^2) X                repeated; each singular value s goes to a*s + b*s^3 + c*s^5

With a, b, c = 3.4445, -4.7750, 2.0315 the singular values end between about 0.7 and 1.2, not at 1: the slope at 0
is as steep as it can be, so that small singular values grow fast. Polar Express has other a, b, c at each step (see
polar_express.py). For tall matrices A is X^T X, the smaller Gram matrix, and X <- a*X + X (b*A + c*A^2).

G is first divided by its largest entry, in its own dtype: so |G|_F neither overflows nor vanishes, and all but zero is
orthogonalized, whatever its size. (The usual floor of |G|_F, 1e-7, would make the result of small matrices smaller.)

Many matrices are one batched product, also under torch.vmap, whose own rule for `baddbmm` would cost three more passes
(a compiler fuses those).
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from algos.formulas import polar_express

COEFFICIENTS = (3.4445, -4.7750, 2.0315)

Polynomials = tuple[tuple[float, float, float], ...]


def orthogonalize(
    matrix: Tensor,
    steps: int = 5,
    dtype: torch.dtype | None = None,
    coefficients: str = "newton_schulz",
) -> Tensor:
    """The nearest semi-orthogonal matrix, roughly.

    matrix: (..., rows, columns). dtype: what to compute in, its own if None. coefficients: "newton_schulz" (Jordan et
    al.: one polynomial) or "polar_express" (Amsel et al.: one a step). Returns the same shape and dtype. A zero matrix
    stays zero.

    >>> orthogonalize(torch.diag(torch.tensor([3.0, 0.1])), steps=8, coefficients="polar_express").round(decimals=3)
    tensor([[1., 0.],
            [0., 1.]])
    """
    if coefficients == "polar_express":
        polynomials, margin = polar_express.polynomials(steps), polar_express.SAFETY
    else:
        assert coefficients == "newton_schulz", coefficients
        polynomials, margin = (COEFFICIENTS,) * steps, 1.0
    return iterate(matrix, polynomials, margin, dtype)


def iterate(matrix: Tensor, polynomials: Polynomials, margin: float = 1.0, dtype: torch.dtype | None = None) -> Tensor:
    """Odd polynomials (a, b, c), one after another, of the singular values of matrix / (margin * its norm).

    matrix: (..., rows, columns). Returns the same shape and dtype.
    """
    if torch.compiler.is_compiling() or (torch.is_grad_enabled() and matrix.requires_grad):
        return _iterated(matrix, polynomials, margin, dtype)
    result: Tensor = _OneBatch.apply(matrix, polynomials, margin, dtype)  # type: ignore[no-untyped-call]
    return result


def _iterated(matrix: Tensor, polynomials: Polynomials, margin: float, dtype: torch.dtype | None) -> Tensor:
    x = matrix.reshape(math.prod(matrix.shape[:-2]), *matrix.shape[-2:])
    if not x.numel():
        return matrix.clone()
    tiny = torch.finfo(x.dtype).tiny
    x = x / torch.linalg.vector_norm(x.detach(), math.inf, dim=(-2, -1), keepdim=True).clamp(min=tiny)
    x = x if dtype is None else x.to(dtype)
    tall = x.shape[-2] > x.shape[-1]
    norm = torch.linalg.vector_norm(x, dim=(-2, -1), keepdim=True)
    x = x / (norm * margin if margin != 1.0 else norm).clamp(min=tiny)
    for a, b, c in polynomials:
        gram = x.mT @ x if tall else x @ x.mT
        factor = torch.baddbmm(gram, gram, gram, beta=b, alpha=c)
        x = torch.baddbmm(x, x, factor, beta=a) if tall else torch.baddbmm(x, factor, x, beta=a)
    return x.to(matrix.dtype).reshape(matrix.shape)


class _OneBatch(torch.autograd.Function):
    """`_iterated`, which takes a dimension of torch.vmap for one more of the batch."""

    @staticmethod
    def forward(*args: Any) -> Tensor:
        return _iterated(*args)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        """Nothing is kept: there is no backward."""

    @staticmethod
    def vmap(info: Any, in_dims: Any, matrix: Tensor, *rest: Any) -> tuple[Tensor, int]:
        return iterate(matrix.movedim(in_dims[0], 0), *rest), 0
