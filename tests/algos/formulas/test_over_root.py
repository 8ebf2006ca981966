"""The quotient is the plainly written one, leaves what it was given alone, and holds where numbers are small."""

import pytest
import torch

from algos.formulas.ema import gathered_weight
from algos.formulas.over_root import corrected, over_root


@pytest.mark.parametrize("shape", [(), (0, 3), (5,), (2, 3, 4)])
def test_it_is_the_quotient_as_papers_write_it(shape: tuple[int, ...]) -> None:
    x, v = torch.randn(shape, dtype=torch.float64), torch.rand(shape, dtype=torch.float64)
    a, b, eps = (torch.tensor(value, dtype=torch.float64) for value in (0.1, 0.02, 1e-3))
    kept = x.clone(), v.clone()
    torch.testing.assert_close(corrected(x, v, a, b, eps), (x / a) / ((v / b).sqrt() + eps), rtol=1e-14, atol=0)
    torch.testing.assert_close(over_root(x, v, a, b), x / (a * v.sqrt() + b), rtol=1e-14, atol=0)
    assert torch.equal(x, kept[0])
    assert torch.equal(v, kept[1])


def test_one_value_a_member_broadcasts() -> None:
    x, v, scale = torch.ones(2, 3), torch.full((2, 3), 4.0), torch.tensor([[1.0], [2.0]])
    assert over_root(x, v, scale, torch.zeros(2, 1)).tolist() == [[0.5] * 3, [0.25] * 3]


def test_float32_divides_the_smallest_gradients() -> None:
    """At Adam's first step the quotient is a sign, also where the squares are nearly too small for float32."""
    grad = torch.tensor([1e-17, -1e-10, 1e10])
    b1, b2, t = torch.tensor(0.9), torch.tensor(0.999), torch.tensor(1.0)
    m, v = grad * (1 - b1), grad.square() * (1 - b2)
    u = corrected(m, v, gathered_weight(b1, t), gathered_weight(b2, t), torch.tensor(0.0))
    torch.testing.assert_close(u, torch.tensor([1.0, -1.0, 1.0]), rtol=1e-3, atol=0)
