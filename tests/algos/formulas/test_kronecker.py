"""Kronecker factors: sides, products and roots are those of the one big matrix that they stand for."""

import pytest
import torch
from torch import Tensor

from algos.formulas.kronecker import along, eigenbasis, gram, inverse_root

SHAPES = [(4, 3), (3, 4), (5,), (2, 3, 4), (3, 2, 2, 2)]


def random(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize("shape", SHAPES)
def test_along_every_dimension_is_the_kronecker_product(shape: tuple[int, ...]) -> None:
    x, whole, y = random(*shape), torch.ones(1, 1, dtype=torch.float64), random(*shape)
    for i, size in enumerate(shape):
        matrix = random(size, size, seed=i + 1)
        y = along(y, matrix, i)
        whole = torch.kron(whole, matrix.mT.contiguous())
    torch.testing.assert_close(y.reshape(-1), whole @ x.reshape(-1))


@pytest.mark.parametrize("shape", [*SHAPES, (1200, 3), (3, 1500), (2, 1030, 2)])
def test_gram_is_the_unfolding_times_itself(shape: tuple[int, ...]) -> None:
    x = random(*shape)
    for i, size in enumerate(shape):
        unfolded = x.movedim(i, 0).reshape(size, -1)
        torch.testing.assert_close(gram(x, i), unfolded @ unfolded.mT)


def test_the_eigenbasis_is_ordered_orthogonal_and_diagonalises() -> None:
    x = random(5, 8)
    q = eigenbasis(x @ x.mT)
    diagonal = q.mT @ x @ x.mT @ q
    torch.testing.assert_close(q.mT @ q, torch.eye(5, dtype=torch.float64))
    torch.testing.assert_close(diagonal, torch.diag(diagonal.diagonal()), atol=1e-12, rtol=0)
    assert (diagonal.diagonal().diff() < 0).all()


def test_where_eigenvectors_are_not_determined_rounding_does_not_choose_them() -> None:
    """A matrix of rank 3 in 7 dimensions, changed in its last digit, keeps its basis to rounding; eigh's is another."""
    x = random(7, 3)
    matrix = x @ x.mT
    changed = matrix + 1e-16 * (random(7, 7) + random(7, 7).mT)
    a, b = eigenbasis(matrix), eigenbasis(changed)
    torch.testing.assert_close(a.mT @ a, torch.eye(7, dtype=torch.float64))
    assert (a.abs() - b.abs()).abs().max() < 1e-13
    theirs = [torch.linalg.eigh(each)[1] for each in (matrix, changed)]
    assert (theirs[0].abs() - theirs[1].abs()).abs().max() > 1e-3
    assert torch.equal(eigenbasis(torch.zeros(4, 4)).abs(), torch.eye(4))


@pytest.mark.parametrize("root", [1, 2, 4, 6])
@pytest.mark.parametrize("relative", [False, True])
def test_the_inverse_root_to_its_power_is_the_inverse(root: int, relative: bool) -> None:
    x = random(5, 3)
    matrix, ridge = x @ x.mT, torch.tensor(0.25, dtype=torch.float64)
    added = 0.25 * torch.linalg.matrix_norm(matrix, 2) if relative else 0.25
    powered = torch.linalg.matrix_power(inverse_root(matrix, root, ridge, relative), root)
    torch.testing.assert_close(powered @ (matrix + added * torch.eye(5)), torch.eye(5, dtype=torch.float64))


@pytest.mark.parametrize("root", [1, 2, 4])
def test_of_a_singular_matrix_it_is_the_root_of_the_pseudo_inverse(root: int) -> None:
    """Without a ridge, in float32, whose rounding makes the zero eigenvalues tiny ones."""
    x = random(64, 20)
    values, vectors = torch.linalg.eigh(x @ x.mT)
    kept = torch.arange(64) >= 44
    expected = vectors * torch.where(kept, values.clamp(min=1e-3).pow(-1 / root), 0.0) @ vectors.mT
    matrix = x.float() @ x.float().mT
    for relative in (False, True):
        found = inverse_root(matrix, root, torch.tensor(0.0), relative)
        torch.testing.assert_close(found.double(), expected, rtol=1e-3, atol=1e-5)


def test_a_ridge_decides_in_directions_that_the_matrix_lacks() -> None:
    """Also one below the rounding that is cut off without it."""
    matrix = torch.diag(torch.tensor([1.0, 1e-7, 0.0]))
    found = inverse_root(matrix, 2, torch.tensor(1e-8), relative=True).diagonal()
    torch.testing.assert_close(found, torch.tensor([1.0, (1.1e-7) ** -0.5, 1e4]), rtol=1e-4, atol=0)


def test_singular_and_broken_matrices_raise_nothing() -> None:
    none = torch.tensor(0.0)
    assert torch.equal(inverse_root(torch.zeros(3, 3), 4, none, True), torch.zeros(3, 3))
    found = inverse_root(torch.diag(torch.tensor([16.0, 0.0])), 4, none, False)
    torch.testing.assert_close(found, torch.diag(torch.tensor([0.5, 0.0])))
    broken = torch.full((3, 3), float("nan"))
    assert inverse_root(broken, 4, torch.tensor(1.0), False).isfinite().all()
    assert eigenbasis(broken).isfinite().all()
