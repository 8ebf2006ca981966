"""Adaptive clipping: by hand, and against the authors' formula."""

import pytest
import torch
from torch import nn

from algos.contracts import Gradient
from algos.wrappers.adaptive_clipping import AdaptiveClipping


def test_units_by_hand():
    """Rows of norm 5 and 0.5 under clip 0.1 may have gradients of 0.5 and 0.05; a third is short enough."""
    weight = torch.tensor([[3.0, 4.0], [0.3, 0.4], [0.0, 1.0]])
    grad = torch.tensor([[0.0, 2.0], [-1.0, 0.0], [0.06, 0.08]])
    found = AdaptiveClipping(clip=0.1).clipped(weight, grad)
    torch.testing.assert_close(found, torch.tensor([[0.0, 0.5], [-0.05, 0.0], [0.06, 0.08]]))


def test_a_unit_of_zeros_may_move_by_eps():
    found = AdaptiveClipping(clip=0.5, eps=0.1).clipped(torch.zeros(1, 2), torch.tensor([[3.0, 4.0]]))
    torch.testing.assert_close(found, torch.tensor([[0.03, 0.04]]))


def test_a_vector_is_one_unit_and_a_filter_too():
    clip = AdaptiveClipping(clip=0.1)
    torch.testing.assert_close(clip.clipped(torch.tensor([3.0, 4.0]), torch.tensor([0.0, 2.0])), torch.tensor([0, 0.5]))
    weight, grad = torch.ones(2, 2, 2, 2), torch.stack([torch.full((2, 2, 2), 1.0), torch.full((2, 2, 2), 0.01)])
    found = clip.clipped(weight, grad)  # each filter's norm is sqrt(8), and the first's gradient's too
    torch.testing.assert_close(found[0], torch.full((2, 2, 2), 0.1))
    assert torch.equal(found[1], grad[1])


@pytest.mark.parametrize("shape", [(5, 3), (4, 3, 2, 2), (7,), (), (3, 2, 5)])
@pytest.mark.parametrize("size", [1e-8, 0.01, 1.0, 100.0])
def test_it_is_the_reference_s_formula(shape, size):
    """where(|G| < b, G, G*b/max(|G|, 1e-6)), with b = clip*max(|W|, eps), a unit at a time."""
    generator = torch.Generator().manual_seed(0)
    weight, grad = torch.randn(2, *shape, dtype=torch.float64, generator=generator)
    grad = grad * size
    units = list(zip(weight, grad, strict=True)) if len(shape) > 1 else [(weight, grad)]
    expected = []
    for w, g in units:
        bound = 0.02 * max(w.norm().item(), 1e-3)
        expected.append(g if g.norm() < bound else g * bound / max(g.norm().item(), 1e-6))
    found = AdaptiveClipping(clip=0.02).clipped(weight, grad)
    torch.testing.assert_close(found, torch.stack(expected).reshape(shape), rtol=1e-12, atol=0)


@pytest.mark.parametrize("shape", [(2, 1), (2, 1, 1, 1), (2, 1, 1)])
def test_one_number_is_a_unit_where_each_has_its_own_row(shape):
    """As in timm; deepmind's code squeezes the weight to a vector, which would be one unit of norm sqrt(2)."""
    weight, grad = torch.ones(shape), torch.tensor([2.0, 0.05]).reshape(shape)
    found = AdaptiveClipping(clip=0.1).clipped(weight, grad)
    torch.testing.assert_close(found.flatten(), torch.tensor([0.1, 0.05]))
    vector = AdaptiveClipping(clip=0.1).clipped(weight.flatten(), grad.flatten())
    torch.testing.assert_close(vector.norm(), torch.tensor(0.1 * 2**0.5))


@pytest.mark.parametrize("bad", [float("inf"), float("nan")])
def test_a_unit_that_is_not_finite_is_passed_on_as_it_is(bad):
    grad = torch.tensor([[bad, 1.0], [3.0, 4.0]])
    found = AdaptiveClipping(clip=0.1).clipped(torch.ones(2, 2), grad)
    torch.testing.assert_close(found[0], grad[0], equal_nan=True)
    assert found[1].norm() < 1


@pytest.mark.parametrize("head", [False, True])
def test_the_output_layer_is_left_out_unless_asked(plain_oracle, head):
    model = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 2))
    clip = AdaptiveClipping(clip=1e-4, head=head)
    clip.prepare(model)
    given = Gradient(torch.tensor(1.0), {name: torch.ones_like(weight) for name, weight in model.named_parameters()})
    found = clip.gradient(plain_oracle(model, None), None, lambda batch: given).grads
    assert all((found[name] < 0.1).all() for name in ("0.weight", "0.bias", "1.bias"))
    assert torch.equal(found["1.weight"], torch.ones(2, 3)) != head
    assert torch.equal(given.grads["0.weight"], torch.ones(3, 2)), "what it was given is left alone"


def test_half_precision_gradients_are_measured_in_float32():
    """65,536 entries of 1: in bfloat16 a running sum of squares would stop at 256."""
    ones = torch.ones(65_536, dtype=torch.bfloat16)
    found = AdaptiveClipping(clip=0.25).clipped(ones, ones)
    assert found.dtype == torch.bfloat16
    assert found[0].item() == 0.25
