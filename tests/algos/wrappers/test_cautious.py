"""Cautious: by hand, against the paper's line of code, and the law it rests on."""

import pytest
import torch

from algos.contracts import Progress
from algos.wrappers.cautious import Cautious

START = Progress(0, 0.0)


def masked(direction, grad, **hyper):
    return Cautious(**hyper).direction([], [grad], [direction], START)[0]


def test_two_steps_by_hand():
    """Two of three agree: times 3/(2 + 1) = 1. One of three: times 3/2."""
    direction = torch.tensor([1.0, -2.0, 4.0])
    assert masked(direction, torch.tensor([5.0, 5.0, 5.0])).abs().tolist() == [1.0, 0.0, 4.0]
    assert masked(direction, torch.tensor([-5.0, -5.0, 0.0])).abs().tolist() == [0.0, 3.0, 0.0]


@pytest.mark.parametrize("xi", [1.0, 0.25])
def test_it_is_the_papers_formula_per_tensor(xi):
    generator = torch.Generator().manual_seed(0)
    shapes = [(7,), (5, 3), ()]
    directions = [torch.randn(shape, dtype=torch.float64, generator=generator) for shape in shapes]
    grads = [torch.randn(shape, dtype=torch.float64, generator=generator) for shape in shapes]
    found = Cautious(xi=xi).direction([], grads, directions, START)
    for mine, u, g in zip(found, directions, grads, strict=True):
        mask = (u * g > 0).to(u.dtype)
        torch.testing.assert_close(mine, u * mask * (mask.numel() / (mask.sum() + xi)), rtol=1e-14, atol=0)


def test_the_step_never_climbs():
    generator = torch.Generator().manual_seed(1)
    for _ in range(20):
        direction, grad = torch.randn(2, 50, generator=generator)
        assert (masked(direction, grad) * grad).sum() >= 0


def test_tiny_gradients_are_not_masked_by_underflow():
    """1e-30 * 1e-30 is 0 in float32."""
    direction = torch.full((3,), 1e-30)
    assert torch.equal(masked(direction, direction) > 0, torch.tensor([True, True, True]))


def test_directions_that_are_not_finite_stay_so():
    assert not torch.isfinite(masked(torch.tensor([float("nan"), 1.0]), torch.tensor([1.0, 1.0]))).all()


def test_where_all_disagree_nothing_moves():
    assert (masked(torch.tensor([1.0, 2.0]), torch.tensor([-1.0, -1.0])) == 0).all()


def test_what_it_was_given_is_left_alone():
    direction, grad = torch.tensor([1.0, -1.0]), torch.tensor([2.0, 2.0])
    masked(direction, grad)
    assert direction.tolist() == [1.0, -1.0]
    assert grad.tolist() == [2.0, 2.0]


def test_half_precision_counts_exactly():
    """4,097 ones: bfloat16 cannot count past 256."""
    direction = torch.ones(4097, dtype=torch.bfloat16)
    assert masked(direction, direction)[0].item() == pytest.approx(4097 / 4098, rel=2**-8)
