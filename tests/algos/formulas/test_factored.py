"""Factored second moments: exact for squares of rank one, and the sums of the paper."""

import pytest
import torch

from algos.formulas.factored import over_factored_root, rms, row_and_column_means


def test_squares_of_rank_one_are_kept_exactly() -> None:
    squares = torch.outer(torch.tensor([1.0, 4.0, 9.0]), torch.tensor([2.0, 0.5])).double()
    row, column = row_and_column_means(squares)
    assert (row.shape, column.shape) == ((3, 1), (1, 2))
    torch.testing.assert_close(over_factored_root(torch.ones(3, 2).double(), row, column), squares.rsqrt())


def test_means_give_what_the_paper_s_sums_give() -> None:
    random = torch.Generator().manual_seed(0)
    squares = torch.rand(4, 3, 5, generator=random, dtype=torch.float64) + 0.1
    sums = squares.sum(-1, keepdim=True), squares.sum(-2, keepdim=True)
    estimate = sums[0] * sums[1] / sums[0].sum(-2, keepdim=True)
    found = over_factored_root(torch.ones_like(squares), *row_and_column_means(squares))
    torch.testing.assert_close(found, estimate.rsqrt(), rtol=1e-13, atol=0)


@pytest.mark.parametrize("shape", [(0, 4), (3, 0), (0, 0)])
def test_empty_matrices_have_finite_means(shape: tuple[int, int]) -> None:
    row, column = row_and_column_means(torch.ones(shape))
    assert row.isfinite().all()
    assert column.isfinite().all()
    assert over_factored_root(torch.ones(shape), row, column).shape == shape


def test_rms_of_one_number_is_its_size() -> None:
    assert rms(torch.tensor(-3.0)) == 3
