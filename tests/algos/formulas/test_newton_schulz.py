"""Newton-Schulz acts on singular values alone, and brings them near 1."""

import pytest
import torch
from torch import Tensor

from algos import observe
from algos.formulas.newton_schulz import orthogonalize


def polynomial(s: Tensor) -> Tensor:
    for _ in range(5):
        s = 3.4445 * s - 4.7750 * s**3 + 2.0315 * s**5
    return s


@pytest.mark.parametrize("shape", [(4, 4), (3, 8), (8, 3), (1, 5)])
def test_it_is_an_odd_polynomial_of_the_singular_values(shape: tuple[int, int]) -> None:
    matrix = torch.randn(shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    u, s, v = torch.linalg.svd(matrix, full_matrices=False)
    expected = u @ torch.diag(polynomial(s / s.norm())) @ v
    torch.testing.assert_close(orthogonalize(matrix), expected)


def test_singular_values_end_near_one() -> None:
    """For all that begin above a fiftieth of the norm."""
    s = torch.linspace(0.02, 1, 500, dtype=torch.float64)
    assert 0.65 < polynomial(s).min() < polynomial(s).max() < 1.25
    matrix = torch.eye(6) * torch.tensor([1.0, 0.9, 0.5, 0.3, 0.2, 0.1])
    assert ((torch.linalg.svdvals(orthogonalize(matrix)) - 1).abs() < 0.35).all()


def test_stacks_zeros_and_empty_matrices() -> None:
    stack = torch.randn(2, 3, 4, 5)
    torch.testing.assert_close(orthogonalize(stack)[1, 2], orthogonalize(stack[1, 2]))
    assert not orthogonalize(torch.zeros(3, 2)).any()
    assert orthogonalize(torch.zeros(0, 4)).shape == (0, 4)


@pytest.mark.parametrize("size", [1e-44, 1e-30, 1e-12, 1e12, 1e20, 1e38])
@pytest.mark.parametrize("dtype", [None, torch.bfloat16])
def test_the_size_of_a_matrix_does_not_matter(size: float, dtype: torch.dtype | None) -> None:
    """In float32, whose squares overflow from 1e19 on; at 1e-44 entries are whole multiples of the smallest number."""
    matrix = torch.tensor([[3.0, 0.0, -1.0], [1.0, 2.0, 0.0]])
    found = orthogonalize(matrix * size, dtype=dtype)
    torch.testing.assert_close(found, orthogonalize(matrix, dtype=dtype), rtol=0, atol=0.3 if size < 1e-37 else 0.02)


def test_bfloat16_agrees_to_its_digits_and_returns_the_dtype() -> None:
    matrix = torch.randn(6, 4, generator=torch.Generator().manual_seed(0))
    narrow = orthogonalize(matrix, dtype=torch.bfloat16)
    assert narrow.dtype == torch.float32
    torch.testing.assert_close(narrow, orthogonalize(matrix), atol=0.05, rtol=0)


@pytest.mark.parametrize("coefficients", ["newton_schulz", "polar_express"])
def test_under_vmap_it_is_one_batch_and_as_many_kernels(coefficients: str) -> None:
    """Also nested, as for members of tensors; and it stays differentiable."""
    stack = torch.randn(2, 3, 1, 4, 5, dtype=torch.float64)
    mapped = torch.vmap(torch.vmap(lambda matrix: orthogonalize(matrix, coefficients=coefficients)))
    torch.testing.assert_close(mapped(stack), orthogonalize(stack, coefficients=coefficients), rtol=1e-12, atol=1e-12)
    found = observe.kernels(lambda: mapped(stack))
    assert found == observe.kernels(lambda: mapped(stack[:1, :1]))
    assert found["baddbmm"] == 10
    assert torch.autograd.gradcheck(
        lambda x: orthogonalize(x, 2, coefficients=coefficients), torch.rand(2, 3).double().requires_grad_()
    )
