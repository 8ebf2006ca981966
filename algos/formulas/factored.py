"""Factored second moments: a matrix of squares kept as the means of its rows and of its columns.

Source: Shazeer & Stern 2018, Adafactor, section 3.1: of all matrices of rank one, R C^T / mean(R) is nearest to the
squares in the generalised Kullback-Leibler divergence. Means stand for the paper's sums: the quotient is the same.

    R_i = mean_j S_ij                row means, (..., rows, 1)
    C_j = mean_i S_ij                column means, (..., 1, columns)
    S_ij is taken to be R_i*C_j / mean_i(R_i)

Tensors of more than two dimensions are stacks of matrices over their last two: a convolution of (out, in, height,
width) is factored over height and width, as torch.optim.Adafactor does it.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor


def row_and_column_means(squares: Tensor) -> tuple[Tensor, Tensor]:
    """(..., rows, columns) to (..., rows, 1) and (..., 1, columns). Zeros where there is nothing to take a mean of.

    >>> row_and_column_means(torch.tensor([[1.0, 3.0], [5.0, 7.0]]))
    (tensor([[2.],
            [6.]]), tensor([[3., 5.]]))
    """
    rows, columns = squares.shape[-2:]
    return squares.sum(-1, keepdim=True) / max(1, columns), squares.sum(-2, keepdim=True) / max(1, rows)


def over_factored_root(value: Tensor, row: Tensor, column: Tensor) -> Tensor:
    """value / sqrt(R*C / mean(R)). value: (..., rows, columns); row, column: as above, positive.

    >>> over_factored_root(torch.ones(2, 2), torch.tensor([[2.0], [6.0]]), torch.tensor([[4.0, 4.0]]))
    tensor([[0.7071, 0.7071],
            [0.4082, 0.4082]])
    """
    return (value * (row / row.mean(-2, keepdim=True)).rsqrt()).mul_(column.rsqrt())


def rms(tensor: Tensor) -> Tensor:
    """The root of the mean square of all numbers, 0-d; 0 of none.

    >>> rms(torch.tensor([1.0, 7.0]))
    tensor(5.)
    """
    return torch.linalg.vector_norm(tensor) / math.sqrt(max(1, tensor.numel()))
