"""Kronecker factors: one small matrix for each dimension of a tensor, in the place of one enormous matrix.

A tensor x of shape (d1, ..., dk) has the unfolding x_(i), (di, all others), along each dimension i, and

    gram(x, i) = x_(i) x_(i)^T                     (di, di)
    along(x, M, i): y_(i) = M^T x_(i)              for a matrix: M^T x if i = 0, x M if i = 1

The Kronecker product of one matrix a dimension, applied to the vector of all entries of x, is `along` for every i.
Source: Gupta et al. 2018, Shampoo, section 4.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

#: From this size on a symmetric product is computed by halves, which saves a quarter of its time at each halving.
HALVED = 1024


def folded(shape: Sequence[int], merge_dims: bool) -> tuple[int, ...]:
    """The shape whose dimensions get factors: a convolution's own, or (out, in*k*k) where dimensions are merged.

    >>> folded((8, 4, 3, 3), True), folded((8, 4, 3, 3), False), folded((8,), True)
    ((8, 36), (8, 4, 3, 3), (8,))
    """
    return (shape[0], math.prod(shape[1:])) if merge_dims and len(shape) > 2 else tuple(shape)


def sides(shape: Sequence[int], largest: int, vectors: bool) -> tuple[int, ...]:
    """The dimensions that get a factor: neither of size 1 nor larger than `largest`; a vector's only if `vectors`.

    >>> sides((8, 1, 50), 40, vectors=False), sides((8,), 40, vectors=False), sides((8,), 40, vectors=True)
    ((0,), (), (0,))
    """
    if math.prod(shape) == 0 or (len(shape) == 1 and not vectors):
        return ()
    return tuple(i for i, size in enumerate(shape) if 1 < size <= largest)


def gram(x: Tensor, dim: int) -> Tensor:
    """x_(i) x_(i)^T, symmetric. x: any rank; returns (di, di).

    >>> gram(torch.tensor([[1.0, 2.0], [0.0, 1.0]]), 0)
    tensor([[5., 2.],
            [2., 1.]])
    """
    before, size, after = _around(x, dim)
    if after == 1:
        y = x.reshape(before, size)
        return _times_itself(y.mT)
    y = x.reshape(size, after) if before == 1 else x.movedim(dim, 0).reshape(size, before * after)
    return _times_itself(y)


def _times_itself(y: Tensor) -> Tensor:
    """y y^T, (n, n); where n is large, of the two halves off the diagonal only one is computed."""
    if y.shape[0] < HALVED:
        return y @ y.mT
    upper, lower = y[: y.shape[0] // 2], y[y.shape[0] // 2 :]
    off = upper @ lower.mT
    return torch.cat([torch.cat([_times_itself(upper), off], 1), torch.cat([off.mT, _times_itself(lower)], 1)])


def along(x: Tensor, matrix: Tensor, dim: int) -> Tensor:
    """M^T times every column of x along a dimension. x: any rank; matrix: (di, di). Returns x's shape.

    >>> along(torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.tensor([[0.0, 1.0], [1.0, 0.0]]), 1)
    tensor([[2., 1.],
            [4., 3.]])
    """
    before, size, after = _around(x, dim)
    if after == 1:
        return (x.reshape(before, size) @ matrix).reshape(x.shape)
    if before == 1:
        return (matrix.mT @ x.reshape(size, after)).reshape(x.shape)
    return (matrix.mT @ x.reshape(before, size, after)).reshape(x.shape)


def _around(x: Tensor, dim: int) -> tuple[int, int, int]:
    """How many numbers stand before, along and after a dimension."""
    return math.prod(x.shape[:dim]), x.shape[dim], math.prod(x.shape[dim + 1 :])


def eigenbasis(matrix: Tensor) -> Tensor:
    """Eigenvectors of a positive semi-definite matrix, as columns, the largest eigenvalue first.

    matrix: (n, n); what is not finite in it counts as 0. Where eigenvalues are 0 (to 16 units of
    rounding of the largest one) their eigenvectors are not determined: there the columns are the Householder completion
    of the others, which does not depend on rounding, so that every way of computing a step finds the same basis.

    >>> eigenbasis(torch.diag(torch.tensor([1.0, 0.0, 9.0]))).abs()
    tensor([[0., 1., 0.],
            [0., 0., 1.],
            [1., 0., 0.]])
    """
    values, vectors = torch.linalg.eigh(torch.nan_to_num(matrix, nan=0.0, posinf=0.0, neginf=0.0))
    values, vectors = values.flip(-1), vectors.flip(-1)
    cutoff = 16 * torch.finfo(matrix.dtype).eps * values[..., :1]
    return torch.linalg.qr(torch.where(values > cutoff, vectors, 0.0))[0]


def inverse_root(matrix: Tensor, root: int, ridge: Tensor, relative: bool) -> Tensor:
    """(A + r*I)^(-1/root) by eigendecomposition, for a positive semi-definite A; r is ridge, or ridge times A's largest
    eigenvalue where relative.

    matrix: (n, n); what is not finite in it counts as 0, and so do eigenvalues that rounding made negative. Where r is
    0 so do those up to max(n, 16) units of rounding of the largest one, and this is the root of A's pseudo-inverse.
    Where it is not, none do, and r decides how large the result is in directions that A lacks.

    >>> inverse_root(torch.diag(torch.tensor([16.0, 0.0])), 4, torch.tensor(0.0625), relative=True)
    tensor([[0.4925, 0.0000],
            [0.0000, 1.0000]])
    """
    values, vectors = torch.linalg.eigh(torch.nan_to_num(matrix, nan=0.0, posinf=0.0, neginf=0.0))
    values, largest = values.clamp(min=0), values[..., -1:].clamp(min=0)
    added = ridge * (largest if relative else torch.ones_like(largest))
    cutoff = max(matrix.shape[-1], 16) * torch.finfo(matrix.dtype).eps * largest
    kept = (values > cutoff) | (added > 0)
    powers = torch.where(kept, values + added, 1.0).pow(-1.0 / root) * kept
    return _times_itself(vectors * powers.sqrt().unsqueeze(-2))
