"""Clipping: by hand, and against torch's own."""

import pytest
import torch

from algos.contracts import Gradient
from algos.finding import InputError
from algos.wrappers.clipping import Clipping


def clipped(grads, finite=None, **hyper):
    given = Gradient(torch.tensor(1.0), grads, finite)
    return Clipping(**hyper).gradient(None, None, lambda batch: given)


def test_two_gradients_by_hand():
    """(3, 0) and (0, 4) are 5 long together: to 1, each falls to a fifth. (0.3, 0.4) is short enough."""
    grads = clipped({"a": torch.tensor([3.0, 0.0]), "b": torch.tensor([0.0, 4.0])}).grads
    assert grads["a"].tolist() == pytest.approx([0.6, 0.0], rel=1e-6)
    assert grads["b"].tolist() == pytest.approx([0.0, 0.8], rel=1e-6)
    short = {"a": torch.tensor([0.3, 0.4])}
    assert torch.equal(clipped(short).grads["a"], short["a"])


@pytest.mark.parametrize("norm", [0.01, 1.0, 100.0])
def test_it_agrees_with_torch(norm):
    generator = torch.Generator().manual_seed(0)
    grads = {str(n): torch.randn(n, 3, dtype=torch.float64, generator=generator) for n in (1, 5, 40)}
    weights = [torch.nn.Parameter(torch.zeros_like(grad)) for grad in grads.values()]
    for weight, grad in zip(weights, grads.values(), strict=True):
        weight.grad = grad.clone()
    torch.nn.utils.clip_grad_norm_(weights, norm)
    for mine, weight in zip(clipped(grads, norm=norm).grads.values(), weights, strict=True):
        torch.testing.assert_close(mine, weight.grad, rtol=1e-14, atol=0)


def test_value_bounds_each_entry_before_the_norm():
    grads = clipped({"a": torch.tensor([3.0, -4.0, 0.5])}, norm=None, value=1.0).grads
    assert grads["a"].tolist() == [1.0, -1.0, 0.5]
    both = clipped({"a": torch.tensor([3.0, -4.0])}, norm=1.0, value=3.0).grads
    assert both["a"].tolist() == pytest.approx([2**-0.5, -(2**-0.5)], rel=1e-6)


@pytest.mark.parametrize("bad", [float("inf"), float("nan")])
def test_a_gradient_that_is_not_finite_is_passed_on_as_it_is(bad):
    grads = clipped({"a": torch.tensor([bad, 1.0]), "b": torch.tensor([2.0, 3.0])}).grads
    torch.testing.assert_close(grads["a"], torch.tensor([bad, 1.0]), equal_nan=True)
    assert grads["b"].tolist() == [2.0, 3.0]


@pytest.mark.parametrize(("entry", "passes"), [(1.8e19, False), (1.9e19, True)])
def test_a_finite_gradient_whose_square_overflows_float32_passes(entry, passes):
    """The largest float32 is 3.4e38 = (1.84e19)^2. In float64 there is room."""
    found = clipped({"a": torch.tensor([entry, 0.0])}).grads["a"]
    assert found[0].item() == (torch.tensor(entry).item() if passes else pytest.approx(1.0))
    wide = clipped({"a": torch.tensor([entry, 0.0], dtype=torch.float64)}).grads["a"]
    assert wide[0].item() == pytest.approx(1.0)


def test_half_precision_gradients_are_measured_in_float32():
    """65,536 entries of 1: in bfloat16 a running sum of squares would stop at 256."""
    grads = clipped({"a": torch.ones(65_536, dtype=torch.bfloat16)}, norm=16.0).grads
    assert grads["a"].dtype == torch.bfloat16
    assert grads["a"][0].item() == pytest.approx(16 / 256, rel=2**-8)


def test_what_it_was_given_is_left_alone():
    given = {"a": torch.tensor([3.0, 4.0])}
    finite = torch.tensor(True)
    result = clipped(given, finite)
    assert given["a"].tolist() == [3.0, 4.0]
    assert result.finite is finite
    assert result.loss.item() == 1.0


def test_nothing_to_clip_by_is_refused():
    with pytest.raises(InputError, match="would do nothing"):
        Clipping(norm=None)
