"""Newton-Schulz orthogonalization: push every singular value of a matrix towards 1.

Source: Jordan et al. 2024, Muon, https://kellerjordan.github.io/posts/muon (the coefficients are theirs).

    X <- G / max(|G|_F, eps)                               so that every singular value is at most 1
    A <- X X^T;  X <- a*X + (b*A + c*A^2) X                repeated; each singular value s goes to a*s + b*s^3 + c*s^5

With a, b, c = 3.4445, -4.7750, 2.0315 the singular values end between about 0.7 and 1.2, not at 1: the slope at 0
is as steep as it can be, so that small singular values grow fast. Tall matrices are transposed, so A is the smaller
Gram matrix.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

COEFFICIENTS = (3.4445, -4.7750, 2.0315)


def orthogonalize(matrix: Tensor, steps: int = 5, dtype: torch.dtype | None = None, eps: float = 1e-7) -> Tensor:
    """The nearest semi-orthogonal matrix, roughly.

    matrix: (..., rows, columns). dtype: what to compute in, its own if None. Returns the same shape and dtype. A zero
    matrix stays zero.
    """
    a, b, c = COEFFICIENTS
    x = matrix.reshape(math.prod(matrix.shape[:-2]), *matrix.shape[-2:])
    x = x if dtype is None else x.to(dtype)
    tall = x.shape[-2] > x.shape[-1]
    if tall:
        x = x.mT
    x = x / torch.linalg.vector_norm(x, dim=(-2, -1), keepdim=True).clamp(min=eps)
    for _ in range(steps):
        gram = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return (x.mT if tall else x).to(matrix.dtype).reshape(matrix.shape)
