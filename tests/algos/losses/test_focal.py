"""Focal loss against the paper's equations and the numbers in its text."""

import math

import pytest
import torch

from algos.losses.cross_entropy import CrossEntropy
from algos.losses.focal import Focal


def surprise_of(p: float, **hyper) -> float:
    """The loss of one target whose class has probability p, of two classes; the target is class 1."""
    logits = torch.tensor([[0.0, math.log(p / (1 - p))]], dtype=torch.float64)
    return Focal(**hyper)(logits, torch.tensor([1]))[0].item()


@pytest.mark.parametrize(("p", "times"), [(0.9, 100), (0.968, 1000)])
def test_the_papers_example_at_gamma_2(p, times):
    """Section 3.2: p_t = 0.9 loses 100 times less than cross-entropy, p_t of about 0.968 a thousand times."""
    assert -math.log(p) / surprise_of(p, gamma=2.0) == pytest.approx(times, rel=0.03)


def test_alpha_weights_the_background_by_its_complement():
    logits = torch.zeros(2, 2, dtype=torch.float64)
    plain = 0.25 * math.log(2)
    assert Focal(alpha=0.3)(logits, torch.tensor([1, 1]))[0].item() == pytest.approx(0.3 * plain)
    assert Focal(alpha=0.3)(logits, torch.tensor([0, 0]))[0].item() == pytest.approx(0.7 * plain)


def test_gamma_0_is_cross_entropy_with_its_gradient():
    logits = torch.randn(64, 5, dtype=torch.float64)
    targets = torch.randint(5, (64,))
    ours, theirs = logits.clone().requires_grad_(), logits.clone().requires_grad_()
    mean, weight = Focal(gamma=0.0)(ours, targets)
    reference, counted = CrossEntropy()(theirs, targets)
    mean.backward()
    reference.backward()
    assert weight == counted
    torch.testing.assert_close(mean, reference, rtol=1e-14, atol=0)
    torch.testing.assert_close(ours.grad, theirs.grad, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("gamma", [0.0, 0.1, 0.5, 1.0, 2.0, 5.0])
def test_extreme_logits_stay_finite_forward_and_backward(gamma):
    logits = torch.tensor([[1e4, -1e4], [1e4, -1e4], [0.0, 0.0]], requires_grad=True)
    mean, _ = Focal(gamma=gamma)(logits, torch.tensor([0, 1, 0]))
    mean.backward()
    assert mean.item() == pytest.approx((2e4 + 0.5**gamma * math.log(2)) / 3, rel=1e-5)
    assert torch.isfinite(logits.grad).all()


def test_its_gradient_is_the_derivative():
    logits = torch.randn(6, 4, dtype=torch.float64, requires_grad=True)
    targets = torch.randint(4, (6,))
    assert torch.autograd.gradcheck(lambda z: Focal(gamma=1.7, alpha=0.4)(z, targets)[0], logits)


def test_ignored_targets_do_not_count():
    logits = torch.zeros(2, 2, dtype=torch.float64)
    mean, weight = Focal(ignore_index=-100)(logits, torch.tensor([1, -100]))
    assert (mean.item(), int(weight)) == (pytest.approx(0.25 * math.log(2)), 1)


def test_half_precision_predictions_are_raised_to_float32():
    assert Focal()(torch.zeros(3, 2, dtype=torch.bfloat16), torch.zeros(3, dtype=torch.long))[0].dtype == torch.float32
